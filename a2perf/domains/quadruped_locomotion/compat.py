"""``compat=True``: restores the behaviour of the earlier implementation that version 0 fixes.

It serves to check published curves. Time-outs count as terminations, the episode limit of test mode is
sometimes 599, randomisation ignores the seed and cannot change inertias, observations are float64 in a float32 space
and can leave its bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from a2perf.domains.quadruped_locomotion.motion_clip import MotionClip
from a2perf.domains.quadruped_locomotion.robot import FloatArray
from a2perf.domains.quadruped_locomotion.rules import (
    LONGEST_EPISODE,
    SHORTEST_EPISODE,
    LocomotionRules,
    curriculum_limit,
    joint_range,
)


class CompatLocomotionRules(LocomotionRules):
    """Overrides of ``LocomotionRules``."""

    inertia_from_shape = True
    default_observation_dtype = np.float64

    def __init__(self) -> None:
        self._generator = np.random.RandomState()

    def space_dtype(self, observation_dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Returns float32, whatever the observations have."""
        return np.dtype(np.float32)

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

    def last_action_bound(self) -> float:
        """Returns 1, the bound of normalised actions, although actions are not normalised."""
        return 1.0

    def target_position_bound(self) -> float:
        """Returns 2 m; a fast motion exceeds it within 30 steps."""
        return 2.0

    def target_joint_range(self, clips: tuple[MotionClip, ...]) -> tuple[FloatArray, FloatArray]:
        """Returns the range over the frames of the clips only."""
        return joint_range(clips)

    def quaternion_bound(self) -> float:
        """Exactly one."""
        return 1.0
