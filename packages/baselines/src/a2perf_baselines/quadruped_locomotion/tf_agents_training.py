"""Quadruped locomotion for agents of TF-Agents: the reference motion as initial policy, and the specs of the task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.quadruped_locomotion.sensors import OBSERVATION_SIZE
from a2perf.errors import UserError
from a2perf_baselines import learning
from a2perf_baselines.learning.tf_agents import frameworks  # noqa: F401  before TF-Agents
from a2perf_baselines.quadruped_locomotion.residual_control import MOTORS, ResidualControl

from a2perf.domains.tfa.py_environment import array_specs  # isort: skip
from a2perf.domains.tfa.spaces import specs_of  # isort: skip
from tf_agents.specs import tensor_spec  # isort: skip


@dataclass(frozen=True)
class Prior:
    """An affine function from an observation to an action; a policy adds its learned part.

    Attributes:
        matrix: float32, shape (160, 12).
        bias: float32, shape (12,), rad.
    """

    matrix: NDArray[np.float32]
    bias: NDArray[np.float32]

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """Returns the actions for a batch of observations."""
        actions: NDArray[np.float32] = observations @ self.matrix + self.bias
        return actions


def reference_prior(share: float, ahead: float) -> Prior:
    """Returns the reference motion as an affine policy; see ``ResidualControl``.

    Args:
        share: weight of the reference; 0 gives a zero prior.
        ahead: control steps from the motion to the commanded pose; motors lag behind.
    """
    control = ResidualControl(share=share, ahead=ahead)
    bias = control.reference(np.zeros(OBSERVATION_SIZE))
    matrix = np.stack([control.reference(row) - bias for row in np.eye(OBSERVATION_SIZE)])
    return Prior(matrix.astype(np.float32), bias.astype(np.float32))


@dataclass(frozen=True)
class LearnerTask:
    """The environment as an agent sees it.

    Attributes:
        bound: of actions, rad.
    """

    make_env: Callable[[], Any]
    observation_spec: Any
    action_spec: Any
    bound: float


def open_task(run: learning.TrainingRun, *, mode: str, randomize: bool) -> LearnerTask:
    """Returns the task of a run, and holds its spaces to those that the training began with.

    Args:
        randomize: whether the robot's dynamics are drawn again for each episode, whatever the mode.

    Raises:
        UserError: it is none of quadruped locomotion, or the training began with other spaces.
    """
    make_env = run.env_maker(mode=mode, **({"enable_randomizer": True} if randomize else {}))
    if learning.domain_name() != "quadruped_locomotion":
        raise UserError(f"{run.env_id} is not an environment of quadruped_locomotion", hint="see `a2perf envs list`")
    example = make_env()
    try:
        run.require_spaces(example.observation_space, example.action_space)
        observation = tensor_spec.from_spec(array_specs(specs_of(example.observation_space, name="observation")))
        action = tensor_spec.from_spec(array_specs(specs_of(example.action_space, name="action")))
        assert example.action_space.shape == (MOTORS,)
        return LearnerTask(make_env, observation, action, float(example.action_space.high.max()))
    finally:
        example.close()
