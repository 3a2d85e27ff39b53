"""One control step of the imitation task without the physics: the code before and after the sub-steps.

The arrays of an ``ImitationTask`` hold the whole state of one robot's task. A backend with compiled physics can
therefore run a step in one compiled call. The order of the calls is part of the task's definition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from a2perf.domains.compilation import compiled
from a2perf.domains.quadruped_locomotion.motion.imitation import TERMS, WEIGHTS, imitation_terms
from a2perf.domains.quadruped_locomotion.motion.motion_clip import ClipData
from a2perf.domains.quadruped_locomotion.motion.reference import (
    CLOCK_OFFSET,
    CLOCK_PHASE,
    CLOCK_START,
    CLOCK_TIME,
    TARGET_STEPS,
    ClipPlacement,
    ReferenceMotion,
    advance,
    target_frames,
)
from a2perf.domains.quadruped_locomotion.physics.physics_loop import Actuation, filter_action, new_actuation
from a2perf.domains.quadruped_locomotion.physics.robot import (
    CONTROL_STEP,
    STATE_SIZE,
    SUBSTEPS,
    TIME_STEP,
    FloatArray,
    KinematicTree,
    foot_positions,
    kinematic_tree,
    link_frames,
)
from a2perf.domains.quadruped_locomotion.sensors import OBSERVATION_SIZE, delayed_base, update_sensors

OUTCOME_REWARD, OUTCOME_DISTANCE, OUTCOME_ANGLE, OUTCOME_TOUCH = range(4)


class ImitationTask(NamedTuple):
    """Everything that a control step reads and writes; the arrays are written in place.

    Attributes:
        clock: see ``reference``, shape (4,).
        action: motor target before filtering, rad, shape (12,).
        state: true state of the robot, layout of ``robot``, shape (37,).
        feet: centres of mass of its foot links, m, shape (8, 3).
        pose: reference pose, shape (19,).
        velocity: reference velocity, shape (18,).
        reference_feet: centres of mass of the reference's foot links, m, shape (8, 3).
        frames: link frames of the reference, shape (17, 7).
        outcome: reward, squared root distance (m^2), root angle (rad), whether the body touches the ground, shape (4,).
        target_times: times of the targets from now, s, shape (4,).
    """

    clip: ClipData
    placement: ClipPlacement
    clock: FloatArray
    actuation: Actuation
    tree: KinematicTree
    action: FloatArray
    state: FloatArray
    feet: FloatArray
    pose: FloatArray
    velocity: FloatArray
    reference_feet: FloatArray
    frames: FloatArray
    terms: FloatArray
    outcome: FloatArray
    target_times: FloatArray
    scratch: FloatArray
    observation: FloatArray


def new_task(reference: ReferenceMotion) -> ImitationTask:
    """Returns the state of a task that follows a reference motion."""
    return ImitationTask(
        clip=reference.clip.data,
        placement=reference.placement,
        clock=reference.clock,
        actuation=new_actuation(),
        tree=kinematic_tree(),
        action=np.zeros(12),
        state=np.zeros(STATE_SIZE),
        feet=np.zeros((8, 3)),
        pose=reference.pose,
        velocity=reference.velocity,
        reference_feet=np.zeros((8, 3)),
        frames=np.zeros((17, 7)),
        terms=np.zeros(len(TERMS)),
        outcome=np.zeros(4),
        target_times=np.array([CONTROL_STEP * step for step in TARGET_STEPS]),
        scratch=np.zeros(19),
        observation=np.zeros(OBSERVATION_SIZE),
    )


@compiled
def before_physics(task: ImitationTask, latency: float, steps: int) -> None:
    """Filters the action; ``steps`` is the number of control steps that the episode has had."""
    filter_action(task.actuation, task.action, latency, steps == 0)


@compiled
def write_targets(task: ImitationTask, latency: float, warm_up: bool) -> None:
    """Writes the target frames of the observation, seen from the heading that the sensors show."""
    delayed_base(task.actuation.history, latency, task.scratch)
    # Read at once: target_frames overwrites the scratch memory with poses.
    yaw = task.scratch[2]
    target_frames(
        task.clip,
        task.placement,
        warm_up,
        task.clock[CLOCK_TIME],
        yaw,
        task.pose,
        task.target_times,
        task.scratch,
        task.observation[84:],
    )


@compiled
def after_physics(task: ImitationTask, latency: float, steps: int, warm_up: bool) -> None:
    """Updates sensors, reference, reward and observation from ``task.state`` and ``task.feet``."""
    update_sensors(task.actuation.history, latency, task.action, task.scratch, task.observation)
    # From the count of steps: a running sum would gather rounding errors over an episode.
    elapsed = (steps + 1) * SUBSTEPS * TIME_STEP
    clock = task.clock
    if steps == 0:  # the reference does not move during the first step
        clock[CLOCK_START] = -elapsed
    clock[CLOCK_TIME] = elapsed + clock[CLOCK_OFFSET] + clock[CLOCK_START]
    clock[CLOCK_PHASE] = advance(
        task.clip, task.placement, warm_up, clock[CLOCK_TIME], clock[CLOCK_PHASE], task.state, task.pose, task.velocity
    )
    link_frames(task.tree, task.pose, task.pose[3:7], task.pose[7:19], task.frames)
    foot_positions(task.tree, task.frames, task.reference_feet)
    distance, angle = imitation_terms(task.state, task.feet, task.pose, task.velocity, task.reference_feet, task.terms)
    reward = 0.0
    # A plain loop fixes the order of the sum, which a dot product leaves to the linear algebra library.
    for term in range(task.terms.shape[0]):
        reward += WEIGHTS[term] * task.terms[term]
    task.outcome[OUTCOME_REWARD] = reward
    task.outcome[OUTCOME_DISTANCE] = distance
    task.outcome[OUTCOME_ANGLE] = angle
    write_targets(task, latency, warm_up)
