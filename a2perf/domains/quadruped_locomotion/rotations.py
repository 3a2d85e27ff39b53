"""Quaternion arithmetic on scalars, ``[x, y, z, w]``, float64.

Functions take and return plain floats: they compile to straight-line code without allocations. Conventions:
``product(p, q)`` is the Hamilton product, a rotation by q followed by p; ``standard`` chooses the sign with w >= 0.
"""

from __future__ import annotations

import math

from a2perf.domains.compilation import compiled

Quaternion = tuple[float, float, float, float]

_SMALL_AXIS = 1e-8
# Bullet's own limit: another one would give other angles near the poles.
_GIMBAL_LOCK = 0.99999
# Rounding can push the dot product of close quaternions above 1, where acos is NaN.
_PARALLEL = 1.0 - 1e-15


@compiled
def product(
    ax: float, ay: float, az: float, aw: float, bx: float, by: float, bz: float, bw: float
) -> tuple[float, float, float, float]:
    """Hamilton product a*b."""
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    )


@compiled
def rotate(qx: float, qy: float, qz: float, qw: float, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Rotates the vector (x, y, z) by the unit quaternion q: v + 2 w (u x v) + 2 u x (u x v)."""
    tx = 2.0 * (qy * z - qz * y)
    ty = 2.0 * (qz * x - qx * z)
    tz = 2.0 * (qx * y - qy * x)
    return (
        x + qw * tx + (qy * tz - qz * ty),
        y + qw * ty + (qz * tx - qx * tz),
        z + qw * tz + (qx * ty - qy * tx),
    )


@compiled
def standard(x: float, y: float, z: float, w: float) -> tuple[float, float, float, float]:
    """The same rotation with w >= 0."""
    if w < 0.0:
        return (-x, -y, -z, -w)
    return (x, y, z, w)


@compiled
def heading(x: float, y: float, z: float, w: float) -> float:
    """Angle (rad) of the rotated x axis about +z."""
    dx, dy, _ = rotate(x, y, z, w, 1.0, 0.0, 0.0)
    return math.atan2(dy, dx)


@compiled
def axis_angle(x: float, y: float, z: float, w: float) -> tuple[float, float, float, float]:
    """Unit axis and angle (rad, 0..2 pi) of a unit quaternion; the axis is z where the rotation is nearly none."""
    # atan2 of the length stays accurate for small angles, where acos of w loses half of the digits.
    length = math.sqrt(x * x + y * y + z * z)
    angle = 2.0 * math.atan2(length, w)
    if length < _SMALL_AXIS:
        return (0.0, 0.0, 1.0, angle)
    return (x / length, y / length, z / length, angle)


@compiled
def rotation_angle(x: float, y: float, z: float, w: float) -> float:
    """Rotation angle (rad) of a unit quaternion, in [-pi, pi)."""
    angle = 2.0 * math.atan2(math.sqrt(x * x + y * y + z * z), w)
    if angle >= math.pi:
        angle -= 2.0 * math.pi
    return angle


@compiled
def slerp(
    ax: float, ay: float, az: float, aw: float, bx: float, by: float, bz: float, bw: float, blend: float
) -> tuple[float, float, float, float]:
    """Spherical interpolation from a (blend 0) to b (blend 1) along the shorter arc (Shoemake 1985)."""
    dot = ax * bx + ay * by + az * bz + aw * bw
    sign = 1.0
    if dot < 0.0:
        dot = -dot
        sign = -1.0
    if dot >= _PARALLEL:
        return (ax, ay, az, aw)
    angle = math.acos(dot)
    scale = 1.0 / math.sin(angle)
    wa = math.sin((1.0 - blend) * angle) * scale
    wb = math.sin(blend * angle) * scale * sign
    return (wa * ax + wb * bx, wa * ay + wb * by, wa * az + wb * bz, wa * aw + wb * bw)


@compiled
def euler(x: float, y: float, z: float, w: float) -> tuple[float, float, float]:
    """Roll, pitch, yaw (rad) as Bullet's ``getEulerFromQuaternion`` gives them, for any length of the quaternion."""
    sine = -2.0 * (x * z - w * y)
    if sine <= -_GIMBAL_LOCK:
        return (0.0, -0.5 * math.pi, 2.0 * math.atan2(x, -y))
    if sine >= _GIMBAL_LOCK:
        return (0.0, 0.5 * math.pi, 2.0 * math.atan2(-x, y))
    return (
        math.atan2(2.0 * (y * z + w * x), w * w - x * x - y * y + z * z),
        math.asin(sine),
        math.atan2(2.0 * (x * y + w * z), w * w + x * x - y * y - z * z),
    )
