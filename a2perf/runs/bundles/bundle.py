"""A bundle: the folder of one run, readable at any moment and resumable after any death.

``manifest.json`` is replaced atomically at every change of state; measurements are appended to ``journal.jsonl`` line
by line. A manifest in state ``running`` without a holder of the bundle's lock belongs to a killed run.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock
import msgspec

from a2perf.errors import ConfigError, InfrastructureError, UserError
from a2perf.fault_point import fault_point
from a2perf.records import KEYED_SEEDS, PUBLIC_SEEDS, Failure, Manifest, RunState, SubmissionIdentity
from a2perf.runs.bundles import attempts, disk_reserve, inventory
from a2perf.runs.bundles.agreement import integrity
from a2perf.runs.bundles.attempts import AttemptClock, Used, now
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.inventory import read_manifest, record_files
from a2perf.runs.bundles.layout import (
    ARTIFACTS,
    CONFIG,
    EARLIER_CONFIG,
    JOURNAL,
    LOCK,
    LOGS,
    MANIFEST,
    MEDIA,
    METRICS,
    WRITTEN,
    archive_path,
)
from a2perf.storage import Journal, json_text, read_record, write_json

RESOURCES_VARIABLE = "A2PERF_RESOURCES"
"""Environment variable that holds the resources of the run that its launcher was asked for, as a JSON object."""

_HASH_TEXT = len("sha256:") + 12

_IDENTITY = (
    "mode",
    "domain",
    "task",
    "env_id",
    "env_kwargs",
    "root_seed",
    "participant_args",
    "repeats",
    "perturbations",
    "models",
)


@dataclass
class Bundle:
    """An open bundle in the folder ``R/<mode>``; this process is its only writer."""

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
        """Folder for the participant's files in train mode."""
        return self.path / ARTIFACTS

    @property
    def media(self) -> Path:
        """Folder of pictures and videos."""
        return self.path / MEDIA

    def journal(self) -> Journal:
        """The journal of measurements."""
        return Journal(self.path / JOURNAL)

    def earlier(self) -> Used:
        """Returns the usage of the bundle's budgets by earlier attempts."""
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
        self.save()  # on a full disk this raises before the heartbeat, which holds the usage, is removed
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
    """The bundle of a run that has ended."""

    path: Path
    manifest: Manifest


def open_bundle(
    path: Path,
    manifest: Manifest,
    config_text: str,
    *,
    force: bool = False,
    may_restart: Callable[[Manifest], bool] = lambda failed: True,
) -> Bundle | Finished:
    """Opens the bundle of a run at ``R/<mode>``.

    Returns:
        ``Finished`` if the same run has finished, or failed and may not start again; otherwise an open bundle. A failed
        run is archived in ``R/attic`` and started from scratch; an interrupted or killed one is resumed.

    Raises:
        ConfigError: the folder holds a bundle of a different run, or cannot be written.
        UserError: another process is writing this bundle.
        InfrastructureError: the disk is full.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        # Before any file is written, the lock file included.
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
            failed = found.state is RunState.FAILED
            difference = "" if force else _difference(found, manifest)
            if difference and not failed:
                raise ConfigError(
                    f"{path} holds another run: {difference}",
                    hint="choose another --root_dir, or add --force to archive the old run and start from scratch",
                )
            ended = found.state is RunState.FINISHED or (failed and not difference and not may_restart(found))
            if ended and not force:
                lock.release()
                return Finished(path, found)
            if force or failed:
                lock = _archive_locked(path, lock)
            else:
                resumed = True
                manifest.attempts = attempts.resumed(path, found)
                manifest.sandbox, manifest.python_env = found.sandbox, found.python_env
                manifest.timings_s = found.timings_s
                manifest.seeds = found.seeds  # a resume on another host keeps the seeds of the first attempt
        if not resumed:
            manifest.attempts = attempts.archived(path, lambda other: _is_attempt(other, manifest))
        attempt = attempts.new_attempt(manifest.attempts)
        manifest.attempts = [*manifest.attempts, attempt]
        bundle = Bundle(path, manifest, resumed, AttemptClock(path, attempt), lock)
        for folder in (bundle.metrics, bundle.logs, bundle.artifacts):
            folder.mkdir(parents=True, exist_ok=True)
        (path / CONFIG).write_text(config_text, encoding="utf-8")
        (path / EARLIER_CONFIG).unlink(missing_ok=True)  # of an attempt with an earlier version
        bundle.save()
        disk_reserve.keep_reserve(path)
    except OSError as error:
        lock.release()
        raise _unwritable(path, error) from error
    except BaseException:
        lock.release()
        raise
    return bundle


def given_resources() -> dict[str, Any]:
    """Returns the resources of this process's run that its launcher was asked for, by name."""
    return dict(json.loads(os.environ.get(RESOURCES_VARIABLE, "{}")))


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Writes the manifest of the bundle at ``path`` with its checksum, atomically."""
    manifest.checksum = None
    # Of the values as a reader parses them: the text has null for NaN and escapes for surrogates.
    manifest.checksum = inventory.checksum(json.loads(json_text(msgspec.to_builtins(manifest))))
    write_json(path / MANIFEST, msgspec.to_builtins(manifest))


def participant_starts(path: Path, manifest: Manifest) -> None:
    """Records that the participant's code starts now; calling it again changes nothing.

    Raises:
        InfrastructureError: the disk is full, which the participant cannot have caused yet.
    """
    # A manifest without attempts belongs to a part of a run; the bundle of the run records it.
    if manifest.attempts and manifest.attempts[-1].participant_started_at is None:
        disk_reserve.require_room(path)
        manifest.attempts[-1].participant_started_at = now()
        write_manifest(path, manifest)


def record_end(path: Path, manifest: Manifest, failure: Failure, *, exit_code: int | None) -> None:
    """Records the end of a run in its bundle after its evaluator has died."""
    manifest.state, manifest.exit_reason, manifest.failure = RunState.FAILED, failure.kind.value, failure
    manifest.exit_code = exit_code
    attempts.end_killed(path, manifest, failure.kind.value)
    disk_reserve.use_reserve(path)
    record_files(path, manifest)
    write_manifest(path, manifest)


def validate(path: Path) -> list[str]:
    """Returns the problems of a bundle, one sentence each; runs nothing."""
    try:
        manifest = read_manifest(path)
    except UserError as error:
        return [error.message]
    problems: list[str] = []
    if manifest.state is RunState.RUNNING:
        problems.append("the run is not finished (state: running): it is still running, or it was killed")
    if manifest.state is RunState.INTERRUPTED:
        problems.append("the run was interrupted; the same command resumes it")
    if manifest.state is RunState.FAILED and manifest.failure is not None:
        problems.append(f"the run failed: {manifest.failure.kind.value}: {manifest.failure.message}")
    return problems + integrity(files_of(path), manifest)


def _acquire(path: Path) -> filelock.BaseFileLock:
    # A launcher that takes over for a dead one sets a wait time: the evaluator of the dead one may still be ending.
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
    """Refuses links in place of the bundle's files and folders, because writes through them would leave the bundle."""
    for place in (path, *(path / name for name in WRITTEN)):
        if place.is_symlink():
            message = f"{place} is a link; a2perf never creates links in a bundle"
            raise ConfigError(message, hint="remove it, or choose another --root_dir")


