"""The memory of a batch of robots: one row per robot in every array.

The compiled loop builds the tuples of the single robot (``ImitationTask``, ``Simulation``) from slices of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.quadruped_locomotion.motion.imitation import TERMS
from a2perf.domains.quadruped_locomotion.motion.motion_clip import ClipData
from a2perf.domains.quadruped_locomotion.physics.robot import STATE_SIZE, FloatArray, IntArray, KinematicTree
from a2perf.domains.quadruped_locomotion.sensors import HISTORY_LENGTH, OBSERVATION_SIZE

PRIVILEGED_SIZE = 20


class Robots(NamedTuple):
    """State of all robots; see ``ImitationTask``, ``Actuation`` and ``Simulation`` for the parts."""

    filter: FloatArray
    commands: FloatArray
    strength: FloatArray
    history_angles: FloatArray
    history_base: FloatArray
    history_cursor: IntArray
    delayed: FloatArray
    torques: FloatArray
    joints: FloatArray
    rotation: FloatArray
    position: FloatArray
    standing: FloatArray
    clock: FloatArray
    action: FloatArray
    state: FloatArray
    feet: FloatArray
    pose: FloatArray
    velocity: FloatArray
    reference_feet: FloatArray
    frames: FloatArray
    terms: FloatArray
    outcome: FloatArray
    scratch: FloatArray
    observation: FloatArray
    qpos: FloatArray
    qvel: FloatArray
    warm_start: FloatArray
    latency: FloatArray
    played: FloatArray  # the action that plays the reference, rad
    total: FloatArray  # return of the episode so far
    steps: IntArray
    limit: IntArray
    model: IntArray
    warm_up: NDArray[np.bool_]
    random: NDArray[np.uint64]


_SHAPES: dict[str, tuple[int, ...]] = {
    "filter": (4, 12),
    "commands": (2, 12),
    "history_angles": (HISTORY_LENGTH, 12),
    "history_base": (HISTORY_LENGTH, 7),
    "history_cursor": (2,),
    "joints": (2, 12),
    "rotation": (4,),
    "position": (3,),
    "standing": (19,),
    "clock": (4,),
    "state": (STATE_SIZE,),
    "feet": (8, 3),
    "pose": (19,),
    "velocity": (18,),
    "reference_feet": (8, 3),
    "frames": (17, 7),
    "terms": (len(TERMS),),
    "outcome": (4,),
    "scratch": (19,),
    "observation": (OBSERVATION_SIZE,),
    "qpos": (19,),
    "qvel": (18,),
    "warm_start": (18,),
    **dict.fromkeys(("strength", "delayed", "torques", "action", "played"), (12,)),
    **dict.fromkeys(("latency", "total", "steps", "limit", "model", "warm_up", "random"), ()),
}
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("history_cursor", "steps", "limit", "model"), np.int64),
    "warm_up": np.bool_,
    "random": np.uint64,
}


def new_robots(count: int) -> Robots:
    """Returns zeroed memory."""
    return Robots(**{name: np.zeros((count, *_SHAPES[name]), _TYPES.get(name, np.float64)) for name in Robots._fields})


class World(NamedTuple):
    """What all robots share; only read.

    Attributes:
        target_times: of the target frames, s, shape (4,).
        body_points: see ``mujoco_model.body_points``.
        body_radii: see ``mujoco_model.body_points``.
        step: address of ``mj_step``.
        models: addresses of the models among which each episode draws one.
        implicit_damping: see ``TwinPhysics``.
        start_scale: see ``TwinPhysics``.
        latency_scale: see ``TwinPhysics``.
        longest: steps after which an episode is cut off.
        control: of ``ResidualControl``: share, ahead, scale.
        differences: of ``ResidualControl``.
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
