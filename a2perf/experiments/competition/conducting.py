"""Runs entrants: training on the public task, then the public and every secret task, each run with its own outcome.

An entrant's failure is its own, also one of its folder. The runs go through the durable queue of experiments, so the
same command finishes what a killed one left, and entrants can be added until the list is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.errors import ConfigError, UserError
from a2perf.experiments.competition.entrants import Entered, enter, read_entrants
from a2perf.experiments.competition.gin_files import binding
from a2perf.experiments.competition.records import Competition, Evaluator, canonical_sha256
from a2perf.experiments.competition.runs import PlannedRun, bindings_of, planned_runs
from a2perf.experiments.experiment import QUEUE_FILE, classify, prepare
from a2perf.experiments.plan import EVALUATOR_MEMORY_BYTES, LOCK_WAIT_S
from a2perf.launch.entry import Entry
from a2perf.launch.interface import Launcher, Resources, RunCommand
from a2perf.launch.queue import Queue
from a2perf.launch.scheduler import Event, Summary, drive
from a2perf.records import FailureKind

PYTHON_ENVS = ("auto", "shared", "isolated")
"""``auto``: an environment of its own for each entrant whose requirements this a2perf's packages do not satisfy."""


@dataclass(frozen=True)
class Entrants:
    """Who is run, and how.

    Attributes:
        submissions: folders; their names have to differ.
        python_env: one of ``PYTHON_ENVS``.
        find_links: folders of wheels for environments of their own.
        sandbox: replaces that of the terms; one that cannot hide the competition needs ``allow_weaker``.
        allow_weaker: whether guarantees that this host cannot enforce may be missing; the published record says so.
        retry_failed: whether failed runs are run again; the published record counts the attempts.
        retry_infrastructure: whether runs start again that the infrastructure failed after the entrant had started.
    """

    submissions: tuple[Path, ...]
    python_env: str = "auto"
    find_links: tuple[Path, ...] = ()
    sandbox: str | None = None
    allow_weaker: bool = False
    retry_failed: bool = False
    retry_infrastructure: bool = False


@dataclass(frozen=True)
class Outcomes:
    """What a call came to: the entries of its entrants as they stand, and what it did."""

    entries: Sequence[Entry]
    summary: Summary


