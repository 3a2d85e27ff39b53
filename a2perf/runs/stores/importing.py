"""Imports of logs of other tools: each run is copied into a bundle ``R/imported`` of the store.

Supported are TensorBoard folders, CSV files, runs of W&B and logs of Stable-Baselines3. The identity of a run is
the one that the caller states, otherwise the one that ``foreign_layouts`` finds. A run is written to a temporary
folder of the store and renamed into its place; importing it again changes nothing.
"""

from __future__ import annotations

import csv
import datetime
import glob
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from a2perf._version import __version__
from a2perf.errors import UserError, did_you_mean
from a2perf.records import Attempt, Manifest, RunState, SubmissionIdentity
from a2perf.runs.bundles.bundle import write_manifest
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.inventory import read_manifest, record_files
from a2perf.runs.bundles.layout import ARTIFACTS, MANIFEST
from a2perf.runs.bundles.process_identity import left_behind, mark
from a2perf.runs.bundles.run_record import RUN_FILE, ExperimentRun, folder_name, user_name
from a2perf.runs.bundles.tables import plain_cell, read_table
from a2perf.runs.events import mlflow_files
from a2perf.runs.events.log_files import WANDB_HINT, LogKind, find_logs, is_trainer_log, log_kind
from a2perf.runs.foreign.foreign_layouts import (
    configured_environment,
    described,
    folders_above,
    identity_of,
    own_logs,
)
from a2perf.runs.foreign.tables_of_runs import CONFIG_KEYS, runs_of_table
from a2perf.runs.packed.packed_archive import on_disk
from a2perf.runs.run import LOGS, TABLE, RunFolder, RunIdentity
from a2perf.runs.series import STEP_COLUMNS, Series, SeriesReader
from a2perf.runs.stores.finding import below
from a2perf.storage import write_record

_SOURCES = {
    LogKind.EVENTS: "tensorboard",
    LogKind.PROGRESS: "sb3",
    LogKind.MONITOR: "sb3",
    LogKind.WANDB: "wandb",
    LogKind.MLFLOW: "mlflow",
    LogKind.EVALUATIONS: "sb3",
}
FORMATS = ("tensorboard", "csv", "wandb", "mlflow", "sb3")


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
    """Finds the runs at or below folders and files; raises ``UserError`` if there are none of this format."""
    if kind is not None and kind not in FORMATS:
        raise UserError(
            f"{kind!r} is not a format{did_you_mean(kind, FORMATS)}", hint=f"choose one of {', '.join(FORMATS)}"
        )
    found: list[ForeignRun] = []
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist", hint="give a folder or file of logs")
        for run in below(path, tables=True):
            if run.layout == TABLE and not is_trainer_log(run.path.name):
                found += _of_table(run)
            elif run.layout in (LOGS, TABLE):
                found += _of_logs(run)
    found = list({(item.path, item.name, *item.files): item for item in found}.values())  # a path may be given twice
    found = [item for item in _joined(found) if kind is None or item.source == kind]
    if not found:
        wanted = f"{kind} logs" if kind else "event files, progress.csv, monitor.csv, files of W&B or CSV files"
        raise UserError(f"no {wanted} in {', '.join(map(str, paths))}", hint="give the folder that holds them")
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


def _of_logs(run: RunFolder) -> Iterator[ForeignRun]:
    """Yields the run of the regular files among logs: links are not followed."""
    folder = on_disk(run.path.parent if run.is_file else run.path)
    logs = [log for log in own_logs(run) if stat.S_ISREG((folder / log).lstat().st_mode)]
    kinds = {kind for log in logs if (kind := log_kind(log.rpartition("/")[2])) is not None}
    if not kinds:
        return
    source = _SOURCES[kinds.pop()] if len(kinds) == 1 else "sb3"
    name, config, started_s = described(run.files(), logs)
    files = [folder / log for log in logs]
    for held in (mlflow_files.METRICS, mlflow_files.PARAMETERS) if mlflow_files.NAME in logs else ():
        files += sorted(file for file in (folder / held).rglob("*") if stat.S_ISREG(file.lstat().st_mode))
    yield ForeignRun(source, folder, files, name=name or folder.name, config=config, started_s=started_s)


def _of_table(run: RunFolder) -> Iterator[ForeignRun]:
    """Yields the run of a table or of a part of it, if it has a column of steps."""
    path = on_disk(run.path)
    if not run.part:
        table = read_table(path)
        if "_step" in table.columns:
            raise UserError(f"{path} is a table that Weights & Biases exported, which is not read", hint=WANDB_HINT)
        if any(table.numbers(name) is not None for name in STEP_COLUMNS):
            yield ForeignRun("csv", path, [path], name=path.stem)
        return
    part = runs_of_table(path)[run.part]
    if any(column in part.columns for column in STEP_COLUMNS):
        name = f"{path.stem}_{run.part}" if part.config else run.part
        columns = zip(*map(np.ravel, part.columns.values()), strict=True)
        rows: list[list[object]] = [list(part.columns), *([plain_cell(cell) for cell in row] for row in columns)]
        yield ForeignRun("csv", path, tables={"curve.csv": rows}, name=name, config=dict(part.config))


@dataclass(frozen=True)
class ImportedRun:
    """The result of importing one run, with what could not be read; not ``new`` if the store already had it."""

    run_id: str
    source: str
    new: bool
    metrics: int
    conditions: tuple[str, ...] = ()


def import_run(
    store: Path,
    item: ForeignRun,
    *,
    experiment: str | None = None,
    env_id: str | None = None,
    seed: int | None = None,
    tags: Sequence[str] = (),
) -> ImportedRun:
    """Copies one run into the store; what is not given is taken from the run, else it is a ``UserError``."""
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
        reason = f": {conditions[0]}" if conditions else ""
        raise UserError(
            f"{item.path} holds no numbers over steps{reason}", hint="import the folder that holds the run's logs"
        )
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
