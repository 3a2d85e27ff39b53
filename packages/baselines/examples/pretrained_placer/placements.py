"""What both ways of training share: the tasks, the policy to begin with, and the best placement found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from scorer import SHIPPED, CellScorer

import a2perf  # noqa: F401  registers the ids
from a2perf_baselines import learning
from a2perf_placement.features.batch import PlacementTask
from a2perf_placement.features.features import FEATURES

GENERATED = "CircuitTraining-Generated-v0"
PLACEMENT, WEIGHTS = "placement.json", "weights.npz"


def generated_task(spec: dict[str, Any]) -> PlacementTask:
    """Returns the task of a generated design."""
    env = gymnasium.make(GENERATED, disable_env_checker=True, **spec)
    return PlacementTask(env, f"{spec['num_macros']} macros, seed {spec['seed']}")


def starting_policy(start: str, width: int) -> CellScorer:
    """Returns the policy to begin with, for the setting ``start``."""
    if start == "none":
        return CellScorer.linear(np.zeros((1, len(FEATURES))), width)
    if start == "greedy":
        return CellScorer.greedy(width)
    return CellScorer.load(SHIPPED if start == "shipped" else Path(start))


class BestPlacement:
    """The best placement found so far, in ``placement.json``.

    Args:
        folder: of the training run; a placement that is there counts.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / PLACEMENT
        known = self.path.is_file()
        self.cost = float(json.loads(self.path.read_text(encoding="utf-8"))["cost"]) if known else float("inf")

    def offer(self, cost: float, names: Sequence[str], cells: Sequence[int]) -> None:
        """Keeps a placement if it is better."""
        if cost < self.cost:
            self.cost = cost
            text = json.dumps({"cost": cost, "cells": dict(zip(names, cells, strict=True))}, indent=1)
            learning.replace(self.path, lambda path: path.write_text(text, encoding="utf-8"))
