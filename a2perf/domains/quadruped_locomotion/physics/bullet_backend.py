"""The robot in PyBullet, driven through its Python interface (the plain loop)."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from a2perf.domains.quadruped_locomotion.physics import robot
from a2perf.domains.quadruped_locomotion.physics.physics_loop import Actuation, pd_torques, substeps_to_measure
from a2perf.domains.quadruped_locomotion.physics.robot import (
    DEFAULT_JOINT_POSE,
    DEFAULT_ORIENTATION,
    DEFAULT_POSITION,
    FOOT_LINKS,
    LINK_COUNT,
    MOTOR_LINKS,
    SUBSTEPS,
    FloatArray,
)
from a2perf.domains.quadruped_locomotion.sensors import clear, push_joints, write_base
from a2perf.domains.quadruped_locomotion.task import OUTCOME_TOUCH, ImitationTask, after_physics, before_physics

FORGETTING_PLACE = (0.0, 0.0, 100.0)  # m, out of reach of the ground


def import_pybullet() -> Any:
    """Returns the PyBullet module.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        with _native_stderr_silenced():
            import pybullet
    except ImportError as error:
        raise robot.missing_pybullet() from error
    return pybullet


@contextlib.contextmanager
def _native_stderr_silenced() -> Iterator[None]:
    """Silences standard error of native code: importing the module prints its build time."""
    # Text that is still in Python's buffer would otherwise end up in the null device.
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        # Native code writes to the descriptor itself; replacing sys.stderr would not reach it.
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class BulletBackend:
    """A separate client with the ground and one robot, without visual shapes; implements ``PhysicsBackend``."""

    def __init__(self) -> None:
        self._bullet = bullet = import_pybullet()
        self._client: int = bullet.connect(bullet.DIRECT)
        client = self._client
        bullet.setPhysicsEngineParameter(
            numSolverIterations=robot.SOLVER_ITERATIONS,
            fixedTimeStep=robot.TIME_STEP,
            enableConeFriction=0,
            physicsClientId=client,
        )
        bullet.setGravity(0.0, 0.0, robot.GRAVITY, physicsClientId=client)
        self._ground: int = bullet.loadURDF(
            str(robot.urdf_path(robot.GROUND_URDF)), flags=bullet.URDF_IGNORE_VISUAL_SHAPES, physicsClientId=client
        )
        self._robot: int = bullet.loadURDF(
            str(robot.urdf_path()),
            DEFAULT_POSITION.tolist(),
            DEFAULT_ORIENTATION.tolist(),
            flags=bullet.URDF_IGNORE_VISUAL_SHAPES,
            physicsClientId=client,
        )
        bullet.changeDynamics(self._robot, -1, linearDamping=0.0, angularDamping=0.0, physicsClientId=client)
        self._measure_latency = -1.0
        self._measure: tuple[bool, ...] = ()

    def reset_robot(self, actuation: Actuation) -> None:
        """See ``PhysicsBackend``."""
        bullet, body, client = self._bullet, self._robot, self._client
        # Bullet starts its solver from the impulses of old contacts. Lifting the robot off the ground discards them;
        # otherwise the first steps of an episode would depend on the previous episode.
        bullet.resetBasePositionAndOrientation(
            body, FORGETTING_PLACE, DEFAULT_ORIENTATION.tolist(), physicsClientId=client
        )
        bullet.performCollisionDetection(physicsClientId=client)
        bullet.resetBasePositionAndOrientation(
            body, DEFAULT_POSITION.tolist(), DEFAULT_ORIENTATION.tolist(), physicsClientId=client
        )
        bullet.resetBaseVelocity(body, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], physicsClientId=client)
        # PyBullet puts a velocity motor on every joint that it loads; its force would work against the torques.
        for link in range(LINK_COUNT):
            self.set_joint_friction(link, 0.0)
        for link, angle in zip(MOTOR_LINKS, DEFAULT_JOINT_POSE.tolist(), strict=True):
            bullet.resetJointState(body, link, angle, 0.0, physicsClientId=client)
        clear(actuation.history)
        self._measure_all(actuation)

    def place_robot(self, pose: FloatArray, velocity: FloatArray, actuation: Actuation) -> None:
        """See ``PhysicsBackend``."""
        bullet, body, client = self._bullet, self._robot, self._client
        place(bullet, body, client, pose)
        # Setting the pose resets the velocity, so the velocity is set afterwards.
        bullet.resetBaseVelocity(body, velocity[:3].tolist(), velocity[3:6].tolist(), physicsClientId=client)
        for number, link in enumerate(MOTOR_LINKS):
            bullet.resetJointState(
                body, link, float(pose[7 + number]), float(velocity[6 + number]), physicsClientId=client
            )
        self._measure_all(actuation)

    def run(self, task: ImitationTask, latency: float, steps: int, warm_up: bool) -> None:
        """See ``PhysicsBackend``."""
        before_physics(task, latency, steps)
        self.control_step(task.actuation, latency)
        self.read_state(task.state, task.feet)
        after_physics(task, latency, steps, warm_up)
        task.outcome[OUTCOME_TOUCH] = self.touches_ground()

    def control_step(self, actuation: Actuation, latency: float) -> None:
        """Runs the 33 sub-steps towards ``actuation.commands``, adding a measurement after each."""
        if latency != self._measure_latency:
            self._measure_latency, self._measure = latency, substeps_to_measure(latency)
        bullet, body, client = self._bullet, self._robot, self._client
        set_torques, mode, step = bullet.setJointMotorControlArray, bullet.TORQUE_CONTROL, bullet.stepSimulation
        torques = actuation.torques
        for substep, measure in enumerate(self._measure):
            pd_torques(actuation, latency, (substep + 1) / SUBSTEPS)
            set_torques(body, MOTOR_LINKS, mode, forces=torques.tolist(), physicsClientId=client)
            step(physicsClientId=client)
            self._read_joints(actuation)
            # The base takes two more calls through the Python interface, so entries that nobody reads go without it.
            if measure:
                self._measure_base(actuation)

    def _read_joints(self, actuation: Actuation) -> None:
        states = self._bullet.getJointStates(self._robot, MOTOR_LINKS, physicsClientId=self._client)
        actuation.joints[0] = [entry[0] for entry in states]
        actuation.joints[1] = [entry[1] for entry in states]
        push_joints(actuation.history, actuation.joints[0])

    def _measure_base(self, actuation: Actuation) -> None:
        _, orientation = self._bullet.getBasePositionAndOrientation(self._robot, physicsClientId=self._client)
        _, angular = self._bullet.getBaseVelocity(self._robot, physicsClientId=self._client)
        write_base(actuation.history, np.array(orientation), np.array(angular))

    def _measure_all(self, actuation: Actuation) -> None:
        self._read_joints(actuation)
        self._measure_base(actuation)

    def read_state(self, state: FloatArray, feet: FloatArray) -> None:
        """See ``PhysicsBackend``; Bullet refreshes link positions only at the start of a sub-step."""
        bullet, body, client = self._bullet, self._robot, self._client
        state[0:3], state[3:7] = bullet.getBasePositionAndOrientation(body, physicsClientId=client)
        state[7:10], state[10:13] = bullet.getBaseVelocity(body, physicsClientId=client)
        joints = bullet.getJointStates(body, MOTOR_LINKS, physicsClientId=client)
        state[13:25] = [entry[0] for entry in joints]
        state[25:37] = [entry[1] for entry in joints]
        feet[:] = [link[0] for link in bullet.getLinkStates(body, FOOT_LINKS, physicsClientId=client)]

    def touches_ground(self) -> bool:
        """Whether a link that is not a foot link is in Bullet's contact list (it has points at small distance too)."""
        contacts = self._bullet.getContactPoints(bodyA=self._robot, bodyB=self._ground, physicsClientId=self._client)
        body = self._robot
        return any((contact[3] if contact[1] == body else contact[4]) not in FOOT_LINKS for contact in contacts)

    def set_dynamics(self, link: int, mass: float | None, inertia: FloatArray | None, friction: float | None) -> None:
        """See ``PhysicsBackend``; setting a mass alone makes Bullet derive the inertia from the collision shape."""
        change = self._bullet.changeDynamics
        # The mass comes first: setting it makes Bullet overwrite the inertia.
        if mass is not None:
            change(self._robot, link, mass=mass, physicsClientId=self._client)
        if inertia is not None:
            change(self._robot, link, localInertiaDiagonal=inertia.tolist(), physicsClientId=self._client)
        if friction is not None:
            change(self._robot, link, lateralFriction=friction, physicsClientId=self._client)

    def get_dynamics(self, link: int) -> tuple[float, FloatArray, float]:
        """See ``PhysicsBackend``."""
        info = self._bullet.getDynamicsInfo(self._robot, link, physicsClientId=self._client)
        return float(info[0]), np.array(info[2]), float(info[1])

    def set_joint_friction(self, link: int, torque: float) -> None:
        """See ``PhysicsBackend``: a velocity motor with target 0 and this force."""
        self._bullet.setJointMotorControl2(
            self._robot,
            link,
            self._bullet.VELOCITY_CONTROL,
            targetVelocity=0.0,
            force=torque,
            physicsClientId=self._client,
        )

    def close(self) -> None:
        """See ``PhysicsBackend``."""
        if self._client >= 0:
            self._bullet.disconnect(physicsClientId=self._client)
            self._client = -1


def place(bullet: Any, body: int, client: int, pose: FloatArray) -> None:
    """Puts a robot of a client into a pose (shape (19,)) at rest, joints included."""
    bullet.resetBasePositionAndOrientation(body, pose[:3].tolist(), pose[3:7].tolist(), physicsClientId=client)
    for link, angle in zip(MOTOR_LINKS, pose[7:].tolist(), strict=True):
        bullet.resetJointState(body, link, angle, 0.0, physicsClientId=client)
