"""A bundle: the folder of one run, readable at any moment and resumable after any death.

``manifest.json`` is replaced atomically at every change of state; what was measured is appended to ``journal.jsonl``
line by line. A manifest that says ``running`` while nobody holds the bundle's lock belongs to a run that was killed.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import filelock
import msgspec

from a2perf.errors import ConfigError, InfrastructureError, UserError
from a2perf.fault_point import fault_point
from a2perf.records import KEYED_SEEDS, PUBLIC_SEEDS, Failure, Manifest, RunState, SubmissionIdentity
from a2perf.runs import attempts, disk_reserve, inventory
from a2perf.runs.attempts import AttemptClock, Used, now
from a2perf.runs.files import files_of
from a2perf.runs.inventory import hash_files, read_manifest, record_files
from a2perf.runs.layout import (
    ARTIFACTS,
    CONFIG,
    JOURNAL,
    LOCK,
    LOGS,
    MANIFEST,
    MEDIA,
    METRICS,
    SIGNATURE,
    WRITTEN,
    archive_path,
)
from a2perf.storage import Journal, json_text, read_record, write_record

__all__ = [
    "SIGNATURE", "Bundle", "Finished", "hash_files", "integrity", "now", "open_bundle", "participant_starts",
    "record_end", "record_files", "validate", "write_manifest",
]  # fmt: skip

_IDENTITY = ("mode", "domain", "task", "env_id", "env_kwargs", "root_seed", "participant_args", "config_sha256")


@dataclass
class Bundle:
    """An open bundle that this process alone writes.

    Attributes:
        path: the folder ``R/<mode>``.
        manifest: the record that ``save`` writes.
        resumed: whether an earlier attempt left something to go on with.
        clock: counts what this attempt uses.
    """

    path: Path
    manifest: Manifest
    resumed: bool
    clock: AttemptClock
    _lock: filelock.BaseFileLock

    @property
    def metrics(self) -> Path:
        """Folder of the measured files."""
        return self.path / METRICS

    @property
    def logs(self) -> Path:
        """Folder of the captured output."""
        return self.path / LOGS

    @property
    def artifacts(self) -> Path:
        """Folder that the participant writes in train mode."""
        return self.path / ARTIFACTS

    @property
    def media(self) -> Path:
        """Folder of pictures and videos."""
        return self.path / MEDIA

    def journal(self) -> Journal:
        """The journal of what was measured."""
        return Journal(self.path / JOURNAL)

    def earlier(self) -> Used:
        """Returns what the attempts before this one used of the bundle's budgets."""
        return attempts.used(self.manifest.attempts[:-1])

    def save(self) -> None:
        """Writes the manifest as it stands, with its own checksum."""
        write_manifest(self.path, self.manifest)

    def finish(self, state: RunState, *, exit_code: int, reason: str, failure: Failure | None = None) -> None:
        """Closes the run: state, exit reason, hashes of every file, then the manifest and the lock."""
        disk_reserve.use_reserve(self.path)
        manifest = self.manifest
        last = manifest.attempts[-1]
        last.finished_at, last.outcome, last.exit_code = now(), reason, exit_code
        self.clock.end()
        self.save()  # if the disk is full even now, the heartbeat stays, and with it what the attempt used
        self.clock.forget()
        manifest.state, manifest.exit_code, manifest.exit_reason, manifest.failure = state, exit_code, reason, failure
        manifest.timings_s["attempt"] = last.wall_s or 0.0
        manifest.timings_s["all_attempts"] = attempts.used(manifest.attempts).wall_s
        record_files(self.path, manifest)
        fault_point("evaluator: files hashed")
        self.save()
        self._lock.release()


@dataclass(frozen=True)
class Finished:
    """A bundle that is done: there is nothing left to run."""

    path: Path
    manifest: Manifest


