"""Trains a quadruped with PPO of Stable-Baselines3, relative to the motion that it shall imitate.

Arguments (``--participant-args total_steps=100000,actors=1``): the fields of `Settings`. ``configs`` has those of each
task. It ends after ``total_steps`` or ``time_budget_s``; the same command resumes from the last checkpoint.
"""

from __future__ import annotations

from a2perf_baselines.learning.sb3 import frameworks  # noqa: F401  # isort: skip  reports what is missing

from dataclasses import dataclass
from pathlib import Path

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecNormalize

from a2perf.errors import ConfigError
from a2perf.submission.participant.adapters.origin import record_environment
from a2perf_baselines import learning
from a2perf_baselines.quadruped_locomotion import sb3_training


@dataclass(frozen=True)
class Settings(sb3_training.QuadrupedSettings):
    """Parameters of the training, beside those that every quadruped has.

    Attributes:
        n_steps: steps of each robot between two updates.
        batch_size, epochs, learning_rate, gamma, gae_lambda, clip_range: as in Stable-Baselines3.
        last_learning_rate: the rate falls linearly to this at ``total_steps``.
        log_std: logarithm of the first standard deviation of an action; an action of 1 is ``scale`` rad.
        width: of both hidden layers, of the policy and of the value.
        activation: of both layers, ``"elu"`` or ``"tanh"``.
    """

    n_steps: int = 128
    batch_size: int = 256
    epochs: int = 10
    learning_rate: float = 3e-4
    last_learning_rate: float = 1e-4
    gamma: float = 0.95
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    log_std: float = -1.5
    width: int = 256
    activation: str = "elu"


ACTIVATIONS = {"elu": torch.nn.ELU, "tanh": torch.nn.Tanh}


def train(**participant_args: str) -> None:
    """Trains until the budget is used up."""
    settings = learning.read_settings(Settings, participant_args, Path(__file__).parent)
    if settings.activation not in ACTIVATIONS:
        raise ConfigError(f"activation is {settings.activation!r}", hint=f"use one of {', '.join(ACTIVATIONS)}")
    with learning.begin(settings) as run:
        record_environment(run.folder)
        sb3_training.train(
            run, PPO, lambda envs: _new_model(envs, settings, run.seed), gamma=settings.gamma, normalize_reward=True
        )


def _new_model(envs: VecNormalize, settings: Settings, seed: int) -> PPO:
    return PPO(
        "MlpPolicy",
        envs,
        n_steps=settings.n_steps,
        batch_size=settings.batch_size,
        n_epochs=settings.epochs,
        learning_rate=LinearSchedule(settings.learning_rate, settings.last_learning_rate, 1.0),
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip_range=settings.clip_range,
        policy_kwargs={
            "log_std_init": settings.log_std,
            "net_arch": {"pi": [settings.width] * 2, "vf": [settings.width] * 2},
            "activation_fn": ACTIVATIONS[settings.activation],
        },
        seed=seed,
        device="cpu",
    )


if __name__ == "__main__":
    learning.main(train)
