"""The index of a store: a cache of its runs in one file, as far as their records go. Deleting it loses nothing.

Reading the index compares sizes and times of the records on disk with those of the last reading and reads only changed
records. A damaged index counts as missing. It is replaced as a whole: if two processes update it at the same time, the
last one counts, and the next reader adds what the other one found.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from a2perf.errors import UserError
from a2perf.records import Manifest, RunState
from a2perf.runs.bundles import layout
from a2perf.runs.bundles.files import files_of, folders_of
from a2perf.runs.bundles.inventory import read_manifest
from a2perf.runs.bundles.process_identity import ProcessIdentity
from a2perf.runs.bundles.run_record import MODES, RUN_FILE, ExperimentRun
from a2perf.runs.events.log_files import MAX_FILES, log_kind
from a2perf.runs.packed.packed_archive import packed_place, unpacked_path
from a2perf.runs.run import Execution, Run, RunFolder, RunIdentity
from a2perf.runs.seed_groups import ranked_task
from a2perf.storage import MAX_RECORD_BYTES, parse_record, read_bounded, write_atomic

INDEX_FILE = "index.msgpack"
_VERSION = 9
_NOT_RECORDED = "not recorded"
"""Stands for the host of a run that was published without it."""
_LARGEST = 1e300
ROLLOUT_MODES = ("inference", "generalization")
"""Modes in which the evaluator measures episodes."""
_ORDER = (RunState.RUNNING, RunState.FAILED, RunState.INTERRUPTED, RunState.FINISHED)


class IndexEntry(msgspec.Struct, array_like=True):
    """The parts of a ``Run`` that a store knows without its files.

    Attributes:
        stamps: state of the records that they were read from.
        writer: identity of the writing process of a run in state ``running``, as ``ProcessIdentity`` writes it.
    """

    stamps: str
    record: ExperimentRun
    identity: RunIdentity
    execution: Execution
    logs: dict[str, list[str] | None]
    conditions: list[str]
    writer: str

    def run(self, path: Path, name: str) -> Run:
        """Returns the run; one without a living writer is ``"killed"``."""
        identity = self.identity
        if identity.state == RunState.RUNNING.value and self.writer:
            with contextlib.suppress(ValueError):
                if ProcessIdentity.parse(self.writer).alive() is False:
                    identity = replace(identity, state="killed")
        folder = RunFolder(self.record.source, path, name)
        return Run(
            identity,
            folder,
            name=name,
            record=self.record,
            execution=self.execution,
            logs=self.logs,
            conditions=self.conditions,
        )


_ENCODER = msgspec.msgpack.Encoder(enc_hook=str)
_DECODER = msgspec.msgpack.Decoder(tuple[int, dict[str, IndexEntry]])


class Index:
    """The index of one store.

    Args:
        folder: folder of the index. If it cannot be written, every process reads all records.
    """

    def __init__(self, store: Path, folder: Path) -> None:
        self.store = store
        self._file = folder / INDEX_FILE
        self._known: dict[str, IndexEntry] = {}

    def runs(self) -> list[Run]:
        """Updates the index and returns every run, by path; of each only what the index keeps."""
        known = self._known or self._load()
        self._known, fresh, result = {}, False, []
        # by name: a folder counts before a packed copy of it
        for name, path, modes, stamps in sorted({run[0]: run for run in find_run_folders(self.store)}.values()):
            entry = known.get(name)
            if entry is None or entry.stamps != stamps:
                entry, fresh = read_run_folder(path, name, modes, stamps), True
            self._known[name] = entry
            result.append(entry.run(path, name))
        if fresh or known.keys() != self._known.keys():
            with contextlib.suppress(OSError):  # the next reader repeats it
                write_atomic(self._file, _ENCODER.encode((_VERSION, self._known)))
        return result

    def _load(self) -> dict[str, IndexEntry]:
        # the index may be damaged, or another program's: it travels with a copied store
        with contextlib.suppress(OSError, ValueError, RecursionError, msgspec.MsgspecError):
            version, known = _DECODER.decode(read_bounded(self._file, MAX_RECORD_BYTES))
            return known if version == _VERSION else {}
        return {}


def find_run_folders(store: Path) -> Iterator[tuple[str, Path, tuple[str, ...], str]]:
    """Yields name, path, modes and state of the records of every run below a folder; see ``folders_of``.

    Hidden folders, the attic and symbolic links are skipped. A packed file counts as the folders in it; its runs have
    the names that they would have unpacked.
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
        found = os.lstat(f"{folder}/{name}")  # not BundleFiles: a store has thousands of records
    except OSError:
        return ""
    # Records are replaced by renaming, so the inode can show a change that size and time do not.
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"


