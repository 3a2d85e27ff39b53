"""Imports of logs of other tools: each run is copied into a bundle ``R/imported`` of the store.

Supported are TensorBoard folders, CSV files, histories of W&B and logs of Stable-Baselines3. The identity of a run is
the one that the caller states, otherwise the one that ``foreign_layouts`` finds. A run is written to a temporary
folder of the store and renamed into its place; importing it again changes nothing.
"""

from __future__ import annotations

import csv
import datetime
import glob
import hashlib
import json
import math
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf._version import __version__
from a2perf.errors import UserError, did_you_mean
from a2perf.records import Attempt, Manifest, RunState, SubmissionIdentity
from a2perf.runs.bundles.bundle import record_files, write_manifest
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.inventory import read_manifest
from a2perf.runs.bundles.layout import ARTIFACTS, MANIFEST
from a2perf.runs.bundles.log_files import (
    WANDB_HINT,
    WANDB_SUFFIX,
    LogKind,
    find_logs,
    is_trainer_log,
    log_kind,
    writer_children,
)
from a2perf.runs.bundles.process_identity import left_behind, mark
from a2perf.runs.bundles.run_record import RUN_FILE, ExperimentRun, folder_name, user_name
from a2perf.runs.foreign.foreign_layouts import (
    CONFIG_KEYS,
    configured_environment,
    folders_above,
    identity_of,
    monitor_config,
    monitor_head,
    runs_in_table,
)
from a2perf.runs.foreign.tables import ABSENT, MAX_BYTES, plain_cell, read_table
from a2perf.runs.run import RunIdentity
from a2perf.runs.series import STEP_COLUMNS, Series, SeriesReader
from a2perf.storage import MAX_VALUES, read_json, values_of_json, write_record
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
        tables: the tables to write, by file name: header and rows.
        started_s: seconds since the epoch, 0 when unknown.
    """

    source: str
    path: Path
    files: list[Path] = field(default_factory=list)
    tables: dict[str, list[list[object]]] = field(default_factory=dict)
    name: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    started_s: float = 0.0

    def identity(self) -> RunIdentity:
        """Returns algorithm, task and seed, as far as the configuration or the names contain them."""
        return identity_of(self.name, folders_above(Path(os.path.abspath(self.path))), self.config)


def find_imports(paths: Sequence[Path], kind: str | None = None) -> list[ForeignRun]:
    """Finds the runs at or below folders and files.

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
        names = [name for name in table.columns if name not in config and table.numbers(name) is not None]
        columns = [np.asarray(table.columns[name])[rows] for name in names]
        cells = ([plain_cell(cell) for cell in row] for row in zip(*columns, strict=True))
        item.tables["curve.csv"] = [list(names), *cells]
        found.append(item)
    return found


def _of_folder(folder: Path, files: list[Path]) -> ForeignRun:
    kinds = {log_kind(file.name) for file in files}
    name = os.path.basename(os.path.abspath(folder))
    item = ForeignRun("tensorboard" if kinds == {LogKind.EVENTS} else "sb3", folder, files, name=name)
    heads = [monitor_head(files_of(folder), file.name) for file in files if log_kind(file.name) is LogKind.MONITOR]
    starts = [start for head in heads if isinstance(start := head.get("t_start"), int | float) and math.isfinite(start)]
    item.started_s = float(min(starts)) if heads and len(starts) == len(heads) else 0.0
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
        elapsed = np.where(np.isnan(times), ABSENT, times)
        rows = [[plain_cell(cell) for cell in row] for row in zip(steps, values, elapsed, strict=True)]
        file = folder_name(name)
        while f"{file}.csv" in tables:  # another metric has the same name as a file
            file += "_"
        tables[f"{file}.csv"] = [["step", name, "elapsed_s"], *rows]
    return tables


def history_series(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[Column, Column, Column]]:
    """Returns steps, values and seconds since the first row of every number that was logged.

    The step is ``global_step`` if the run logged that anywhere, else ``_step``. A row without its step, from a separate
    call, has the last one that was logged.
    """
    axis = next((key for key in _STEP_KEYS if any(key in row for row in rows)), "")
    step = next((_as_float(row[axis]) for row in rows if axis in row), 0.0)  # rows before the first step have that step
    began = next((_as_float(row["_timestamp"]) for row in rows if "_timestamp" in row), 0.0)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for index, row in enumerate(rows):
        step = _as_float(row.get(axis, step)) if axis else float(index)
        seconds = _as_float(row.get("_timestamp")) - began
        for name, value in row.items():
            if name not in _NOT_METRICS and (isinstance(value, int | float | bool) or value in _SPECIAL):
                found.setdefault(name, []).append((step, _as_float(value), seconds))
    columns = {name: np.array(points, np.float64).T for name, points in found.items()}
    return {name: (table[0].copy(), table[1].copy(), table[2].copy()) for name, table in columns.items()}


def _as_float(value: Any) -> float:
    if isinstance(value, str):
        return float(value.replace("Infinity", "inf")) if value in _SPECIAL else float("nan")
    try:
        return float(value) if isinstance(value, int | float) else float("nan")
    except OverflowError:  # an integer of hundreds of digits
        return float("nan")


@dataclass(frozen=True)
class ImportedRun:
    """The result of importing one run.

    Attributes:
        new: whether it was imported now; false if the store already had it.
        conditions: what could not be read of a new run, one sentence each.
    """

    run_id: str
    source: str
    new: bool
    metrics: int
    conditions: tuple[str, ...] = ()