def open_bundle(path: Path, manifest: Manifest, config_text: str, *, force: bool = False) -> Bundle | Finished:
    """Opens the bundle of a run: new, resumed, or found finished.

    Args:
        path: the folder ``R/<mode>``.
        manifest: what the run is; its identity is compared with what lies there.
        config_text: the operative gin configuration.
        force: archive an existing bundle and start from scratch.

    Returns:
        ``Finished`` when the same run is already done, else an open bundle. A failed run is archived in
        ``R/attic`` and started from scratch; an interrupted or killed one is resumed.

    Raises:
        ConfigError: a bundle of a different run lies there, or the folder cannot be written.
        UserError: another process is writing this bundle.
        InfrastructureError: the disk is full.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        _refuse_links(path)
        lock = _acquire(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        fault_point("evaluator: bundle locked")
        resumed = False
        for leftover in (*path.glob(".*.tmp"), *path.glob(f"{METRICS}/**/.*.tmp")):  # half-written by a killed attempt
            leftover.unlink()
        if (path / MANIFEST).exists():
            found = read_record(path / MANIFEST, Manifest)
            if not force and (difference := _difference(found, manifest)) and found.state is not RunState.FAILED:
                raise ConfigError(
                    f"{path} holds another run: {difference}",
                    hint="choose another --root_dir, or give --force to archive the old run and start from scratch",
                )
            if found.state is RunState.FINISHED and not force:
                lock.release()
                return Finished(path, found)
            if force or found.state is RunState.FAILED:
                lock = _archive_locked(path, lock)
            else:
                resumed = True
                manifest.attempts = attempts.resumed(path, found)
                manifest.sandbox, manifest.python_env = found.sandbox, found.python_env
                manifest.timings_s = found.timings_s
                manifest.seeds = found.seeds  # the scheme and keys of the first attempt, on whatever host
        if not resumed:
            manifest.attempts = attempts.archived(path, lambda other: not _difference(other, manifest))
        attempt = attempts.new_attempt(manifest.attempts)
        manifest.attempts = [*manifest.attempts, attempt]
        bundle = Bundle(path, manifest, resumed, AttemptClock(path, attempt), lock)
        for folder in (bundle.metrics, bundle.logs, bundle.artifacts):
            folder.mkdir(parents=True, exist_ok=True)
        (path / CONFIG).write_text(config_text, encoding="utf-8")
        bundle.save()
        disk_reserve.keep_reserve(path)
    except OSError as error:
        lock.release()
        raise _unwritable(path, error) from error
    except BaseException:
        lock.release()
        raise
    return bundle


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Writes the manifest of the bundle at ``path`` with its own checksum, in one step."""
    manifest.checksum = None
    manifest.checksum = inventory.checksum(json.loads(json_text(msgspec.to_builtins(manifest))))
    write_record(path / MANIFEST, manifest)


def participant_starts(path: Path, manifest: Manifest) -> None:
    """Records that the participant's code runs from here on; calling it again changes nothing.

    Args:
        path: of the bundle.
        manifest: its manifest; one without attempts belongs to a part of a run, whose bundle says it for all parts.

    Raises:
        InfrastructureError: the disk is full already, which cannot be the participant's doing yet.
    """
    if manifest.attempts and manifest.attempts[-1].participant_started_at is None:
        disk_reserve.require_room(path)
        manifest.attempts[-1].participant_started_at = now()
        write_manifest(path, manifest)


def record_end(path: Path, manifest: Manifest, failure: Failure, *, exit_code: int | None) -> None:
    """Writes into the bundle of an evaluator that is gone how its run ended."""
    manifest.state, manifest.exit_reason, manifest.failure = RunState.FAILED, failure.kind.value, failure
    manifest.exit_code = exit_code
    attempts.end_killed(path, manifest, failure.kind.value)
    disk_reserve.use_reserve(path)
    record_files(path, manifest)
    write_manifest(path, manifest)


