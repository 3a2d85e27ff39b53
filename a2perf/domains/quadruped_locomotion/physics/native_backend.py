"""The robot in Bullet, driven through the C interface of the PyBullet wheel; implements ``PhysicsBackend``.

Each backend is a separate direct client. Calls made once per episode use ctypes. The 33 sub-steps of a control step are
one compiled call, with the GIL released: it calls Bullet's C functions by address (see ``c_api``) and shares its
arithmetic with the Python loop, so both agree bit for bit.
"""

from __future__ import annotations

import ctypes
import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.compilation import compiled
from a2perf.domains.quadruped_locomotion.physics import c_api, robot
from a2perf.domains.quadruped_locomotion.physics.bullet_backend import FORGETTING_PLACE, BulletBackend
from a2perf.domains.quadruped_locomotion.physics.c_api import CONTACT_SIZE, LINK_STATE_SIZE, TORQUE_MODE, addresses
from a2perf.domains.quadruped_locomotion.physics.native_calls import (
    call_int,
    call_pointer,
    load_double,
    load_int,
    load_pointer,
)
from a2perf.domains.quadruped_locomotion.physics.physics_loop import Actuation, filter_action, new_actuation, pd_torques
from a2perf.domains.quadruped_locomotion.physics.robot import (
    DEFAULT_JOINT_POSE,
    DEFAULT_MOTOR_POSE,
    DEFAULT_ORIENTATION,
    DEFAULT_POSITION,
    FOOT_LINKS,
    MOTOR_LINKS,
    SUBSTEPS,
    FloatArray,
    IntArray,
)
from a2perf.domains.quadruped_locomotion.sensors import DEFAULT_LATENCY, clear, push_joints, write_base
from a2perf.domains.quadruped_locomotion.task import OUTCOME_TOUCH, ImitationTask, after_physics, before_physics
from a2perf.errors import InfrastructureError

# Positions in the table of addresses, as ``c_api.COMPILED_CALLS`` orders them.
_SUBMIT, _CONTROL, _TORQUE, _STEP, _REQUEST, _STATE, _LINK, _CONTACTS, _BODY_A, _BODY_B, _GET_CONTACTS = range(11)
_FIRST_Q = 7  # seven numbers of the base come before the joints
_FIRST_U = 6  # six velocities of the base; Bullet indexes torques in the same way
# PyBullet's default for velocityGain, which the Python backend leaves unset.
_VELOCITY_GAIN = 1.0
_MOTOR_OF_LINK = {link: number for number, link in enumerate(MOTOR_LINKS)}

# Base position (m) and knee angles (rad) after one control step from the default pose with all targets 0.1 rad up,
# recorded with PyBullet 3.2.7's Python interface.
KNOWN_STEP = (
    0.00048140231708286135,
    -0.0002729456698700072,
    0.47944105864642306,
    -0.610904874424633,
    -0.6219404078408386,
    -0.607490972477876,
    -0.6178116858268293,
)
KNOWN_STEP_TOLERANCE = 1e-9


