"""Logs of other tools that can be imported: TensorBoard folders, CSV, histories of W&B, Stable-Baselines3 logs.

``foreign_identity`` finds the identity of a run, from its configuration or the names of its folders.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import UserError, did_you_mean
from a2perf.runs.files import files_of
from a2perf.runs.foreign_identity import (
    CONFIG_KEYS,
    ForeignIdentity,
    folders_above,
    identity_of,
    monitor_config,
    monitor_head,
    runs_in_table,
)
from a2perf.runs.log_files import WANDB_HINT, WANDB_SUFFIX, LogKind, is_trainer_log, log_kind
from a2perf.runs.run_record import folder_name
from a2perf.runs.series import STEP_COLUMNS
from a2perf.runs.tables import MAX_BYTES, CsvTable, plain_cell, read_table
from a2perf.runs.writer_children import writer_children
from a2perf.storage import MAX_VALUES, read_json, values_of_json
from a2perf.stranger_files import Bounds, folders

Column = NDArray[np.float64]
_STEP_KEYS = ("global_step", "_step")
_NOT_METRICS = ("_step", "_timestamp", "_runtime", "_wandb")
_SPECIAL = ("NaN", "Infinity", "-Infinity")

FORMATS = ("tensorboard", "csv", "wandb", "sb3")


@dataclass
class ForeignRun:
    """A run that was found.

    Attributes:
        path: its folder or file.
        tables: the tables to write, by file name: header and rows.
        config: its configuration, as far as it is recorded.
        started_s: seconds since the epoch, 0 when unknown.
    """

    source: str
    path: Path
    files: list[Path] = field(default_factory=list)
    tables: dict[str, list[list[object]]] = field(default_factory=dict)
    name: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    started_s: float = 0.0

    def identity(self) -> ForeignIdentity:
        """Returns experiment, environment and seed, as far as the configuration or the names contain them."""
        return identity_of(self.name, folders_above(Path(os.path.abspath(self.path))), self.config)


def find_imports(paths: Sequence[Path], kind: str | None = None) -> list[ForeignRun]:
    """Finds the runs at or below folders and files.

    Args:
        kind: only runs of this format.

    Raises:
        UserError: a path does not exist, the format is unknown, or nothing is found.
    """
    if kind is not None and kind not in FORMATS:
        raise UserError(
            f"{kind!r} is not a format{did_you_mean(kind, FORMATS)}", hint=f"choose one of {', '.join(FORMATS)}"
        )
    found: list[ForeignRun] = []
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist", hint="give a folder or file of logs")
        found += _of_file(path) if path.is_file() else _below(path)
    found = list({(item.path, item.name, *item.files): item for item in found}.values())  # a path may be given twice
    found = [item for item in _joined(found) if kind is None or item.source == kind]
    if not found:
        wanted = f"{kind} logs" if kind else "event files, progress.csv, monitor.csv, history.jsonl or CSV files"
        offline = any(path.is_dir() and next(path.rglob(f"*{WANDB_SUFFIX}"), None) for path in paths)
        hint = WANDB_HINT if offline else "give the folder that holds them"
        raise UserError(f"no {wanted} in {', '.join(map(str, paths))}", hint=hint)
    return found


def _joined(found: Sequence[ForeignRun]) -> list[ForeignRun]:
    """Joins the pieces of a run: tables of one folder that continue each other."""
    by_id: dict[tuple[str, ...], ForeignRun] = {}
    for number, item in enumerate(sorted(found, key=lambda item: (item.started_s, _first_step(item)))):
        key: tuple[str, ...] = (str(number),)
        if item.source == "csv" and len(item.config) == len(CONFIG_KEYS):
            header = item.tables["curve.csv"][0]
            key = (item.source, str(item.path.parent), *map(str, (*sorted(item.config.items()), *header)))
        known = by_id.get(key)
        if known is None:
            by_id[key] = item
        elif _first_step(item) > _first_step(known):
            known.tables["curve.csv"] += item.tables["curve.csv"][1:]
        else:  # another run of the same seed
            by_id[*key, str(number)] = item
    order = {id(item): place for place, item in enumerate(found)}
    return sorted(by_id.values(), key=lambda item: order[id(item)])


def _first_step(item: ForeignRun) -> float:
    rows = item.tables.get("curve.csv", [])
    step = next((rows[0].index(name) for name in STEP_COLUMNS if rows and name in rows[0]), None)
    return float("-inf") if step is None else next((float(str(row[step])) for row in rows[1:] if row[step] != ""), 0.0)


def _below(top: Path) -> Iterator[ForeignRun]:
    for folder, names, files in folders(top, Bounds(entries=2_000_000)):
        names[:] = sorted(name for name in names if not name.startswith("."))
        path = Path(folder)
        here = [path / name for name in sorted(files) if stat.S_ISREG((path / name).lstat().st_mode)]
        if any(file.suffix == WANDB_SUFFIX for file in here):
            names.clear()  # the folders below hold copies of the run's files
            continue
        known = [file for file in here if is_trainer_log(file.name)]
        if known:
            children = writer_children(path, names, [file.name for file in here])
            names[:] = [name for name in names if name not in children]
            yield _of_folder(path, [*known, *(path / child / log for child, logs in children.items() for log in logs)])
        for file in here:
            if file not in known and file.suffix in (".csv", ".jsonl"):
                yield from _of_file(file)


def _of_file(path: Path) -> Iterable[ForeignRun]:
    if path.suffix == WANDB_SUFFIX:
        raise UserError(f"{path} is an offline run of Weights & Biases, which is not read", hint=WANDB_HINT)
    if is_trainer_log(path.name):
        # a file stands for all files of its kind in its folder: parts of one run
        kind = log_kind(path.name)
        return [_of_folder(path.parent, sorted(f for f in path.parent.iterdir() if log_kind(f.name) is kind))]
    if path.suffix == ".jsonl":
        return _of_history(path)
    return _of_csv(path)


def _of_folder(folder: Path, files: list[Path]) -> ForeignRun:
    kinds = {log_kind(file.name) for file in files}
    name = os.path.basename(os.path.abspath(folder))
    item = ForeignRun("tensorboard" if kinds == {LogKind.EVENTS} else "sb3", folder, files, name=name)
    heads = [monitor_head(files_of(folder), file.name) for file in files if log_kind(file.name) is LogKind.MONITOR]
    item.started_s = min((_number(head.get("t_start")) for head in heads), default=0.0)
    item.config |= monitor_config(heads)
    return item


def _of_history(path: Path) -> list[ForeignRun]:
    """A history with one JSON object per line, as ``wandb.Api().run(...).scan_history()`` returns them."""
    rows: list[dict[str, Any]] = []
    values = 0
    if path.stat().st_size > MAX_BYTES:
        raise UserError(f"{path} is larger than {MAX_BYTES >> 20} MiB", hint="export fewer rows or columns")
    with path.open(encoding="utf-8-sig", errors="replace") as stream:
        for line in stream:
            values += 4 + values_of_json(line.encode())
            if values > MAX_VALUES:
                raise UserError(f"{path} holds more than {MAX_VALUES} values", hint="export fewer rows or columns")
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                rows.append(row)
    series = history_series(rows)
    if not series:
        return []
    item = ForeignRun("wandb", path, name=path.parent.name if path.stem in ("history", "wandb-history") else path.stem)
    item.tables = _tables(series)
    configured = path.parent / "config.json"
    if configured.is_file():
        config = read_json(configured)
        if isinstance(config, dict):
            item.config = {name: value for name, value in config.items() if not name.startswith("_")}
    return [item]


def _tables(series: dict[str, tuple[Column, Column, Column]]) -> dict[str, list[list[object]]]:
    tables: dict[str, list[list[object]]] = {}
    for name, (steps, values, times) in series.items():
        rows = [[plain_cell(cell) for cell in row] for row in zip(steps, values, times, strict=True)]
        file = folder_name(name)
        while f"{file}.csv" in tables:  # another metric has the same name as a file
            file += "_"
        tables[f"{file}.csv"] = [["step", name, "elapsed_s"], *rows]
    return tables


def _of_csv(path: Path) -> list[ForeignRun]:
    """A table of one run, or of several runs distinguished by columns such as ``env_id`` and ``seed``."""
    table = read_table(path)
    if "_step" in table.columns or any(" - " in name for name in table.columns):
        raise UserError(f"{path} is a table that Weights & Biases exported, which is not read", hint=WANDB_HINT)
    if not any(table.numbers(name) is not None for name in STEP_COLUMNS):
        return []
    runs = runs_in_table(table)
    if not runs:
        return [ForeignRun("csv", path, [path], name=path.stem)]
    found = []
    for config, rows in runs:
        item = ForeignRun("csv", path, name="_".join([path.stem, *config.values()]), config=dict(config))
        item.tables["curve.csv"] = _rows(table, rows, leave_out=list(config))
        found.append(item)
    return found


def _rows(table: CsvTable, chosen: np.ndarray[Any, np.dtype[np.bool_]], leave_out: Sequence[str]) -> list[list[object]]:
    names = [name for name in table.columns if name not in leave_out and table.numbers(name) is not None]
    columns = [np.asarray(table.columns[name])[chosen] for name in names]
    return [list(names), *([plain_cell(cell) for cell in row] for row in zip(*columns, strict=True))]


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0


def history_series(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[Column, Column, Column]]:
    """Returns steps, values and seconds since the first row of every number that was logged.

    The step is ``global_step`` if the run logged that anywhere, else ``_step``. A row without its step, from a separate
    call, has the last one that was logged.
    """
    axis = next((key for key in _STEP_KEYS if any(key in row for row in rows)), "")
    step = next((_logged(row[axis]) for row in rows if axis in row), 0.0)  # rows before the first step have that step
    began = next((_logged(row["_timestamp"]) for row in rows if "_timestamp" in row), 0.0)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for index, row in enumerate(rows):
        step = _logged(row.get(axis, step)) if axis else float(index)
        seconds = _logged(row.get("_timestamp")) - began
        for name, value in row.items():
            if name not in _NOT_METRICS and (isinstance(value, int | float | bool) or value in _SPECIAL):
                found.setdefault(name, []).append((step, _logged(value), seconds))
    columns = {name: np.array(points, np.float64).T for name, points in found.items()}
    return {name: (table[0].copy(), table[1].copy(), table[2].copy()) for name, table in columns.items()}


def _logged(value: Any) -> float:
    if isinstance(value, str):
        return float(value.replace("Infinity", "inf")) if value in _SPECIAL else float("nan")
    try:
        return float(value) if isinstance(value, int | float) else float("nan")
    except OverflowError:  # an integer of hundreds of digits
        return float("nan")
