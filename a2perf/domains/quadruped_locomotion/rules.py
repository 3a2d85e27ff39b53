"""The rules in which version 0 and the earlier implementation differ, one class each.

The environment itself has no branches on ``compat``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.quadruped_locomotion.motion.motion_clip import MotionClip
from a2perf.domains.quadruped_locomotion.motion.reference import TARGET_COUNT
from a2perf.domains.quadruped_locomotion.physics.robot import DEFAULT_JOINT_POSE, JOINT_LOWER, JOINT_UPPER, FloatArray
from a2perf.domains.quadruped_locomotion.sensors import DEFAULT_LATENCY, OBSERVATION_SIZE, TARGETS

CURRICULUM_STEPS = 30e6
SHORTEST_EPISODE = 20  # control steps, at the start of training
LONGEST_EPISODE = 600  # control steps, at the end of training and in test mode

ANGLE_BOUND = 2.0 * math.pi
RATE_BOUND = 2000.0 * math.pi
# Interpolation in double precision can leave a closed range by a few units in the last place.
ROUND_OFF = 1e-12


def curriculum_limit(total_steps: int, parallel_environments: int, shortest: int, longest: int) -> int:
    """Length of the next episode in control steps: a cubic curve over the training run's steps.

    Args:
        total_steps: control steps so far that did not end an episode.
    """
    progress = min(max(total_steps / math.ceil(CURRICULUM_STEPS / parallel_environments), 0.0), 1.0) ** 3
    return int((1.0 - progress) * shortest + progress * longest)


class LocomotionRules:
    """Version 0."""

    # Setting a mass would make the engine overwrite the drawn inertia, so the inertia is set after it.
    inertia_from_shape = False
    default_observation_dtype: Any = np.float32
    space_dtype: Any = None  # of the observation space; None: that of the observations
    last_action_bound = 7.54  # rad; the largest default motor angle plus the action bound
    target_position_bound = math.inf  # m; a cycle of any length may be shown
    quaternion_bound = 1.0 + ROUND_OFF  # of the components of target quaternions

    def episode_limit(self, training: bool, total_steps: int, parallel_environments: int) -> int:
        """Returns the length of the next episode in control steps."""
        if not training:
            return LONGEST_EPISODE
        return curriculum_limit(total_steps, parallel_environments, SHORTEST_EPISODE, LONGEST_EPISODE)

    def end_flags(self, task_ended: bool, limit_reached: bool) -> tuple[bool, bool]:
        """Returns ``terminated`` and ``truncated`` of a step."""
        return task_ended, limit_reached

    def extra_info(self, task_ended: bool) -> dict[str, Any]:
        """Returns further entries of a step's ``info``."""
        return {}

    def randomization_generator(self, seeded: np.random.Generator) -> Any:
        """Returns the generator that draws the dynamics: the environment's own seeded one."""
        return seeded

    def latency_at_reset(self, previous: float) -> float:
        """Returns the latency (s) with which the observation of a reset is taken."""
        return DEFAULT_LATENCY

    def target_joint_range(self, clips: tuple[MotionClip, ...]) -> tuple[FloatArray, FloatArray]:
        """Range of target joint angles (rad, shape (12,)): all clips and the pose in which a warm-up stands."""
        low, high = joint_range(clips)
        return np.minimum(low, DEFAULT_JOINT_POSE) - ROUND_OFF, np.maximum(high, DEFAULT_JOINT_POSE) + ROUND_OFF


class CompatLocomotionRules(LocomotionRules):
    """``compat=True``: the behaviour of the earlier implementation, to check published curves.

    Time-outs count as terminations, the episode limit of test mode is sometimes 599, randomisation ignores the seed and
    cannot change inertias, observations are float64 in a float32 space and can leave its bounds.
    """

    inertia_from_shape = True
    default_observation_dtype = np.float64
    space_dtype = np.float32
    last_action_bound = 1.0  # of normalised actions, although actions are not normalised
    target_position_bound = 2.0  # a fast motion exceeds it within 30 steps
    quaternion_bound = 1.0

    def __init__(self) -> None:
        self._generator = np.random.RandomState()

    def episode_limit(self, training: bool, total_steps: int, parallel_environments: int) -> int:
        """Interpolates from 600 to 600 in test mode and truncates: round-off gives 599 for some counts."""
        shortest = SHORTEST_EPISODE if training else LONGEST_EPISODE
        return curriculum_limit(total_steps, parallel_environments, shortest, LONGEST_EPISODE)

    def end_flags(self, task_ended: bool, limit_reached: bool) -> tuple[bool, bool]:
        """Reports a time-out as a termination."""
        return task_ended or limit_reached, False

    def extra_info(self, task_ended: bool) -> dict[str, Any]:
        """Adds the flag that distinguishes a termination from a time-out."""
        return {"terminated": task_ended}

    def randomization_generator(self, seeded: np.random.Generator) -> Any:
        """Returns a separate generator, seeded by the operating system."""
        return self._generator

    def latency_at_reset(self, previous: float) -> float:
        """Returns the latency of the previous episode, which was still in effect."""
        return previous

    def target_joint_range(self, clips: tuple[MotionClip, ...]) -> tuple[FloatArray, FloatArray]:
        """Returns the range over the frames of the clips only."""
        return joint_range(clips)


def joint_range(clips: tuple[MotionClip, ...]) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest joint angles (rad, shape (12,)) over all frames of all clips."""
    frames = np.concatenate([clip.data.frames[:, 7:] for clip in clips])
    return frames.min(axis=0), frames.max(axis=0)


def observation_bounds(
    rules: LocomotionRules, clips: tuple[MotionClip, ...], dtype: np.dtype[Any], *, any_gait: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns lower and upper bounds of the observation, shape (160,).

    Args:
        any_gait: whether gaits beyond the clips can be shown, which keep the joint limits.
    """
    high = np.empty(OBSERVATION_SIZE)
    high[0:12] = [ANGLE_BOUND, ANGLE_BOUND, RATE_BOUND, RATE_BOUND] * 3
    high[12:48] = rules.last_action_bound
    high[48:84] = math.pi
    low = -high
    joint_low, joint_high = (JOINT_LOWER, JOINT_UPPER) if any_gait else rules.target_joint_range(clips)
    edge = np.array([rules.target_position_bound] * 3 + [rules.quaternion_bound] * 4)
    high[TARGETS] = np.tile(np.concatenate([edge, joint_high]), TARGET_COUNT)
    low[TARGETS] = np.tile(np.concatenate([-edge, joint_low]), TARGET_COUNT)
    return low.astype(dtype), high.astype(dtype)