def conduct(
    competition: Competition,
    entrants: Entrants,
    launcher: Launcher,
    workers: int,
    *,
    on_event: Callable[[Event], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcomes:
    """Enters the entrants, and runs them or what is left of them.

    Args:
        competition: whose.
        entrants: who, and how.
        launcher: where; the caller closes it.
        workers: how many runs at the same time.
        on_event: see ``drive``.
        stop: see ``drive``.

    Raises:
        ConfigError: a folder or setting is wrong, or the secrets lie where an entrant could read them.
        UserError: the secrets were revealed already, this is not the code that was committed to, or the sandbox cannot
            be had on this host.
    """
    check_evaluator(competition)
    entered = enter_all(competition, entrants)
    planned = entries_of(competition, entrants, entered)
    with Queue(competition.runs / QUEUE_FILE) as queue:
        prepare(
            queue, planned, retry_failed=entrants.retry_failed, retry_infrastructure=entrants.retry_infrastructure
        )  # fmt: skip
        keys = [entry.key for entry in planned]
        _refuse(queue, competition, entered)
        queue.restrict(keys)
        summary = drive(queue, launcher, workers, classify=classify, on_event=on_event, stop=stop)
        return Outcomes(queue.entries(keys), summary)


def check_evaluator(competition: Competition) -> None:
    """Refuses to go on with other code than the one that was committed to.

    Raises:
        UserError: a package or Python itself changed.
    """
    if differences := competition.evaluator.differences(Evaluator.current()):
        raise UserError(
            f"this is not the code that the competition committed to: {'; '.join(differences)}",
            hint="install the versions of public/evaluator.json again",
        )


def enter_all(competition: Competition, entrants: Entrants) -> list[Entered]:
    """Lists the entrants of a call; see ``enter``."""
    if entrants.python_env not in PYTHON_ENVS:
        raise ConfigError(f"--python-env {entrants.python_env!r} is not valid", hint=f"use {', '.join(PYTHON_ENVS)}")
    return enter(
        competition,
        entrants.submissions,
        sandbox=entrants.sandbox,
        allow_weaker=entrants.allow_weaker,
        python_env=entrants.python_env,
    )


def entries_of(competition: Competition, entrants: Entrants, entered: Sequence[Entered]) -> list[Entry]:
    """Returns the runs of the entrants, seed by seed, so that a cut-off competition can be compared."""
    plans = [
        (one, run) for one in entered for run in planned_runs(competition.terms, competition.secret, one.entrant.number)
    ]
    plans.sort(key=lambda plan: competition.terms.seeds.index(plan[1].seed))  # stable: the training stays first
    entries: list[Entry] = []
    train_keys: dict[tuple[int, int], str] = {}
    for one, run in plans:
        entry = _entry(competition, entrants, one, run, train_keys.get((one.entrant.number, run.seed)))
        if run.mode == "train":
            train_keys[one.entrant.number, run.seed] = entry.key
        entries.append(entry)
    return entries


def _entry(competition: Competition, entrants: Entrants, one: Entered, run: PlannedRun, after: str | None) -> Entry:
    entrant, terms = one.entrant, competition.terms
    home = competition.runs / entrant.place
    root = home / run.place
    gin_file, sandbox = competition.public / run.gin_file, entrants.sandbox or terms.sandbox
    given = bindings_of(run, competition.folder, home)
    flags = [
        "--participant-module-path", str(one.folder),
        "--submission-gin-config-path", str(gin_file),
        "--root-dir", str(root),
        "--seed", str(run.seed),
        "--sandbox", sandbox,
        "--python-env", "isolated" if entrant.isolated else "shared",
        *(word for path in entrants.find_links for word in ("--python-env-find-links", str(path.absolute()))),
        *(("--allow-weaker",) if entrants.allow_weaker else ()),
        *(word for name, value in given.items() for word in binding(name, value)),
    ]  # fmt: skip
    identity = [
        entrant.number, entrant.sha256, competition.commitment.commitment, run.task, run.mode, run.seed, sandbox,
        entrant.isolated,
    ]  # fmt: skip
    memory = None if terms.memory_limit_bytes is None else terms.memory_limit_bytes + EVALUATOR_MEMORY_BYTES
    name = f"{entrant.place}/{run.task}/seed_{run.seed}/{run.mode}"
    command = RunCommand.evaluator(
        flags,
        name=name,
        env={"A2PERF_LOCK_WAIT_S": str(LOCK_WAIT_S)},
        log=root / f"{run.mode}.log",
        resources=Resources(memory_bytes=memory),
        domain=terms.domain,
        readable=(one.folder, competition.private, competition.public, *entrants.find_links),
        writable=(home,),
    )
    data: dict[str, Any] = {
        "submission": entrant.place,
        "task": run.task,
        "seed": run.seed,
        "mode": run.mode,
        "split": "held out" if run.is_secret else "public",
        "root": str(root),
        "bundle": str(root / run.mode),
    }
    return Entry(f"{name}@{canonical_sha256(identity)[:16]}", command, data, after=after)


def _refuse(queue: Queue, competition: Competition, entered: Sequence[Entered]) -> None:
    """Records the failure of entrants that cannot run: their folder is not valid, or is another entrant by now."""
    reasons = {one.entrant.place: one.entrant.refused for one in entered if one.entrant.refused}
    now = {one.entrant.name: one.entrant for one in entered}
    for entrant in read_entrants(competition).all():
        if entrant.name in now and now[entrant.name].number != entrant.number:
            reasons[entrant.place] = f"its folder changed before this run, and entered as {now[entrant.name].place}"
    for entry in queue.entries():
        reason = reasons.get(str(entry.data["submission"]))
        if reason is not None:
            queue.refuse([entry.key], FailureKind.CONTRACT.value, reason)
