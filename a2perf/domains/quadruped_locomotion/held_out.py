"""Gaits for a competition: a secret seed draws their speed, heading and rhythm."""

from __future__ import annotations

import numpy as np

from a2perf.domains.registry import HeldOutTask

_GAITS = ("Trot", "Pace", "Bound", "Spin")
_MAX_SEED = 2**31 - 1


def held_out_tasks(count: int, seed: int) -> list[HeldOutTask]:
    """Generates tasks, cycling through the gaits; test mode draws other variants than training.

    Args:
        seed: seed of all random choices, not negative.
    """
    random = np.random.default_rng(seed)
    return [
        HeldOutTask(
            name=f"held_out_{number + 1}_{_GAITS[number % len(_GAITS)].lower()}",
            env_id=f"QuadrupedLocomotion-Varied{_GAITS[number % len(_GAITS)]}-v1",
            kwargs={"mode": "test", "gait_seed": int(random.integers(_MAX_SEED))},
            told={"mode": "train"},
        )
        for number in range(count)
    ]
