"""The index of a store: what its bundles say, in one SQLite file. Never the truth; deleting it loses nothing.

Reading it compares names, sizes and times of the records on disk with those of the last reading and reads only records
that changed. A damaged index is thrown away and made anew; where none can be written it lives in memory.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from a2perf.errors import UserError
from a2perf.records import Manifest, RunState
from a2perf.runs.run_record import MODES, RUN_FILE, ExperimentRun
from a2perf.storage import read_record

INDEX_FILE = "index.sqlite3"
MAX_NAMES = 2_000_000
"""In all folders of a store together, those below a run left out."""
_VERSION = 2
_BUSY_TIMEOUT_S = 30.0
_ATTIC = "attic"
_NOT_RECORDED = "not recorded"
"""What stands for the host of a run that was published without it."""
_LARGEST = 1e300
_ORDER = (RunState.RUNNING, RunState.FAILED, RunState.INTERRUPTED, RunState.FINISHED)


class IndexedRun(msgspec.Struct, kw_only=True):
    """What the index keeps of a run; ``running`` is not yet told apart from ``killed``.

    Attributes:
        run_id: path below the store.
        record: its ``rlops.json``, or one made from its bundle.
        state: ``"queued"`` before the first bundle, then the state of its bundles taken together.
        modes: modes that have a bundle.
        writer: host, process id and boot id of the last attempt of a bundle that says ``running``.
        started_at: start of the first attempt, ISO 8601.
        wall_s: wall time of what it ran.
        energy_kwh: gross energy.
        energy_quality: ``"measured"`` or ``"estimated"``.
        memory_bytes: peak resident memory of its processes.
        fingerprint: hash of the environment's behaviour, empty when unknown.
        host: where its last attempt ran, empty when unknown.
        python: implementation and version of the Python that recorded it, empty when unknown.
        packages: versions of the packages of an isolated environment.
        exit_code: of the last bundle.
        failure: what went wrong, in words.
        problems: records that could not be read, in words.
    """

    run_id: str
    record: ExperimentRun
    state: str
    modes: list[str]
    writer: tuple[str, int, str] | None = None
    started_at: str = ""
    wall_s: float | None = None
    energy_kwh: float | None = None
    energy_quality: str = ""
    memory_bytes: float | None = None
    fingerprint: str = ""
    host: str = ""
    python: str = ""
    packages: dict[str, str] = msgspec.field(default_factory=dict)
    exit_code: int | None = None
    failure: str | None = None
    problems: list[str] = msgspec.field(default_factory=list)


@dataclass(frozen=True)
class _Found:
    """A run folder and the state of its records on disk."""

    run_id: str
    path: Path
    modes: tuple[str, ...]
    signature: str


class Index:
    """The index of one store.

    Args:
        store: the folder of runs.
        folder: where the index lies; None keeps it in memory.
    """

    def __init__(self, store: Path, folder: Path | None) -> None:
        self.store = store
        self.folder = folder
        self._memory: dict[str, tuple[str, bytes]] = {}

    def runs(self) -> list[IndexedRun]:
        """Brings the index up to date and returns every run, by path."""
        found = {run.run_id: run for run in find_run_folders(self.store)}
        known = self._load()
        changed = [run for run in found.values() if known.get(run.run_id, ("",))[0] != run.signature]
        vanished = [run_id for run_id in known if run_id not in found]
        fresh: dict[str, tuple[str, bytes]] = {}
        result: dict[str, IndexedRun] = {}
        for run in changed:
            indexed = read_run_folder(run.path, run.run_id, run.modes)
            result[run.run_id] = indexed
            fresh[run.run_id] = (run.signature, msgspec.msgpack.encode(indexed))
        decoder = msgspec.msgpack.Decoder(IndexedRun)
        for run_id in found:
            if run_id not in result:
                try:
                    result[run_id] = decoder.decode(known[run_id][1])
                except msgspec.MsgspecError:  # the index came with the store, or was damaged
                    result[run_id] = read_run_folder(found[run_id].path, run_id, found[run_id].modes)
        if fresh or vanished:
            self._save(fresh, vanished)
        return [result[run_id] for run_id in sorted(result)]

    def _load(self) -> dict[str, tuple[str, bytes]]:
        for attempt in (1, 2):
            if self.folder is None:
                return self._memory
            try:
                with contextlib.closing(self._connect()) as connection:
                    rows = connection.execute("SELECT run_id, signature, content FROM runs").fetchall()
                return {run_id: (signature, content) for run_id, signature, content in rows}
            except sqlite3.OperationalError as error:
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
        # an index that could not be brought up to date is brought up to date by the next reader
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
        """Removes a damaged index; where it cannot be removed or made, the index goes on in memory."""
        assert self.folder is not None
        try:
            for path in self.folder.glob(f"{INDEX_FILE}*"):
                path.unlink()
        except OSError:
            attempt = 2
        if attempt == 2:
            self.folder = None


def find_run_folders(store: Path) -> Iterator[_Found]:
    """Yields every run below a folder; hidden folders, the attic and symbolic links are passed over.

    Raises:
        UserError: the folders outside of runs hold more than ``MAX_NAMES`` names.
    """
    pending, looked_at = [(str(store), "")], 0
    while pending:
        folder, run_id = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(itertools.islice(listing, MAX_NAMES + 1 - looked_at))
        except OSError:  # removed meanwhile, or not ours to read
            continue
        looked_at += len(entries)
        if looked_at > MAX_NAMES:
            raise UserError(f"{store} holds more than {MAX_NAMES} names", hint="give the folder of the runs alone")
        names = [
            entry.name
            for entry in entries
            if not entry.name.startswith(".") and entry.name != _ATTIC and entry.is_dir(follow_symlinks=False)
        ]
        signature = [_stamp(f"{folder}/{RUN_FILE}")] if any(entry.name == RUN_FILE for entry in entries) else []
        modes = []
        for mode in MODES:
            if mode in names and (stamp := _stamp(f"{folder}/{mode}/manifest.json")):
                modes.append(mode)
                signature.append(mode + stamp)
        if signature and run_id:
            yield _Found(run_id, Path(folder), tuple(modes), " ".join(signature))
            continue
        pending += [(f"{folder}/{name}", f"{run_id}/{name}" if run_id else name) for name in names]


def read_run_folder(path: Path, run_id: str, modes: tuple[str, ...]) -> IndexedRun:
    """Reads the records of a run; one that is damaged becomes a problem of that run."""
    problems: list[str] = []
    manifests: dict[str, Manifest] = {}
    for mode in modes:
        try:
            manifests[mode] = read_record(path / mode / "manifest.json", Manifest)
        except (UserError, OSError) as error:
            problems.append(error.message if isinstance(error, UserError) else str(error))
    record: ExperimentRun | None = None
    if (path / RUN_FILE).exists():
        try:
            record = read_record(path / RUN_FILE, ExperimentRun)
        except (UserError, OSError) as error:
            problems.append(error.message if isinstance(error, UserError) else str(error))
    first = next(iter(manifests.values()), None)
    if record is None:
        record = _from_manifest(first) if first is not None else ExperimentRun(experiment=run_id, env_id="")
    indexed = IndexedRun(run_id=run_id, record=record, state="queued", modes=list(modes), problems=problems)
    if problems and first is None:
        indexed.state = "unreadable"
    if first is not None:
        _take_manifests(indexed, list(manifests.values()))
    if indexed.wall_s is None:
        indexed.wall_s = record.wall_s
    indexed.started_at = indexed.started_at or record.created_at
    return indexed


def _take_manifests(indexed: IndexedRun, manifests: list[Manifest]) -> None:
    states = [manifest.state for manifest in manifests]
    worst = next(state for state in _ORDER if state in states)
    deciding = manifests[states.index(worst)]
    indexed.state = worst.value
    indexed.exit_code = deciding.exit_code
    indexed.fingerprint = next((found.env_fingerprint for found in manifests if found.env_fingerprint), "")
    if deciding.failure is not None:
        indexed.failure = f"{deciding.failure.kind.value}: {deciding.failure.message}"
    if worst is RunState.RUNNING and deciding.attempts:
        last = deciding.attempts[-1]
        indexed.writer = (last.host, last.pid, last.boot_id)
    first = manifests[0]  # of several modes, the one that trains
    if first.attempts:
        indexed.started_at = first.attempts[0].started_at
        indexed.host = first.attempts[-1].host if first.attempts[-1].host != _NOT_RECORDED else ""
    indexed.python = " ".join(first.python[name] for name in ("implementation", "version") if name in first.python)
    indexed.packages = first.python_env.packages if first.python_env is not None else {}
    tracking = first.tracking
    indexed.wall_s = _float(tracking.get("wall_s"))
    indexed.memory_bytes = _float(tracking.get("rss_peak_bytes"))
    energy = tracking.get("energy")
    if isinstance(energy, dict):
        indexed.energy_kwh, indexed.energy_quality = _float(energy.get("gross_kwh")), str(energy.get("quality") or "")


def _from_manifest(manifest: Manifest) -> ExperimentRun:
    submission = manifest.submission
    version = (submission.git_commit or submission.sha256)[:10]
    if submission.git_dirty:
        version += f"-dirty-{submission.sha256[:8]}"
    elif submission.git_commit and submission.scheme > 1:  # the commit is what the folder claims, its hash is a fact
        version += f"-{submission.sha256[:8]}"
    return ExperimentRun(
        experiment=submission.name,
        env_id=manifest.env_id or manifest.task,
        seed=manifest.root_seed,
        config={**manifest.env_kwargs, **manifest.participant_args, "task": manifest.task, "domain": manifest.domain},
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
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


def _float(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < _LARGEST and math.isfinite(value) else None
