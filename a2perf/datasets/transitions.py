"""Transitions of many episodes in memory: each value is read once, directly into its final array.

Next observations are rows of the same arrays, not copies. Batches are drawn with a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import gymnasium
import numpy as np
from numpy.typing import NDArray

from a2perf.datasets import hdf5_file
from a2perf.datasets.noise import POLICY_ACTION
from a2perf.datasets.space_json import leaves, nest
from a2perf.errors import UserError, did_you_mean

Rows = NDArray[np.int64]


class EpisodeSource(Protocol):
    """The part of ``reader.Dataset`` that is used here."""

    record: dict[str, Any]

    @property
    def id(self) -> str:
        """Name with namespace and version."""

    @property
    def file(self) -> Path:
        """The HDF5 file."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(episodes,) steps of each episode."""

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """Space of the observations."""

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """Space of the actions."""


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


class Transitions:
    """Transitions in arrays.

    Args:
        arrays: flat arrays by path. If ``rows`` is given, arrays of observations and infos have one more row per
            episode, for its end.
        rows: row of the observation before each transition; None if rows and transitions have the same numbers.
        episode: (n,) number of each transition's episode.
    """

    def __init__(self, data: EpisodeSource, arrays: dict[str, NDArray[Any]], rows: Rows | None, episode: Rows) -> None:
        self._data = data
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
        """Observations after the actions, n rows.

        Raises:
            UserError: they were not loaded.
        """
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
        rows = chosen if self._rows is None else self._rows[chosen]
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
        space = self._data.observation_space if name == "observations" else self._data.action_space
        prefix = f"{name}/"
        found = {path: array for path, array in self._arrays.items() if path == name or path.startswith(prefix)}
        return nest(space, found if rows is None else {path: array[rows] for path, array in found.items()}, name)

    def _wanted(self, chosen: Rows | None) -> Any:
        stored = self._arrays.get(f"infos/{POLICY_ACTION}")
        if stored is None:
            return self._of_space("actions", chosen)
        rows = chosen if self._rows is None else self._rows if chosen is None else self._rows[chosen]
        return stored if rows is None else stored[rows]

    def _infos(self, rows: Rows | None) -> dict[str, Any]:
        found = {path: array for path, array in self._arrays.items() if path.startswith("infos/")}
        return {path[6:]: array if rows is None else array[rows] for path, array in found.items()}

    def _following(self, chosen: Rows) -> Rows:
        if self._rows is None:
            raise UserError("next observations were not loaded", hint="use transitions(next_observations=True)")
        following: Rows = self._rows[chosen] + 1
        return following


def load(
    data: EpisodeSource,
    indices: Sequence[int],
    *,
    next_observations: bool,
    keys: Sequence[str] | None,
    infos: tuple[str, ...],
    limit: int | None,
) -> Transitions:
    """Reads transitions; see ``Dataset.transitions``."""
    lengths, kept = _limited(data, indices, limit)
    total = int(sum(lengths))
    if not total:
        raise UserError(f"the selected part of {data.id} has no transitions", hint="select more episodes")
    extra = 1 if next_observations else 0
    starts = np.concatenate([[0], np.cumsum(np.array(lengths, np.int64) + extra)])
    ends = np.concatenate([[0], np.cumsum(np.array(lengths, np.int64))])
    infos += tuple(name for name in data.record.get("infos", ()) if name == POLICY_ACTION and name not in infos)
    seen = [*_observation_paths(data, keys), *(f"infos/{name}" for name in infos)]
    taken = [path for path, _ in leaves(data.action_space, "actions")] + ["rewards", "terminations", "truncations"]
    rows_of = {path: total + extra * len(kept) for path in seen} | dict.fromkeys(taken, total)
    with hdf5_file.opened(data.file) as stream:
        reader = hdf5_file.RowReader(stream, rows_of)
        for place, index in enumerate(kept):
            for path in seen:
                reader.read(index, path, int(starts[place]), lengths[place] + extra)
            for path in taken:
                reader.read(index, path, int(ends[place]), lengths[place])
    episode = np.repeat(np.array(kept, np.int64), lengths)
    before: Rows | None = None
    if next_observations:
        # Every earlier episode has one row more than it has transitions.
        before = np.arange(total, dtype=np.int64) + np.repeat(np.arange(len(kept), dtype=np.int64), lengths)
    return Transitions(data, reader.arrays, before, episode)


def _limited(data: EpisodeSource, indices: Sequence[int], limit: int | None) -> tuple[list[int], list[int]]:
    lengths: list[int] = []
    kept: list[int] = []
    left = limit
    for index in indices:
        steps = int(data.lengths[index]) if left is None else min(left, int(data.lengths[index]))
        if left is not None:
            if left <= 0:
                break
            left -= steps
        lengths.append(steps)
        kept.append(index)
    return lengths, kept


def _observation_paths(data: EpisodeSource, keys: Sequence[str] | None) -> list[str]:
    paths = [path for path, _ in leaves(data.observation_space, "observations")]
    if keys is None:
        return paths
    names = {path.split("/")[1] for path in paths if "/" in path}
    for key in keys:
        if key not in names:
            raise UserError(
                f"the observations of {data.id} have no entry {key!r}{did_you_mean(key, names)}",
                hint=f"choose from: {', '.join(sorted(names))}" if names else "remove keys: observations are one array",
            )
    return [path for path in paths if path.split("/")[1] in keys]
