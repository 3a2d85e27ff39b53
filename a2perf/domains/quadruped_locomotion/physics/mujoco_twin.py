"""The same task in MuJoCo, under separate ids: another physics engine, never ranked with the PyBullet ids.

Masses, joints, gains, action path, observation, reward, clips and rules are shared with the PyBullet environment.
Differences: sub-steps of 3 ms, simple collision shapes, MuJoCo's contact model, and foot positions that are not
one sub-step old. A control step is one compiled call, with the GIL released; plain Python without Numba. The history of
measurements has one entry per sub-step, so latencies are given to the shared code in units of sub-steps
(``TwinPhysics.latency_scale``).
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, ClassVar, NamedTuple

import numpy as np

from a2perf.domains.arguments import completed_by_gin
from a2perf.domains.compilation import NUMBA_AVAILABLE, compiled
from a2perf.domains.quadruped_locomotion import MUJOCO_HINT
from a2perf.domains.quadruped_locomotion.environment import QuadrupedLocomotionEnv
from a2perf.domains.quadruped_locomotion.motion.reference import default_pose
from a2perf.domains.quadruped_locomotion.motion.rotations import rotate
from a2perf.domains.quadruped_locomotion.physics import mujoco_model
from a2perf.domains.quadruped_locomotion.physics.backends import PhysicsBackend
from a2perf.domains.quadruped_locomotion.physics.mujoco_model import (
    DEFAULT_PHYSICS,
    TOUCH_MARGIN,
    UNSTABLE_SPEED,
    TwinPhysics,
)
from a2perf.domains.quadruped_locomotion.physics.physics_loop import Actuation, pd_torques
from a2perf.domains.quadruped_locomotion.physics.robot import (
    KD,
    LINK_COUNT,
    MOTOR_LINKS,
    FloatArray,
    foot_positions,
    kinematic_tree,
    link_frames,
)
from a2perf.domains.quadruped_locomotion.sensors import clear, push_joints, write_base
from a2perf.domains.quadruped_locomotion.task import OUTCOME_TOUCH, ImitationTask, after_physics, before_physics
from a2perf.errors import MissingDependency

_FIRST_BODY = 2  # of link 0; the world is 0, the chassis 1


def import_mujoco() -> Any:
    """Returns the MuJoCo module.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        import mujoco
    except ImportError as error:
        raise MissingDependency(
            "the MuJoCo ids of quadruped locomotion need MuJoCo, which is not installed", hint=MUJOCO_HINT
        ) from error
    return mujoco


@functools.cache
def step_address() -> int:
    """Returns the address of ``mj_step`` in the library that the Python module is linked with.

    Raises:
        MissingDependency: that library is of another version than the module, which would end in a segmentation fault.
    """
    mujoco = import_mujoco()
    # Found through the extension module: the folder may hold the libraries of several versions.
    library = ctypes.CDLL(mujoco._functions.__file__)
    library.mj_versionString.restype = ctypes.c_char_p
    version = library.mj_versionString().decode()
    if version != mujoco.__version__:
        raise MissingDependency(
            f"the installed MuJoCo is a mix of versions: module {mujoco.__version__}, library {version}",
            hint="pip uninstall mujoco mujoco-core, then install it again",
        )
    address = ctypes.cast(library.mj_step, ctypes.c_void_p).value
    assert address is not None
    return address


