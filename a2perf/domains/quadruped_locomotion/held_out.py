"""Gaits for a competition: families whose speed, heading and rhythm are drawn from a secret seed."""

from __future__ import annotations

import numpy as np

from a2perf.domains.registry import HeldOutTask

_GAITS = ("Trot", "Pace", "Bound", "Spin")
_MAX_SEED = 2**31 - 1


def held_out_tasks(count: int, seed: int) -> list[HeldOutTask]:
    """Generates tasks, the gaits taking turns; test mode draws other variants than training does.

    Args:
        count: how many.
        seed: of everything drawn, not negative.
    """
    random = np.random.default_rng(seed)
    return [
        HeldOutTask(
            name=f"held_out_{number + 1}_{_GAITS[number % len(_GAITS)].lower()}",
            env_id=f"QuadrupedLocomotion-Varied{_GAITS[number % len(_GAITS)]}-v0",
            kwargs={"mode": "test", "gait_seed": int(random.integers(_MAX_SEED))},
            told={"mode": "train"},
        )
        for number in range(count)
    ]
