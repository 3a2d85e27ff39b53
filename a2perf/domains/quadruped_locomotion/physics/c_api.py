"""The C interface that the PyBullet wheel exports, as far as the native loop needs it.

The wheel's extension module exports Bullet's shared-memory client functions. They are undocumented, so they are used
only with the PyBullet version they were written for, all symbols are looked up before any is called, and
``native_backend`` compares a known step before it trusts them. Clients, commands and statuses are opaque addresses.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import struct
from ctypes import CDLL, POINTER, c_char_p, c_double, c_int, c_void_p

import numpy as np

from a2perf.domains.compilation import NUMBA_AVAILABLE
from a2perf.domains.quadruped_locomotion.physics.robot import IntArray
from a2perf.domains.registry import installed_engine

SUPPORTED = ("pybullet 3.2.7", "pybullet-arm64 3.2.8")  # of the same C++ sources

IGNORE_VISUAL_SHAPES = 1 << 20
VELOCITY_MODE = 0
TORQUE_MODE = 1
DYNAMICS_INFO_SIZE = 1024  # bytes; more than the structure needs

# Layout of one contact point: flags, body a, body b, link a, link b (int), padding, nineteen doubles.
CONTACT_SIZE = 176  # bytes
LINK_STATE_SIZE = 512  # bytes; more than the structure needs; the centre of mass comes first

_HANDLE = c_void_p
_DOUBLES = POINTER(c_double)
_SIGNATURES: dict[str, tuple[object, tuple[object, ...]]] = {
    "b3ConnectPhysicsDirect": (_HANDLE, ()),
    "b3DisconnectSharedMemory": (None, (_HANDLE,)),
    "b3SubmitClientCommandAndWaitStatus": (_HANDLE, (_HANDLE, _HANDLE)),
    "b3InitPhysicsParamCommand": (_HANDLE, (_HANDLE,)),
    "b3PhysicsParamSetTimeStep": (c_int, (_HANDLE, c_double)),
    "b3PhysicsParamSetNumSolverIterations": (c_int, (_HANDLE, c_int)),
    "b3PhysicsParamSetGravity": (c_int, (_HANDLE, c_double, c_double, c_double)),
    "b3PhysicsParamSetEnableConeFriction": (c_int, (_HANDLE, c_int)),
    "b3LoadUrdfCommandInit": (_HANDLE, (_HANDLE, c_char_p)),
    "b3LoadUrdfCommandSetStartPosition": (c_int, (_HANDLE, c_double, c_double, c_double)),
    "b3LoadUrdfCommandSetStartOrientation": (c_int, (_HANDLE, c_double, c_double, c_double, c_double)),
    "b3LoadUrdfCommandSetFlags": (c_int, (_HANDLE, c_int)),
    "b3GetStatusBodyIndex": (c_int, (_HANDLE,)),
    "b3JointControlCommandInit2": (_HANDLE, (_HANDLE, c_int, c_int)),
    "b3JointControlSetDesiredForceTorque": (c_int, (_HANDLE, c_int, c_double)),
    "b3JointControlSetDesiredVelocity": (c_int, (_HANDLE, c_int, c_double)),
    "b3JointControlSetMaximumForce": (c_int, (_HANDLE, c_int, c_double)),
    "b3JointControlSetKd": (c_int, (_HANDLE, c_int, c_double)),
    "b3InitStepSimulationCommand": (_HANDLE, (_HANDLE,)),
    "b3InitPerformCollisionDetectionCommand": (_HANDLE, (_HANDLE,)),
    "b3RequestActualStateCommandInit": (_HANDLE, (_HANDLE, c_int)),
    "b3GetStatusActualState": (c_int, (_HANDLE, *[POINTER(c_int)] * 3, *[POINTER(_DOUBLES)] * 4)),
    "b3GetLinkState": (c_int, (_HANDLE, _HANDLE, c_int, c_void_p)),
    "b3CreatePoseCommandInit": (_HANDLE, (_HANDLE, c_int)),
    "b3CreatePoseCommandSetBasePosition": (c_int, (_HANDLE, c_double, c_double, c_double)),
    "b3CreatePoseCommandSetBaseOrientation": (c_int, (_HANDLE, c_double, c_double, c_double, c_double)),
    "b3CreatePoseCommandSetBaseLinearVelocity": (c_int, (_HANDLE, _DOUBLES)),
    "b3CreatePoseCommandSetBaseAngularVelocity": (c_int, (_HANDLE, _DOUBLES)),
    "b3CreatePoseCommandSetJointPosition": (c_int, (_HANDLE, _HANDLE, c_int, c_double)),
    "b3CreatePoseCommandSetJointVelocity": (c_int, (_HANDLE, _HANDLE, c_int, c_double)),
    "b3InitChangeDynamicsInfo": (_HANDLE, (_HANDLE,)),
    "b3ChangeDynamicsInfoSetLinearDamping": (c_int, (_HANDLE, c_int, c_double)),
    "b3ChangeDynamicsInfoSetAngularDamping": (c_int, (_HANDLE, c_int, c_double)),
    "b3ChangeDynamicsInfoSetMass": (c_int, (_HANDLE, c_int, c_int, c_double)),
    "b3ChangeDynamicsInfoSetLocalInertiaDiagonal": (c_int, (_HANDLE, c_int, c_int, _DOUBLES)),
    "b3ChangeDynamicsInfoSetLateralFriction": (c_int, (_HANDLE, c_int, c_int, c_double)),
    "b3GetDynamicsInfoCommandInit": (_HANDLE, (_HANDLE, c_int, c_int)),
    "b3GetDynamicsInfo": (c_int, (_HANDLE, c_void_p)),
    "b3InitRequestContactPointInformation": (_HANDLE, (_HANDLE,)),
    "b3SetContactFilterBodyA": (None, (_HANDLE, c_int)),
    "b3SetContactFilterBodyB": (None, (_HANDLE, c_int)),
    "b3GetContactPointInformation": (None, (_HANDLE, c_void_p)),
}
# Functions that the compiled loop calls by address, in the order of its table.
COMPILED_CALLS = (
    "b3SubmitClientCommandAndWaitStatus",
    "b3JointControlCommandInit2",
    "b3JointControlSetDesiredForceTorque",
    "b3InitStepSimulationCommand",
    "b3RequestActualStateCommandInit",
    "b3GetStatusActualState",
    "b3GetLinkState",
    "b3InitRequestContactPointInformation",
    "b3SetContactFilterBodyA",
    "b3SetContactFilterBodyB",
    "b3GetContactPointInformation",
)


def unavailable_reason() -> str | None:
    """Returns why the C interface cannot be used on this machine, or None if it can."""
    if not NUMBA_AVAILABLE:
        return "Numba is not installed"
    if struct.calcsize("P") != 8:
        return "this is not a 64-bit Python"
    found = installed_engine("pybullet")
    if not found:
        return "PyBullet is not installed"
    if found not in SUPPORTED:
        return f"PyBullet is {found}, the native loop was checked with {' and '.join(SUPPORTED)}"
    try:
        library()
    except (OSError, AttributeError) as error:
        return f"the PyBullet module does not export its C interface ({error})"
    return None


@functools.cache
def library() -> CDLL:
    """Returns the wheel's extension module as a C library with all signatures declared.

    Raises:
        OSError: it cannot be loaded.
        AttributeError: a symbol is missing.
    """
    spec = importlib.util.find_spec("pybullet")
    if spec is None or spec.origin is None:
        raise OSError("no such module")
    # Opened by path: importing the module would print its build time.
    loaded = ctypes.CDLL(spec.origin)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        # Without a declared result ctypes takes an int and cuts addresses to 32 bits.
        function.restype, function.argtypes = result, arguments
    return loaded


def addresses() -> IntArray:
    """Returns the addresses of ``COMPILED_CALLS``, shape (11,)."""
    loaded = library()
    return np.array([ctypes.cast(getattr(loaded, name), c_void_p).value for name in COMPILED_CALLS], dtype=np.int64)
