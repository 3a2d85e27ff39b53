"""Offline datasets: episodes, steps and returns as frames and figures."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from a2perf.api.views.table import Table, Tabular
from a2perf.datasets import naming
from a2perf.datasets.reader import Dataset
from a2perf.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_COLUMNS = 1000
"""Columns of a frame that hold the entries of observations or actions."""


class OfflineDataset(Dataset, Tabular):
    """A dataset on disk; its episodes are read when they are needed.

    Converts to a frame with one row per episode; ``steps()`` has one row per step. ``episodes()``, ``episode(index)``
    and ``transitions()`` return arrays for training.

    Attributes:
        path: its ``data`` folder.
        metadata: content of ``metadata.json``.
        record: content of ``a2perf.json``; empty for a dataset not made by a2perf.

    Example:
        >>> data = a2perf.open_dataset("quadruped_locomotion/dog_pace/expert-v0")
        >>> data.to_pandas()["return"].mean()
        >>> for batch in data.transitions().batches(256, seed=0, epochs=10):
        ...     ...  # batch.observations, batch.actions
    """

    def table(self) -> Table:
        """Returns one row per episode: number, seed, steps and undiscounted return."""
        return Table(
            {
                "episode": np.arange(self.episode_count),
                "seed": [None if seed < 0 else int(seed) for seed in self.seeds],
                "steps": self.lengths,
                "return": self.returns,
            },
            title=self.id,
            units={"steps": "steps"},
            provenance=dict.fromkeys(("steps", "return"), "recorded"),
            descriptions={"seed": "seed of env.reset; missing if it is not recorded"},
            kinds={"seed": "int"},
        )

    def steps(self, *, observations: bool = False, actions: bool = True) -> Table:
        """Returns one row per step.

        Args:
            observations: whether to add a column per entry of the observation before the step.
            actions: whether to add a column per entry of the action.

        Returns:
            Columns ``episode``, ``step``, ``reward``, ``terminated`` and ``truncated``; then ``action[0]``, ... and
            ``observation[0]``, ..., or ``observation[name]`` for an entry of a ``Dict`` space.

        Raises:
            ConfigError: the entries are more than 1000 columns.
            UserError: the file is damaged.
        """
        parts: dict[str, list[np.ndarray[Any, Any]]] = {}
        for episode in self.episodes():
            count = len(episode)
            columns: dict[str, Any] = {
                "episode": np.full(count, episode.index), "step": np.arange(count), "reward": episode.rewards,
                "terminated": episode.terminations, "truncated": episode.truncations,
                **(_entries("action", episode.actions, count) if actions else {}),
                **(_entries("observation", episode.observations, count) if observations else {}),
            }  # fmt: skip
            if len(columns) > _MOST_COLUMNS:
                raise ConfigError(
                    f"the entries of {self.id} are {len(columns)} columns", hint="read arrays with episodes()"
                )
            for name, values in columns.items():
                parts.setdefault(name, []).append(np.asarray(values))
        return Table({name: np.concatenate(values) for name, values in parts.items()}, title=f"{self.id}: steps")

    def plot(self) -> Figure:
        """Returns the distribution of the episode returns as a matplotlib figure."""
        from a2perf.datasets.inspection import return_figure

        return return_figure(self)

    def __len__(self) -> int:
        """Returns the number of episodes."""
        return self.episode_count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OfflineDataset):
            return NotImplemented
        return self.path == other.path and self.metadata == other.metadata and self.record == other.record

    def __hash__(self) -> int:
        return hash(self.path)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.path,))

    def __repr__(self) -> str:
        from a2perf.datasets.inspection import describe, describe_text

        return describe_text(describe(self))


def open_dataset(name: str | os.PathLike[str], datasets_path: str | os.PathLike[str] | None = None) -> OfflineDataset:
    """Opens an offline dataset of a2perf or Minari.

    Args:
        name: its name, ``"quadruped_locomotion/dog_pace/expert-v0"``, or the path of its folder.
        datasets_path: the folder of all datasets; by default ``MINARI_DATASETS_PATH``, ``A2PERF_DATASETS_DIR`` or the
            user's data folder.

    Returns:
        The dataset. Its episodes are read on demand.

    Raises:
        UserError: the dataset does not exist, or its description cannot be read.
        MissingDependency: h5py or Minari is not installed (on the first read of episodes).

    Example:
        >>> data = a2perf.open_dataset("quadruped_locomotion/dog_pace/expert-v0")
        >>> frame = data.to_pandas()  # one row per episode
        >>> data.plot()
    """
    return OfflineDataset(naming.find(name, naming.root_folder(datasets_path)))


def _entries(name: str, values: Any, count: int) -> dict[str, Any]:
    """Returns the entries of observations or actions as columns; those after the last step are left out."""
    if isinstance(values, dict):
        nested = [(f"{name}[{key}]", part) for key, part in values.items()]
    elif isinstance(values, tuple):
        nested = [(f"{name}[{place}]", part) for place, part in enumerate(values)]
    else:
        rows = np.asarray(values)[:count]
        if rows.ndim <= 1:
            return {name: rows}
        flat = rows.reshape(count, -1)
        return {f"{name}[{place}]": flat[:, place] for place in range(flat.shape[1])}
    return {label: column for inside, part in nested for label, column in _entries(inside, part, count).items()}
