"""A control step in MuJoCo in one compiled call, with the GIL released; plain Python without Numba.

The number of sub-steps differs from PyBullet's 33. The history of measurements has one entry per sub-step, so latencies
are given to the shared code in units of sub-steps (``TwinPhysics.latency_scale``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from a2perf.domains.compilation import NUMBA_AVAILABLE, compiled
from a2perf.domains.quadruped_locomotion.mujoco_model import TOUCH_MARGIN, UNSTABLE_SPEED
from a2perf.domains.quadruped_locomotion.physics_loop import Actuation, pd_torques
from a2perf.domains.quadruped_locomotion.robot import KD, FloatArray, foot_positions, link_frames
from a2perf.domains.quadruped_locomotion.rotations import rotate
from a2perf.domains.quadruped_locomotion.sensors import push_joints, write_base
from a2perf.domains.quadruped_locomotion.task import OUTCOME_TOUCH, ImitationTask, after_physics, before_physics


class Simulation(NamedTuple):
    """What a control step needs of one MuJoCo simulation; the arrays lie in MuJoCo's memory.

    Attributes:
        step: address of ``mj_step``.
        qpos: position (3), quaternion wxyz (4), joint angles (12).
        qvel: velocity in world axes (3), angular velocity in body axes (3), joint velocities (12).
        ctrl: joint torques (12).
        body_points: see ``mujoco_model.body_points``.
        body_radii: see ``mujoco_model.body_points``.
        implicit_damping: whether the model contains the derivative gain of the motors.
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
    from a2perf.domains.quadruped_locomotion.native_calls import call_int

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
        frame = int(points[row, 0])
        _, _, z = rotate(
            frames[frame, 3],
            frames[frame, 4],
            frames[frame, 5],
            frames[frame, 6],
            points[row, 1],
            points[row, 2],
            points[row, 3],
        )
        if frames[frame, 2] + z - radii[row] < TOUCH_MARGIN:
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