def _difference(found: Manifest, wanted: Manifest) -> str:
    """Describes what differs in the identities of two runs; empty if they answer the same question."""
    parts: list[str] = []
    for name in _IDENTITY:
        parts += _changes(name, getattr(found, name), getattr(wanted, name))
    if (found.concurrent_episodes > 1) != (wanted.concurrent_episodes > 1):  # one policy for all episodes, or new ones
        parts.append(f"concurrent_episodes was {found.concurrent_episodes}, now {wanted.concurrent_episodes}")
    if wanted.settings and not found.settings:
        parts.append(f"a2perf {found.a2perf_version} did not record its settings")
    elif not wanted.settings and found.config_sha256 != wanted.config_sha256:
        parts.append(f"the configuration changed (compare {CONFIG})")
    for name, value in wanted.settings.items():
        if name == "configuration" and found.settings.get(name, value) != value:
            parts.append(f"the configuration changed (compare {CONFIG})")
        elif name == "num_inference_steps" and value is None:
            continue  # the scored steps are the same, however many calls were timed before them
        elif name in found.settings:  # not in a record of a version without this setting
            parts += _changes(name, found.settings[name], value)
    if changed := submission_difference(found.submission, wanted.submission):
        parts.append(changed)
    if (
        "public_seeds" not in found.settings
        and found.seeds.get("scheme") == KEYED_SEEDS
        and wanted.seeds.get("scheme") == PUBLIC_SEEDS
    ):
        parts.append("its seeds were keyed, now they are public")
    return "; ".join(parts)


def _is_attempt(found: Manifest, wanted: Manifest) -> bool:
    """Returns whether an archived run counts as an attempt of a run: its settings beside the gin file may differ."""
    one, other = (msgspec.structs.replace(manifest, settings={}) for manifest in (found, wanted))
    return not _difference(one, other)


def _changes(name: str, found: Any, wanted: Any) -> list[str]:
    if isinstance(found, dict) and isinstance(wanted, dict):
        names = sorted({*found, *wanted})
        return [part for one in names for part in _changes(f"{name}[{one}]", found.get(one), wanted.get(one))]
    return [] if found == wanted else [f"{name} was {_shown(found)}, now {_shown(wanted)}"]


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, str) and value:
        return value[:_HASH_TEXT] if value.startswith("sha256:") else value
    return json.dumps(value, default=str)


def archive(path: Path) -> Path:
    """Moves a bundle into the attic of its run root, where ``attempts.archived`` finds it."""
    target = archive_path(path.parent, path.name)
    target.parent.mkdir(exist_ok=True)
    path.rename(target)
    return target


def submission_difference(recorded: SubmissionIdentity, now: SubmissionIdentity) -> str | None:
    """Describes how a submission's content differs from the recorded one; None if it is the same."""
    if recorded.scheme != now.scheme:
        return (
            f"its submission was hashed by scheme {recorded.scheme}, which omits files; the current one is {now.scheme}"
        )
    return None if recorded.sha256 == now.sha256 else "the submission's files changed"


def _archive_locked(path: Path, lock: filelock.BaseFileLock) -> filelock.BaseFileLock:
    # The lock file moves with the folder: the old lock would not protect the new folder.
    lock.release()
    archive(path)
    path.mkdir()
    return _acquire(path)


def _unwritable(path: Path, error: OSError) -> UserError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InfrastructureError(
            f"no space left to write {path}", hint="free some space or choose another --root_dir"
        )
    return ConfigError(f"{path} cannot be written: {error.strerror}", hint="choose a writable --root_dir")