class MuJoCoBackend:
    """One robot on a plane in MuJoCo; implements ``backends.PhysicsBackend``."""

    def __init__(self, physics_loop: str = "auto", physics: TwinPhysics = DEFAULT_PHYSICS) -> None:
        self._mujoco = mujoco = import_mujoco()
        self._physics = physics
        self.model = mujoco.MjModel.from_xml_string(mujoco_model.model_xml(physics))
        self.data = mujoco.MjData(self.model)
        self._compiled = NUMBA_AVAILABLE and physics_loop != "python"
        points, radii = mujoco_model.body_points()
        self._simulation = Simulation(
            step=step_address() if self._compiled else 0,
            model=self.model._address,
            data=self.data._address,
            qpos=self.data.qpos,
            qvel=self.data.qvel,
            ctrl=self.data.ctrl,
            body_points=points,
            body_radii=radii,
            substeps=physics.substeps,
            implicit_damping=physics.implicit_damping,
            start_scale=physics.start_scale,
        )
        self._tree = kinematic_tree()
        self._state = np.zeros(37)
        self._frames = np.zeros((LINK_COUNT + 1, 7))

    def reset_robot(self, actuation: Actuation) -> None:
        """See ``PhysicsBackend``."""
        self._mujoco.mj_resetData(self.model, self.data)
        self.model.dof_frictionloss[:] = 0.0
        clear(actuation.history)
        self.place_robot(default_pose(), np.zeros(18), actuation)

    def place_robot(self, pose: FloatArray, velocity: FloatArray, actuation: Actuation) -> None:
        """See ``PhysicsBackend``."""
        qpos, qvel = self.data.qpos, self.data.qvel
        x, y, z, w = (float(part) for part in pose[3:7])
        qpos[:3], qpos[3:7], qpos[7:] = pose[:3], (w, x, y, z), pose[7:]
        qvel[:3], qvel[6:] = velocity[:3], velocity[6:]
        qvel[3:6] = rotate(-x, -y, -z, w, float(velocity[3]), float(velocity[4]), float(velocity[5]))
        measure(self._simulation, actuation, self._state)

    def run(self, task: ImitationTask, latency: float, steps: int, warm_up: bool) -> None:
        """See ``PhysicsBackend``."""
        latency = latency / self._physics.latency_scale
        if self._compiled:
            run(self._simulation, task, latency, steps, warm_up)
        else:
            simulate = functools.partial(self._mujoco.mj_step, self.model, self.data)
            run_interpreted(simulate, self._simulation, task, latency, steps, warm_up)

    def read_state(self, state: FloatArray, feet: FloatArray) -> None:
        """See ``PhysicsBackend``; foot positions are current, not one sub-step old."""
        read_state(self._simulation, state)
        link_frames(self._tree, state, state[3:7], state[13:25], self._frames)
        foot_positions(self._tree, self._frames, feet)

    def set_dynamics(self, link: int, mass: float | None, inertia: FloatArray | None, friction: float | None) -> None:
        """See ``PhysicsBackend``; a mass alone scales the inertia, like an engine that derives it from the shape."""
        model, body = self.model, _FIRST_BODY + link
        if mass is not None:
            model.body_mass[body] = mass
            nominal = self._tree.mass[link + 1]
            model.body_inertia[body] = mujoco_model.link_inertia(link) * (mass / nominal)
        if inertia is not None:
            model.body_inertia[body] = inertia
        if friction is not None:
            first = model.body_geomadr[body]
            model.geom_friction[first, 0] = friction * self._physics.friction
        if mass is not None or inertia is not None:
            # MuJoCo derives constants from the masses only once; contacts would keep using the old ones.
            self._mujoco.mj_setConst(self.model, self.data)

    def get_dynamics(self, link: int) -> tuple[float, FloatArray, float]:
        """See ``PhysicsBackend``."""
        model, body = self.model, _FIRST_BODY + link
        friction = float(model.geom_friction[model.body_geomadr[body], 0]) / self._physics.friction
        return float(model.body_mass[body]), np.array(model.body_inertia[body]), friction

    def set_joint_friction(self, link: int, torque: float) -> None:
        """See ``PhysicsBackend``."""
        self.model.dof_frictionloss[6 + MOTOR_LINKS.index(link)] = torque

    def close(self) -> None:
        """See ``PhysicsBackend``."""


class MuJoCoQuadrupedEnv(QuadrupedLocomotionEnv):
    """``QuadrupedLocomotionEnv`` with MuJoCo physics; takes the same arguments."""

    physics: ClassVar[TwinPhysics] = DEFAULT_PHYSICS
    """Parameters of the model; a subclass may set others, for experiments that are not ranked."""

    def _make_physics(self, physics_loop: str) -> PhysicsBackend:
        return MuJoCoBackend(physics_loop, self.physics)


_with_gin_bindings = completed_by_gin("build_mujoco_env", module="a2perf.quadruped_locomotion", home=__name__)


def build_mujoco_env(**kwargs: Any) -> MuJoCoQuadrupedEnv:
    """Makes the environment; gin bindings of ``build_mujoco_env`` supply arguments that are not given."""
    return MuJoCoQuadrupedEnv(**_with_gin_bindings(**kwargs))


# --- A control step


class Simulation(NamedTuple):
    """What a control step needs of one MuJoCo simulation; the arrays lie in MuJoCo's memory.

    Attributes:
        step: address of ``mj_step``.
        qpos: position (3), quaternion wxyz (4), joint angles (12).
        qvel: velocity in world axes (3), angular velocity in body axes (3), joint velocities (12).
        ctrl: joint torques (12).
        body_points: see ``mujoco_model.body_points``.
        start_scale: factor on the latency with which the action filter reads its first angles.
    """

    step: int
    model: int
    data: int
    qpos: FloatArray
    qvel: FloatArray
    ctrl: FloatArray
    body_points: FloatArray
    body_radii: FloatArray
    substeps: int
    implicit_damping: bool
    start_scale: float


