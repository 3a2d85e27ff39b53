"""Runs entrants: training on the public task, then the public and every secret task, each run with its own outcome.

An entrant's failure is its own, also one of its folder. The same command finishes what a killed one left, and entrants
can be added until the list is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from a2perf.errors import ConfigError, UserError
from a2perf.experiments.competition.entrants import Entered, enter, read_entrants
from a2perf.experiments.competition.gin_files import binding
from a2perf.experiments.competition.records import Competition, Evaluator, canonical_sha256
from a2perf.experiments.competition.required_runs import RequiredRun, bindings_of, required_runs
from a2perf.experiments.evaluator_run import evaluator_run
from a2perf.launch import QUEUE_FILE, Conductor, ExperimentResult, Queue, Resources, Restart, RunSpec
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
    """

    submissions: tuple[Path, ...]
    python_env: str = "auto"
    find_links: tuple[Path, ...] = ()
    sandbox: str | None = None
    allow_weaker: bool = False


def run(
    competition: Competition, entrants: Entrants, conductor: Conductor, *, restart: Restart | None = None
) -> ExperimentResult:
    """Enters the entrants, and runs them or what is left of them.

    Args:
        competition: the competition.
        entrants: who is run, and how.
        conductor: executes the runs.
        restart: which failed runs start again; the published record counts the attempts.

    Raises:
        ConfigError: a folder or setting is wrong, or the secrets lie where an entrant could read them.
        UserError: the secrets were revealed already, this is not the code that was committed to, or this host does not
            offer the sandbox.
    """
    check_evaluator(competition)
    entered = enter_all(competition, entrants)
    return conductor.run(
        run_specs(competition, entrants, entered), competition.runs / QUEUE_FILE, restart=restart,
        on_ready=lambda queue: _refuse(queue, competition, entered),
    )  # fmt: skip


def check_evaluator(competition: Competition) -> None:
    """Refuses to continue with other code than the competition committed to.

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


def run_specs(competition: Competition, entrants: Entrants, entered: Sequence[Entered]) -> list[RunSpec]:
    """Returns the runs of the entrants, seed by seed, so that an interrupted competition can be compared."""
    plans = [
        (one, run)
        for one in entered
        for run in required_runs(competition.terms, competition.secret, one.entrant.number)
    ]
    plans.sort(key=lambda plan: competition.terms.seeds.index(plan[1].seed))  # stable: the training stays first
    specs: list[RunSpec] = []
    train_keys: dict[tuple[int, int], str] = {}
    for one, run in plans:
        spec = _spec(competition, entrants, one, run, train_keys.get((one.entrant.number, run.seed)))
        if run.mode == "train":
            train_keys[one.entrant.number, run.seed] = spec.key
        specs.append(spec)
    return specs


def _spec(competition: Competition, entrants: Entrants, one: Entered, run: RequiredRun, after: str | None) -> RunSpec:
    entrant, terms = one.entrant, competition.terms
    home = competition.runs / entrant.place
    sandbox = entrants.sandbox or terms.sandbox
    flags = [
        "--seed", str(run.seed),
        "--sandbox", sandbox,
        "--python-env", "isolated" if entrant.isolated else "shared",
        *(word for path in entrants.find_links for word in ("--python-env-find-links", str(path.absolute()))),
        *(("--allow-weaker",) if entrants.allow_weaker else ()),
        *(word for name, value in bindings_of(run, competition.folder, home).items() for word in binding(name, value)),
    ]  # fmt: skip
    identity = [
        entrant.number, entrant.sha256, competition.commitment.commitment, run.task, run.mode, run.seed, sandbox,
        entrant.isolated,
    ]  # fmt: skip
    return evaluator_run(
        f"{entrant.place}/{run.task}/seed_{run.seed}/{run.mode}",
        home / run.place,  # opaque, because an entrant may learn the path of its run
        run.mode,
        submission=one.folder,
        gin_file=competition.public / run.gin_file,
        flags=flags,
        digest=canonical_sha256(identity),
        data={
            "submission": entrant.place,
            "task": run.task,
            "seed": run.seed,
            "mode": run.mode,
            "split": "held out" if run.is_secret else "public",
        },
        domain=terms.domain,
        resources=Resources(memory_bytes=terms.memory_limit_bytes),
        readable=(competition.private, competition.public, *entrants.find_links),
        writable=home,
        after=after,
    )


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
