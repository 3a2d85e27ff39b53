"""Bringing what others logged into the store: TensorBoard folders, CSV, offline tracker runs, Stable-Baselines3 logs.

Each run is copied into a bundle ``R/imported``, so that the store keeps it when the source goes. What a run is a run of
comes from its own configuration, where it has one, else from the name of its folder, and always from what the caller
says first: ``<env>__<experiment>__<seed>__<time>`` as single-file trainers name their folders, ``.../seed_3/...``,
``PPO_2``. A run is made beside the store's runs and renamed into its place; importing it again changes nothing.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from a2perf._version import __version__
from a2perf.errors import UserError, did_you_mean
from a2perf.records import Attempt, Manifest, RunState, SubmissionIdentity
from a2perf.runs.bundle import record_files, write_manifest
from a2perf.runs.files import files_of
from a2perf.runs.layout import ARTIFACTS, MANIFEST
from a2perf.runs.log_files import LogKind, find_logs, is_trainer_log, log_kind
from a2perf.runs.process_identity import left_behind, mark
from a2perf.runs.run_record import RUN_FILE, ExperimentRun, folder_name, user_name
from a2perf.runs.series import STEP_COLUMNS, Series, SeriesReader
from a2perf.runs.tables import CsvTable, read_table
from a2perf.runs.tracker_tables import TableSeries, chart_curves, history_series, kept_run
from a2perf.runs.wandb_log import MAX_BYTES, WandbLog, read_wandb_log
from a2perf.storage import read_json, write_record
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
class Import:
    """One run that was found.

    Attributes:
        source: its format.
        path: its folder or file.
        files: what is copied.
        tables: what is written anew, by file name: header and rows.
        name: the name that its identity is guessed from.
        config: what it says of its configuration.
        tags: tags that it had.
        user: who ran it, where it says so.
        started_s: seconds since the epoch, 0 when unknown.
        finished: whether it came to its end, as far as it says.
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


@dataclass(frozen=True)
class Imported:
    """What became of one run.

    Attributes:
        run_id: path below the store.
        source: its format.
        new: whether it was not there before.
        metrics: number of metrics that it logged.
    """

    run_id: str
    source: str
    new: bool
    metrics: int


def find_imports(paths: Sequence[Path], kind: str | None = None) -> list[Import]:
    """Finds the runs at or below folders and files.

    Args:
        paths: where to look.
        kind: only runs of this format.

    Raises:
        UserError: a path does not exist, there is no such format, or nothing is found.
    """
    if kind is not None and kind not in FORMATS:
        raise UserError(f"{kind!r} is no format{did_you_mean(kind, FORMATS)}", hint=f"choose of {', '.join(FORMATS)}")
    found: list[Import] = []
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist", hint="give a folder or file of logs")
        found += _of_file(path) if path.is_file() else _below(path)
    found = [item for item in found if kind is None or item.source == kind]
    if not found:
        wanted = f"{kind} logs" if kind is not None else "event files, progress.csv, monitor.csv, *.wandb or CSV files"
        raise UserError(f"no {wanted} in {', '.join(map(str, paths))}", hint="give the folder that holds them")
    return found


