"""Which finished placements are written to a ``.plc`` file, and under what names."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.domains.circuit_training.errors import ArgumentError
from a2perf.domains.circuit_training.placement_cost import PlacementCost

_LEAST_IMPROVEMENT = 5e-3  # of the cost


@dataclass
class Saver:
    """Writes placements of an evaluation.

    Attributes:
        output: file that is written, and overwritten by the next one.
        best_only: write only what is more than 0.5 % better than all before.
        snapshots: also write each one under a separate name, next to ``output``.
        refined: file of the placement that coordinate descent makes of it; None for no descent.
        train_step: object with a method ``numpy()`` that returns the training step, for the comment of the file.
    """

    output: Path
    best_only: bool = False
    snapshots: bool = True
    refined: Path | None = None
    train_step: Any = None
    best_cost: float = float("inf")

    def save(self, plc: PlacementCost, cost: float, refine: Callable[[], float]) -> None:
        """Writes a placement.

        Args:
            refine: runs coordinate descent on the engine and returns the cost after it.
        """
        if self.best_only:
            gain = self.best_cost - cost
            if not gain > 0.0 or gain / max(abs(cost), 1e-12) <= _LEAST_IMPROVEMENT:
                return
        self.best_cost = min(cost, self.best_cost)
        self._write(plc, self.output, "ppo_opt", cost)
        if self.refined is not None:
            refined_cost = refine()
            self._write(plc, self.refined, "ppo_cd", refined_cost)

    def _write(self, plc: PlacementCost, path: Path, kind: str, cost: float) -> None:
        comment = "" if self.train_step is None else f"Train step : {int(self.train_step.numpy())}"
        path.parent.mkdir(parents=True, exist_ok=True)
        plc.save_placement(str(path), comment)
        if self.snapshots:
            stamp = time.strftime("%Y%m%d_%H%M%S")
            snapshot = path.parent / f"snapshot_{kind}_placement_timestamp_{stamp}_cost_{cost:.4f}.plc"
            plc.save_placement(str(snapshot), comment)


def make_saver(
    is_eval: bool,
    output: str | Path,
    best_only: bool,
    snapshots: bool,
    refined: str | Path | None,
    train_step: Any,
) -> Saver | None:
    """Returns what writes placements; None unless it is an evaluation.

    Raises:
        ArgumentError: no file is given and there is no ``ROOT_DIR``.
    """
    if not is_eval:
        return None
    if not output:
        root = os.environ.get("ROOT_DIR")
        if not root:
            raise ArgumentError("is_eval without output_plc_file", hint="name the file to write placements to")
        output = Path(root) / "output.plc"
    return Saver(Path(output), best_only, snapshots, None if refined is None else Path(refined), train_step)