def validate(path: Path) -> list[str]:
    """Checks a bundle without running anything.

    Returns:
        Every problem found, in words; an empty list means that the bundle is sound.
    """
    try:
        manifest = read_manifest(path)
    except UserError as error:
        return [str(error)]
    problems: list[str] = []
    if manifest.state is RunState.RUNNING:
        problems.append("the run is not finished (state: running): it goes on elsewhere, or was killed")
    if manifest.state is RunState.INTERRUPTED:
        problems.append("the run was interrupted; the same command resumes it")
    if manifest.state is RunState.FAILED and manifest.failure is not None:
        problems.append(f"the run failed: {manifest.failure.kind.value}: {manifest.failure.message}")
    return problems + integrity(path, manifest)


def integrity(path: Path, manifest: Manifest) -> list[str]:
    """Returns what speaks against a bundle's honesty, whether its run succeeded or not.

    Whatever was added, removed or changed since the run ended, and episodes that share a seed.
    """
    problems = inventory.problems(files_of(path), manifest)
    seeds = manifest.seeds.get("episodes", [])
    if len(seeds) != len(set(seeds)):
        problems.append("two episodes share a seed")
    return problems


def _acquire(path: Path) -> filelock.BaseFileLock:
    # A launcher that takes over for a dead one lets the run wait for the evaluator that is still on its way out.
    patience_s = float(os.environ.get("A2PERF_LOCK_WAIT_S", "0"))
    lock = filelock.FileLock(path / LOCK, timeout=patience_s)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        if patience_s:
            raise InfrastructureError(f"another process kept writing {path} for {patience_s:g} s") from error
        raise UserError(
            f"another process is writing {path}", hint="wait for it, or choose another --root_dir"
        ) from error
    return lock


def _refuse_links(path: Path) -> None:
    """Keeps a2perf from writing or reading through a link that stands where it made a file or folder.

    Raises:
        ConfigError: there is one; a participant without a sandbox, or another user, has put it there.
    """
    for place in (path, *(path / name for name in WRITTEN)):
        if place.is_symlink():
            message = f"{place} is a link, which a2perf never makes in a bundle"
            raise ConfigError(message, hint="remove it, or choose another --root_dir")


def _difference(found: Manifest, wanted: Manifest) -> str:
    parts = [
        f"{name} was {getattr(found, name)!r}, now {getattr(wanted, name)!r}"
        for name in _IDENTITY
        if getattr(found, name) != getattr(wanted, name) and name != "config_sha256"
    ]
    if found.config_sha256 != wanted.config_sha256:
        parts.append("the configuration changed (compare config.gin)")
    if changed := submission_difference(found.submission, wanted.submission):
        parts.append(changed)
    if found.seeds.get("scheme") == KEYED_SEEDS and wanted.seeds.get("scheme") == PUBLIC_SEEDS:
        parts.append("its seeds were keyed, now they are public")
    return "; ".join(parts)


def archive(path: Path) -> Path:
    """Moves a bundle into the attic of its run root, where ``attempts.archived`` finds it.

    Returns:
        Where it lies now.
    """
    target = archive_path(path.parent, path.name)
    target.parent.mkdir(exist_ok=True)
    path.rename(target)
    return target


def submission_difference(recorded: SubmissionIdentity, now: SubmissionIdentity) -> str | None:
    """Returns in words how the content of a submission differs from what was recorded; None if it is the same."""
    if recorded.scheme != now.scheme:
        return (
            f"its submission was hashed under scheme {recorded.scheme}, which left files out; today's is {now.scheme}"
        )
    return None if recorded.sha256 == now.sha256 else "the submission's files changed"


def _archive_locked(path: Path, lock: filelock.BaseFileLock) -> filelock.BaseFileLock:
    lock.release()
    archive(path)
    path.mkdir()
    return _acquire(path)


def _unwritable(path: Path, error: OSError) -> UserError:
    import errno

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InfrastructureError(
            f"no space left to write {path}", hint="free some space or choose another --root_dir"
        )
    return ConfigError(f"{path} cannot be written: {error.strerror}", hint="choose a --root_dir that you may write")
