"""The steps and episodes of a dataset as Parquet tables, for tools that do not read HDF5.

``steps.parquet`` has one row per step and ``episodes.parquet`` one row per episode. Together they hold every value of
the HDF5 file: an episode has one more observation than actions, and that last row of its observations and infos is in
the columns ``final_...`` of the episode. A column is named after its array, with dots in place of slashes; an array
with several dimensions is a list in row-major order. Needs the package ``pyarrow`` (extra ``frames``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.datasets import hdf5_file
from a2perf.datasets.hdf5_file import EpisodeArrays
from a2perf.datasets.reader import Dataset
from a2perf.errors import MissingDependency, UserError, install_hint

STEPS_FILE, EPISODES_FILE = "steps.parquet", "episodes.parquet"
FINAL = "final_"
_HINT = "read it from the HDF5 file: tables cannot hold it"
_ROWS_PER_GROUP = 65_536
_PER_STEP = ("actions", "rewards", "terminations", "truncations")
_ORDER = ("observations", *_PER_STEP, "infos")


@dataclass(frozen=True)
class ArrayColumn:
    """One array of the episodes as a column.

    Attributes:
        path: its path in an episode of the HDF5 file, ``"observations/mask"``.
        shape: shape of one row; ``()`` for a single number.
    """

    path: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the column: the path with dots."""
        return self.path.replace("/", ".")

    @property
    def per_step(self) -> bool:
        """Whether it has one row per step; otherwise it has one more."""
        return self.path.partition("/")[0] in _PER_STEP

    @property
    def is_text(self) -> bool:
        """Whether its values are texts."""
        return self.dtype.kind in "OSU"


def columns_of(data: Dataset) -> list[ArrayColumn]:
    """Returns the arrays of a dataset's episodes, from the first episode; empty for a dataset without episodes.

    Raises:
        UserError: the file is damaged.
    """
    with hdf5_file.opened(data.file) as stream:
        if not hdf5_file.episode_count(stream):
            return []
        arrays = hdf5_file.read_episode(stream, 0).arrays
    found = [
        ArrayColumn(path, array.dtype, tuple(array.shape[1:]))
        for path, array in arrays.items()
        if path.partition("/")[0] in _ORDER
    ]
    return sorted(found, key=lambda column: (_ORDER.index(column.path.partition("/")[0]), column.path))


def write_tables(data: Dataset, folder: Path) -> tuple[Path, Path]:
    """Writes the steps and the episodes of a dataset as Parquet files.

    Args:
        data: the dataset; at most one episode is in memory.

    Returns:
        The paths of ``steps.parquet`` and ``episodes.parquet``.

    Raises:
        MissingDependency: the package ``pyarrow`` is not installed.
        UserError: the dataset has no episodes, is damaged, or an episode has other arrays than the first.
    """
    arrow, parquet = _library()
    columns = columns_of(data)
    if not columns:
        raise UserError(f"{data.id} has no episodes", hint="generate the dataset again")
    paths = folder / STEPS_FILE, folder / EPISODES_FILE
    unfinished = [path.with_name(f".{path.name}.{os.getpid()}") for path in paths]
    kinds = {column.path: _arrow_type(arrow, column) for column in columns}
    steps_schema = arrow.schema(
        [("episode", arrow.int64()), ("step", arrow.int64()), *((c.name, kinds[c.path]) for c in columns)]
    )
    episodes_schema = arrow.schema(
        [
            *((name, arrow.int64()) for name in ("episode", "seed", "steps")),
            ("return", arrow.float64()),
            ("policy", arrow.int64()),
            ("success", arrow.bool_()),
            *((FINAL + c.name, kinds[c.path]) for c in columns if not c.per_step),
        ]
    )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with (
            hdf5_file.opened(data.file) as stream,
            parquet.ParquetWriter(unfinished[0], steps_schema) as steps,
            parquet.ParquetWriter(unfinished[1], episodes_schema) as episodes,
        ):
            waiting: list[tuple[Any, Any]] = []
            rows = 0
            for index in range(hdf5_file.episode_count(stream)):
                episode = hdf5_file.read_episode(stream, index)
                _require_same_arrays(data, index, episode, columns)
                waiting.append(_tables(arrow, index, episode, columns, steps_schema, episodes_schema))
                rows += episode.steps
                if rows >= _ROWS_PER_GROUP:  # small row groups would make files of short episodes large
                    _write(arrow, steps, episodes, waiting)
                    waiting, rows = [], 0
            _write(arrow, steps, episodes, waiting)
        for part, path in zip(unfinished, paths, strict=True):
            os.replace(part, path)
    finally:
        for part in unfinished:
            part.unlink(missing_ok=True)
    return paths


