"""Quaternion arithmetic on scalars, ``[x, y, z, w]``, float64.

Functions take and return plain floats: they compile to straight-line code without allocations. Conventions:
``product(p, q)`` is the Hamilton product, a rotation by q followed by p; ``standard`` chooses the sign with w >= 0.

The robot's orientation sensor goes through Bullet's transform functions (``multiplyTransforms``, ``invertTransform``),
which work in float32 even where the simulation is float64. The noise this makes in the sensor, about 1e-7, is part of
the published observations, so the functions in single precision do the same operations in the same order.
"""

from __future__ import annotations

import math

import numpy as np

from a2perf.domains.compilation import compiled

Quaternion = tuple[float, float, float, float]

_SMALL_AXIS = 1e-8
# Bullet's own limit: another one would give other angles near the poles.
_GIMBAL_LOCK = 0.99999
# Rounding can push the dot product of close quaternions above 1, where acos is NaN.
_PARALLEL = 1.0 - 1e-15

Single = np.float32
Number = float | np.float32
Matrix = tuple[Single, Single, Single, Single, Single, Single, Single, Single, Single]

# A literal 0.5 is float64 to Numba and would lift the results out of single precision.
_HALF = np.float32(0.5)
_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_ZERO = np.float32(0.0)


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


@compiled
def matrix_of(x: Number, y: Number, z: Number, w: Number) -> Matrix:
    """Rotation matrix, row by row, float32, of a quaternion of any length."""
    qx, qy, qz, qw = np.float32(x), np.float32(y), np.float32(z), np.float32(w)
    s = _TWO / (qx * qx + qy * qy + qz * qz + qw * qw)
    xs, ys, zs = qx * s, qy * s, qz * s
    wx, wy, wz = qw * xs, qw * ys, qw * zs
    xx, xy, xz = qx * xs, qx * ys, qx * zs
    yy, yz, zz = qy * ys, qy * zs, qz * zs
    return (
        _ONE - (yy + zz),
        xy - wz,
        xz + wy,
        xy + wz,
        _ONE - (xx + zz),
        yz - wx,
        xz - wy,
        yz + wx,
        _ONE - (xx + yy),
    )


@compiled
def quaternion_of(matrix: Matrix) -> tuple[Single, Single, Single, Single]:
    """Quaternion, float32, of a rotation matrix (Shepperd 1978)."""
    m00, m01, m02, m10, m11, m12, m20, m21, m22 = matrix
    trace = m00 + m11 + m22
    if trace > _ZERO:
        s = np.sqrt(trace + _ONE)
        w = s * _HALF
        s = _HALF / s
        return ((m21 - m12) * s, (m02 - m20) * s, (m10 - m01) * s, w)
    if m00 < m11:
        largest = 2 if m11 < m22 else 1
    else:
        largest = 2 if m00 < m22 else 0
    if largest == 0:
        s = np.sqrt(m00 - m11 - m22 + _ONE)
        x = s * _HALF
        s = _HALF / s
        return (x, (m10 + m01) * s, (m20 + m02) * s, (m21 - m12) * s)
    if largest == 1:
        s = np.sqrt(m11 - m22 - m00 + _ONE)
        y = s * _HALF
        s = _HALF / s
        return ((m01 + m10) * s, y, (m21 + m12) * s, (m02 - m20) * s)
    s = np.sqrt(m22 - m00 - m11 + _ONE)
    z = s * _HALF
    s = _HALF / s
    return ((m02 + m20) * s, (m12 + m21) * s, z, (m10 - m01) * s)


@compiled
def product_single(
    ax: Number, ay: Number, az: Number, aw: Number, bx: Number, by: Number, bz: Number, bw: Number
) -> tuple[Single, Single, Single, Single]:
    """Quaternion product a*b by way of matrices; the sign of the result is that of the matrix's conversion."""
    a00, a01, a02, a10, a11, a12, a20, a21, a22 = matrix_of(ax, ay, az, aw)
    b00, b01, b02, b10, b11, b12, b20, b21, b22 = matrix_of(bx, by, bz, bw)
    product = (
        b00 * a00 + b10 * a01 + b20 * a02,
        b01 * a00 + b11 * a01 + b21 * a02,
        b02 * a00 + b12 * a01 + b22 * a02,
        b00 * a10 + b10 * a11 + b20 * a12,
        b01 * a10 + b11 * a11 + b21 * a12,
        b02 * a10 + b12 * a11 + b22 * a12,
        b00 * a20 + b10 * a21 + b20 * a22,
        b01 * a20 + b11 * a21 + b21 * a22,
        b02 * a20 + b12 * a21 + b22 * a22,
    )
    return quaternion_of(product)


@compiled
def inverse_rotate_single(
    qx: Number, qy: Number, qz: Number, qw: Number, x: Number, y: Number, z: Number
) -> tuple[Single, Single, Single]:
    """Rotates a vector by the inverse of a quaternion, by way of the matrix of the inverse quaternion."""
    m00, m01, m02, m10, m11, m12, m20, m21, m22 = matrix_of(qx, qy, qz, qw)
    # Bullet hands out the inverse as a quaternion; the way through one and back rounds once more.
    ix, iy, iz, iw = quaternion_of((m00, m10, m20, m01, m11, m21, m02, m12, m22))
    m00, m01, m02, m10, m11, m12, m20, m21, m22 = matrix_of(ix, iy, iz, iw)
    vx, vy, vz = np.float32(x), np.float32(y), np.float32(z)
    # The zero is the translation that Bullet adds; it turns -0.0 into 0.0.
    return (
        m00 * vx + m01 * vy + m02 * vz + _ZERO,
        m10 * vx + m11 * vy + m12 * vz + _ZERO,
        m20 * vx + m21 * vy + m22 * vz + _ZERO,
    )
