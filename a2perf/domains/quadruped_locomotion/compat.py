"""The behaviour of the earlier implementation where version 0 mends it: one class of overrides.

Used with ``compat=True``, to check published curves. Time-outs count as terminations, the episode limit of test mode is
sometimes 599, randomisation ignores the seed and cannot change inertias, observations are float64 in a float32 space
whose bounds they can leave.
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
        """The space said float32 whatever the observation was."""
        return np.dtype(np.float32)

    def episode_limit(self, training: bool, total_steps: int, parallel_environments: int) -> int:
        """The curve of test mode ran from 600 to 600 and was cut to an integer: 599 for some counts."""
        shortest = SHORTEST_EPISODE if training else LONGEST_EPISODE
        return curriculum_limit(total_steps, parallel_environments, shortest, LONGEST_EPISODE)

    def end_flags(self, task_ended: bool, limit_reached: bool) -> tuple[bool, bool]:
        """A time-out was reported as a termination."""
        return task_ended or limit_reached, False

    def extra_info(self, task_ended: bool) -> dict[str, Any]:
        """The flag from which a trainer could tell a time-out."""
        return {"terminated": task_ended}

    def randomization_generator(self, seeded: np.random.Generator) -> Any:
        """A generator of its own, seeded by the operating system."""
        return self._generator

    def latency_at_reset(self, previous: float) -> float:
        """The latency drawn for the episode before was still in force."""
        return previous

    def last_action_bound(self) -> float:
        """Written for a normalised action, which this is not."""
        return 1.0

    def target_position_bound(self) -> float:
        """2 m, which a fast motion leaves within 30 steps."""
        return 2.0

    def target_joint_range(self, clips: tuple[MotionClip, ...]) -> tuple[FloatArray, FloatArray]:
        """The frames of the clips only."""
        return joint_range(clips)

    def quaternion_bound(self) -> float:
        """Exactly one."""
        return 1.0
