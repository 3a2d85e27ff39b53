"""Trains a quadruped with SAC of Stable-Baselines3, relative to the motion that it shall imitate.

Arguments (``--participant-args total_steps=50000,actors=1``): the fields of `Settings`. ``configs`` has those of each
task. It ends after ``total_steps`` or ``time_budget_s``; the same command resumes from the last checkpoint,
replay memory included.
"""

from __future__ import annotations

from a2perf_baselines.learning.sb3 import frameworks  # noqa: F401  # isort: skip  reports what is missing

from dataclasses import dataclass
from pathlib import Path

from stable_baselines3 import SAC
from stable_baselines3.common.vec_env import VecNormalize

from a2perf.submission.participant.adapters.origin import record_environment
from a2perf_baselines import learning
from a2perf_baselines.quadruped_locomotion import sb3_training


@dataclass(frozen=True)
class Settings(sb3_training.QuadrupedSettings):
    """Parameters of the training, beside those that every quadruped has.

    Attributes:
        gradient_steps: after each step of all robots.
        learning_starts: steps with random actions before learning.
        buffer_size: steps in the replay memory; one takes 1.3 kB.
        entropy: first weight of the entropy; it is learnt from there.
        target_entropy: of an action, nats.
        batch_size, learning_rate, gamma, tau: as in Stable-Baselines3.
        width: of both hidden layers, of the policy and of the values.
    """

    robots: int = 4
    evaluation_episodes: int = 4
    gradient_steps: int = 4
    learning_starts: int = 2_000
    buffer_size: int = 200_000
    entropy: float = 0.01
    target_entropy: float = -24.0
    batch_size: int = 256
    learning_rate: float = 3e-4
    gamma: float = 0.95
    tau: float = 0.005
    width: int = 256


def train(**participant_args: str) -> None:
    """Trains until the budget is used up."""
    settings = learning.read_settings(Settings, participant_args, Path(__file__).parent)
    with learning.begin(settings) as run:
        record_environment(run.folder)
        sb3_training.train(
            run, SAC, lambda envs: _new_model(envs, settings, run.seed), gamma=settings.gamma, normalize_reward=False
        )


def _new_model(envs: VecNormalize, settings: Settings, seed: int) -> SAC:
    return SAC(
        "MlpPolicy",
        envs,
        train_freq=1,
        gradient_steps=settings.gradient_steps,
        learning_starts=settings.learning_starts,
        buffer_size=settings.buffer_size,
        ent_coef=f"auto_{settings.entropy}",
        target_entropy=settings.target_entropy,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        gamma=settings.gamma,
        tau=settings.tau,
        policy_kwargs={"net_arch": [settings.width] * 2},
        seed=seed,
        device="cpu",
    )


if __name__ == "__main__":
    learning.main(train)
