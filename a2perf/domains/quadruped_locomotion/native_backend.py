"""The robot in Bullet, driven through the C interface of the PyBullet wheel; implements ``PhysicsBackend``.

Each backend is a separate direct client. Calls made once per episode use ctypes, those of every step ``native_loop``.
"""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from a2perf.domains.quadruped_locomotion import c_api, native_loop, robot
from a2perf.domains.quadruped_locomotion.bullet_backend import FORGETTING_PLACE, BulletBackend
from a2perf.domains.quadruped_locomotion.physics_loop import Actuation, filter_action, new_actuation
from a2perf.domains.quadruped_locomotion.robot import (
    DEFAULT_JOINT_POSE,
    DEFAULT_MOTOR_POSE,
    DEFAULT_ORIENTATION,
    DEFAULT_POSITION,
    MOTOR_LINKS,
    FloatArray,
)
from a2perf.domains.quadruped_locomotion.sensors import DEFAULT_LATENCY, clear
from a2perf.domains.quadruped_locomotion.task import ImitationTask
from a2perf.errors import InfrastructureError

_FIRST_U = 6
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
        self.handles = native_loop.new_handles(self._client, self._robot, ground)

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
        native_loop.measure(self.handles, actuation)

    def place_robot(self, pose: FloatArray, velocity: FloatArray, actuation: Actuation) -> None:
        """See ``PhysicsBackend``."""
        self._set_base_pose(pose[:3], pose[3:7])
        self._set_base_velocity(velocity[:3], velocity[3:6])
        self._set_joints(pose[7:], velocity[6:])
        native_loop.measure(self.handles, actuation)

    def run(self, task: ImitationTask, latency: float, steps: int, warm_up: bool) -> None:
        """See ``PhysicsBackend``."""
        native_loop.run(self.handles, task, latency, steps, warm_up)

    def control_step(self, actuation: Actuation, latency: float) -> None:
        """Runs the 33 sub-steps towards ``actuation.commands``, adding a measurement after each."""
        native_loop.control_step(self.handles, actuation, latency)

    def read_state(self, state: FloatArray, feet: FloatArray) -> None:
        """See ``PhysicsBackend``."""
        native_loop.read_state(self.handles, state, feet)

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
