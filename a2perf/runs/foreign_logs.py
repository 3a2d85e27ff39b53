"""Logs of other tools that can be imported: TensorBoard folders, CSV, offline tracker runs, Stable-Baselines3 logs.

The identity of a run comes from its configuration or, without one, from the name of its folder:
``<env>__<experiment>__<seed>__<time>`` as single-file trainers name their folders, ``.../seed_3/...``, ``PPO_2``.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.errors import UserError, did_you_mean
from a2perf.runs.log_files import LogKind, is_trainer_log, log_kind
from a2perf.runs.run_record import folder_name
from a2perf.runs.series import STEP_COLUMNS
from a2perf.runs.tables import CsvTable, read_table
from a2perf.runs.tracker_tables import TableSeries, chart_curves, history_series, kept_run
from a2perf.runs.wandb_log import MAX_BYTES, WandbLog, read_wandb_log
from a2perf.storage import read_json
from a2perf.stranger_files import Bounds, folders

_MOST_CHARACTERS = 1 << 20  # of the line of JSON at the head of a Monitor file
FORMATS = ("tensorboard", "csv", "wandb", "sb3")
_NAMED = re.compile(r"^(?P<env>.+?)__(?P<exp>.+?)__(?P<seed>\d+)(?:__\d+)?$")
_SEEDED = re.compile(r"(?:^|[_\-])seed[_\-=]?(?P<seed>\d+)(?:$|[_\-])", re.IGNORECASE)
_NUMBERED = re.compile(r"^(?P<exp>.*?)[_\-](?P<seed>\d+)$")
_IDENTITY = {
    "env_id": ("env_id", "env", "environment", "gym_id"),
    "experiment": ("exp_name", "experiment", "algo", "algorithm"),
    "seed": ("seed",),
}


@dataclass
class ForeignRun:
    """A run that was found.

    Attributes:
        source: its format.
        path: its folder or file.
        files: the files to copy.
        tables: the tables to write, by file name: header and rows.
        name: the name from which its identity is guessed.
        config: its configuration, as far as it is recorded.
        tags: its tags.
        user: the user who ran it; ``""`` if unknown.
        started_s: seconds since the epoch, 0 when unknown.
        finished: whether it finished, according to its files.
    """

    source: str
    path: Path
    files: list[Path] = field(default_factory=list)
    tables: dict[str, list[list[object]]] = field(default_factory=dict)
    name: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    user: str = ""
    started_s: float = 0.0
    finished: bool = True


def find_imports(paths: Sequence[Path], kind: str | None = None) -> list[ForeignRun]:
    """Finds the runs at or below folders and files.

    Args:
        paths: folders and files.
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
    found = [item for item in found if kind is None or item.source == kind]
    if not found:
        wanted = f"{kind} logs" if kind is not None else "event files, progress.csv, monitor.csv, *.wandb or CSV files"
        raise UserError(f"no {wanted} in {', '.join(map(str, paths))}", hint="give the folder that holds them")
    return found


def guess_identity(item: ForeignRun) -> dict[str, Any]:
    """Returns ``experiment``, ``env_id`` and ``seed``, as far as the configuration or the name contain them."""
    found: dict[str, Any] = {"experiment": "", "env_id": "", "seed": None}
    named = _NAMED.match(item.name)
    seeded = next((match for part in reversed(item.path.parts) if (match := _SEEDED.search(part))), None)
    numbered = _NUMBERED.match(item.name)
    if named is not None:
        found = {"experiment": named["exp"], "env_id": named["env"], "seed": int(named["seed"])}
    elif seeded is not None:
        found["seed"] = int(seeded["seed"])
        rest = _SEEDED.sub("", item.name).strip("_-")
        found["experiment"] = rest or item.path.parent.name
    elif numbered is not None:
        found["experiment"], found["seed"] = numbered["exp"], int(numbered["seed"])
    else:
        found["experiment"] = item.name
    for name, keys in _IDENTITY.items():
        value = next((item.config[key] for key in keys if item.config.get(key) not in (None, "")), None)
        if value is not None:
            found[name] = int(value) if name == "seed" else str(value)
    return found


def _below(top: Path) -> Iterator[ForeignRun]:
    for folder, names, files in folders(top, Bounds(entries=2_000_000)):
        names[:] = sorted(name for name in names if not name.startswith("."))
        path = Path(folder)
        here = [path / name for name in sorted(files) if stat.S_ISREG((path / name).lstat().st_mode)]
        logs = [file for file in here if file.suffix == ".wandb"]
        if logs:
            names.clear()  # the folders below hold copies of the same data
            yield from (_of_wandb(file) for file in logs)
            continue
        known = [file for file in here if is_trainer_log(file.name)]
        if known:
            yield _of_folder(path, known)
        for file in here:
            if file not in known and file.suffix in (".csv", ".jsonl"):
                yield from _of_file(file)


