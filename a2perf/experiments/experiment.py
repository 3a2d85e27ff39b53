"""An experiment: the plan goes into a durable queue, the queue is driven to its end, every run has an outcome.

The bundles are the truth about results, the queue is the truth about who works on what. The same command again
finishes what is unfinished and counts nothing twice: it adds the same keys, takes over what dead processes held, and
starts again only what failed before the submission's code had run, or by a cause that is known to lie outside.
"""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from a2perf.errors import ConfigError
from a2perf.experiments.plan import Experiment, plan
from a2perf.fault_point import fault_point
from a2perf.launch.entry import INFRASTRUCTURE, PREREQUISITE, Entry, State
from a2perf.launch.interface import Launcher
from a2perf.launch.outcomes import classify, read_manifest, recorded
from a2perf.launch.queue import Queue
from a2perf.launch.scheduler import Event, Summary, drive
from a2perf.records import RunState
from a2perf.runs.attempts import REASON_VARIABLE
from a2perf.runs.inventory import listed_file

__all__ = [
    "QUEUE_FILE", "RUN_AGAIN", "Conducted", "as_json", "blocked", "classify", "conduct", "mean_return", "prepare",
    "run_as_json",
]  # fmt: skip

QUEUE_FILE = "queue.sqlite"
"""Name of the queue in the experiment's root folder."""

RUN_AGAIN = (INFRASTRUCTURE, "configuration")
"""Kinds of failure that the same command starts again unless they are final: the host's, what the caller can fix."""


@dataclass(frozen=True)
class Conducted:
    """What an experiment came to.

    Attributes:
        entries: its runs as they stand.
        summary: what this drive did.
    """

    entries: Sequence[Entry]
    summary: Summary


def conduct(
    experiment: Experiment,
    launcher: Launcher,
    workers: int,
    *,
    force: bool = False,
    retry_failed: bool = False,
    retry_infrastructure: bool = False,
    on_event: Callable[[Event], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Conducted:
    """Runs an experiment, or what is left of it.

    Args:
        experiment: what is to be run.
        launcher: where; the caller closes it.
        workers: how many runs at the same time.
        force: put every bundle of the experiment aside and start anew.
        retry_failed: start every failed run again, not only those of ``RUN_AGAIN``.
        retry_infrastructure: start also those again that failed by the infrastructure after their participant had
            started, which can be the participant's doing; the record of the attempt says so.
        on_event: see ``drive``.
        stop: see ``drive``.

    Raises:
        ConfigError: the experiment is wrong, or its root holds finished runs of other code or another configuration.
    """
    planned = plan(experiment)
    fault_point("launcher: planned")
    with Queue(experiment.root / QUEUE_FILE) as queue:
        keys = [entry.key for entry in planned]
        prepare(queue, planned, force=force, retry_failed=retry_failed, retry_infrastructure=retry_infrastructure)
        fault_point("launcher: queued")
        queue.restrict(keys)
        summary = drive(queue, launcher, workers, classify=classify, recorded=recorded, on_event=on_event, stop=stop)
        fault_point("launcher: driven")
        return Conducted(queue.entries(keys), summary)


def prepare(
    queue: Queue,
    planned: Sequence[Entry],
    *,
    force: bool = False,
    retry_failed: bool = False,
    retry_infrastructure: bool = False,
) -> None:
    """Brings the queue in line with a plan and with the bundles on disk; doing it again changes nothing.

    Raises:
        ConfigError: a finished run of another identity lies where a planned one belongs, or somebody works there.
    """
    queue.reap()
    ours = {entry.key for entry in planned}
    places = {entry.data["bundle"] for entry in planned}
    known = queue.entries()
    others = [entry for entry in known if entry.data["bundle"] in places and entry.key not in ours]
    held = [entry for entry in known if entry.state in (State.LEASED, State.RUNNING) and entry.data["bundle"] in places]
    if held and (force or any(entry.key not in ours for entry in held)):
        raise ConfigError(f"another launcher is running {held[0].key}", hint="wait for it, or end it")
    if force:
        queue.remove([entry.key for entry in known if entry.data["bundle"] in places])
        for place in sorted(places):
            _put_aside(Path(place))
    else:
        if finished := [entry for entry in others if entry.state is State.FINISHED and _is_finished(entry)]:
            raise ConfigError(
                f"{finished[0].data['bundle']} holds a finished run of other code, configuration or arguments",
                hint="choose another --root_dir, or give --force to put the old runs aside and start anew",
            )
        queue.remove([entry.key for entry in others])
    over = {entry.key for entry in known if entry.state is State.FAILED}
    flag = "--retry-failed" if retry_failed else "--retry-infrastructure" if retry_infrastructure else ""
    queue.add([_with_reason(entry, flag if entry.key in over else "") for entry in planned])
    if not force:
        gone = [entry.key for entry in known if entry.key in ours and entry.state is State.FINISHED
                and not _is_finished(entry)]  # fmt: skip
        queue.reopen(gone, "its bundle is gone or unfinished")
        queue.revive(None if retry_failed else RUN_AGAIN, final=retry_failed or retry_infrastructure)


def as_json(conducted: Conducted, root: Path) -> dict[str, Any]:
    """Returns the summary of an experiment as a JSON object."""
    summary = conducted.summary
    return {
        "root": str(root),
        "exit_code": summary.exit_code,
        "counts": {state.value: count for state, count in summary.counts.items()},
        "failed": dict(summary.failed),
        "wall_s": summary.wall_s,
        "jobs_started": summary.attempts,
        "runs": [run_as_json(entry) for entry in conducted.entries],
    }


def run_as_json(entry: Entry) -> dict[str, Any]:
    """Returns one run of an experiment as a JSON object."""
    took = None if entry.started is None or entry.ended is None else entry.ended - entry.started
    log = entry.command.log
    return {
        **entry.data,
        "state": entry.state.value,
        "kind": entry.kind,
        "reason": entry.reason,
        "exit_code": entry.exit_code,
        "attempts": entry.attempts,
        "wall_s": took,
        "log": None if log is None else str(log),
    }


def mean_return(entry: Entry) -> float | None:
    """Returns the mean episode return of a finished run, where its mode has one."""
    bundle = Path(entry.data["bundle"])
    manifest = read_manifest(bundle)
    paths = [bundle / "metrics" / "rollouts.json", *sorted(bundle.glob("metrics/tasks/*/rollouts.json"))]
    returns: list[float] = []
    for path in paths:
        if listed_file(bundle, manifest, path.relative_to(bundle).as_posix()) is None:
            continue
        try:
            document: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        returns += [episode["episode_return"] for episode in document["episodes"]]
    return sum(returns) / len(returns) if returns else None


def blocked(entry: Entry) -> bool:
    """Whether a failed entry never ran, because the one that it needs failed."""
    return entry.kind == PREREQUISITE


def _with_reason(entry: Entry, reason: str) -> Entry:
    """Lets the evaluator of an entry record why its run starts again."""
    if not reason:
        return entry
    return replace(entry, command=replace(entry.command, env={**entry.command.env, REASON_VARIABLE: reason}))


def _is_finished(entry: Entry) -> bool:
    manifest = read_manifest(Path(entry.data["bundle"]))
    return manifest is not None and manifest.state is RunState.FINISHED


def _put_aside(bundle: Path) -> None:
    if bundle.exists():
        attic = bundle.parent / "attic"
        attic.mkdir(exist_ok=True)
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%f")
        shutil.move(bundle, attic / f"{bundle.name}-{stamp}")