def import_run(
    store: Path, item: Import, *, experiment: str | None = None, env_id: str | None = None, seed: int | None = None,
    tags: Sequence[str] = (),
) -> Imported:  # fmt: skip
    """Copies one run into the store.

    Args:
        store: the store's folder.
        item: the run.
        experiment: name of the experiment; what the run itself says when None.
        env_id: the environment, likewise.
        seed: the seed, likewise.
        tags: tags beside those that it had.

    Raises:
        UserError: it does not say what it is a run of, or holds no numbers.
    """
    guessed = guess_identity(item)
    experiment = experiment or guessed["experiment"]
    env_id = env_id or guessed["env_id"]
    seed = guessed["seed"] if seed is None else seed
    if not experiment or not env_id:
        missing = "experiment" if not experiment else "environment"
        raise UserError(
            f"{item.path} does not say which {missing} it is of",
            hint=f"give {'--exp-name NAME' if not experiment else '--env-id ENV'}",
        )
    version = f"imported-{item.source}"
    leaf = f"{folder_name(item.name)}-{_content(item)[:8]}"
    run_id = f"{folder_name(experiment)}/{folder_name(env_id)}/{version}/{leaf}"
    target = store / run_id
    if (target / "imported" / MANIFEST).exists():
        return Imported(run_id, item.source, False, len(_logged(target / "imported")))
    for left in store.glob(".importing-*"):
        if left_behind(left.name.removeprefix(".importing-")):  # its process was killed
            shutil.rmtree(left, ignore_errors=True)
    made = store / f".importing-{mark()}-{leaf}"
    shutil.rmtree(made, ignore_errors=True)
    try:
        metrics, wall_s = _write_files(made, item)
        record = ExperimentRun(
            experiment=experiment,
            env_id=env_id,
            seed=seed,
            tags=list(dict.fromkeys([*item.tags, *tags])),
            user=item.user or user_name(),
            config={**item.config, "env_id": env_id, "seed": seed, "exp_name": experiment},
            source=item.source,
            version=version,
            created_at=_iso(item),
            wall_s=wall_s,
            notes=[f"imported from {item.path.name}"],
        )
        write_record(made / RUN_FILE, record)
        manifest = _manifest(record, item)
        record_files(made / "imported", manifest)
        write_manifest(made / "imported", manifest)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)  # an import that was killed between these two lines
        made.replace(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return Imported(run_id, item.source, True, metrics)


def guess_identity(item: Import) -> dict[str, Any]:
    """Returns ``experiment``, ``env_id`` and ``seed`` as far as the configuration or the name say them."""
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


def _below(top: Path) -> Iterator[Import]:
    for folder, names, files in folders(top, Bounds(entries=2_000_000)):
        names[:] = sorted(name for name in names if not name.startswith("."))
        path = Path(folder)
        here = [path / name for name in sorted(files) if stat.S_ISREG((path / name).lstat().st_mode)]
        logs = [file for file in here if file.suffix == ".wandb"]
        if logs:
            names.clear()  # its own copies of what it was given lie below
            yield from (_of_wandb(file) for file in logs)
            continue
        known = [file for file in here if is_trainer_log(file.name)]
        if known:
            yield _of_folder(path, known)
        for file in here:
            if file not in known and file.suffix in (".csv", ".jsonl"):
                yield from _of_file(file)


def _of_file(path: Path) -> Iterable[Import]:
    if path.suffix == ".wandb":
        return [_of_wandb(path)]
    if is_trainer_log(path.name):
        return [_of_folder(path.parent, [path])]
    if path.suffix == ".jsonl":
        return _of_history(path)
    return _of_csv(path)


def _of_folder(folder: Path, files: list[Path]) -> Import:
    kinds = {log_kind(file.name) for file in files}
    name = os.path.basename(os.path.abspath(folder))
    item = Import("tensorboard" if kinds == {LogKind.EVENTS} else "sb3", folder, files, name=name)
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


def _of_wandb(path: Path) -> Import:
    log = read_wandb_log(path)
    if log.problems and not log.run_id:
        raise UserError(f"{path}: {log.problems[0]}", hint="give the folder of an offline run, wandb/offline-run-*")
    item = Import("wandb", path, [path], name=log.name or log.run_id or path.stem, config=dict(log.config))
    item.tags, item.user, item.started_s = list(log.tags), log.entity, log.started_s
    item.finished = log.exit_code == 0
    return item


def _of_history(path: Path) -> list[Import]:
    """A history that was exported line by line; numbers of each row, as the tracker's interface returns them."""
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
    item = Import("wandb", path, name=path.parent.name if path.stem in ("history", "wandb-history") else path.stem)
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


def _of_tracker(path: Path, table: CsvTable) -> list[Import]:
    """A table that a tracker exported: the history of one run, or a chart with a column for each run."""
    curves = chart_curves(table, path)
    if curves:
        return [Import("wandb", path, name=run, tables=_tables(series)) for run, series in curves.items()]
    series = history_series(table)
    if not series:
        return []
    kept = kept_run(path)
    item = Import("wandb", path, name=kept.get("name") or path.stem, tables=_tables(series))
    if kept:
        item.config, item.tags, item.user = kept["config"], kept["tags"], kept["user"]
        item.finished = kept["state"] == "finished"
    return [item]


def _of_csv(path: Path) -> list[Import]:
    """A table of one run, or of several that columns such as ``env_id`` and ``seed`` tell apart."""
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
        return [Import("csv", path, [path], name=path.stem)]
    found = []
    cells = list(zip(*([str(_plain(cell)) for cell in table.columns[column]] for column in telling), strict=True))
    for group in dict.fromkeys(cells):
        rows = np.array([cell == group for cell in cells])
        item = Import("csv", path, name="_".join([path.stem, *group]), config=dict(zip(telling, group, strict=True)))
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


def _write_files(made: Path, item: Import) -> tuple[int, float | None]:
    artifacts = made / "imported" / ARTIFACTS
    artifacts.mkdir(parents=True)
    for file in item.files:
        shutil.copy2(file, artifacts / file.name)
    for name, rows in item.tables.items():
        with (artifacts / name).open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows(rows)
    series = _logged(made / "imported")
    if not series:
        raise UserError(f"{item.path} holds no numbers over steps", hint="import the folder that holds the run's logs")
    times = [found.elapsed_s() for found in series.values()]
    last = max((float(np.nanmax(found)) for found in times if np.isfinite(found).any()), default=0)
    return len(series), last or None


def _logged(bundle: Path) -> dict[str, Series]:
    """Returns every series of a bundle by metric."""
    reader = SeriesReader(find_logs(files_of(bundle)))
    found: dict[str, Series] = {}
    for kind in LogKind:
        for name in reader.names(kind):
            series = reader.series(name, kind) if name not in found else None
            if series is not None:
                found[name] = series
    return found


def _content(item: Import) -> str:
    digest = hashlib.sha256()
    for file in item.files:
        with file.open("rb") as stream:
            digest.update(file.name.encode() + b"\0" + hashlib.file_digest(stream, "sha256").digest())
    for name, rows in item.tables.items():
        digest.update(f"{name}\0{rows}".encode())
    return digest.hexdigest()


def _iso(item: Import) -> str:
    began = item.started_s
    if not began:
        began = min((file.stat().st_mtime for file in item.files), default=item.path.stat().st_mtime)
    return datetime.datetime.fromtimestamp(began, datetime.UTC).isoformat(timespec="milliseconds")


def _manifest(record: ExperimentRun, item: Import) -> Manifest:
    return Manifest(
        a2perf_version=__version__,
        mode="imported",
        domain="",
        task=record.env_id,
        env_id=record.env_id,
        env_kwargs={},
        env_fingerprint=None,
        submission=SubmissionIdentity(name=record.experiment, path=str(item.path), sha256=_content(item)),
        root_seed=record.seed or 0,
        seeds={},
        participant_args={},
        config_sha256="",
        state=RunState.FINISHED if item.finished else RunState.INTERRUPTED,
        attempts=[Attempt(started_at=record.created_at, host="", pid=0, boot_id="")],
        exit_code=0 if item.finished else None,
        exit_reason=f"imported from {item.source}",
    )
