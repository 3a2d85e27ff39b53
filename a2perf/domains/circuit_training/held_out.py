"""Designs for a competition: netlists of other sizes, densities and wirings, generated from a secret seed."""

from __future__ import annotations

import numpy as np

from a2perf.domains.registry import HeldOutTask

SIZES = (20, 40, 60, 100)
"""Numbers of hard macros; the designs cycle through them."""

_UTILIZATION = (0.5, 0.7)
_RENT_EXPONENT = (0.5, 0.7)
_MAX_SEED = 2**31 - 1


def held_out_tasks(count: int, seed: int) -> list[HeldOutTask]:
    """Generates tasks of increasing size.

    Args:
        seed: seed of all random choices, not negative.
    """
    random = np.random.default_rng(seed)
    tasks = []
    for number in range(count):
        macros = SIZES[number % len(SIZES)]
        tasks.append(
            HeldOutTask(
                name=f"held_out_{number + 1}_macros_{macros}",
                env_id="CircuitTraining-Generated-v0",
                kwargs={
                    "num_macros": macros,
                    "seed": int(random.integers(_MAX_SEED)),
                    "utilization": round(float(random.uniform(*_UTILIZATION)), 3),
                    "rent_exponent": round(float(random.uniform(*_RENT_EXPONENT)), 3),
                },
                told={"num_macros": macros, "seed": 0},
            )
        )
    return tasks
