"""The index of a store: a cache of its bundles' records in one file. Deleting it loses nothing.

Reading the index compares sizes and times of the records on disk with those of the last reading and reads only changed
records. A damaged index counts as missing. It is replaced as a whole: if two processes update it at the same time, the
last one counts, and the next reader adds what the other one found.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from a2perf.errors import UserError
from a2perf.records import Manifest, RunState
from a2perf.runs.bundles import layout
from a2perf.runs.bundles.files import files_of, folders_of
from a2perf.runs.bundles.inventory import read_manifest
from a2perf.runs.bundles.log_files import MAX_FILES, log_kind
from a2perf.runs.bundles.process_identity import ProcessIdentity
from a2perf.runs.bundles.run_record import MODES, RUN_FILE, ExperimentRun, StoredRun
from a2perf.runs.packed.packed_archive import packed_place, unpacked_path
from a2perf.runs.stores.seed_groups import ranked_task
from a2perf.storage import MAX_RECORD_BYTES, parse_record, read_bounded, write_atomic

INDEX_FILE = "index.msgpack"
_VERSION = 7
_NOT_RECORDED = "not recorded"
"""Stands for the host of a run that was published without it."""
_LARGEST = 1e300
ROLLOUT_MODES = ("inference", "generalization")
"""Modes in which the evaluator measures episodes."""
_ENCODER = msgspec.msgpack.Encoder(enc_hook=str)
_DECODER = msgspec.msgpack.Decoder(tuple[int, dict[str, tuple[str, StoredRun]]], dec_hook=lambda kind, text: kind(text))
_ORDER = (RunState.RUNNING, RunState.FAILED, RunState.INTERRUPTED, RunState.FINISHED)


class Index:
    """The index of one store.

    Args:
        folder: folder of the index. If it cannot be written, every process reads all records.
    """

    def __init__(self, store: Path, folder: Path) -> None:
        self.store = store
        self._file = folder / INDEX_FILE
        self._known: dict[str, tuple[str, StoredRun]] = {}

    def runs(self) -> list[StoredRun]:
        """Updates the index and returns every run, by path; a run without a living writer is ``"killed"``."""
        known = self._known or self._load()
        self._known, fresh, result = {}, False, []
        # by name: a folder counts before a packed copy of it
        for run_id, path, modes, stamps in sorted({run[0]: run for run in find_run_folders(self.store)}.values()):
            before, stored = known.get(run_id, ("", None))
            if stored is None or before != stamps:
                stored, fresh = read_run_folder(path, run_id, modes), True
            self._known[run_id] = stamps, stored
            state = stored.state
            if state == RunState.RUNNING.value and stored.writer:
                with contextlib.suppress(ValueError):
                    state = "killed" if ProcessIdentity.parse(stored.writer).alive() is False else state
            result.append(msgspec.structs.replace(stored, path=path, state=state))
        if fresh or known.keys() != self._known.keys():
            with contextlib.suppress(OSError):  # the next reader repeats it
                write_atomic(self._file, _ENCODER.encode((_VERSION, self._known)))
        return result

    def _load(self) -> dict[str, tuple[str, StoredRun]]:
        # the index may be damaged, or another program's: it travels with a copied store
        with contextlib.suppress(OSError, ValueError, RecursionError, msgspec.MsgspecError):
            version, known = _DECODER.decode(read_bounded(self._file, MAX_RECORD_BYTES))
            return known if version == _VERSION else {}
        return {}


def find_run_folders(store: Path) -> Iterator[tuple[str, Path, tuple[str, ...], str]]:
    """Yields name, path, modes and state of the records of every run below a folder.

    Hidden folders, the attic and symbolic links are skipped.

    A packed file counts as the folders in it; its runs have the names that they would have unpacked.

    Raises:
        BoundExceeded: the folders outside of runs hold more names than ``RUN_BOUNDS`` allows.
        PackedFileError: a packed file is damaged or hostile.
    """
    top = len(os.fspath(unpacked_path(store)))
    for folder, names, others in folders_of(store):
        packed = packed_place(Path(folder)) is not None
        names[:] = [name for name in names if not name.startswith(".") and name != layout.ATTIC]
        others[:] = [name for name in others if not name.startswith(".")]
        records = [RUN_FILE] if RUN_FILE in others else []
        records += [
            f"{mode}/{layout.MANIFEST}" for mode in MODES if mode in names if not os.path.islink(f"{folder}/{mode}")
        ]
        stamps = {name: stamp for name in records if (stamp := _stamp(folder, name, packed=packed))}
        run_id = os.fspath(unpacked_path(Path(folder)) if packed else folder)[top:].strip("/")
        if stamps and run_id:
            names.clear()
            others.clear()
            modes = tuple(name.partition("/")[0] for name in stamps if name != RUN_FILE)
            yield run_id, Path(folder), modes, str(stamps)


def _stamp(folder: str, name: str, *, packed: bool) -> str:
    """Returns a text that changes with a record; empty without the record."""
    if packed:
        status = files_of(Path(folder)).status(name)
        return "" if status is None or status.path != name else status.stamp
    try:
        found = os.lstat(f"{folder}/{name}")  # not FolderFiles: a store has thousands of records
    except OSError:
        return ""
    # Records are replaced by renaming, so the inode can show a change that size and time do not.
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def read_run_folder(path: Path, run_id: str, modes: tuple[str, ...]) -> StoredRun:
    """Reads the records of a run; a damaged record becomes a problem of that run."""
    problems: list[str] = []
    manifests: dict[str, Manifest] = {}
    for mode in modes:
        try:
            manifests[mode] = read_manifest(path / mode)
        except (UserError, OSError) as error:
            problems.append(error.message if isinstance(error, UserError) else str(error))
    record: ExperimentRun | None = None
    files = files_of(path)
    if files.status(RUN_FILE) is not None:
        try:
            record = parse_record(files.read(RUN_FILE, MAX_RECORD_BYTES), ExperimentRun, str(path / RUN_FILE))
        except (UserError, OSError) as error:
            problems.append(error.message if isinstance(error, UserError) else str(error))
    first = next(iter(manifests.values()), None)
    if record is None:
        record = _from_manifest(first) if first is not None else ExperimentRun(experiment=run_id, env_id="")
    held: dict[str, Any] = {"started_at": record.created_at, "state": "unreadable" if problems else "queued"}
    held |= _of_manifests(list(manifests.values())) if manifests else {}
    held["config"] = {"env_id": record.env_id, "seed": record.seed, "exp_name": record.experiment, **record.config}
    held["packages"] = record.packages or held.get("packages", {})
    if held.get("wall_s") is None:
        held["wall_s"] = record.wall_s
    return StoredRun(
        **{**msgspec.structs.asdict(record), **held},
        run_id=run_id,
        path=path,
        modes=modes,
        problems=tuple(problems),
        logs={mode: names for mode, found in manifests.items() if (names := _logs(mode, found)) is not None},
    )


def _of_manifests(manifests: list[Manifest]) -> dict[str, Any]:
    states = [manifest.state for manifest in manifests]
    worst = next(state for state in _ORDER if state in states)
    deciding = manifests[states.index(worst)]
    first = manifests[0]  # modes are sorted: train comes first
    # in training a task may have other arguments than in its evaluation, which is what runs are compared on
    compared = next((manifest for manifest in manifests if manifest.mode == "inference"), first)
    _, env_kwargs, view = ranked_task(compared)
    energy = first.tracking.get("energy")
    energy = energy if isinstance(energy, dict) else {}
    found: dict[str, Any] = {
        "state": worst.value,
        "exit_code": deciding.exit_code,
        "fingerprint": next((found.env_identity for found in manifests if found.env_identity), ""),
        "python": " ".join(first.python[name] for name in ("implementation", "version") if name in first.python),
        "packages": first.python_env.packages if first.python_env is not None else {},
        "wall_s": _float(first.tracking.get("wall_s")),
        "memory_bytes": _float(first.tracking.get("rss_peak_bytes")),
        "energy_kwh": _float(energy.get("gross_kwh")),
        "energy_quality": str(energy.get("quality") or ""),
        "env_kwargs": env_kwargs,
        "view": view,
    }
    if deciding.failure is not None:
        found["failure"] = f"{deciding.failure.kind.value}: {deciding.failure.message}"
    if worst is RunState.RUNNING and deciding.attempts:
        found["writer"] = str(ProcessIdentity.of_attempt(deciding.attempts[-1]))
    if first.attempts:
        found["started_at"] = first.attempts[0].started_at
        found["host"] = first.attempts[-1].host if first.attempts[-1].host != _NOT_RECORDED else ""
    return found


def _logs(mode: str, manifest: Manifest) -> list[str] | None:
    """Returns the files that may hold series, if the manifest lists files."""
    if not manifest.files and not manifest.inventory:
        return None
    names = [name.replace("\\\\", "\\") for name in manifest.files]
    logs = [
        name
        for name in names
        if name.startswith(f"{layout.ARTIFACTS}/") and log_kind(name.rpartition("/")[2]) is not None
    ]
    measured = [layout.ROLLOUTS] if mode in ROLLOUT_MODES and layout.ROLLOUTS in names else []
    return [*sorted(logs)[:MAX_FILES], *measured]


def _from_manifest(manifest: Manifest) -> ExperimentRun:
    submission = manifest.submission
    version = (submission.git_commit or submission.sha256)[:10]
    if submission.git_dirty:
        version += f"-dirty-{submission.sha256[:8]}"
    elif submission.git_commit and submission.scheme > 1:  # the commit is a claim of the folder, the hash is computed
        version += f"-{submission.sha256[:8]}"
    task, _, _ = ranked_task(manifest)
    return ExperimentRun(
        experiment=submission.name,
        env_id=manifest.env_id or task,
        seed=manifest.root_seed,
        config={**manifest.env_kwargs, **manifest.participant_args, "task": task, "domain": manifest.domain},
        source="submission",
        command=manifest.command,
        version=version,
        created_at=manifest.attempts[0].started_at if manifest.attempts else "",
    )


def _float(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < _LARGEST and math.isfinite(value) else None