# Importing native_calls fails without Numba.
if NUMBA_AVAILABLE:
    from a2perf.domains.quadruped_locomotion.physics.native_calls import call_int

    @compiled
    def _simulate(simulation: Simulation) -> None:
        call_int(simulation.step, (simulation.model, simulation.data))


@compiled
def read_state(simulation: Simulation, state: FloatArray) -> None:
    """Writes the true state of the robot, layout of ``robot``, shape (37,)."""
    qpos, qvel = simulation.qpos, simulation.qvel
    for axis in range(3):
        state[axis] = qpos[axis]
        state[3 + axis] = qpos[4 + axis]
        state[7 + axis] = qvel[axis]
    state[6] = qpos[3]
    state[10], state[11], state[12] = rotate(qpos[4], qpos[5], qpos[6], qpos[3], qvel[3], qvel[4], qvel[5])
    for joint in range(12):
        state[13 + joint] = qpos[7 + joint]
        state[25 + joint] = qvel[6 + joint]


@compiled
def measure(simulation: Simulation, actuation: Actuation, state: FloatArray) -> None:
    """Reads the state and adds a measurement to the history."""
    read_state(simulation, state)
    for joint in range(12):
        actuation.joints[0, joint] = state[13 + joint]
        actuation.joints[1, joint] = state[25 + joint]
    push_joints(actuation.history, actuation.joints[0])
    write_base(actuation.history, state[3:7], state[10:13])


@compiled
def unstable(simulation: Simulation) -> bool:
    """Whether the integration has become unstable; the robot is then stopped, and the step counts as a fall."""
    qvel = simulation.qvel
    for index in range(6, 18):
        # Written with not: every comparison with NaN is false, and NaN must count as unstable.
        if not abs(qvel[index]) < UNSTABLE_SPEED:
            qvel[:] = 0.0
            return True
    return False


@compiled
def prepare_substep(simulation: Simulation, actuation: Actuation, latency: float, substep: int) -> None:
    """Writes the torques of a sub-step (from 0)."""
    pd_torques(actuation, latency, (substep + 1) / simulation.substeps)
    for joint in range(12):
        simulation.ctrl[joint] = actuation.torques[joint]
    if simulation.implicit_damping:
        for joint in range(12):
            # taken out here, because the integrator adds it at the end of the sub-step
            simulation.ctrl[joint] += actuation.strength[joint] * KD[joint] * actuation.joints[1, joint]


@compiled
def finish(
    simulation: Simulation, task: ImitationTask, latency: float, steps: int, warm_up: bool, failed: bool
) -> None:
    """Computes what follows the sub-steps: feet, task, and whether the body touches the ground (or failed)."""
    state = task.state
    link_frames(task.tree, state, state[3:7], state[13:25], task.frames)
    foot_positions(task.tree, task.frames, task.feet)
    # Judged before after_physics, which overwrites the frames with those of the reference.
    touch = 1.0 if failed else 0.0
    points, radii, frames = simulation.body_points, simulation.body_radii, task.frames
    for row in range(points.shape[0]):
        frame, point = frames[int(points[row, 0])], points[row]
        _, _, z = rotate(frame[3], frame[4], frame[5], frame[6], point[1], point[2], point[3])
        if frame[2] + z - radii[row] < TOUCH_MARGIN:
            touch = 1.0
    after_physics(task, latency, steps, warm_up)
    task.outcome[OUTCOME_TOUCH] = touch


if NUMBA_AVAILABLE:

    @compiled
    def run(simulation: Simulation, task: ImitationTask, latency: float, steps: int, warm_up: bool) -> None:
        """Runs a whole control step of the task; see ``backends.PhysicsBackend.run``."""
        before_physics(task, latency * simulation.start_scale, steps)
        failed = False
        for substep in range(simulation.substeps):
            prepare_substep(simulation, task.actuation, latency, substep)
            _simulate(simulation)
            failed = unstable(simulation)
            measure(simulation, task.actuation, task.state)
            if failed:
                break
        finish(simulation, task, latency, steps, warm_up, failed)


def run_interpreted(
    simulate: Any, simulation: Simulation, task: ImitationTask, latency: float, steps: int, warm_up: bool
) -> None:
    """The same as ``run`` through MuJoCo's Python interface; ``simulate()`` runs one sub-step."""
    before_physics(task, latency * simulation.start_scale, steps)
    failed = False
    for substep in range(simulation.substeps):
        prepare_substep(simulation, task.actuation, latency, substep)
        simulate()
        failed = unstable(simulation)
        measure(simulation, task.actuation, task.state)
        if failed:
            break
    finish(simulation, task, latency, steps, warm_up, failed)