class NativeBackend:
    """A direct client with the ground and one robot, without visual shapes; implements ``PhysicsBackend``."""

    def __init__(self) -> None:
        self._api = api = c_api.library()
        self._client: int | None = api.b3ConnectPhysicsDirect()
        command = api.b3InitPhysicsParamCommand(self._client)
        api.b3PhysicsParamSetNumSolverIterations(command, robot.SOLVER_ITERATIONS)
        api.b3PhysicsParamSetTimeStep(command, robot.TIME_STEP)
        api.b3PhysicsParamSetEnableConeFriction(command, 0)
        api.b3PhysicsParamSetGravity(command, 0.0, 0.0, robot.GRAVITY)
        self._submit(command)
        ground = self._load(robot.GROUND_URDF, np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0]))
        self._robot = self._load(robot.URDF, DEFAULT_POSITION, DEFAULT_ORIENTATION)
        command = api.b3InitChangeDynamicsInfo(self._client)
        api.b3ChangeDynamicsInfoSetLinearDamping(command, self._robot, 0.0)
        api.b3ChangeDynamicsInfoSetAngularDamping(command, self._robot, 0.0)
        self._submit(command)
        assert self._client is not None
        self.handles = new_handles(self._client, self._robot, ground)

    def _submit(self, command: int) -> int:
        status: int = self._api.b3SubmitClientCommandAndWaitStatus(self._client, command)
        return status

    def _load(self, name: str, position: FloatArray, orientation: FloatArray) -> int:
        path = robot.urdf_path(name)
        command = self._api.b3LoadUrdfCommandInit(self._client, str(path).encode())
        self._api.b3LoadUrdfCommandSetStartPosition(command, *position)
        self._api.b3LoadUrdfCommandSetStartOrientation(command, *orientation)
        self._api.b3LoadUrdfCommandSetFlags(command, c_api.IGNORE_VISUAL_SHAPES)
        body: int = self._api.b3GetStatusBodyIndex(self._submit(command))
        if body < 0:
            raise InfrastructureError(f"the physics engine could not load {path}")
        return body

    def _set_base_pose(self, position: FloatArray, orientation: FloatArray) -> None:
        command = self._api.b3CreatePoseCommandInit(self._client, self._robot)
        self._api.b3CreatePoseCommandSetBasePosition(command, *position)
        self._api.b3CreatePoseCommandSetBaseOrientation(command, *orientation)
        self._submit(command)

    def _set_base_velocity(self, linear: FloatArray, angular: FloatArray) -> None:
        command = self._api.b3CreatePoseCommandInit(self._client, self._robot)
        vector = ctypes.c_double * 3
        self._api.b3CreatePoseCommandSetBaseLinearVelocity(command, vector(*linear))
        self._api.b3CreatePoseCommandSetBaseAngularVelocity(command, vector(*angular))
        self._submit(command)

    def _set_joints(self, angles: FloatArray, velocities: FloatArray) -> None:
        for link, angle, velocity in zip(MOTOR_LINKS, angles, velocities, strict=True):
            command = self._api.b3CreatePoseCommandInit(self._client, self._robot)
            self._api.b3CreatePoseCommandSetJointPosition(self._client, command, link, angle)
            self._api.b3CreatePoseCommandSetJointVelocity(self._client, command, link, velocity)
            self._submit(command)

    def reset_robot(self, actuation: Actuation) -> None:
        """See ``PhysicsBackend``."""
        # Off the ground first: Bullet would otherwise carry contact impulses over from the episode before.
        self._set_base_pose(np.array(FORGETTING_PLACE), DEFAULT_ORIENTATION)
        self._submit(self._api.b3InitPerformCollisionDetectionCommand(self._client))
        self._set_base_pose(DEFAULT_POSITION, DEFAULT_ORIENTATION)
        self._set_base_velocity(np.zeros(3), np.zeros(3))
        for link in MOTOR_LINKS:
            self.set_joint_friction(link, 0.0)
        self._set_joints(DEFAULT_JOINT_POSE, np.zeros(12))
        clear(actuation.history)
        measure(self.handles, actuation)

    def place_robot(self, pose: FloatArray, velocity: FloatArray, actuation: Actuation) -> None:
        """See ``PhysicsBackend``."""
        self._set_base_pose(pose[:3], pose[3:7])
        self._set_base_velocity(velocity[:3], velocity[3:6])
        self._set_joints(pose[7:], velocity[6:])
        measure(self.handles, actuation)

    def run(self, task: ImitationTask, latency: float, steps: int, warm_up: bool) -> None:
        """See ``PhysicsBackend``."""
        run(self.handles, task, latency, steps, warm_up)

    def control_step(self, actuation: Actuation, latency: float) -> None:
        """Runs the 33 sub-steps towards ``actuation.commands``, adding a measurement after each."""
        control_step(self.handles, actuation, latency)

    def read_state(self, state: FloatArray, feet: FloatArray) -> None:
        """See ``PhysicsBackend``."""
        read_state(self.handles, state, feet)

    def set_dynamics(self, link: int, mass: float | None, inertia: FloatArray | None, friction: float | None) -> None:
        """See ``PhysicsBackend``; one command each, as the Python interface sends them."""
        api, body = self._api, self._robot
        if mass is not None:
            command = api.b3InitChangeDynamicsInfo(self._client)
            api.b3ChangeDynamicsInfoSetMass(command, body, link, mass)
            self._submit(command)
        if inertia is not None:
            command = api.b3InitChangeDynamicsInfo(self._client)
            api.b3ChangeDynamicsInfoSetLocalInertiaDiagonal(command, body, link, (ctypes.c_double * 3)(*inertia))
            self._submit(command)
        if friction is not None:
            command = api.b3InitChangeDynamicsInfo(self._client)
            api.b3ChangeDynamicsInfoSetLateralFriction(command, body, link, friction)
            self._submit(command)

    def get_dynamics(self, link: int) -> tuple[float, FloatArray, float]:
        """See ``PhysicsBackend``."""
        status = self._submit(self._api.b3GetDynamicsInfoCommandInit(self._client, self._robot, link))
        memory = (ctypes.c_double * (c_api.DYNAMICS_INFO_SIZE // 8))()
        self._api.b3GetDynamicsInfo(status, memory)
        # mass, principal inertia (3), inertial frame (7), lateral friction
        return float(memory[0]), np.array(memory[1:4]), float(memory[11])

    def set_joint_friction(self, link: int, torque: float) -> None:
        """See ``PhysicsBackend``."""
        index = _FIRST_U + _MOTOR_OF_LINK[link]
        command = self._api.b3JointControlCommandInit2(self._client, self._robot, c_api.VELOCITY_MODE)
        self._api.b3JointControlSetDesiredVelocity(command, index, 0.0)
        self._api.b3JointControlSetKd(command, index, _VELOCITY_GAIN)
        self._api.b3JointControlSetMaximumForce(command, index, torque)
        self._submit(command)

    def close(self) -> None:
        """See ``PhysicsBackend``."""
        if self._client is not None:
            self._api.b3DisconnectSharedMemory(self._client)
            self._client = None


@functools.cache
def native_loop_problem() -> str | None:
    """Checks the native loop once per process: symbols, then a known step; returns what is wrong or None."""
    reason = c_api.unavailable_reason()
    if reason is not None:
        return reason
    physics = NativeBackend()
    try:
        difference = np.abs(np.array(known_step(physics)) - KNOWN_STEP).max()
    finally:
        physics.close()
    if not difference < KNOWN_STEP_TOLERANCE:
        return f"a known step came out {difference:.3g} off"
    return None


def known_step(physics: NativeBackend | BulletBackend) -> tuple[float, ...]:
    """Runs the step of ``KNOWN_STEP`` and returns base position and knee angles."""
    actuation, state, feet = new_actuation(), np.zeros(robot.STATE_SIZE), np.zeros((8, 3))
    physics.reset_robot(actuation)
    filter_action(actuation, DEFAULT_MOTOR_POSE + 0.1, DEFAULT_LATENCY, True)
    physics.control_step(actuation, DEFAULT_LATENCY)
    physics.read_state(state, feet)
    return (*state[:3].tolist(), *state[15:25:3].tolist())


# --- Compiled


class Handles(NamedTuple):
    """What the compiled code needs of one native physics client.

    Attributes:
        calls: addresses of the C functions, shape (11,).
        counts: memory for three C ints, shape (4,).
        pointers: memory for four C pointers, shape (4,).
        contact_info: memory for a count and a pointer, shape (2,).
        orientation: of the base, overwritten, shape (4,).
        angular: velocity of the base, overwritten, shape (3,).
        feet: links counted as feet, shape (8,).
    """

    calls: IntArray
    client: int
    robot: int
    ground: int
    counts: NDArray[np.int32]
    pointers: IntArray
    link_state: FloatArray
    contact_info: IntArray
    orientation: FloatArray
    angular: FloatArray
    feet: IntArray


def new_handles(client: int, robot: int, ground: int) -> Handles:
    """Returns the handles of a physics client; its bodies must be loaded."""
    return Handles(
        calls=addresses(),
        client=client,
        robot=robot,
        ground=ground,
        counts=np.zeros(4, dtype=np.int32),
        pointers=np.zeros(4, dtype=np.int64),
        link_state=np.zeros(LINK_STATE_SIZE // 8),
        contact_info=np.zeros(2, dtype=np.int64),
        orientation=np.zeros(4),
        angular=np.zeros(3),
        feet=np.array(FOOT_LINKS, dtype=np.int64),
    )


@compiled
def _submit(handles: Handles, command: int) -> int:
    status: int = call_pointer(handles.calls[_SUBMIT], (handles.client, command))
    return status


@compiled
def _request_state(handles: Handles) -> int:
    """Requests the robot's state; the addresses of q and u are in ``handles.pointers[1:3]`` afterwards.

    They point into memory of the client and are valid until its next command only.
    """
    command = call_pointer(handles.calls[_REQUEST], (handles.client, np.int32(handles.robot)))
    status = _submit(handles, command)
    counts, pointers = handles.counts.ctypes.data, handles.pointers.ctypes.data
    # Numba types array addresses as unsigned, for which native_calls has no C type.
    call_int(
        handles.calls[_STATE],
        (
            status,
            np.int64(counts),
            np.int64(counts + 4),
            np.int64(counts + 8),
            np.int64(pointers),
            np.int64(pointers + 8),
            np.int64(pointers + 16),
            np.int64(pointers + 24),
        ),
    )
    return status


@compiled
def measure(handles: Handles, actuation: Actuation) -> None:
    """Reads joints and base and adds a measurement to the history."""
    _request_state(handles)
    q, u = handles.pointers[1], handles.pointers[2]
    for motor in range(12):
        actuation.joints[0, motor] = load_double(q, _FIRST_Q + motor)
        actuation.joints[1, motor] = load_double(u, _FIRST_U + motor)
    for axis in range(4):
        handles.orientation[axis] = load_double(q, 3 + axis)
    for axis in range(3):
        handles.angular[axis] = load_double(u, 3 + axis)
    # push_joints opens the entry that write_base completes; the other order would overwrite the entry before.
    push_joints(actuation.history, actuation.joints[0])
    write_base(actuation.history, handles.orientation, handles.angular)


@compiled
def control_step(handles: Handles, actuation: Actuation, latency: float) -> None:
    """Runs the 33 sub-steps towards ``actuation.commands``, adding a measurement after each."""
    for substep in range(SUBSTEPS):
        pd_torques(actuation, latency, (substep + 1) / SUBSTEPS)
        command = call_pointer(
            handles.calls[_CONTROL], (handles.client, np.int32(handles.robot), np.int32(TORQUE_MODE))
        )
        for motor in range(12):
            call_int(handles.calls[_TORQUE], (command, np.int32(_FIRST_U + motor), actuation.torques[motor]))
        _submit(handles, command)
        _submit(handles, call_pointer(handles.calls[_STEP], (handles.client,)))
        # Every sub-step measures the base too: the request that reads the joints brings it at no further cost.
        measure(handles, actuation)


@compiled
def read_state(handles: Handles, state: FloatArray, feet: FloatArray) -> None:
    """Writes the robot's state (37) and the centres of mass of its foot links (8, 3) as Bullet has them cached."""
    status = _request_state(handles)
    q, u = handles.pointers[1], handles.pointers[2]
    for number in range(7):
        state[number] = load_double(q, number)
    for number in range(6):
        state[7 + number] = load_double(u, number)
    for motor in range(12):
        state[13 + motor] = load_double(q, _FIRST_Q + motor)
        state[25 + motor] = load_double(u, _FIRST_U + motor)
    # status is valid until the next command only, so nothing is submitted between here and the last link.
    memory = np.int64(handles.link_state.ctypes.data)
    for row in range(handles.feet.shape[0]):
        call_int(handles.calls[_LINK], (handles.client, status, np.int32(handles.feet[row]), memory))
        for axis in range(3):
            feet[row, axis] = handles.link_state[axis]


@compiled
def touches_ground(handles: Handles) -> bool:
    """Whether a link that is not a foot link is in Bullet's list of contacts with the ground."""
    command = call_pointer(handles.calls[_CONTACTS], (handles.client,))
    call_int(handles.calls[_BODY_A], (command, np.int32(handles.robot)))
    call_int(handles.calls[_BODY_B], (command, np.int32(handles.ground)))
    _submit(handles, command)
    memory = np.int64(handles.contact_info.ctypes.data)
    call_int(handles.calls[_GET_CONTACTS], (handles.client, memory))
    count = load_int(memory, 0)
    points = load_pointer(memory + 8)
    for number in range(count):
        point = points + number * CONTACT_SIZE
        link = load_int(point, 3) if load_int(point, 1) == handles.robot else load_int(point, 4)
        foot = False
        for row in range(handles.feet.shape[0]):
            if link == handles.feet[row]:
                foot = True
        if not foot:
            return True
    return False


@compiled
def run(handles: Handles, task: ImitationTask, latency: float, steps: int, warm_up: bool) -> None:
    """Runs a whole control step of the task; see ``backends.PhysicsBackend.run``."""
    before_physics(task, latency, steps)
    control_step(handles, task.actuation, latency)
    read_state(handles, task.state, task.feet)
    after_physics(task, latency, steps, warm_up)
    task.outcome[OUTCOME_TOUCH] = 1.0 if touches_ground(handles) else 0.0
