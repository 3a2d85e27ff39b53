"""The memory of a batch of robots: one row per robot in every array.

The compiled loop builds the tuples of the single robot (``ImitationTask``, ``Simulation``) from slices of it.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.quadruped_locomotion.motion.imitation import TERMS
from a2perf.domains.quadruped_locomotion.motion.motion_clip import ClipData
from a2perf.domains.quadruped_locomotion.physics.robot import STATE_SIZE, FloatArray, IntArray, KinematicTree
from a2perf.domains.quadruped_locomotion.sensors import HISTORY_LENGTH, OBSERVATION_SIZE

PRIVILEGED_SIZE = 20
_ELEMENTS = {IntArray: np.int64, NDArray[np.bool_]: np.bool_, NDArray[np.uint64]: np.uint64}


class Robots(NamedTuple):
    """State of all robots with its shapes per robot; see ``ImitationTask``, ``Actuation`` and ``Simulation``."""

    filter: Annotated[FloatArray, (4, 12)]
    commands: Annotated[FloatArray, (2, 12)]
    strength: Annotated[FloatArray, (12,)]
    history_angles: Annotated[FloatArray, (HISTORY_LENGTH, 12)]
    history_base: Annotated[FloatArray, (HISTORY_LENGTH, 7)]
    history_cursor: Annotated[IntArray, (2,)]
    delayed: Annotated[FloatArray, (12,)]
    torques: Annotated[FloatArray, (12,)]
    joints: Annotated[FloatArray, (2, 12)]
    rotation: Annotated[FloatArray, (4,)]
    position: Annotated[FloatArray, (3,)]
    standing: Annotated[FloatArray, (19,)]
    clock: Annotated[FloatArray, (4,)]
    action: Annotated[FloatArray, (12,)]
    state: Annotated[FloatArray, (STATE_SIZE,)]
    feet: Annotated[FloatArray, (8, 3)]
    pose: Annotated[FloatArray, (19,)]
    velocity: Annotated[FloatArray, (18,)]
    reference_feet: Annotated[FloatArray, (8, 3)]
    frames: Annotated[FloatArray, (17, 7)]
    terms: Annotated[FloatArray, (len(TERMS),)]
    outcome: Annotated[FloatArray, (4,)]
    scratch: Annotated[FloatArray, (19,)]
    observation: Annotated[FloatArray, (OBSERVATION_SIZE,)]
    qpos: Annotated[FloatArray, (19,)]
    qvel: Annotated[FloatArray, (18,)]
    warm_start: Annotated[FloatArray, (18,)]
    latency: Annotated[FloatArray, ()]
    played: Annotated[FloatArray, (12,)]  # the action that plays the reference, rad
    total: Annotated[FloatArray, ()]  # return of the episode so far
    steps: Annotated[IntArray, ()]
    limit: Annotated[IntArray, ()]
    model: Annotated[IntArray, ()]
    warm_up: Annotated[NDArray[np.bool_], ()]
    random: Annotated[NDArray[np.uint64], ()]


def new_robots(count: int) -> Robots:
    """Returns zeroed memory."""
    return Robots(
        **{
            name: np.zeros((count, *get_args(hint)[1]), _ELEMENTS.get(get_args(hint)[0], np.float64))
            for name, hint in get_type_hints(Robots, include_extras=True).items()
        }
    )


class World(NamedTuple):
    """What all robots share; only read.

    Attributes:
        target_times: of the target frames, s, shape (4,).
        body_points, body_radii: see ``mujoco_model.body_points``.
        step: address of ``mj_step``.
        models: addresses of the models among which each episode draws one.
        implicit_damping, start_scale, latency_scale: see ``TwinPhysics``.
        longest: steps after which an episode is cut off.
        control, differences: of ``ResidualControl``: share, ahead and scale; whether the policy sees differences.
        randomize: whether latency and strength of the motors are drawn for each episode.
        push: largest change of each component of the velocity by a push, m/s.
        push_probability: of a push, per step.
        start_noise: largest change of each joint angle of a start state, rad.
    """

    clip: ClipData
    tree: KinematicTree
    target_times: FloatArray
    body_points: FloatArray
    body_radii: FloatArray
    step: int
    models: IntArray
    substeps: int
    implicit_damping: bool
    start_scale: float
    latency_scale: float
    longest: int
    control: tuple[float, float, float]
    differences: bool
    randomize: bool
    push: float
    push_probability: float
    start_noise: float


class StepArrays(NamedTuple):
    """What a step returns; the arrays are written in place.

    Attributes:
        policy: what the policy sees, float32, shape (n, 148) or (n, 160).
        privileged: what only a simulation knows, for the value, float32, shape (n, PRIVILEGED_SIZE).
        final_policy, final_privileged: the same of the last state of an episode that was cut off.
        rewards: float32, shape (n,).
        terminated, truncated: bool, shape (n,).
        returns: of the last complete episode, shape (n,).
        lengths: of the last complete episode, in steps, shape (n,).
    """

    policy: NDArray[np.float32]
    privileged: NDArray[np.float32]
    final_policy: NDArray[np.float32]
    final_privileged: NDArray[np.float32]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    returns: FloatArray
    lengths: IntArray


def new_step_arrays(count: int, seen: int) -> StepArrays:
    """Returns zeroed memory for what a step returns; ``seen`` numbers are for the policy."""

    def zeros(size: int) -> NDArray[np.float32]:
        return np.zeros((count, size), np.float32)

    return StepArrays(
        policy=zeros(seen),
        privileged=zeros(PRIVILEGED_SIZE),
        final_policy=zeros(seen),
        final_privileged=zeros(PRIVILEGED_SIZE),
        rewards=np.zeros(count, np.float32),
        terminated=np.zeros(count, np.bool_),
        truncated=np.zeros(count, np.bool_),
        returns=np.zeros(count),
        lengths=np.zeros(count, np.int64),
    )


class SimulationThread(NamedTuple):
    """The ``MjData`` of a thread: its address and its memory."""

    data: int
    qpos: FloatArray
    qvel: FloatArray
    warm_start: FloatArray
    ctrl: FloatArray
