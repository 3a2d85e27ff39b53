"""The index of a store: a cache of its bundles' records in one SQLite file. Deleting it loses nothing.

Reading the index compares names, sizes and times of the records on disk with those of the last reading and reads only
changed records. A damaged index is deleted and rebuilt; if none can be written, it is kept in memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from a2perf.errors import UserError
from a2perf.records import Manifest, RunState
from a2perf.runs import layout
from a2perf.runs.files import files_of, folders_of
from a2perf.runs.inventory import read_manifest
from a2perf.runs.log_files import MAX_FILES, log_kind
from a2perf.runs.packed_archive import is_packed, packed_place
from a2perf.runs.packed_format import SUFFIX
from a2perf.runs.process_identity import ProcessIdentity
from a2perf.runs.run_record import MODES, RUN_FILE, ExperimentRun, StoredRun
from a2perf.runs.seed_groups import ranked_task
from a2perf.storage import MAX_RECORD_BYTES, parse_record

INDEX_FILE = "index.sqlite3"
MAX_NAMES = 2_000_000
"""Limit on the names in all folders of a store together, without those below a run."""
_VERSION = 5
_BUSY_TIMEOUT_S = 30.0
_NOT_RECORDED = "not recorded"
"""Stands for the host of a run that was published without it."""
_LARGEST = 1e300
ROLLOUT_MODES = ("inference", "generalization")
"""Modes in which the evaluator measures episodes."""
_ENCODER = msgspec.msgpack.Encoder(enc_hook=str)
_DECODER = msgspec.msgpack.Decoder(StoredRun, dec_hook=lambda kind, text: kind(text))
_ORDER = (RunState.RUNNING, RunState.FAILED, RunState.INTERRUPTED, RunState.FINISHED)


@dataclass(frozen=True)
class _FoundRun:
    """A run folder and the state of its records on disk."""

    run_id: str
    path: Path
    modes: tuple[str, ...]
    signature: str


class Index:
    """The index of one store.

    Args:
        folder: folder of the index; None keeps it in memory.
    """

    def __init__(self, store: Path, folder: Path | None) -> None:
        self.store = store
        self.folder = folder
        self._memory: dict[str, tuple[str, bytes]] = {}

    def runs(self) -> list[StoredRun]:
        """Updates the index and returns every run, by path; a run without a living writer is ``"killed"``."""
        found = {run.run_id: run for run in find_run_folders(self.store)}
        known = self._load()
        vanished = [run_id for run_id in known if run_id not in found]
        fresh: dict[str, tuple[str, bytes]] = {}
        result: list[StoredRun] = []
        for run_id, run in sorted(found.items()):
            signature, content = known.get(run_id, ("", b""))
            stored: StoredRun | None = None
            if signature == run.signature:
                # the index may be damaged, or another program's: it travels with a copied store
                with contextlib.suppress(msgspec.MsgspecError, ValueError):
                    stored = _DECODER.decode(content)
            if stored is None:
                stored = read_run_folder(run.path, run_id, run.modes)
                fresh[run_id] = (run.signature, _ENCODER.encode(stored))
            result.append(_as_it_is(stored, run.path))
        if fresh or vanished:
            self._save(fresh, vanished)
        return result

    def _load(self) -> dict[str, tuple[str, bytes]]:
        for attempt in (1, 2):
            if self.folder is None:
                return self._memory
            try:
                with contextlib.closing(self._connect()) as connection:
                    rows = connection.execute("SELECT run_id, signature, content FROM runs").fetchall()
                return {run_id: (signature, content) for run_id, signature, content in rows}
            except sqlite3.OperationalError as error:
                # Another process writes the index: reading every record instead is slow but right, and nothing is
                # damaged.
                if "locked" in str(error) or "busy" in str(error):
                    return {}
                self._give_up_or_discard(attempt)
            except sqlite3.DatabaseError:
                self._give_up_or_discard(attempt)
        return self._memory

    def _save(self, fresh: dict[str, tuple[str, bytes]], vanished: list[str]) -> None:
        if self.folder is None:
            for run_id in vanished:
                self._memory.pop(run_id, None)
            self._memory.update(fresh)
            return
        rows = [(run_id, signature, content) for run_id, (signature, content) in fresh.items()]
        # if this update fails, the next reader repeats it
        with contextlib.suppress(sqlite3.DatabaseError), contextlib.closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM runs WHERE run_id = ?", [(run_id,) for run_id in vanished])
            connection.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.folder / INDEX_FILE, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version != _VERSION:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("DROP TABLE IF EXISTS runs")
                connection.execute("CREATE TABLE runs (run_id TEXT PRIMARY KEY, signature TEXT, content BLOB)")
                connection.execute(f"PRAGMA user_version={_VERSION}")
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_up_or_discard(self, attempt: int) -> None:
        """Removes a damaged index; if that fails, or the new one fails too, keeps the index in memory."""
        assert self.folder is not None
        try:
            # With its -wal and -shm files, which belong to the damaged file.
            for path in self.folder.glob(f"{INDEX_FILE}*"):
                path.unlink()
        except OSError:
            attempt = 2
        if attempt == 2:
            self.folder = None


def find_run_folders(store: Path) -> Iterator[_FoundRun]:
    """Yields every run below a folder; skips hidden folders, the attic and symbolic links.

    A packed file counts as the folders in it.

    Raises:
        PackedFileError: a packed file is damaged or hostile.
        UserError: the folders outside of runs hold more than ``MAX_NAMES`` names.
    """
    if packed_place(store) is not None:
        yield from _packed_runs(store, "")
        return
    pending, looked_at = [(str(store), "")], 0
    while pending:
        folder, run_id = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(itertools.islice(listing, MAX_NAMES + 1 - looked_at))
        except OSError:  # removed since it was listed, or not readable for this user
            continue
        looked_at += len(entries)
        if looked_at > MAX_NAMES:
            raise UserError(f"{store} holds more than {MAX_NAMES} names", hint="give a folder that holds only runs")
        names = [
            entry.name
            for entry in entries
            if not entry.name.startswith(".") and entry.name != layout.ATTIC and entry.is_dir(follow_symlinks=False)
        ]
        signature = [_stamp(f"{folder}/{RUN_FILE}")] if any(entry.name == RUN_FILE for entry in entries) else []
        modes = []
        for mode in MODES:
            if mode in names and (stamp := _stamp(f"{folder}/{mode}/{layout.MANIFEST}")):
                modes.append(mode)
                signature.append(mode + stamp)
        if signature and run_id:
            yield _FoundRun(run_id, Path(folder), tuple(modes), " ".join(signature))
            continue
        for entry in entries:
            if entry.name.endswith(SUFFIX) and not entry.name.startswith(".") and not entry.is_symlink():
                place = Path(entry.path)
                if is_packed(place):
                    yield from _packed_runs(place, run_id)
        pending += [(f"{folder}/{name}", f"{run_id}/{name}" if run_id else name) for name in names]


def _packed_runs(top: Path, above: str) -> Iterator[_FoundRun]:
    """Yields the runs in a packed file, or in a folder of one, under the names that they would have unpacked."""
    for text, names, others in folders_of(top):
        folder = Path(text)
        names[:] = [name for name in names if not name.startswith(".") and name != layout.ATTIC]
        inside = "" if folder == top else folder.relative_to(top).as_posix()
        run_id = "/".join(part for part in (above, inside) if part)
        files = files_of(folder)
        found = [RUN_FILE] if RUN_FILE in others else []
        modes = tuple(mode for mode in MODES if mode in names and files.status(f"{mode}/{layout.MANIFEST}") is not None)
        if (found or modes) and run_id:
            names.clear()
            yield _FoundRun(run_id, folder, modes, " ".join([*found, *modes, files.fingerprint()]))


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
    held = _of_manifests(list(manifests.values())) if manifests else {}
    wall_s = held.pop("wall_s", None)
    return StoredRun(
        run_id=run_id,
        path=path,
        experiment=record.experiment,
        env_id=record.env_id,
        seed=record.seed,
        version=record.version,
        tags=frozenset(record.tags),
        user=record.user,
        state=held.pop("state", "unreadable" if problems else "queued"),
        config={"env_id": record.env_id, "seed": record.seed, "exp_name": record.experiment, **record.config},
        started_at=held.pop("started_at", "") or record.created_at,
        wall_s=record.wall_s if wall_s is None else wall_s,
        source=record.source,
        autotag=record.autotag,
        packages=record.packages or held.pop("packages", {}),
        modes=modes,
        problems=tuple(problems),
        logs={mode: names for mode, found in manifests.items() if (names := _logs(mode, found)) is not None},
        **{name: value for name, value in held.items() if name != "packages"},
    )


def _of_manifests(manifests: list[Manifest]) -> dict[str, Any]:
    states = [manifest.state for manifest in manifests]
    worst = next(state for state in _ORDER if state in states)
    deciding = manifests[states.index(worst)]
    first = manifests[0]  # modes are sorted: train comes first
    # in training a task may have other arguments than in its evaluation, which is what runs are compared on
    ranked = ranked_task(next((manifest for manifest in manifests if manifest.mode == "inference"), first))
    energy = first.tracking.get("energy")
    energy = energy if isinstance(energy, dict) else {}
    found: dict[str, Any] = {
        "state": worst.value,
        "exit_code": deciding.exit_code,
        "fingerprint": next((found.env_fingerprint for found in manifests if found.env_fingerprint), ""),
        "python": " ".join(first.python[name] for name in ("implementation", "version") if name in first.python),
        "packages": first.python_env.packages if first.python_env is not None else {},
        "wall_s": _float(first.tracking.get("wall_s")),
        "memory_bytes": _float(first.tracking.get("rss_peak_bytes")),
        "energy_kwh": _float(energy.get("gross_kwh")),
        "energy_quality": str(energy.get("quality") or ""),
        "env_kwargs": ranked.env_kwargs,
        "view": ranked.view,
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


def _as_it_is(run: StoredRun, path: Path) -> StoredRun:
    """Updates a run of the index: the store may have moved, and the writer of the run may have died."""
    state = run.state
    if state == RunState.RUNNING.value and run.writer:
        with contextlib.suppress(ValueError):
            state = "killed" if ProcessIdentity.parse(run.writer).alive() is False else state
    return dataclasses.replace(run, path=path, state=state)


def _from_manifest(manifest: Manifest) -> ExperimentRun:
    submission = manifest.submission
    version = (submission.git_commit or submission.sha256)[:10]
    if submission.git_dirty:
        version += f"-dirty-{submission.sha256[:8]}"
    elif submission.git_commit and submission.scheme > 1:  # the commit is a claim of the folder, the hash is computed
        version += f"-{submission.sha256[:8]}"
    task = ranked_task(manifest).task
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


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return ""
    # Records are replaced by renaming, so the inode can show a change that size and time do not.
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


def _float(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < _LARGEST and math.isfinite(value) else None
