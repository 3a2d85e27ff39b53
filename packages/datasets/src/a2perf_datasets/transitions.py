"""Episodes and transitions in memory: each value is read once, directly into its final array.

Next observations are rows of the same arrays, not copies. Batches are drawn with a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import UserError
from a2perf_datasets.noise import POLICY_ACTION
from a2perf_datasets.space_json import Space, nest

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Some transitions; arrays, or dicts and tuples of arrays, with one row each.

    Attributes:
        observations: observations before the action.
        rewards: float64.
        next_observations: observations after the action; None unless they were loaded.
        infos: entries of ``info`` before the action, such as an action mask.
        policy_actions: the policy's actions, which differ from ``actions`` if noise was added.
    """

    observations: Any
    actions: Any
    rewards: NDArray[np.float64]
    next_observations: Any
    terminations: NDArray[np.bool_]
    truncations: NDArray[np.bool_]
    infos: dict[str, Any]
    policy_actions: Any
    indices: Rows


@dataclass(frozen=True)
class DatasetEpisode:
    """One episode of n steps.

    Attributes:
        seed: seed of ``env.reset``; -1 if it is not recorded.
        observations: array, or dict or tuple of arrays, with n + 1 rows.
        actions: array, or dict or tuple of arrays, with n rows.
        rewards: (n,) float64.
        infos: recorded entries of ``info``, each with n + 1 rows.
    """

    index: int
    seed: int
    observations: Any
    actions: Any
    rewards: NDArray[np.float64]
    terminations: NDArray[np.bool_]
    truncations: NDArray[np.bool_]
    infos: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.rewards)


class Transitions:
    """Transitions in arrays.

    Args:
        spaces: the spaces of ``"observations"`` and ``"actions"``.
        arrays: flat arrays by path. If ``rows`` is given, arrays of observations and infos have one more row per
            episode, for its end.
        rows: row of the observation before each transition; None if rows and transitions have the same numbers.
        episode: (n,) number of each transition's episode.
    """

    def __init__(
        self, spaces: Mapping[str, Space], arrays: dict[str, NDArray[Any]], rows: Rows | None, episode: Rows
    ) -> None:
        self._spaces = spaces
        self._arrays = arrays
        self._rows = rows
        self.episode = episode

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def observations(self) -> Any:
        """Observations before the actions, n rows; views unless next observations were loaded."""
        return self._of_space("observations", self._rows)

    @property
    def next_observations(self) -> Any:
        """Observations after the actions, n rows; UserError if they were not loaded."""
        return self._of_space("observations", self._following(np.arange(len(self))))

    @property
    def actions(self) -> Any:
        """Executed actions, n rows."""
        return self._of_space("actions", None)

    @property
    def policy_actions(self) -> Any:
        """The policy's actions, n rows: the targets of behaviour cloning. Equal to ``actions`` without action noise."""
        return self._wanted(None)

    @property
    def rewards(self) -> NDArray[np.float64]:
        """(n,) rewards."""
        return self._arrays["rewards"]

    @property
    def terminations(self) -> NDArray[np.bool_]:
        """(n,) whether the task ended the episode at the transition."""
        return self._arrays["terminations"]

    @property
    def truncations(self) -> NDArray[np.bool_]:
        """(n,) whether a time limit ended the episode at the transition."""
        return self._arrays["truncations"]

    @property
    def infos(self) -> dict[str, Any]:
        """Entries of ``info`` before the actions, n rows each."""
        return self._infos(self._rows)

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        return sum(array.nbytes for array in self._arrays.values())

    def batch(self, indices: Any) -> Batch:
        """Gathers transitions."""
        chosen = np.asarray(indices, np.int64)
        rows = self._at(chosen)
        following = None if self._rows is None else self._of_space("observations", self._following(chosen))
        return Batch(
            observations=self._of_space("observations", rows),
            actions=self._of_space("actions", chosen),
            rewards=self.rewards[chosen],
            next_observations=following,
            terminations=self.terminations[chosen],
            truncations=self.truncations[chosen],
            infos=self._infos(rows),
            policy_actions=self._wanted(chosen),
            indices=chosen,
        )

    def batches(
        self, size: int, *, seed: int = 0, epochs: int | None = 1, shuffle: bool = True, drop_last: bool = False
    ) -> Iterator[Batch]:
        """Yields batches; every epoch is a new permutation, and the same seed gives the same batches.

        Args:
            size: transitions per batch.
            epochs: number of passes over the data; None repeats forever.
            shuffle: whether to shuffle; otherwise the order of the dataset is used.
            drop_last: whether to drop a smaller last batch.

        Raises:
            UserError: ``size`` is below 1, or larger than the data with ``drop_last``.
        """
        if size < 1 or (drop_last and size > len(self)):
            raise UserError(f"batch size {size} is not valid for {len(self)} transitions", hint=f"use 1 to {len(self)}")
        generator = np.random.default_rng(seed)
        epoch = 0
        while epochs is None or epoch < epochs:
            order = generator.permutation(len(self)) if shuffle else np.arange(len(self))
            stop = len(order) - (len(order) % size if drop_last else 0)
            for start in range(0, stop, size):
                yield self.batch(order[start : start + size])
            epoch += 1

    def _of_space(self, name: str, rows: Rows | None) -> Any:
        found = {path: array for path, array in self._arrays.items() if path == name or path.startswith(f"{name}/")}
        rows_of = found if rows is None else {path: array[rows] for path, array in found.items()}
        return nest(self._spaces[name], rows_of, name)

    def _wanted(self, chosen: Rows | None) -> Any:
        stored = self._infos(self._at(chosen)).get(POLICY_ACTION)
        return self._of_space("actions", chosen) if stored is None else stored

    def _at(self, chosen: Rows | None) -> Rows | None:
        """Returns the rows of the observations before the chosen transitions, or before all; None: every row."""
        return chosen if self._rows is None else self._rows if chosen is None else self._rows[chosen]

    def _infos(self, rows: Rows | None) -> dict[str, Any]:
        found = {path: array for path, array in self._arrays.items() if path.startswith("infos/")}
        return {path[6:]: array if rows is None else array[rows] for path, array in found.items()}

    def _following(self, chosen: Rows) -> Rows:
        if self._rows is None:
            raise UserError("next observations were not loaded", hint="use transitions(next_observations=True)")
        following: Rows = self._rows[chosen] + 1
        return following
