"""A control step of many robots in one compiled call: actions, MuJoCo, task, ends of episodes, and next episodes.

Every array has one row per robot. A thread owns one ``MjData`` and moves each robot's position, velocity and the
solver's starting point through it; MuJoCo derives everything else from these. The functions of the single environment
run on slices of the arrays, so both give the same numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.compilation import compiled_part, compiled_without_allocation
from a2perf.domains.quadruped_locomotion.motion.imitation import (
    MAX_ROOT_ANGLE,
    MAX_ROOT_DISTANCE_SQUARED,
    relative_heading,
)
from a2perf.domains.quadruped_locomotion.motion.reference import (
    CLOCK_PHASE,
    CLOCK_TIME,
    REFERENCE_STATE_PROBABILITY,
    TARGET_COUNT,
    TARGET_STEPS,
    WARM_UP_TIME,
    ClipPlacement,
    begin_reference,
)
from a2perf.domains.quadruped_locomotion.motion.rotations import heading, rotate
from a2perf.domains.quadruped_locomotion.physics.mujoco_twin import Simulation, measure, run
from a2perf.domains.quadruped_locomotion.physics.physics_loop import Actuation
from a2perf.domains.quadruped_locomotion.physics.robot import (
    DEFAULT_JOINT_POSE,
    DEFAULT_MOTOR_POSE,
    DEFAULT_ORIENTATION,
    DEFAULT_POSITION,
    MOTOR_DIRECTION,
    MOTOR_OFFSET,
    FloatArray,
    foot_positions,
    link_frames,
)
from a2perf.domains.quadruped_locomotion.sensors import (
    DEFAULT_LATENCY,
    HISTORY_LENGTH,
    OBSERVATION_SIZE,
    TARGETS,
    History,
    fill_sensors,
)
from a2perf.domains.quadruped_locomotion.task import (
    OUTCOME_ANGLE,
    OUTCOME_DISTANCE,
    OUTCOME_REWARD,
    OUTCOME_TOUCH,
    ImitationTask,
    write_targets,
)
from a2perf_baselines.quadruped_locomotion.mujoco_batch_arrays import Robots, SimulationThread, StepArrays, World

MAX_LATENCY = 0.04  # s
STRENGTH_RANGE = 0.2  # of the motors' torque, to either side
_ACTION_LIMIT = 6.28  # rad, as in ``residual_control``
_FACING = float(heading(*DEFAULT_ORIENTATION))
_TARGET = TARGETS.start
_FRAME = 19  # numbers per target frame
_ROOT = 7  # of them in front of the joint angles
_FIRST, _SECOND = TARGET_STEPS[:2]


@compiled_part
def uniform(random: NDArray[np.uint64], row: int) -> float:
    """Draws a number in [0, 1) from the generator of a robot (splitmix64, Steele et al. 2014)."""
    state = random[row] + np.uint64(0x9E3779B97F4A7C15)
    random[row] = state
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    state = state ^ (state >> np.uint64(31))
    return float(state >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled_part
def _copy(source: Any, target: Any) -> None:
    # element by element: assigning a slice would allocate, in case the two overlap
    for index in range(source.shape[0]):
        target[index] = source[index]


@compiled_part
def robot_task(robots: Robots, world: World, row: int) -> ImitationTask:
    """Returns the task of one robot; its arrays are parts of ``robots``."""
    history = History(robots.history_angles[row], robots.history_base[row], robots.history_cursor[row])
    actuation = Actuation(
        robots.filter[row],
        robots.commands[row],
        robots.strength[row],
        history,
        robots.delayed[row],
        robots.torques[row],
        robots.joints[row],
    )
    return ImitationTask(
        world.clip,
        ClipPlacement(robots.rotation[row], robots.position[row], robots.standing[row]),
        robots.clock[row],
        actuation,
        world.tree,
        robots.action[row],
        robots.state[row],
        robots.feet[row],
        robots.pose[row],
        robots.velocity[row],
        robots.reference_feet[row],
        robots.frames[row],
        robots.terms[row],
        robots.outcome[row],
        world.target_times,
        robots.scratch[row],
        robots.observation[row],
    )


@compiled_part
def _simulation(
    world: World, model: int, data: int, qpos: FloatArray, qvel: FloatArray, ctrl: FloatArray
) -> Simulation:
    return Simulation(
        world.step,
        model,
        data,
        qpos,
        qvel,
        ctrl,
        world.body_points,
        world.body_radii,
        world.substeps,
        world.implicit_damping,
        world.start_scale,
    )


@compiled_part
def _begin(robots: Robots, world: World, worker: SimulationThread, shown: StepArrays, row: int, phase: float) -> None:
    """Begins an episode as ``QuadrupedLocomotionEnv.reset`` does; a negative phase stands for a random state."""
    task = robot_task(robots, world, row)
    qpos, qvel = robots.qpos[row], robots.qvel[row]
    simulation = _simulation(world, 0, 0, qpos, qvel, worker.ctrl)
    history = task.actuation.history
    history.cursor[0], history.cursor[1] = HISTORY_LENGTH - 1, 0
    robots.steps[row], robots.total[row], robots.limit[row] = 0, 0.0, world.longest
    task.action[:] = 0.0
    qvel[:] = 0.0
    robots.warm_start[row, :] = 0.0
    for axis in range(3):
        qpos[axis] = DEFAULT_POSITION[axis]
        qpos[4 + axis] = DEFAULT_ORIENTATION[axis]
    qpos[3] = DEFAULT_ORIENTATION[3]
    for joint in range(12):
        qpos[7 + joint] = DEFAULT_JOINT_POSE[joint]
    measure(simulation, task.actuation, task.state)
    fill_sensors(history, DEFAULT_LATENCY, task.action, task.scratch, task.observation)

    warm_up = not uniform(robots.random, row) < REFERENCE_STATE_PROBABILITY
    offset = uniform(robots.random, row) * (WARM_UP_TIME if warm_up else world.clip.duration)
    if phase >= 0.0:
        warm_up, offset = False, phase * world.clip.duration
    robots.warm_up[row] = warm_up
    pose, velocity = task.pose, task.velocity
    begin_reference(world.clip, task.placement, offset, warm_up, DEFAULT_POSITION, _FACING, task.clock, pose, velocity)
    for axis in range(3):
        qpos[axis] = pose[axis]
        qpos[4 + axis] = pose[3 + axis]
        qvel[axis] = velocity[axis]
    qpos[3] = pose[6]
    qvel[3], qvel[4], qvel[5] = rotate(-pose[3], -pose[4], -pose[5], pose[6], velocity[3], velocity[4], velocity[5])
    for joint in range(12):
        qpos[7 + joint] = pose[7 + joint]
        qvel[6 + joint] = velocity[6 + joint]
        if world.start_noise > 0.0:
            qpos[7 + joint] += world.start_noise * (2.0 * uniform(robots.random, row) - 1.0)
    measure(simulation, task.actuation, task.state)
    write_targets(task, DEFAULT_LATENCY, warm_up)

    latency = DEFAULT_LATENCY
    strength = task.actuation.strength
    strength[:] = 1.0
    robots.model[row] = 0
    if world.randomize:
        latency = MAX_LATENCY * uniform(robots.random, row)
        robots.model[row] = int(uniform(robots.random, row) * world.models.shape[0])
        for motor in range(12):
            strength[motor] += STRENGTH_RANGE * (2.0 * uniform(robots.random, row) - 1.0)
    robots.latency[row] = latency
    link_frames(task.tree, task.state, task.state[3:7], task.state[13:25], task.frames)
    foot_positions(task.tree, task.frames, task.feet)
    _show(robots, world, shown.policy, shown.privileged, row)


@compiled_part
def _show(robots: Robots, world: World, policy: NDArray[np.float32], privileged: NDArray[np.float32], row: int) -> None:
    """Writes what policy and value see, and the action that plays the reference (see ``ResidualControl``)."""
    seen, out = robots.observation[row], policy[row]
    share, ahead, _ = world.control
    blend = (ahead - _FIRST) / (_SECOND - _FIRST)
    first, second = _TARGET + _ROOT, _TARGET + _FRAME + _ROOT
    for motor in range(12):
        # the single environment's observations are float32, from which the wrapper computes in float64
        near = np.float64(np.float32(seen[first + motor]))
        joint = near + blend * (np.float64(np.float32(seen[second + motor])) - near)
        angle = (joint - MOTOR_OFFSET[motor]) * MOTOR_DIRECTION[motor]
        robots.played[row, motor] = share * (angle - DEFAULT_MOTOR_POSE[motor])
    if world.differences:
        _differences(seen, out)
    else:
        for column in range(OBSERVATION_SIZE):
            out[column] = seen[column]
    _privileged(robots, row, privileged[row])


@compiled_part
def _differences(seen: FloatArray, out: NDArray[np.float32]) -> None:
    """``ResidualControl.observe``."""
    at = 0
    # blocks of the observation: IMU 0, last actions 12, motor angles 48; each holds three steps, the newest first
    for start, width in ((0, 4), (48, 12)):
        for stack in range(3):
            for column in range(width):
                place = start + stack * width + column
                value = np.float64(np.float32(seen[place]))
                if stack > 0:
                    value = np.float64(np.float32(seen[place - width])) - value
                out[at] = value
                at += 1
    for motor in range(12):
        out[at] = np.float64(np.float32(seen[12 + motor])) - np.float64(np.float32(seen[48 + motor]))
        out[at + 12] = np.float64(np.float32(seen[12 + motor])) - np.float64(np.float32(seen[24 + motor]))
        at += 1
    at += 12
    for frame in range(TARGET_COUNT):
        start = _TARGET + frame * _FRAME + _ROOT
        for motor in range(12):
            angle = (np.float64(np.float32(seen[start + motor])) - MOTOR_OFFSET[motor]) * MOTOR_DIRECTION[motor]
            out[at] = angle - np.float64(np.float32(seen[48 + motor]))
            at += 1
    for frame in range(TARGET_COUNT):
        for column in range(_ROOT):
            out[at] = seen[_TARGET + frame * _FRAME + column]
            at += 1


@compiled_part
def _privileged(robots: Robots, row: int, out: NDArray[np.float32]) -> None:
    """Position and velocity relative to the reference in the robot's heading, height, reward terms, phase, dynamics."""
    state, pose, velocity = robots.state[row], robots.pose[row], robots.velocity[row]
    angle = -0.5 * relative_heading(state[3], state[4], state[5], state[6])
    sine, cosine = math.sin(angle), math.cos(angle)
    out[0], out[1], out[2] = rotate(0.0, 0.0, sine, cosine, pose[0] - state[0], pose[1] - state[1], pose[2] - state[2])
    out[3], out[4], out[5] = rotate(0.0, 0.0, sine, cosine, state[7], state[8], state[9])
    out[6], out[7], out[8] = rotate(
        0.0, 0.0, sine, cosine, velocity[0] - state[7], velocity[1] - state[8], velocity[2] - state[9]
    )
    out[9] = state[2]
    for term in range(5):
        out[10 + term] = robots.terms[row, term]
    phase = 2.0 * math.pi * robots.clock[row, CLOCK_PHASE]
    out[15] = math.sin(phase)
    out[16] = math.cos(phase)
    out[17] = robots.latency[row] / MAX_LATENCY
    out[18] = robots.strength[row].mean()
    out[19] = min(robots.steps[row], 10) / 10.0


