"""Brings a queue in line with a list of run specifications and with the bundles on disk, before the queue is driven.

The bundles decide about results, the queue about who works on which run. The same command again finishes unfinished
runs and counts nothing twice: it adds the same keys, takes over the runs of dead processes, and restarts only runs that
failed before the submission's code had started or by a known external cause.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from a2perf.errors import ConfigError
from a2perf.launch.outcomes import read_manifest
from a2perf.launch.queue import Queue
from a2perf.launch.queue_entry import INFRASTRUCTURE, QueueEntry, State
from a2perf.launch.run_spec import RunCommand, RunSpec
from a2perf.records import RunState
from a2perf.runs.bundles.attempts import REASON_VARIABLE, RETRY_FAILED, RETRY_INFRASTRUCTURE
from a2perf.runs.bundles.layout import archive_path

RUN_AGAIN = (INFRASTRUCTURE, "configuration")
"""Kinds of failure that the same command retries unless they are final: of the host, or fixable by the caller."""

_AGAIN = "to be run again"


@dataclass(frozen=True)
class Restart:
    """Which ended runs start again, beyond those of ``RUN_AGAIN``.

    Attributes:
        force: every run, from scratch; the bundles are archived.
        infrastructure: also runs that failed by the infrastructure after their participant had started. The participant
            can have caused that, so the record of the attempt names this option.
        everything: every run of the list, whatever its state in the queue, for a caller that left out finished ones.
    """

    force: bool = False
    failed: bool = False
    infrastructure: bool = False
    everything: bool = False

    @property
    def reason(self) -> str:
        """The option that made a failed run start again, for the record of its next attempt."""
        return RETRY_FAILED if self.failed else RETRY_INFRASTRUCTURE if self.infrastructure else ""


def prepare(queue: Queue, specs: Sequence[RunSpec], restart: Restart | None = None) -> None:
    """Brings the queue in line with a plan and with the bundles on disk; doing it again changes nothing.

    Raises:
        ConfigError: the folder of a planned run holds a finished run of another identity, or another launcher uses it.
    """
    restart = restart or Restart()
    # First: below, a lease of a dead process would count as a run of another launcher.
    queue.reap()
    ours = {spec.key for spec in specs}
    bundles = {spec.bundle for spec in specs if spec.bundle is not None}
    known = queue.entries()
    same_place = [entry for entry in known if entry.key in ours or entry.bundle in bundles]
    held = [entry for entry in same_place if entry.state in (State.LEASED, State.RUNNING)]
    if held and (restart.force or any(entry.key not in ours for entry in held)):
        raise ConfigError(f"another launcher is running {held[0].key}", hint="wait for it or stop it")
    if restart.force:
        queue.remove([entry.key for entry in same_place])
        for bundle in filter(Path.exists, sorted(bundles)):
            place = archive_path(bundle.parent, bundle.name)
            place.parent.mkdir(exist_ok=True)
            shutil.move(bundle, place)
    else:
        others = [entry for entry in same_place if entry.key not in ours]
        if finished := [entry for entry in others if entry.state is State.FINISHED and _has_finished_bundle(entry)]:
            new = next((spec for spec in specs if spec.bundle == finished[0].bundle), None)
            raise ConfigError(
                f"{finished[0].bundle} holds a finished run with different code, configuration or arguments"
                + ("" if new is None else _changed(finished[0].command, new.command)),
                hint="choose another --root_dir, or give --force to archive the old runs and start from scratch",
            )
        queue.remove([entry.key for entry in others])
    over = {entry.key for entry in known if entry.state is State.FAILED}
    queue.add([_with_reason(spec, restart.reason if spec.key in over else "") for spec in specs])
    if restart.everything:
        queue.reopen([spec.key for spec in specs], _AGAIN)
    elif not restart.force:
        gone = [
            entry.key
            for entry in known
            if entry.key in ours and entry.state is State.FINISHED and not _has_finished_bundle(entry)
        ]
        queue.reopen(gone, "its bundle is gone or unfinished")
        queue.revive(None if restart.failed else RUN_AGAIN, final=restart.failed or restart.infrastructure)


def _changed(before: RunCommand, now: RunCommand) -> str:
    """Describes the words of a command line that differ."""
    one, other = ([word for word in a.argv if word not in b.argv] for a, b in ((before, now), (now, before)))
    return f": was {shlex.join(one) or 'without'}, now {shlex.join(other) or 'without'}" if one or other else ""


def _with_reason(spec: RunSpec, reason: str) -> RunSpec:
    """Lets the evaluator of a run record why its run starts again."""
    if not reason:
        return spec
    return replace(spec, command=replace(spec.command, env={**spec.command.env, REASON_VARIABLE: reason}))


def _has_finished_bundle(entry: QueueEntry) -> bool:
    manifest = None if entry.bundle is None else read_manifest(entry.bundle)
    return manifest is not None and manifest.state is RunState.FINISHED
