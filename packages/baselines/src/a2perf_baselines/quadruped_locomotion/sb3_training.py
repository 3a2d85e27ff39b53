"""Quadruped environments and the training loop for algorithms of Stable-Baselines3."""

from __future__ import annotations

from a2perf_baselines.learning.sb3 import frameworks  # noqa: F401  # isort: skip  reports what is missing

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecNormalize

from a2perf.domains.quadruped_locomotion.vector import ThreadedVectorEnv
from a2perf.domains.registry import all_environments
from a2perf.domains.tfa.suite_gym import make_environment
from a2perf.errors import UserError
from a2perf_baselines import learning
from a2perf_baselines.learning.sb3.environments import GymnasiumVecEnv
from a2perf_baselines.learning.sb3.training_callback import TrainingCallback
from a2perf_baselines.quadruped_locomotion.residual_control import ResidualControl, ResidualControlWrapper


@dataclass(frozen=True)
class QuadrupedSettings:
    """Settings of a training run of a quadruped.

    Attributes:
        time_budget_s: wall-clock budget of this call, s.
        actors: threads that step the robots; the results do not depend on it.
        randomize: whether each episode draws the robot's dynamics again, as the environment's own training mode does.
        share, ahead, scale, differences: meaning of actions and observations, see ``ResidualControl``.
        log_every: steps between two points of the curve.
        checkpoint_every: steps between two checkpoints, each with an evaluation.
        evaluation_episodes: of an evaluation; the best policy by their mean return is kept.
    """

    total_steps: int = learning.may_change(400_000)
    time_budget_s: float = learning.may_change(3600.0)
    actors: int = learning.may_change(2)
    robots: int = 16
    randomize: bool = False
    share: float = 1.0
    ahead: float = 3.0
    scale: float = 0.5
    differences: bool = False
    log_every: int = 2_000
    checkpoint_every: int = 40_000
    evaluation_episodes: int = 8

    @property
    def control(self) -> ResidualControl:
        """The meaning of actions and observations."""
        return ResidualControl(self.share, self.ahead, self.scale, self.differences)


def train(
    run: learning.TrainingRun,
    kind: type[BaseAlgorithm],
    make: Callable[[VecNormalize], BaseAlgorithm],
    *,
    gamma: float,
    normalize_reward: bool,
) -> None:
    """Trains until the budget is used up; the best policy is in ``policy`` of the artifacts.

    Episodes are those of the environment's test mode, whole and from anywhere in the motion. Its own training mode
    begins with episodes of 20 steps and widens them over 30 million steps, far beyond what these training runs have.

    Args:
        run: its settings are ``QuadrupedSettings``.
        normalize_reward: whether rewards are normalised.

    Raises:
        UserError: the environment is none of quadruped locomotion, or an earlier call had another configuration.
    """
    torch.set_num_threads(1)
    settings: QuadrupedSettings = run.settings
    members = robots(run.env_id, run.env_kwargs, settings)
    run.require_spaces(members.observation_space, members.action_space)
    envs = VecNormalize(members, norm_reward=normalize_reward, gamma=gamma, clip_obs=5.0)
    callback = TrainingCallback(
        run,
        envs,
        members,
        log_every=settings.log_every,
        checkpoint_every=settings.checkpoint_every,
        episodes=settings.evaluation_episodes,
        export=settings.control.write,
    )
    try:
        callback.learn(lambda: make(envs), kind)
    finally:
        envs.close()


def robots(env_id: str, env_kwargs: dict[str, Any], settings: QuadrupedSettings) -> GymnasiumVecEnv:
    """Makes the robots of a training run.

    Raises:
        UserError: the environment is none of quadruped locomotion.
    """
    found = all_environments().get(env_id)
    if found is None or found[0].name != "quadruped_locomotion":
        raise UserError(f"{env_id} is not an environment of quadruped_locomotion", hint="`a2perf envs list` shows them")
    make = functools.partial(single_robot, env_id, env_kwargs, settings)
    return GymnasiumVecEnv(
        ThreadedVectorEnv(settings.robots, settings.actors, autoreset_mode=AutoresetMode.SAME_STEP, make=make)
    )


def single_robot(env_id: str, env_kwargs: dict[str, Any], settings: QuadrupedSettings) -> ResidualControlWrapper:
    """Makes one robot of a training run."""
    kwargs = {**env_kwargs, "mode": "test", "enable_randomizer": settings.randomize}
    return ResidualControlWrapper(make_environment(env_id, kwargs), settings.control)
