"""The generated designs: those to learn from, and others on which the training run evaluates itself.

None is a task: tasks have the seed 0 or seeds around 810,000, and other sizes than these for held-out seeds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

TRAINING_SEED, VALIDATION_SEED = 4_000_000, 5_000_000
SIZES = (14, 20, 26, 32)  # hard macros
_UTILIZATION = (0.45, 0.75)
_RENT_EXPONENT = (0.5, 0.7)


def specification(seed: int) -> dict[str, Any]:
    """Returns the arguments of a generated design; the same for the same seed."""
    random = np.random.default_rng(seed)
    return {
        "num_macros": int(random.choice(SIZES)),
        "seed": seed,
        "utilization": round(float(random.uniform(*_UTILIZATION)), 3),
        "rent_exponent": round(float(random.uniform(*_RENT_EXPONENT)), 3),
        "macro_share": round(float(random.uniform(0.5, 0.75)), 3),
    }


def training_designs(count: int) -> list[dict[str, Any]]:
    """Returns the specifications of the designs to learn from."""
    return [specification(TRAINING_SEED + number) for number in range(count)]


def validation_designs(count: int) -> list[dict[str, Any]]:
    """Returns the specifications of the designs on which a training run evaluates itself."""
    return [specification(VALIDATION_SEED + number) for number in range(count)]