def _write(arrow: Any, steps: Any, episodes: Any, waiting: list[tuple[Any, Any]]) -> None:
    if waiting:
        steps.write_table(arrow.concat_tables([pair[0] for pair in waiting]))
        episodes.write_table(arrow.concat_tables([pair[1] for pair in waiting]))


def _tables(
    arrow: Any, index: int, episode: EpisodeArrays, columns: list[ArrayColumn], steps_schema: Any, episodes_schema: Any
) -> tuple[Any, Any]:
    count = episode.steps
    rows: dict[str, Any] = {"episode": np.full(count, index), "step": np.arange(count)}
    last: dict[str, Any] = {
        "episode": [index],
        "seed": [episode.seed if episode.seed >= 0 else None],
        "steps": [count],
        "return": [episode.episode_return],
        "policy": [_optional(episode.attributes, "policy", int)],
        "success": [_optional(episode.attributes, "success", bool)],
    }
    for column in columns:
        array = episode.arrays[column.path]
        kind = steps_schema.field(column.name).type
        rows[column.name] = _arrow_array(arrow, array[:count], column, kind)
        if not column.per_step:
            last[FINAL + column.name] = _arrow_array(arrow, array[count : count + 1], column, kind)
    return arrow.table(rows, schema=steps_schema), arrow.table(last, schema=episodes_schema)


def _arrow_array(arrow: Any, rows: NDArray[Any], column: ArrayColumn, kind: Any) -> Any:
    flat = rows.reshape(-1)
    if column.is_text:
        values = arrow.array([_text(value) for value in flat.tolist()], arrow.string())
    else:
        values = arrow.array(np.ascontiguousarray(flat))
    if not column.shape:
        return values
    return arrow.FixedSizeListArray.from_arrays(values, type=kind)


def _arrow_type(arrow: Any, column: ArrayColumn) -> Any:
    if not column.is_text and column.dtype.kind not in "biuf":
        raise UserError(f"the array {column.path} has the type {column.dtype}", hint=_HINT)
    value = arrow.string() if column.is_text else arrow.from_numpy_dtype(column.dtype)
    if not column.shape:
        return value
    size = int(np.prod(column.shape))
    if not size:
        raise UserError(f"the array {column.path} is empty: its rows have shape {column.shape}", hint=_HINT)
    return arrow.list_(value, size)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _optional(attributes: Mapping[str, Any], name: str, kind: type) -> Any:
    return kind(attributes[name]) if name in attributes else None


def _require_same_arrays(data: Dataset, index: int, episode: EpisodeArrays, columns: list[ArrayColumn]) -> None:
    found = {
        path: (array.dtype, tuple(array.shape[1:]))
        for path, array in episode.arrays.items()
        if path.partition("/")[0] in _ORDER
    }
    wanted = {column.path: (column.dtype, column.shape) for column in columns}
    if found != wanted:
        names = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        raise UserError(
            f"{data.file}: episode {index} differs from the first one in {', '.join(names)}",
            hint="`a2perf validate DATASET` lists all problems",
        )


def _library() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "Parquet tables need the package pyarrow, which is not installed", hint=install_hint("frames")
        ) from error
    return pyarrow, parquet
