"""The policy without PyTorch: a small network that scores each cell from its features, and its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf_placement.features.features import FEATURES, PlacementState

SHIPPED = Path(__file__).parent / "weights.npz"
SHARPNESS = 6.0
"""Factor of the weights where cells are drawn; with it, drawn cells are nearly as good as the best-scored ones."""
NAMES = ("weight_1", "bias_1", "weight_2", "bias_2", "weight_3", "skip")


class CellScorer:
    """Scores of cells: a linear part plus a network with two hidden layers, the same for every cell.

    Args:
        arrays: one per name in ``NAMES``.

    Raises:
        ValueError: the arrays belong to a policy with other features.
    """

    def __init__(self, arrays: dict[str, NDArray[np.float32]]) -> None:
        self.arrays = {name: np.asarray(arrays[name], np.float32) for name in NAMES}
        if self.arrays["weight_1"].shape[1] != len(FEATURES):
            raise ValueError(
                f"the policy reads {self.arrays['weight_1'].shape[1]} features per cell; there are {len(FEATURES)}"
            )

    @classmethod
    def load(cls, path: Path) -> CellScorer:
        """Reads a policy that `save` wrote."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls({name: arrays[name] for name in NAMES})

    @classmethod
    def linear(cls, skip: NDArray[Any], width: int) -> CellScorer:
        """Returns a policy with a linear part alone.

        Args:
            skip: weight of each feature, shape (1, features).
            width: of the hidden layers, which training may use later.
        """
        generator = np.random.default_rng(0)
        features = len(FEATURES)
        return cls(
            {
                # Hidden units of zeros would never learn; the zeros behind them keep them silent at first.
                "weight_1": generator.normal(0.0, (2.0 / features) ** 0.5, (width, features)),
                "bias_1": np.zeros(width),
                "weight_2": generator.normal(0.0, (2.0 / width) ** 0.5, (width, width)),
                "bias_2": np.zeros(width),
                "weight_3": np.zeros((1, width)),
                "skip": skip,
            }
        )

    @classmethod
    def greedy(cls, width: int) -> CellScorer:
        """Returns a policy near the greedy placer: least wire, and not where soft macros crowd."""
        skip = np.zeros((1, len(FEATURES)))
        skip[0, FEATURES.index("wire per net")] = -SHARPNESS
        skip[0, FEATURES.index("crowding covered")] = -1.2 * SHARPNESS
        return cls.linear(skip, width)

    def save(self, path: Path) -> None:
        """Writes the policy."""
        with path.open("wb") as file:
            np.savez(file, **self.arrays)

    def scores(self, table: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the score of each row, shape (rows,)."""
        arrays = self.arrays
        hidden = np.maximum(table @ arrays["weight_1"].T + arrays["bias_1"], 0.0)
        hidden = np.maximum(hidden @ arrays["weight_2"].T + arrays["bias_2"], 0.0)
        result: NDArray[np.float32] = (hidden @ arrays["weight_3"].T + table @ arrays["skip"].T)[:, 0]
        return result

    def choose(self, state: PlacementState, generator: np.random.Generator | None = None) -> int:
        """Returns a feasible cell: that of the highest score, or one drawn from the policy.

        Args:
            state: an episode with a feasible cell.
            generator: draws the cell; None for the highest score.
        """
        cells = np.flatnonzero(state.mask)
        scores = self.scores(state.table()[cells])
        if generator is None:
            return int(cells[int(np.argmax(scores))])
        chances = np.exp((scores - scores.max()).astype(np.float64))
        return int(generator.choice(cells, p=chances / chances.sum()))

    def place(self, state: PlacementState, generator: np.random.Generator | None = None) -> list[int] | None:
        """Places all macros of a design.

        Returns:
            A cell per macro in the order of placing, or None if a macro had no feasible cell.
        """
        state.reset()
        while not state.done:
            if not state.mask.any():
                return None
            state.place(self.choose(state, generator))
        return list(state.placed)