def import_run(
    store: Path, item: ForeignRun, *, experiment: str | None = None, env_id: str | None = None, seed: int | None = None,
    tags: Sequence[str] = (),
) -> ImportedRun:  # fmt: skip
    """Copies one run into the store; what is not given is taken from the run.

    Raises:
        UserError: its experiment or environment is unknown, or it holds no numbers.
    """
    guessed = item.identity()
    experiment = experiment or guessed.algorithm
    env_id = env_id or guessed.task
    _, env_kwargs, notice = configured_environment(item.config)
    seed = guessed.seed if seed is None else seed
    if not experiment or not env_id:
        missing = "experiment" if not experiment else "environment"
        raise UserError(
            f"the {missing} of {item.path} is unknown{f' ({notice})' if notice else ''}",
            hint=f"add {'--exp-name NAME' if not experiment else '--env-id ENV'}",
        )
    version = f"imported-{item.source}"
    content = _content(item)
    leaf = f"{folder_name(item.name)}-{content[:8]}"
    target = store / folder_name(experiment) / folder_name(env_id) / version / leaf
    same_name = sorted(target.parent.glob(f"{folder_name(item.name)}-*"))
    earlier = [run for run in same_name if (run / "imported" / MANIFEST).exists()]
    for run in earlier:
        if read_manifest(run / "imported").submission.sha256 == content:
            known = run.relative_to(store).as_posix()
            return ImportedRun(known, item.source, False, len(_logged(run / "imported")[0]))
    for left in store.glob(".importing-*"):
        if left_behind(left.name.removeprefix(".importing-")):  # its process was killed
            shutil.rmtree(left, ignore_errors=True)
    made = store / f".importing-{mark()}-{leaf}"
    shutil.rmtree(made, ignore_errors=True)
    try:
        metrics, wall_s, conditions = _write_files(made, item)
        # a log that has grown, or a resumed run: the same run, under its name and with its tags
        target = next((run for run in earlier if _continues(made / "imported", run / "imported")), target)
        record = ExperimentRun(
            experiment=experiment,
            env_id=env_id,
            seed=seed,
            tags=list(dict.fromkeys(tags)),
            user=user_name(),
            config={**item.config, "env_id": env_id, "seed": seed, "exp_name": experiment},
            source=item.source,
            version=version,
            created_at=_iso(item),
            wall_s=wall_s,
            notes=[f"imported from {item.path.name}"],
        )
        write_record(made / RUN_FILE, record)
        manifest = _manifest(record, item, env_kwargs)
        record_files(made / "imported", manifest)
        write_manifest(made / "imported", manifest)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)  # an import that was killed between these two lines
        made.replace(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return ImportedRun(target.relative_to(store).as_posix(), item.source, True, metrics, tuple(conditions))


def _continues(new: Path, old: Path) -> bool:
    """Returns whether each log of an imported run is the beginning of one of a new import."""
    logs = [file for file in (old / ARTIFACTS).rglob("*") if file.is_file()]
    return bool(logs) and all(
        any(_begins_with(file, log) for file in (new / ARTIFACTS).rglob(glob.escape(log.name))) for log in logs
    )


def _begins_with(file: Path, beginning: Path) -> bool:
    with file.open("rb") as long, beginning.open("rb") as short:
        while piece := short.read(1 << 20):
            if long.read(len(piece)) != piece:
                return False
    return True


def _write_files(made: Path, item: ForeignRun) -> tuple[int, float | None, list[str]]:
    artifacts = made / "imported" / ARTIFACTS
    artifacts.mkdir(parents=True)
    top = os.path.commonpath([file.parent for file in item.files]) if item.files else ""
    for file in item.files:
        copy = artifacts / os.path.relpath(file, top)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)
    for name, rows in item.tables.items():
        with (artifacts / name).open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows(rows)
    series, conditions = _logged(made / "imported")
    if not series:
        raise UserError(f"{item.path} holds no numbers over steps", hint="import the folder that holds the run's logs")
    times = [found.elapsed_s() for found in series.values()]
    last = max((float(np.nanmax(found)) for found in times if np.isfinite(found).any()), default=0)
    return len(series), last or None, conditions


def _logged(bundle: Path) -> tuple[dict[str, Series], list[str]]:
    """Returns every series of a bundle by metric, and what could not be read."""
    reader = SeriesReader(find_logs(files_of(bundle)))
    found: dict[str, Series] = {}
    for kind in LogKind:
        for name in reader.names(kind):
            series = reader.series(name, kind) if name not in found else None
            if series is not None:
                found[name] = series
    return found, reader.notes


def _content(item: ForeignRun) -> str:
    digest = hashlib.sha256()
    for file in item.files:
        with file.open("rb") as stream:
            digest.update(file.name.encode() + b"\0" + hashlib.file_digest(stream, "sha256").digest())
    for name, rows in item.tables.items():
        digest.update(f"{name}\0{rows}".encode())
    return digest.hexdigest()


def _iso(item: ForeignRun) -> str:
    began = item.started_s
    if not began:
        began = min((file.stat().st_mtime for file in item.files), default=item.path.stat().st_mtime)
    return datetime.datetime.fromtimestamp(began, datetime.UTC).isoformat(timespec="milliseconds")


def _manifest(record: ExperimentRun, item: ForeignRun, env_kwargs: dict[str, Any]) -> Manifest:
    return Manifest(
        a2perf_version=__version__,
        mode="imported",
        domain="",
        task=record.env_id,
        env_id=record.env_id,
        env_kwargs=env_kwargs,
        env_fingerprint=None,
        submission=SubmissionIdentity(name=record.experiment, path=str(item.path), sha256=_content(item)),
        root_seed=record.seed or 0,
        seeds={},
        participant_args={},
        config_sha256="",
        state=RunState.FINISHED,
        attempts=[Attempt(started_at=record.created_at, host="", pid=0, boot_id="")],
        exit_code=0,
        exit_reason=f"imported from {item.source}",
    )
