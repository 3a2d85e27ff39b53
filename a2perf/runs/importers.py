"""Imports of logs of other tools: each run is copied into a bundle ``R/imported`` of the store.

The identity of a run is the one that the caller states, otherwise the one that ``foreign_identity`` finds. A run is
written to a temporary folder of the store and renamed into its place; importing it again changes nothing.
"""

from __future__ import annotations

import csv
import datetime
import glob
import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from a2perf._version import __version__
from a2perf.errors import UserError
from a2perf.records import Attempt, Manifest, RunState, SubmissionIdentity
from a2perf.runs.bundle import record_files, write_manifest
from a2perf.runs.files import files_of
from a2perf.runs.foreign_logs import ForeignRun
from a2perf.runs.inventory import read_manifest
from a2perf.runs.layout import ARTIFACTS, MANIFEST
from a2perf.runs.log_files import LogKind, find_logs
from a2perf.runs.process_identity import left_behind, mark
from a2perf.runs.run_record import RUN_FILE, ExperimentRun, folder_name, user_name
from a2perf.runs.series import Series, SeriesReader
from a2perf.storage import write_record


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
    """Copies one run into the store.

    Args:
        store: the store's folder.
        experiment: name of the experiment; None takes it from the run.
        env_id: the environment; None takes it from the run.
        seed: the seed; None takes it from the run.

    Returns:
        The run in the store.

    Raises:
        UserError: its experiment or environment is unknown, or it holds no numbers.
    """
    guessed = item.identity()
    experiment = experiment or guessed.experiment
    env_id = env_id or guessed.env_id
    seed = guessed.seed if seed is None else seed
    if not experiment or not env_id:
        missing = "experiment" if not experiment else "environment"
        raise UserError(
            f"the {missing} of {item.path} is unknown{f' ({guessed.notice})' if guessed.notice else ''}",
            hint=f"add {'--exp-name NAME' if not experiment else '--env-id ENV'}",
        )
    version = f"imported-{item.source}"
    leaf = f"{folder_name(item.name)}-{_content(item)[:8]}"
    run_id = f"{folder_name(experiment)}/{folder_name(env_id)}/{version}/{leaf}"
    target = store / run_id
    content = _content(item)
    earlier = [run for run in sorted(target.parent.glob(f"{folder_name(item.name)}-*")) if _is_import(run)]
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
        manifest = _manifest(record, item, guessed.env_kwargs)
        record_files(made / "imported", manifest)
        write_manifest(made / "imported", manifest)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)  # an import that was killed between these two lines
        made.replace(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return ImportedRun(target.relative_to(store).as_posix(), item.source, True, metrics, tuple(conditions))


def _is_import(run: Path) -> bool:
    return (run / "imported" / MANIFEST).exists()


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
