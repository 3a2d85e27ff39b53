"""The sensors: a history of delayed measurements, and the observation blocks made from it.

After every sub-step a measurement enters the history; the controller and the sensors read it a latency later. The
histories shown in the observation are filled when the robot is reset and before it is put into its start state, so the
first observation of an episode always shows the default pose.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from a2perf.domains.compilation import compiled
from a2perf.domains.quadruped_locomotion.motion.rotations import euler, inverse_rotate_single, product_single
from a2perf.domains.quadruped_locomotion.physics.robot import (
    DEFAULT_ORIENTATION,
    MOTOR_DIRECTION,
    MOTOR_OFFSET,
    TIME_STEP,
    FloatArray,
    IntArray,
)

HISTORY_LENGTH = 100
DEFAULT_LATENCY = 0.002  # s
STACKED_STEPS = 3

IMU = slice(0, 12)
LAST_ACTION = slice(12, 48)
MOTOR_ANGLES = slice(48, 84)
TARGETS = slice(84, 160)
OBSERVATION_SIZE = 160

_DX, _DY, _DZ, _DW = (float(part) for part in DEFAULT_ORIENTATION)
_TAU = 2.0 * math.pi


class History(NamedTuple):
    """Ring of the latest measurements; the arrays are written in place.

    Attributes:
        angles: motor angles, rad, shape (100, 12).
        base: orientation relative to the default one (4) and angular velocity in that frame (3, rad/s), shape (100, 7).
        cursor: row of the newest entry and number of entries, shape (2,).
    """

    angles: FloatArray
    base: FloatArray
    cursor: IntArray


def new_history() -> History:
    """Returns an empty history."""
    # The cursor starts at the last row because push_joints moves it before it writes.
    return History(
        np.zeros((HISTORY_LENGTH, 12)), np.zeros((HISTORY_LENGTH, 7)), np.array([HISTORY_LENGTH - 1, 0], dtype=np.int64)
    )


def clear(history: History) -> None:
    """Forgets all entries."""
    history.cursor[:] = (HISTORY_LENGTH - 1, 0)


@compiled
def push_joints(history: History, joint_angles: FloatArray) -> None:
    """Adds an entry with the motor angles that belong to URDF joint angles (rad), shape (12,)."""
    cursor = history.cursor
    row = (cursor[0] + 1) % HISTORY_LENGTH
    cursor[0] = row
    if cursor[1] < HISTORY_LENGTH:
        cursor[1] += 1
    for motor in range(12):
        history.angles[row, motor] = (joint_angles[motor] - MOTOR_OFFSET[motor]) * MOTOR_DIRECTION[motor]


@compiled
def write_base(history: History, orientation: FloatArray, angular_velocity: FloatArray) -> None:
    """Completes the newest entry with the base orientation and its angular velocity in world axes (rad/s)."""
    x, y, z, w = product_single(orientation[0], orientation[1], orientation[2], orientation[3], -_DX, -_DY, -_DZ, _DW)
    vx, vy, vz = inverse_rotate_single(x, y, z, w, angular_velocity[0], angular_velocity[1], angular_velocity[2])
    entry = history.base[history.cursor[0]]
    entry[0] = x
    entry[1] = y
    entry[2] = z
    entry[3] = w
    entry[4] = vx
    entry[5] = vy
    entry[6] = vz


@compiled
def delayed_entry(cursor: IntArray, latency: float) -> tuple[int, int, float]:
    """Rows and blend of the measurement that is ``latency`` (s) old; the oldest one if the history is too short."""
    head, count = cursor[0], cursor[1]
    if latency <= 0.0 or count == 1:
        return (head, head, 0.0)
    whole = int(latency / TIME_STEP)
    if whole + 1 >= count:
        oldest = (head - (count - 1)) % HISTORY_LENGTH
        return (oldest, oldest, 0.0)
    blend = (latency - whole * TIME_STEP) / TIME_STEP
    return ((head - whole) % HISTORY_LENGTH, (head - whole - 1) % HISTORY_LENGTH, blend)


@compiled
def wrapped(angle: float) -> float:
    """The angle in [-pi, pi), by remainder as C's fmod takes it."""
    # Not the % operator: its result takes the sign of the divisor, and negative angles would round differently.
    angle = np.fmod(angle, _TAU)
    if angle >= math.pi:
        return angle - _TAU
    if angle < -math.pi:
        return angle + _TAU
    return angle


@compiled
def delayed_angles(history: History, latency: float, out: FloatArray) -> None:
    """Writes the motor angles of ``latency`` (s) ago, in [-pi, pi), shape (12,)."""
    near, far, blend = delayed_entry(history.cursor, latency)
    for motor in range(12):
        angle = (1.0 - blend) * history.angles[near, motor] + blend * history.angles[far, motor]
        # Wrapped after blending: two wrapped angles could lie on either side of the jump at pi.
        out[motor] = wrapped(angle)


@compiled
def delayed_base(history: History, latency: float, out: FloatArray) -> None:
    """Writes roll, pitch, yaw (rad) and angular velocity (rad/s) of ``latency`` (s) ago, shape (6,).

    The blended quaternion is not brought back to unit length, as in the earlier implementation.
    """
    near, far, blend = delayed_entry(history.cursor, latency)
    a, b = history.base[near], history.base[far]
    keep = 1.0 - blend
    roll, pitch, yaw = euler(
        keep * a[0] + blend * b[0], keep * a[1] + blend * b[1], keep * a[2] + blend * b[2], keep * a[3] + blend * b[3]
    )
    out[0] = roll
    out[1] = pitch
    out[2] = yaw
    out[3] = keep * a[4] + blend * b[4]
    out[4] = keep * a[5] + blend * b[5]
    out[5] = keep * a[6] + blend * b[6]


@compiled
def _shift(observation: FloatArray, start: int, width: int) -> None:
    # Backwards: forwards, a column would be overwritten before it is moved on.
    for column in range(start + STACKED_STEPS * width - 1, start + width - 1, -1):
        observation[column] = observation[column - width]


@compiled
def update_sensors(
    history: History, latency: float, action: FloatArray, scratch: FloatArray, observation: FloatArray
) -> None:
    """Moves the stacked blocks one step back and writes the newest measurements in front.

    Args:
        action: last motor target before filtering, rad, shape (12,).
    """
    _shift(observation, 0, 4)
    _shift(observation, 12, 12)
    _shift(observation, 48, 12)
    delayed_base(history, latency, scratch)
    observation[0] = scratch[0]
    observation[1] = scratch[1]
    # The yaw is skipped: the published policies' sensor has roll, pitch and their rates only.
    observation[2] = scratch[3]
    observation[3] = scratch[4]
    delayed_angles(history, latency, scratch)
    for motor in range(12):
        observation[12 + motor] = action[motor]
        observation[48 + motor] = scratch[motor]


@compiled
def fill_sensors(
    history: History, latency: float, action: FloatArray, scratch: FloatArray, observation: FloatArray
) -> None:
    """Fills the whole stack of every block with the newest measurements; arguments as ``update_sensors``."""
    for _ in range(STACKED_STEPS):
        update_sensors(history, latency, action, scratch, observation)
