"""The reward: five terms that compare the robot with the reference (Peng et al. 2020), and the termination limits.

The scales are those that trained the published policies; some documents print other scales.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from a2perf.domains.compilation import compiled
from a2perf.domains.quadruped_locomotion.motion.rotations import heading, product, rotate, rotation_angle
from a2perf.domains.quadruped_locomotion.physics.robot import DEFAULT_ORIENTATION, FloatArray

TERMS: Final = ("pose", "velocity", "end_effector", "root_pose", "root_velocity")
WEIGHTS: Final[FloatArray] = np.array([0.5, 0.05, 0.2, 0.15, 0.1])

POSE_SCALE = 5.0
VELOCITY_SCALE = 0.1
END_EFFECTOR_SCALE = 40.0
END_EFFECTOR_HEIGHT_WEIGHT = 3.0
ROOT_POSE_SCALE = 20.0
ROOT_ANGLE_WEIGHT = 0.5
ROOT_VELOCITY_SCALE = 2.0
ROOT_ANGULAR_VELOCITY_WEIGHT = 0.1

MAX_ROOT_DISTANCE_SQUARED = 1.0  # m^2
MAX_ROOT_ANGLE = 0.5 * math.pi  # rad

_DX, _DY, _DZ, _DW = (float(part) for part in DEFAULT_ORIENTATION)


@compiled
def relative_heading(x: float, y: float, z: float, w: float) -> float:
    """Heading (rad) of an orientation relative to the default one."""
    qx, qy, qz, qw = product(x, y, z, w, -_DX, -_DY, -_DZ, _DW)
    return heading(qx, qy, qz, qw)


@compiled
def imitation_terms(
    state: FloatArray,
    feet: FloatArray,
    pose: FloatArray,
    velocity: FloatArray,
    reference_feet: FloatArray,
    terms: FloatArray,
) -> tuple[float, float]:
    """Writes the five unweighted reward terms, each in (0, 1].

    Args:
        feet: centres of mass of its foot links as ``PhysicsBackend.read_feet`` gives them (one sub-step old), m, shape
            (8, 3).
        pose: reference pose, shape (19,).
        reference_feet: centres of mass of the reference's foot links, m, shape (8, 3).
        terms: written, shape (5,), in the order of ``TERMS``.

    Returns:
        Squared distance of the roots (m^2) and the absolute angle between them (rad).
    """
    pose_error = 0.0
    velocity_error = 0.0
    for joint in range(12):
        difference = pose[7 + joint] - state[13 + joint]
        pose_error += difference * difference
        difference = velocity[6 + joint] - state[25 + joint]
        velocity_error += difference * difference

    angle = -0.5 * relative_heading(pose[3], pose[4], pose[5], pose[6])
    reference_sine, reference_cosine = math.sin(angle), math.cos(angle)
    angle = -0.5 * relative_heading(state[3], state[4], state[5], state[6])
    sine, cosine = math.sin(angle), math.cos(angle)
    feet_error = 0.0
    for foot in range(feet.shape[0]):
        dx, dy = reference_feet[foot, 0] - pose[0], reference_feet[foot, 1] - pose[1]
        rx, ry, _ = rotate(0.0, 0.0, reference_sine, reference_cosine, dx, dy, 0.0)
        x, y, _ = rotate(0.0, 0.0, sine, cosine, feet[foot, 0] - state[0], feet[foot, 1] - state[1], 0.0)
        dz = reference_feet[foot, 2] - feet[foot, 2]
        feet_error += (rx - x) * (rx - x) + (ry - y) * (ry - y) + END_EFFECTOR_HEIGHT_WEIGHT * dz * dz

    distance = 0.0
    linear_error = 0.0
    angular_error = 0.0
    for axis in range(3):
        difference = pose[axis] - state[axis]
        distance += difference * difference
        difference = velocity[axis] - state[7 + axis]
        linear_error += difference * difference
        difference = velocity[3 + axis] - state[10 + axis]
        angular_error += difference * difference
    qx, qy, qz, qw = product(pose[3], pose[4], pose[5], pose[6], -state[3], -state[4], -state[5], state[6])
    root_angle = rotation_angle(qx, qy, qz, qw)

    terms[0] = math.exp(-POSE_SCALE * pose_error)
    terms[1] = math.exp(-VELOCITY_SCALE * velocity_error)
    terms[2] = math.exp(-END_EFFECTOR_SCALE * feet_error)
    terms[3] = math.exp(-ROOT_POSE_SCALE * (distance + ROOT_ANGLE_WEIGHT * root_angle * root_angle))
    terms[4] = math.exp(-ROOT_VELOCITY_SCALE * (linear_error + ROOT_ANGULAR_VELOCITY_WEIGHT * angular_error))
    return (distance, abs(root_angle))


def root_progress(state: FloatArray, velocity: FloatArray) -> float:
    """Returns the share of the reference's root motion that the robot makes at this moment, in [0, 1].

    The velocity of the robot's root is projected on that of the reference; angular velocities are weighted as in the
    root velocity term. A robot that stands still makes none, and a reference that stands still asks for none: both
    give 0.

    Args:
        state: of the robot, layout of ``robot``, shape (37,).
        velocity: reference velocity, shape (18,).
    """
    weights = (1.0, 1.0, 1.0, *[ROOT_ANGULAR_VELOCITY_WEIGHT] * 3)
    wanted, own = velocity[:6].tolist(), state[7:13].tolist()
    length = sum(weight * part * part for weight, part in zip(weights, wanted, strict=True))
    along = sum(weight * part * made for weight, part, made in zip(weights, wanted, own, strict=True))
    return min(max(along / length, 0.0), 1.0) if length > 0.0 else 0.0
