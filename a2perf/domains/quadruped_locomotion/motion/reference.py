"""The reference motion of an episode: placement of the clip in the world, and synchronisation with the robot.

The clip is turned and shifted to start under the robot, and shifted under the robot again whenever a cycle ends. In a
warm-up episode a quarter of a second of standing precedes it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from a2perf.domains.compilation import compiled
from a2perf.domains.quadruped_locomotion.motion.motion_clip import (
    POSE_SIZE,
    VELOCITY_SIZE,
    ClipData,
    MotionClip,
    clip_phase,
    sample_pose,
    sample_velocity,
)
from a2perf.domains.quadruped_locomotion.motion.rotations import heading, product, rotate, standard
from a2perf.domains.quadruped_locomotion.physics.robot import (
    DEFAULT_JOINT_POSE,
    DEFAULT_ORIENTATION,
    DEFAULT_POSITION,
    FloatArray,
)

REFERENCE_STATE_PROBABILITY = 0.9  # probability of a start inside the motion, without warm-up
WARM_UP_TIME = 0.25  # s
TARGET_STEPS = (1, 2, 10, 30)  # control steps ahead that the observation shows
TARGET_COUNT = len(TARGET_STEPS)

# Layout of a reference motion's clock.
CLOCK_TIME, CLOCK_PHASE, CLOCK_OFFSET, CLOCK_START = range(4)


class ClipPlacement(NamedTuple):
    """Placement of the clip of an episode in the world; the arrays are written in place.

    Attributes:
        rotation: turn about z, quaternion, shape (4,).
        position: shift in the plane, m, shape (3,).
        standing: default pose turned to the clip's first heading, shape (19,).
    """

    rotation: FloatArray
    position: FloatArray
    standing: FloatArray


def default_pose() -> FloatArray:
    """Returns the pose in which the robot stands at the start, shape (19,)."""
    return np.concatenate([DEFAULT_POSITION, DEFAULT_ORIENTATION, DEFAULT_JOINT_POSE])


@compiled
def _clip_pose(clip: ClipData, placement: ClipPlacement, warm_up: bool, time: float, pose: FloatArray) -> None:
    if warm_up and time < 0.0:
        for column in range(POSE_SIZE):
            pose[column] = placement.standing[column]
    else:
        sample_pose(clip, time, pose)


@compiled
def reference_pose(clip: ClipData, placement: ClipPlacement, warm_up: bool, time: float, pose: FloatArray) -> None:
    """Writes the reference pose in the world at a motion time (s), shape (19,)."""
    _clip_pose(clip, placement, warm_up, time, pose)
    rotation = placement.rotation
    rx, ry, rz, rw = rotation[0], rotation[1], rotation[2], rotation[3]
    x, y, z = rotate(rx, ry, rz, rw, pose[0], pose[1], pose[2])
    pose[0] = x + placement.position[0]
    pose[1] = y + placement.position[1]
    pose[2] = z + placement.position[2]
    pose[3], pose[4], pose[5], pose[6] = product(rx, ry, rz, rw, pose[3], pose[4], pose[5], pose[6])


@compiled
def reference_velocity(
    clip: ClipData, placement: ClipPlacement, warm_up: bool, time: float, velocity: FloatArray
) -> None:
    """Writes the reference velocity in the world at a motion time (s), shape (18,)."""
    if warm_up and time < 0.0:
        velocity[:] = 0.0
        return
    sample_velocity(clip, time, velocity)
    rotation = placement.rotation
    rx, ry, rz, rw = rotation[0], rotation[1], rotation[2], rotation[3]
    velocity[0], velocity[1], velocity[2] = rotate(rx, ry, rz, rw, velocity[0], velocity[1], velocity[2])
    velocity[3], velocity[4], velocity[5] = rotate(rx, ry, rz, rw, velocity[3], velocity[4], velocity[5])


@compiled
def advance(
    clip: ClipData,
    placement: ClipPlacement,
    warm_up: bool,
    time: float,
    previous_phase: float,
    robot_position: FloatArray,
    pose: FloatArray,
    velocity: FloatArray,
) -> float:
    """Moves the reference to a motion time, putting it under the robot again where a cycle (or the warm-up) has ended.

    Args:
        placement: of the episode; its position is rewritten at the end of a cycle.
        robot_position: base position, m, shape (3,).
        pose: written, the reference pose in the world, shape (19,).
        velocity: written, the reference velocity in the world, shape (18,).
    """
    phase = clip_phase(clip, time)
    # Negative times of a repeating clip wrap to the end of a cycle, so the phase also falls where a warm-up ends.
    if phase < previous_phase:
        _clip_pose(clip, placement, warm_up, time, pose)
        rotation = placement.rotation
        x, y, _ = rotate(rotation[0], rotation[1], rotation[2], rotation[3], pose[0], pose[1], pose[2])
        placement.position[0] = robot_position[0] - x
        placement.position[1] = robot_position[1] - y
        placement.position[2] = 0.0
    reference_pose(clip, placement, warm_up, time, pose)
    reference_velocity(clip, placement, warm_up, time, velocity)
    return phase


@compiled
def target_frames(
    clip: ClipData,
    placement: ClipPlacement,
    warm_up: bool,
    time: float,
    yaw: float,
    root: FloatArray,
    steps: FloatArray,
    scratch: FloatArray,
    out: FloatArray,
) -> None:
    """Writes the poses that the robot should reach next, as seen from its own heading.

    Args:
        time: motion time, s.
        yaw: heading of the robot as its sensors see it, rad.
        root: current reference root position, m, shape (3,).
        steps: times ahead, s, shape (4,).
        out: written, shape (76,): four poses of 19.
    """
    sine, cosine = math.sin(-0.5 * yaw), math.cos(-0.5 * yaw)
    for number in range(steps.shape[0]):
        reference_pose(clip, placement, warm_up, time + steps[number], scratch)
        start = number * 19
        x, y, z = rotate(0.0, 0.0, sine, cosine, scratch[0] - root[0], scratch[1] - root[1], scratch[2] - root[2])
        out[start] = x
        out[start + 1] = y
        out[start + 2] = z
        qx, qy, qz, qw = product(0.0, 0.0, sine, cosine, scratch[3], scratch[4], scratch[5], scratch[6])
        # Both signs are the same rotation; the observation must not jump between them.
        qx, qy, qz, qw = standard(qx, qy, qz, qw)
        out[start + 3] = qx
        out[start + 4] = qy
        out[start + 5] = qz
        out[start + 6] = qw
        for column in range(7, 19):
            out[start + column] = scratch[column]


@compiled
def begin_reference(
    clip: ClipData,
    placement: ClipPlacement,
    offset: float,
    warm_up: bool,
    position: FloatArray,
    facing: float,
    clock: FloatArray,
    pose: FloatArray,
    velocity: FloatArray,
) -> None:
    """Starts an episode: puts the clip under the robot, turned to where the robot faces.

    Args:
        offset: motion time at the start, s; a warm-up shifts it back by ``WARM_UP_TIME``.
        position: of the robot's base, m, shape (3,).
        facing: heading of the robot's base, rad.
        pose: written, the reference pose, shape (19,).
        velocity: written, the reference velocity, shape (18,).
    """
    time = offset - WARM_UP_TIME if warm_up else offset
    clock[CLOCK_TIME] = time
    clock[CLOCK_PHASE] = clip_phase(clip, time)
    clock[CLOCK_OFFSET] = time
    clock[CLOCK_START] = 0.0
    standing, rotation = placement.standing, placement.rotation
    for axis in range(3):
        standing[axis] = DEFAULT_POSITION[axis]
    for part in range(4):
        standing[3 + part] = DEFAULT_ORIENTATION[part]
    for joint in range(12):
        standing[7 + joint] = DEFAULT_JOINT_POSE[joint]
    sample_pose(clip, 0.0, pose)
    turn = heading(pose[3], pose[4], pose[5], pose[6]) - heading(standing[3], standing[4], standing[5], standing[6])
    sine, cosine = math.sin(0.5 * turn), math.cos(0.5 * turn)
    standing[0], standing[1], standing[2] = rotate(0.0, 0.0, sine, cosine, standing[0], standing[1], standing[2])
    standing[3], standing[4], standing[5], standing[6] = product(
        0.0, 0.0, sine, cosine, standing[3], standing[4], standing[5], standing[6]
    )
    rotation[0], rotation[1], rotation[2], rotation[3] = 0.0, 0.0, 0.0, 1.0
    placement.position[:] = 0.0
    reference_pose(clip, placement, warm_up, time, pose)
    # The shift is taken before the turn, as in the earlier implementation.
    placement.position[0] = position[0] - pose[0]
    placement.position[1] = position[1] - pose[1]
    turn = facing - heading(pose[3], pose[4], pose[5], pose[6])
    rotation[2], rotation[3] = math.sin(0.5 * turn), math.cos(0.5 * turn)
    reference_pose(clip, placement, warm_up, time, pose)
    reference_velocity(clip, placement, warm_up, time, velocity)


class ReferenceMotion:
    """The clip of the current episode with its placement, time and phase; the arrays are shared with the task's step.

    Attributes:
        pose: reference pose in the world now, shape (19,).
        velocity: reference velocity in the world now, shape (18,).
        clock: motion time, phase, offset and start of the clip's time (s), see ``CLOCK_*``, shape (4,).
    """

    def __init__(self, clip: MotionClip) -> None:
        self.clip = clip
        self.pose = np.zeros(POSE_SIZE)
        self.velocity = np.zeros(VELOCITY_SIZE)
        self.placement = ClipPlacement(np.array([0.0, 0.0, 0.0, 1.0]), np.zeros(3), default_pose())
        self.clock = np.zeros(4)
        self.warm_up = False

    @property
    def time(self) -> float:
        """Motion time, s; negative during a warm-up."""
        return float(self.clock[CLOCK_TIME])

    @property
    def phase(self) -> float:
        """Position in the cycle, [0, 1)."""
        return float(self.clock[CLOCK_PHASE])

    def begin(self, clip: MotionClip, offset: float, warm_up: bool, position: FloatArray, facing: float) -> None:
        """Starts an episode, see ``begin_reference``."""
        self.clip, self.warm_up = clip, warm_up
        begin_reference(
            clip.data, self.placement, offset, warm_up, position, float(facing), self.clock, self.pose, self.velocity
        )

    @property
    def is_over(self) -> bool:
        """Whether a motion that does not repeat has ended."""
        return self.clip.is_over(self.time)