def _of_file(path: Path) -> Iterable[ForeignRun]:
    if path.suffix == ".wandb":
        return [_of_wandb(path)]
    if is_trainer_log(path.name):
        return [_of_folder(path.parent, [path])]
    if path.suffix == ".jsonl":
        return _of_history(path)
    return _of_csv(path)


def _of_folder(folder: Path, files: list[Path]) -> ForeignRun:
    kinds = {log_kind(file.name) for file in files}
    name = os.path.basename(os.path.abspath(folder))
    item = ForeignRun("tensorboard" if kinds == {LogKind.EVENTS} else "sb3", folder, files, name=name)
    for file in files:
        if log_kind(file.name) is LogKind.MONITOR:
            with file.open(encoding="utf-8", errors="replace") as stream:
                first = stream.readline(_MOST_CHARACTERS)
            try:
                head = json.loads(first.removeprefix("#"))
            except (ValueError, RecursionError):
                continue
            if isinstance(head, dict):
                item.started_s = float(head.get("t_start") or 0)
                if isinstance(head.get("env_id"), str) and head["env_id"] != "None":
                    item.config["env_id"] = head["env_id"]
    return item


def _of_wandb(path: Path) -> ForeignRun:
    log = read_wandb_log(path)
    if log.problems and not log.run_id:
        raise UserError(f"{path}: {log.problems[0]}", hint="give the folder of an offline run, wandb/offline-run-*")
    item = ForeignRun("wandb", path, [path], name=log.name or log.run_id or path.stem, config=dict(log.config))
    item.tags, item.user, item.started_s = list(log.tags), log.entity, log.started_s
    item.finished = log.exit_code == 0
    return item


def _of_history(path: Path) -> list[ForeignRun]:
    """A history with one JSON object per line, as the tracker's interface returns them."""
    rows = []
    if path.stat().st_size > MAX_BYTES:
        raise UserError(f"{path} is larger than {MAX_BYTES >> 20} MiB", hint="export fewer rows or columns")
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                rows.append(row)
    series = WandbLog(rows=rows).series()
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


def _tables(series: TableSeries) -> dict[str, list[list[object]]]:
    tables: dict[str, list[list[object]]] = {}
    for name, (steps, values, times) in series.items():
        rows = [[_plain(cell) for cell in row] for row in zip(steps, values, times, strict=True)]
        file = folder_name(name)
        while f"{file}.csv" in tables:  # another metric has the same name as a file
            file += "_"
        tables[f"{file}.csv"] = [["step", name, "elapsed_s"], *rows]
    return tables


def _of_tracker(path: Path, table: CsvTable) -> list[ForeignRun]:
    """A table that a tracker exported: the history of one run, or a chart with a column for each run."""
    curves = chart_curves(table, path)
    if curves:
        return [ForeignRun("wandb", path, name=run, tables=_tables(series)) for run, series in curves.items()]
    series = history_series(table)
    if not series:
        return []
    kept = kept_run(path)
    item = ForeignRun("wandb", path, name=kept.get("name") or path.stem, tables=_tables(series))
    if kept:
        item.config, item.tags, item.user = kept["config"], kept["tags"], kept["user"]
        item.finished = kept["state"] == "finished"
    return [item]


def _of_csv(path: Path) -> list[ForeignRun]:
    """A table of one run, or of several runs distinguished by columns such as ``env_id`` and ``seed``."""
    table = read_table(path)
    exported = _of_tracker(path, table)
    if exported:
        return exported
    if not any(table.numbers(name) is not None for name in STEP_COLUMNS):
        return []
    keys = {
        name: next((column for column in columns if column in table.columns), None)
        for name, columns in _IDENTITY.items()
    }
    telling = [column for column in keys.values() if column is not None]
    if not telling:
        return [ForeignRun("csv", path, [path], name=path.stem)]
    found = []
    cells = list(zip(*([str(_plain(cell)) for cell in table.columns[column]] for column in telling), strict=True))
    for group in dict.fromkeys(cells):
        rows = np.array([cell == group for cell in cells])
        item = ForeignRun(
            "csv", path, name="_".join([path.stem, *group]), config=dict(zip(telling, group, strict=True))
        )
        item.tables["curve.csv"] = _rows(table, rows, leave_out=telling)
        found.append(item)
    return found


def _rows(table: CsvTable, chosen: np.ndarray[Any, np.dtype[np.bool_]], leave_out: Sequence[str]) -> list[list[object]]:
    names = [name for name in table.columns if name not in leave_out and table.numbers(name) is not None]
    columns = [np.asarray(table.columns[name])[chosen] for name in names]
    return [list(names), *([_plain(cell) for cell in row] for row in zip(*columns, strict=True))]


def _plain(cell: Any) -> Any:
    if isinstance(cell, float | np.floating):
        return "" if np.isnan(cell) else int(cell) if float(cell).is_integer() else float(cell)
    return cell
