"""PPO for quadruped locomotion: the mean of the Gaussian policy is the reference motion plus a learned part.

The observation contains future poses of the reference, so the initial policy moves the motors there. The learned part
keeps the robot upright and in time.
"""

from __future__ import annotations

from dataclasses import dataclass

from a2perf_baselines import learning
from a2perf_baselines.learning.tf_agents.frameworks import seed_everything  # before TF-Agents

from a2perf_baselines.learning.tf_agents.collection import Rollout  # isort: skip
from a2perf_baselines.learning.tf_agents.networks import Affine, Moments  # isort: skip
from a2perf_baselines.quadruped_locomotion.tf_agents_training import open_task, reference_prior  # isort: skip
from gaussian import GaussianActor, Value  # isort: skip
from ppo import Parts, PPOSettings, train_ppo  # isort: skip
from tf_agents.trajectories import time_step as ts  # isort: skip


@dataclass(frozen=True)
class Settings(PPOSettings):
    """Parameters of the training; see ``PPOSettings`` for the others.

    Attributes:
        mode: of the environment. Episodes of ``"train"`` begin with 20 steps and only grow over 30 million.
        randomize: draw masses, friction, latency and so on for each episode, as in mode ``"train"``.
        share, ahead: how much of the reference the policy starts with, and how many control steps ahead of the motion,
            since motors lag behind; a share of 0 is to start from nothing.
        layers: widths of the hidden layers of either network.
        log_deviation: logarithm of the standard deviation (rad) of the actions at the start.
        reach: rad of an output of 1 of the policy's network.
    """

    mode: str = "test"
    randomize: bool = False
    share: float = 1.0
    ahead: float = 3.0
    layers: tuple[int, ...] = (256, 128)
    log_deviation: float = -1.7
    reach: float = 0.5


def train(run: learning.TrainingRun) -> None:
    """Trains on the run's environment."""
    settings: Settings = run.settings
    seed_everything(run.seed)
    task = open_task(run, mode=settings.mode, randomize=settings.randomize)
    size = task.observation_spec.shape[0]
    normalise, moments = Affine(limit=5.0), Moments(size)
    prior = reference_prior(settings.share, settings.ahead)
    actor = GaussianActor(
        task.observation_spec, normalise, prior, settings.layers, settings.log_deviation, settings.reach
    )
    value = Value(task.observation_spec, normalise, settings.layers)
    actor.create_variables()

    def observe(rollout: Rollout) -> None:
        moments.add(rollout.observation.reshape(-1, size))
        normalise.set_moments(moments.mean, moments.deviation)

    parts = Parts(
        make_env=task.make_env,
        actor=actor,
        value=value,
        act=lambda explore: actor.copied(explore, task.bound),
        observe=observe,
        layers={"actor": actor, "value": value},
        state=moments.state,
        restore=moments.restore,
    )
    train_ppo(run, parts, ts.time_step_spec(task.observation_spec), task.action_spec)
