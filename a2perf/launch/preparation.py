"""Brings a queue in line with a list of run specifications and with the bundles on disk, before the queue is driven.

The bundles are the truth about results, the queue is the truth about who works on what. The same command again finishes
what is unfinished and counts nothing twice: it adds the same keys, takes over what dead processes held, and starts
again only what failed before the submission's code had run, or by a cause that is known to lie outside.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from a2perf.errors import ConfigError
from a2perf.launch.outcomes import read_manifest
from a2perf.launch.queue import Queue
from a2perf.launch.queue_entry import INFRASTRUCTURE, QueueEntry, State
from a2perf.launch.run_spec import RunSpec
from a2perf.records import RunState
from a2perf.runs.attempts import REASON_VARIABLE
from a2perf.runs.layout import archive_path

RUN_AGAIN = (INFRASTRUCTURE, "configuration")
"""Kinds of failure that the same command starts again unless they are final: the host's, what the caller can fix."""

_AGAIN = "to be run again"


@dataclass(frozen=True)
class Restart:
    """Which runs that are over start again, beyond those of ``RUN_AGAIN``.

    Attributes:
        force: every run, from scratch; the bundles are archived.
        failed: every failed run.
        infrastructure: also those that failed by the infrastructure after their participant had started, which can be
            the participant's doing; the record of the attempt says so.
        everything: every run of the list, whatever the queue remembers, for a caller who has left out finished ones.
    """

    force: bool = False
    failed: bool = False
    infrastructure: bool = False
    everything: bool = False

    @property
    def reason(self) -> str:
        """The option that made a failed run start again, for the record of its next attempt."""
        return "--retry-failed" if self.failed else "--retry-infrastructure" if self.infrastructure else ""


def prepare(queue: Queue, specs: Sequence[RunSpec], restart: Restart | None = None) -> None:
    """Brings the queue in line with a plan and with the bundles on disk; doing it again changes nothing.

    Raises:
        ConfigError: a finished run of another identity lies where a planned one belongs, or another launcher is running
            there.
    """
    restart = restart or Restart()
    queue.reap()
    ours = {spec.key for spec in specs}
    bundles = {spec.bundle for spec in specs if spec.bundle is not None}
    known = queue.entries()
    same_place = [entry for entry in known if entry.key in ours or entry.bundle in bundles]
    held = [entry for entry in same_place if entry.state in (State.LEASED, State.RUNNING)]
    if held and (restart.force or any(entry.key not in ours for entry in held)):
        raise ConfigError(f"another launcher is running {held[0].key}", hint="wait for it, or end it")
    if restart.force:
        queue.remove([entry.key for entry in same_place])
        for bundle in sorted(bundles):
            _archive(bundle)
    else:
        others = [entry for entry in same_place if entry.key not in ours]
        if finished := [entry for entry in others if entry.state is State.FINISHED and _has_finished_bundle(entry)]:
            raise ConfigError(
                f"{finished[0].bundle} holds a finished run of other code, configuration or arguments",
                hint="choose another --root_dir, or give --force to archive the old runs and start from scratch",
            )
        queue.remove([entry.key for entry in others])
    over = {entry.key for entry in known if entry.state is State.FAILED}
    queue.add([_with_reason(spec, restart.reason if spec.key in over else "") for spec in specs])
    if restart.everything:
        queue.reopen([spec.key for spec in specs], _AGAIN)
    elif not restart.force:
        gone = [entry.key for entry in known if entry.key in ours and entry.state is State.FINISHED
                and not _has_finished_bundle(entry)]  # fmt: skip
        queue.reopen(gone, "its bundle is gone or unfinished")
        queue.revive(None if restart.failed else RUN_AGAIN, final=restart.failed or restart.infrastructure)


def _with_reason(spec: RunSpec, reason: str) -> RunSpec:
    """Lets the evaluator of a run record why its run starts again."""
    if not reason:
        return spec
    return replace(spec, command=replace(spec.command, env={**spec.command.env, REASON_VARIABLE: reason}))


def _has_finished_bundle(entry: QueueEntry) -> bool:
    manifest = None if entry.bundle is None else read_manifest(entry.bundle)
    return manifest is not None and manifest.state is RunState.FINISHED


def _archive(bundle: Path) -> None:
    if bundle.exists():
        place = archive_path(bundle.parent, bundle.name)
        place.parent.mkdir(exist_ok=True)
        shutil.move(bundle, place)
