"""The Laikago robot: its links, masses, motors, gains, conventions, and forward kinematics.

Facts of the robot and of the control task are constants here. PyBullet loads the URDF of its wheel, and a test compares
both. A motor angle and a joint angle of the URDF are related by ``motor = (urdf - MOTOR_OFFSET) * MOTOR_DIRECTION``.
Every 12-vector is ordered FR, FL, RR, RL (front/rear, right/left), each abduction, hip, knee.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.compilation import compiled
from a2perf.domains.quadruped_locomotion import PYBULLET_HINT
from a2perf.domains.quadruped_locomotion.motion.rotations import product, rotate
from a2perf.errors import MissingDependency

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

URDF = "laikago/laikago_toes_limits.urdf"
GROUND_URDF = "plane_implicit.urdf"

LINK_COUNT = 16
MOTOR_LINKS = (0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14)
LOWER_LEG_LINKS = (2, 6, 10, 14)
TOE_LINKS = (3, 7, 11, 15)
UPPER_LEG_LINKS = (1, 5, 9, 13)
# Knee contact is allowed, so a lower leg counts as a foot: in the reward, in the fall test, in the randomised friction.
FOOT_LINKS = (2, 3, 6, 7, 10, 11, 14, 15)
# The hip motors belong to the chassis group, as in the earlier implementation, which grouped links by their names.
CHASSIS_GROUP = (-1, 0, 4, 8, 12)
LEG_GROUP = (*FOOT_LINKS, *UPPER_LEG_LINKS)

MOTOR_DIRECTION: FloatArray = np.array([-1, 1, 1, 1, 1, 1, -1, 1, 1, 1, 1, 1], dtype=np.float64)
MOTOR_OFFSET: FloatArray = np.array([0.0, -0.6, 0.66] * 4)
DEFAULT_MOTOR_POSE: FloatArray = np.array([0.0, 0.67, -1.25] * 4)
DEFAULT_JOINT_POSE: FloatArray = DEFAULT_MOTOR_POSE * MOTOR_DIRECTION + MOTOR_OFFSET
JOINT_LOWER: FloatArray = np.array([-0.873, -1.3, -2.164] * 4)
JOINT_UPPER: FloatArray = np.array([1.0472, 3.4, 0.0] * 4)
KP: FloatArray = np.full(12, 220.0)  # N m / rad
KD: FloatArray = np.array([0.3, 2.0, 2.0] * 4)  # N m s / rad

DEFAULT_POSITION: FloatArray = np.array([0.0, 0.0, 0.48])  # m, of the base's centre of mass
DEFAULT_ORIENTATION: FloatArray = np.array([0.5, 0.5, 0.5, 0.5])

# Positions in the frame of the parent link (m; x: left, y: up, z: forward) and masses (kg).
_BASE_INERTIAL = (0.0, 0.03, 0.043794)  # centre of mass of the chassis
_HIP_X, _FRONT_HIP_Z, _REAR_HIP_Z = 0.0817145, 0.242889, -0.194401  # hip motors
_RIGHT_UPPER_X, _LEFT_UPPER_X = -0.053565, 0.055855  # upper legs
_KNEE = (-0.02069, -0.20833, -0.1422)  # lower leg of a left leg; x is mirrored for a right one
_TOE = (0.0, -0.25, -0.022)
_HIP_INERTIAL_X, _UPPER_INERTIAL, _LOWER_INERTIAL = 0.02, (0.0, -0.04, -0.04), (0.0, -0.16, -0.02)  # centres of mass
_CHASSIS_MASS = 13.715
_LEG_MASSES = (1.095, 1.527, 0.241, 0.1)  # hip motor, upper leg, lower leg, toe

TIME_STEP = 0.001  # s
SUBSTEPS = 33
CONTROL_STEP = 0.033  # s
SOLVER_ITERATIONS = 9
GRAVITY = -10.0  # m/s^2

# Position (3), orientation (4), linear and angular velocity (3 each), joint angles and velocities (12 each).
STATE_SIZE = 37


def urdf_path(name: str = URDF) -> Path:
    """Returns the path of a model inside the PyBullet wheel, without importing PyBullet.

    Raises:
        MissingDependency: PyBullet is not installed.
    """
    spec = importlib.util.find_spec("pybullet_data")
    if spec is None or spec.origin is None:
        raise missing_pybullet()
    return Path(spec.origin).parent / name


def missing_pybullet() -> MissingDependency:
    """Returns the error of an environment in PyBullet if that package is missing."""
    return MissingDependency(
        "the PyBullet ids of quadruped locomotion need PyBullet, which is not installed", hint=PYBULLET_HINT
    )


class KinematicTree(NamedTuple):
    """Geometry of the robot, link by link in URDF order; every frame of the file is axis-parallel at zero angles.

    Attributes:
        base_inertial: centre of mass of the chassis in its URDF frame, m, shape (3,).
        parent: index of the parent link, -1 for the chassis, shape (16,).
        origin: joint position in the parent's URDF frame, m, shape (16, 3).
        axis: unit joint axis in the URDF frame, zero for a fixed joint, shape (16, 3).
        motor: index of the motor that moves the joint, -1 for a fixed joint, shape (16,).
        inertial: centre of mass in the link's own URDF frame, m, shape (16, 3).
        mass: kg, chassis first, shape (17,).
    """

    base_inertial: FloatArray
    parent: IntArray
    origin: FloatArray
    axis: FloatArray
    motor: IntArray
    inertial: FloatArray
    mass: FloatArray
    feet: IntArray


@functools.cache
def kinematic_tree() -> KinematicTree:
    """Returns the geometry of the robot."""
    parent, origin, axis, inertial = [], [], [], []
    for leg in range(4):
        side = -1.0 if leg % 2 == 0 else 1.0  # right legs are at negative x
        motor_z = _FRONT_HIP_Z if leg < 2 else _REAR_HIP_Z
        upper_x = _RIGHT_UPPER_X if side < 0 else _LEFT_UPPER_X
        parent += [-1, 4 * leg, 4 * leg + 1, 4 * leg + 2]
        origin += [(side * _HIP_X, 0.0, motor_z), (upper_x, 0.0, 0.0), (side * _KNEE[0], *_KNEE[1:]), _TOE]
        axis += [(0.0, 0.0, side), (1.0, 0.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)]
        inertial += [(-side * _HIP_INERTIAL_X, 0.0, 0.0), _UPPER_INERTIAL, _LOWER_INERTIAL, (0.0, 0.0, 0.0)]
    motor = np.full(LINK_COUNT, -1, dtype=np.int64)
    motor[list(MOTOR_LINKS)] = np.arange(12)
    return KinematicTree(
        base_inertial=np.array(_BASE_INERTIAL),
        parent=np.array(parent),
        origin=np.array(origin),
        axis=np.array(axis),
        motor=motor,
        inertial=np.array(inertial),
        mass=np.array([_CHASSIS_MASS, *(_LEG_MASSES * 4)]),
        feet=np.array(FOOT_LINKS, dtype=np.int64),
    )


@compiled
def link_frames(
    tree: KinematicTree, position: FloatArray, orientation: FloatArray, joints: FloatArray, frames: FloatArray
) -> None:
    """Forward kinematics: writes the URDF frame of every link.

    Args:
        position: centre of mass of the chassis, m, shape (3,).
        orientation: of the chassis, shape (4,).
        joints: URDF joint angles, rad, shape (12,).
        frames: written, shape (17, 7), position and quaternion, chassis first.
    """
    base_inertial, parent, origin, axis, motor = tree.base_inertial, tree.parent, tree.origin, tree.axis, tree.motor
    qx, qy, qz, qw = orientation[0], orientation[1], orientation[2], orientation[3]
    bx, by, bz = rotate(qx, qy, qz, qw, base_inertial[0], base_inertial[1], base_inertial[2])
    frames[0, 0] = position[0] - bx
    frames[0, 1] = position[1] - by
    frames[0, 2] = position[2] - bz
    frames[0, 3] = qx
    frames[0, 4] = qy
    frames[0, 5] = qz
    frames[0, 6] = qw
    for link in range(parent.shape[0]):
        # Links come after their parents, so the frame of this row is written already.
        row = parent[link] + 1
        px, py, pz, pw = frames[row, 3], frames[row, 4], frames[row, 5], frames[row, 6]
        dx, dy, dz = rotate(px, py, pz, pw, origin[link, 0], origin[link, 1], origin[link, 2])
        frames[link + 1, 0] = frames[row, 0] + dx
        frames[link + 1, 1] = frames[row, 1] + dy
        frames[link + 1, 2] = frames[row, 2] + dz
        if motor[link] >= 0:
            half = 0.5 * joints[motor[link]]
            sine = math.sin(half)
            px, py, pz, pw = product(
                px, py, pz, pw, sine * axis[link, 0], sine * axis[link, 1], sine * axis[link, 2], math.cos(half)
            )
        frames[link + 1, 3] = px
        frames[link + 1, 4] = py
        frames[link + 1, 5] = pz
        frames[link + 1, 6] = pw


@compiled
def foot_positions(tree: KinematicTree, frames: FloatArray, feet: FloatArray) -> None:
    """Writes the centres of mass of the foot links, m, shape (8, 3), from link frames of shape (17, 7)."""
    inertial = tree.inertial
    for row in range(tree.feet.shape[0]):
        link = tree.feet[row]
        frame, centre = frames[link + 1], inertial[link]
        dx, dy, dz = rotate(frame[3], frame[4], frame[5], frame[6], centre[0], centre[1], centre[2])
        feet[row, 0] = frame[0] + dx
        feet[row, 1] = frame[1] + dy
        feet[row, 2] = frame[2] + dz
