"""Reads a dataset: its record, its episodes, and its transitions for training.

Any HDF5 dataset of Minari can be read, also those not made by a2perf. Each array is checked before it is read, because
the file may be untrusted.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from minari.dataset.minari_storage import is_image_space
from numpy.typing import NDArray

from a2perf.api.views.table import Table
from a2perf.errors import UserError, did_you_mean
from a2perf.runs.bundles.layout import DATASET_NOTES
from a2perf.storage import read_json, write_json
from a2perf_datasets import frames, hdf5_file, naming
from a2perf_datasets.noise import POLICY_ACTION
from a2perf_datasets.space_json import Space, differences, from_json, leaves, nest
from a2perf_datasets.transitions import DatasetEpisode, Rows, Transitions

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

_NOTE_SCHEMA = 1


class OfflineDataset:
    """A dataset on disk; its episodes are read when they are needed.

    Args:
        path: its ``data`` folder.

    Attributes:
        metadata: content of ``metadata.json``.
        record: content of ``a2perf.json``; empty for a dataset not made by a2perf.

    Raises:
        UserError: its description cannot be read, or its file format is not supported.

    Example:
        >>> data = a2perf.open_dataset("quadruped_locomotion/dog_pace/expert-v0")
        >>> data.to_pandas()["return"].mean()
        >>> for batch in data.transitions().batches(256, seed=0, epochs=10):
        ...     ...  # batch.observations, batch.actions
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = _json_object(path / naming.METADATA_FILE)
        record = path / naming.RECORD_FILE
        self.record: dict[str, Any] = _json_object(record) if record.is_file() else {}
        if self.metadata.get("data_format", "hdf5") != "hdf5":
            raise UserError(
                f"{path} has the data format {self.metadata['data_format']!r}; only 'hdf5' is supported",
                hint="convert it with minari",
            )

    @property
    def file(self) -> Path:
        """The file of the episodes."""
        return self.path / naming.DATA_FILE

    @property
    def id(self) -> str:
        """The name."""
        return str(self.metadata.get("dataset_id") or self.path.parent.name)

    @property
    def env_id(self) -> str:
        """Id of the environment; empty when it is not recorded."""
        return str(self.record.get("env_id") or self._env_spec.get("id") or "")

    @property
    def env_kwargs(self) -> dict[str, Any]:
        """Arguments of the environment."""
        return dict(self.record.get("env_kwargs") or {})

    @property
    def content_sha256(self) -> str:
        """Recorded hash of the episodes; empty without a record."""
        return str(self.record.get("content_sha256", ""))

    @functools.cached_property
    def observation_space(self) -> Space:
        """The space of the observations."""
        return self._space("observation_space")

    @functools.cached_property
    def action_space(self) -> Space:
        """The space of the actions."""
        return self._space("action_space")

    @property
    def episode_count(self) -> int:
        """Number of episodes."""
        return len(self.lengths)

    @property
    def step_count(self) -> int:
        """Total number of steps."""
        return int(self.lengths.sum())

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Steps of each episode, (episodes,)."""
        return self._columns[0]

    @property
    def returns(self) -> NDArray[np.float64]:
        """Undiscounted return of each episode, (episodes,)."""
        return self._columns[1]

    @property
    def seeds(self) -> NDArray[np.int64]:
        """Seed of each episode, (episodes,); -1 if it is not recorded."""
        return self._columns[2]

    def require_fit(self, env: Any) -> None:
        """Raises UserError with the differences of the spaces if the dataset belongs to another environment.

        Args:
            env: a Gymnasium environment, or its observation and action space.
        """
        observation, action = env if isinstance(env, tuple) else (env.observation_space, env.action_space)
        names = ("the dataset", "the environment")
        lines = differences(self.observation_space, observation, "observation", names=names)
        lines += differences(self.action_space, action, "action", names=names)
        if lines:
            raise UserError(
                f"the dataset {self.id} of {self.env_id or 'another environment'} does not match the environment: "
                + "; ".join(lines),
                hint="use a dataset of this task",
            )

    def episode(self, index: int) -> DatasetEpisode:
        """Reads one episode.

        Raises:
            UserError: the episode does not exist or is damaged.
        """
        return next(self.episodes([index]))

    def episodes(self, indices: Sequence[int] | None = None) -> Iterator[DatasetEpisode]:
        """Reads the episodes with these numbers, or all, one after the other.

        Raises:
            UserError: an episode does not exist or is damaged.
        """
        wanted = list(range(self.episode_count)) if indices is None else [self._checked(index) for index in indices]
        self.note_use(int(sum(self.lengths[index] for index in wanted)))
        parts = {"observations": self.observation_space, "actions": self.action_space}
        needed = [path for name, space in parts.items() for path, _ in leaves(space, name)]
        scalars = ("rewards", "terminations", "truncations")
        with hdf5_file.opened(self.file) as stream:
            for index in wanted:
                group = hdf5_file.group_of(stream, index)
                infos = [path for path in hdf5_file.array_names(stream, group) if path.startswith("infos/")]
                paths = (*needed, *scalars, *infos)
                arrays = {path: hdf5_file.read_array(stream, group, path) for path in paths}
                yield DatasetEpisode(
                    index=index,
                    seed=int(self.seeds[index]),
                    infos=_infos(arrays),
                    **{name: nest(space, arrays, name) for name, space in parts.items()},
                    **{name: arrays[name] for name in scalars},
                )

    def transitions(
        self,
        *,
        next_observations: bool = False,
        keys: Sequence[str] | None = None,
        episodes: Sequence[int] | None = None,
        infos: Sequence[str] = (),
        limit: int | None = None,
    ) -> Transitions:
        """Loads transitions into arrays.

        Args:
            next_observations: whether to load the observations after the actions.
            keys: entries of a ``Dict`` observation to load; all by default.
            episodes: numbers of the episodes; all by default.
            infos: entries of ``info`` to load.
            limit: most transitions to load.

        Raises:
            UserError: an entry does not exist, there are no transitions, or the file is damaged.
        """
        lengths, kept = self._limited(episodes, limit)
        total = int(sum(lengths))
        if not total:
            raise UserError(f"the selected part of {self.id} has no transitions", hint="select more episodes")
        extra = 1 if next_observations else 0
        starts = np.concatenate([[0], np.cumsum(np.array(lengths, np.int64) + extra)])
        ends = np.concatenate([[0], np.cumsum(np.array(lengths, np.int64))])
        always = [name for name in self.record.get("infos", ()) if name == POLICY_ACTION and name not in infos]
        seen = [*self._observation_paths(keys), *(f"infos/{name}" for name in (*infos, *always))]
        taken = [path for path, _ in leaves(self.action_space, "actions")] + ["rewards", "terminations", "truncations"]
        rows_of = {path: total + extra * len(kept) for path in seen} | dict.fromkeys(taken, total)
        with hdf5_file.opened(self.file) as stream:
            reader = hdf5_file.RowReader(stream, rows_of)
            for place, index in enumerate(kept):
                for path in seen:
                    reader.read(index, path, int(starts[place]), lengths[place] + extra)
                for path in taken:
                    reader.read(index, path, int(ends[place]), lengths[place])
        before: Rows | None = None
        if next_observations:
            # Every earlier episode has one row more than it has transitions.
            before = np.arange(total, dtype=np.int64) + np.repeat(np.arange(len(kept), dtype=np.int64), lengths)
        self.note_use(total)
        spaces = {"observations": self.observation_space, "actions": self.action_space}
        return Transitions(spaces, reader.arrays, before, np.repeat(np.array(kept, np.int64), lengths))

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a frame with one row per episode: number, seed, steps and undiscounted return.

        A seed that is not recorded is missing.

        Raises:
            MissingDependency: pandas is not installed.
        """
        seeds = [None if seed < 0 else int(seed) for seed in self.seeds]
        episodes = np.arange(self.episode_count)
        columns: dict[str, Any] = {"episode": episodes, "seed": seeds, "steps": self.lengths, "return": self.returns}
        return Table(columns, kinds={"seed": "int"}).to_pandas().astype({"seed": "Int64"})

    def plot(self) -> Figure:
        """Returns the distribution of the episode returns as a matplotlib figure."""
        return frames.return_figure(self.id, self.returns, self.step_count)

    def __len__(self) -> int:
        """Returns the number of episodes."""
        return self.episode_count

    def __repr__(self) -> str:
        text = f"{self.id}: {self.episode_count} episodes, {self.step_count} steps"
        return f"{text}, mean return {self.returns.mean():.4g}" if self.episode_count else text

    def note_use(self, samples: int) -> None:
        """Records in the artifacts of a training run that it read so many samples; the largest number stays.

        The data-cost metric reads this note. Outside of a training run nothing is written.
        """
        place = os.environ.get("A2PERF_ARTIFACTS") or os.environ.get("ROOT_DIR")
        if not place or not os.access(place, os.W_OK):
            return
        path = Path(place) / DATASET_NOTES / (re.sub(r"[^-.\w]+", "_", self.id) + ".json")
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            before = json.loads(path.read_text(encoding="utf-8"))
            if before["content_sha256"] == self.content_sha256 and samples <= int(before["samples"]):
                return
        cost = self.record.get("cost") or {}
        note = {
            "schema": _NOTE_SCHEMA,
            "dataset_id": self.id,
            "content_sha256": self.content_sha256,
            "samples": samples,
            "checkpoint_kwh": cost.get("checkpoint_kwh", []),
            "per_sample_kwh": cost.get("per_sample_kwh"),
            "generation": cost.get("generation", {}),
            "training": cost.get("training", {}),
        }
        write_json(path, note)

    def _checked(self, index: int) -> int:
        if not 0 <= index < self.episode_count:
            raise UserError(f"{self.id} has no episode {index}", hint=f"use 0 to {self.episode_count - 1}")
        return index

    def _limited(self, episodes: Sequence[int] | None, limit: int | None) -> tuple[list[int], list[int]]:
        """Returns the steps to read of each episode, and the numbers of these episodes."""
        lengths: list[int] = []
        kept: list[int] = []
        left: float = math.inf if limit is None else limit
        for index in range(self.episode_count) if episodes is None else [self._checked(index) for index in episodes]:
            if left <= 0:
                break
            lengths.append(int(min(left, self.lengths[index])))
            kept.append(index)
            left -= lengths[-1]
        return lengths, kept

    def _observation_paths(self, keys: Sequence[str] | None) -> list[str]:
        paths = [path for path, _ in leaves(self.observation_space, "observations")]
        if keys is None:
            return paths
        names = {path.split("/")[1] for path in paths if "/" in path}
        for key in keys:
            if key not in names:
                raise UserError(
                    f"the observations of {self.id} have no entry {key!r}{did_you_mean(key, names)}",
                    hint=f"choose from: {', '.join(sorted(names))}" if names else "observations are one array",
                )
        return [path for path in paths if path.split("/")[1] in keys]

    @functools.cached_property
    def _env_spec(self) -> Mapping[str, Any]:
        try:
            spec = json.loads(self.metadata.get("env_spec") or "{}")
        except (TypeError, ValueError):
            return {}
        return spec if isinstance(spec, dict) else {}

    @functools.cached_property
    def _columns(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
        with hdf5_file.opened(self.file) as stream:
            lengths, returns, seeds = hdf5_file.read_columns(stream)
        return np.array(lengths, np.int64), np.array(returns, np.float64), np.array(seeds, np.int64)

    def _space(self, name: str) -> Space:
        text = self.metadata.get(name)
        if not isinstance(text, str):
            raise UserError(
                f"{self.path / naming.METADATA_FILE} has no {name!r}", hint="create the dataset with its spaces"
            )
        space = from_json(text)
        if self.metadata.get("jpeg_encoding") is True and any(is_image_space(leaf) for _, leaf in leaves(space, "")):
            raise UserError(
                f"{self.path} contains JPEG pictures, which are not supported", hint="write it with jpeg_encoding=False"
            )
        return space


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

    Example:
        >>> data = a2perf.open_dataset("quadruped_locomotion/dog_pace/expert-v0")
        >>> frame = data.to_pandas()  # one row per episode
        >>> data.plot()
    """
    return OfflineDataset(naming.find(name, naming.root_folder(datasets_path)))


def list_datasets(datasets_path: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """Returns a record per dataset of a folder, sorted by name: ``dataset_id``, ``total_episodes`` and ``total_steps``.

    ``problem`` stands instead of the numbers if its description cannot be read.
    """
    root = naming.root_folder(datasets_path)
    found: list[dict[str, Any]] = []
    for name in naming.all_ids(root):
        try:
            metadata = open_dataset(root / name).metadata
        except UserError as error:
            found.append({"dataset_id": name, "problem": error.message})
            continue
        found.append({"dataset_id": name, **{key: metadata.get(key) for key in ("total_episodes", "total_steps")}})
    return found


def _infos(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Returns the entries of ``info`` in the arrays of an episode, nested as Minari nests them."""
    found: dict[str, Any] = {}
    for path, array in arrays.items():
        if path.startswith("infos/"):
            *above, name = path.removeprefix("infos/").split("/")
            inner = found
            for part in above:
                inner = inner.setdefault(part, {})
            inner[name] = array
    return found


def _json_object(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}", hint="copy or generate the dataset again") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} is not a JSON object", hint="copy or generate the dataset again")
    return found