@compiled_without_allocation
def begin_all(
    robots: Robots, world: World, worker: SimulationThread, shown: StepArrays, first: int, last: int, phases: FloatArray
) -> None:
    """Begins an episode of each robot in [first, last); ``phases`` may be empty."""
    for row in range(first, last):
        robots.terms[row, :] = 0.0
        _begin(robots, world, worker, shown, row, phases[row] if phases.shape[0] > 0 else -1.0)


@compiled_part
def _ended(robots: Robots, world: World, row: int) -> bool:
    """Whether the task has ended, as ``QuadrupedLocomotionEnv`` decides it; before the step is counted."""
    outcome = robots.outcome[row]
    if robots.steps[row] > 0 and outcome[OUTCOME_TOUCH] != 0.0:
        return True
    if outcome[OUTCOME_DISTANCE] > MAX_ROOT_DISTANCE_SQUARED or outcome[OUTCOME_ANGLE] > MAX_ROOT_ANGLE:
        return True
    return not world.clip.wrap and robots.clock[row, CLOCK_TIME] >= world.clip.duration


@compiled_without_allocation
def step_all(
    robots: Robots,
    world: World,
    worker: SimulationThread,
    shown: StepArrays,
    first: int,
    last: int,
    actions: NDArray[np.float32],
    autoreset: bool,
) -> None:
    """Steps each robot in [first, last), and begins the next episode where one ended."""
    scale = world.control[2]
    for row in range(first, last):
        task = robot_task(robots, world, row)
        for motor in range(12):
            wanted = robots.played[row, motor] + scale * np.float64(actions[row, motor])
            wanted = min(max(wanted, -_ACTION_LIMIT), _ACTION_LIMIT)
            task.action[motor] = np.float64(np.float32(wanted)) + DEFAULT_MOTOR_POSE[motor]
        _copy(robots.qpos[row], worker.qpos)
        _copy(robots.qvel[row], worker.qvel)
        _copy(robots.warm_start[row], worker.warm_start)
        if world.push > 0.0 and uniform(robots.random, row) < world.push_probability:
            for axis in range(3):
                worker.qvel[axis] += world.push * (2.0 * uniform(robots.random, row) - 1.0)
        simulation = _simulation(
            world, world.models[robots.model[row]], worker.data, worker.qpos, worker.qvel, worker.ctrl
        )
        latency = robots.latency[row] / world.latency_scale
        run(simulation, task, latency, robots.steps[row], robots.warm_up[row])
        _copy(worker.qpos, robots.qpos[row])
        _copy(worker.qvel, robots.qvel[row])
        _copy(worker.warm_start, robots.warm_start[row])

        ended = _ended(robots, world, row)
        robots.steps[row] += 1
        cut_off = robots.steps[row] >= robots.limit[row]
        reward = task.outcome[OUTCOME_REWARD]
        robots.total[row] += reward
        shown.rewards[row] = reward
        shown.terminated[row] = ended
        shown.truncated[row] = cut_off
        _show(robots, world, shown.policy, shown.privileged, row)
        if ended or cut_off:
            shown.returns[row] = robots.total[row]
            shown.lengths[row] = robots.steps[row]
            if autoreset:
                _copy(shown.policy[row], shown.final_policy[row])
                _copy(shown.privileged[row], shown.final_privileged[row])
                _begin(robots, world, worker, shown, row, -1.0)