def read_run_folder(path: Path, name: str, modes: tuple[str, ...], stamps: str = "") -> IndexEntry:
    """Reads the records of a run; a damaged record becomes a condition of that run."""
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
    first = next(iter(manifests.values()), None)  # modes are sorted: train comes first
    if record is None:
        record = _from_manifest(first) if first is not None else ExperimentRun(experiment=name, env_id="")
    state, writer = "unreadable" if problems else "queued", ""
    if manifests:
        states = [manifest.state for manifest in manifests.values()]
        worst = next(state for state in _ORDER if state in states)
        attempts = list(manifests.values())[states.index(worst)].attempts
        state = worst.value
        writer = str(ProcessIdentity.of_attempt(attempts[-1])) if worst is RunState.RUNNING and attempts else ""
    # in training a task may have other arguments than in its evaluation, which is what runs are compared on
    compared = manifests.get("inference", first)
    _, env_kwargs, view = ranked_task(compared) if compared is not None else ("", "", "")
    config = {"env_id": record.env_id, "seed": record.seed, "exp_name": record.experiment, **record.config}
    return IndexEntry(
        stamps=stamps,
        record=msgspec.structs.replace(record, config=config),
        identity=RunIdentity(
            domain=str(config.get("domain") or ""),
            task=str(config.get("task") or record.env_id),
            algorithm=record.experiment,
            version=record.version,
            fingerprint=next((found.env_identity for found in manifests.values() if found.env_identity), ""),
            seed=record.seed,
            state=state,
            env_kwargs=env_kwargs,
            view=view,
            policy="" if first is None else first.submission.policy_sha256,
        ),
        execution=_execution(record, first),
        logs={mode: _logs(mode, manifests[mode]) if mode in manifests else None for mode in modes},
        conditions=problems,
        writer=writer,
    )


def _execution(record: ExperimentRun, manifest: Manifest | None) -> Execution:
    if manifest is None:
        return Execution(started_at=record.created_at, packages=record.packages, wall_s=record.wall_s)
    energy = manifest.tracking.get("energy")
    energy = energy if isinstance(energy, dict) else {}
    wall_s = _float(manifest.tracking.get("wall_s"))
    packages = manifest.python_env.packages if manifest.python_env is not None else {}
    host = manifest.attempts[-1].host if manifest.attempts else ""
    return Execution(
        started_at=manifest.attempts[0].started_at if manifest.attempts else record.created_at,
        host="" if host == _NOT_RECORDED else host,
        python=" ".join(manifest.python[name] for name in ("implementation", "version") if name in manifest.python),
        packages=record.packages or packages,
        wall_s=record.wall_s if wall_s is None else wall_s,
        energy_kwh=_float(energy.get("gross_kwh")),
        energy_quality=str(energy.get("quality") or ""),
    )


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
    version = (submission.git_commit or submission.version)[:10]
    if submission.git_dirty:
        version += f"-dirty-{submission.sha256[:8]}"
    elif submission.git_commit and submission.scheme > 1:  # the commit is a claim of the folder, the hash is computed
        version += f"-{submission.version[:8]}"
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
