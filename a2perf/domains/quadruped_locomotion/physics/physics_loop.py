"""One control step: 33 sub-steps of a position controller over the physics engine.

The path of an action: filter (Butterworth, 4 Hz) -> interpolation over the sub-steps -> clipping to the delayed motor
angles -> PD torque -> physics. ``PythonLoop`` drives PyBullet's Python interface; ``native_backend`` does the same in
one compiled call. Both share the arithmetic below and agree bit for bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from a2perf.domains.compilation import compiled
from a2perf.domains.quadruped_locomotion.physics.robot import (
    KD,
    KP,
    MOTOR_DIRECTION,
    MOTOR_OFFSET,
    SUBSTEPS,
    TIME_STEP,
    FloatArray,
)
from a2perf.domains.quadruped_locomotion.sensors import History, delayed_angles, new_history

# Second-order low-pass Butterworth, cut-off 4 Hz at 1 / 0.033 s.
FILTER_B = (0.10669309218914798, 0.21338618437829596, 0.10669309218914798)
FILTER_A = (1.0, -0.8877194537361395, 0.31449182249273155)
MAX_ANGLE_CHANGE = 0.2  # rad, of a motor target from the delayed motor angle


class Actuation(NamedTuple):
    """State of the action path of one robot; the arrays are written in place.

    Attributes:
        filter: past inputs (u1, u2) and outputs (y1, y2) of the action filter, rad, shape (4, 12).
        commands: filtered target of the previous and the current step, rad, shape (2, 12).
        strength: torque multipliers, shape (12,).
        scratch: delayed motor angles, overwritten, shape (12,).
        torques: newest joint torques in URDF direction, N m, shape (12,).
        joints: newest URDF joint angles (rad) and velocities (rad/s), shape (2, 12).
    """

    filter: FloatArray
    commands: FloatArray
    strength: FloatArray
    history: History
    scratch: FloatArray
    torques: FloatArray
    joints: FloatArray


def new_actuation() -> Actuation:
    """Returns the state of an action path that has not been used."""
    return Actuation(
        filter=np.zeros((4, 12)),
        commands=np.zeros((2, 12)),
        strength=np.ones(12),
        history=new_history(),
        scratch=np.zeros(12),
        torques=np.zeros(12),
        joints=np.zeros((2, 12)),
    )


@compiled
def filter_action(actuation: Actuation, action: FloatArray, latency: float, first_step: bool) -> None:
    """Filters a motor target (rad, shape (12,)) into ``commands``; the first one of an episode starts the filter.

    The filter starts from the delayed motor angles, which still show the default pose then. Without it, the first steps
    of an episode would pull the motors towards zero.
    """
    past, commands = actuation.filter, actuation.commands
    if first_step:
        delayed_angles(actuation.history, latency, actuation.scratch)
        for row in range(4):
            for motor in range(12):
                past[row, motor] = actuation.scratch[motor]
    for motor in range(12):
        target = (
            FILTER_B[0] * action[motor]
            + FILTER_B[1] * past[0, motor]
            + FILTER_B[2] * past[1, motor]
            - FILTER_A[1] * past[2, motor]
            - FILTER_A[2] * past[3, motor]
        )
        # The older entries move first; the newer ones would otherwise overwrite them.
        past[1, motor] = past[0, motor]
        past[0, motor] = action[motor]
        past[3, motor] = past[2, motor]
        past[2, motor] = target
        # commands[1] of a first step belongs to the episode before; interpolating from it would jerk the motors.
        commands[0, motor] = target if first_step else commands[1, motor]
        commands[1, motor] = target


@compiled
def pd_torques(actuation: Actuation, latency: float, fraction: float) -> None:
    """Writes the joint torques of a sub-step from the newest joint state.

    Args:
        latency: of the angles to which targets are clipped, s.
        fraction: position of the sub-step between the last target and this one, in (0, 1].
    """
    delayed_angles(actuation.history, latency, actuation.scratch)
    commands, joints = actuation.commands, actuation.joints
    for motor in range(12):
        target = commands[0, motor] + fraction * (commands[1, motor] - commands[0, motor])
        # clipped to the delayed angle, which the controller of the real robot sees, not to the true one
        low = actuation.scratch[motor] - MAX_ANGLE_CHANGE
        high = actuation.scratch[motor] + MAX_ANGLE_CHANGE
        target = min(max(target, low), high)
        angle = (joints[0, motor] - MOTOR_OFFSET[motor]) * MOTOR_DIRECTION[motor]
        velocity = joints[1, motor] * MOTOR_DIRECTION[motor]
        torque = actuation.strength[motor] * (-KP[motor] * (angle - target) - KD[motor] * velocity)
        actuation.torques[motor] = torque * MOTOR_DIRECTION[motor]


def substeps_to_measure(latency: float) -> tuple[bool, ...]:
    """Returns the sub-steps that measure the base: those that the delayed reading after a control step can need."""
    whole = int(latency / TIME_STEP) if latency > 0.0 else 0
    # The delayed reading blends two neighbouring entries. The remainder finds one that is older than a control step:
    # it lies at the same place in an earlier step.
    ages = {0, whole % SUBSTEPS, (whole + 1) % SUBSTEPS}
    return tuple((SUBSTEPS - 1 - substep) in ages for substep in range(SUBSTEPS))
