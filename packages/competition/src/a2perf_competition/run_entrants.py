"""Runs entrants: training on the public task, then the public and every secret task, with one outcome per run.

A failure of an entrant, even of its folder, does not affect the others. The same command resumes an interrupted one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from a2perf.errors import ConfigError, UserError
from a2perf.experiments.planning import PlannedRun
from a2perf.launch import QUEUE_FILE, Conductor, ExperimentResult, Queue, Resources, Restart, RunSpec
from a2perf.launch.local import LocalLauncher
from a2perf.records import FailureKind
from a2perf.sandbox import Limits, get_sandbox
from a2perf.sandbox.limits import participants_bytes
from a2perf.storage import write_atomic
from a2perf.submission.evaluator import seed_secret
from a2perf.submission.run_options import RunOptions
from a2perf.system import usable_processors
from a2perf_competition.draw import Draw, draw_seeds
from a2perf_competition.entrants import Entrant, Entrants, enter_all, read_entrants
from a2perf_competition.records import SEED_SECRET, Competition, CompetitionTerms, Evaluator
from a2perf_competition.required_runs import RequiredRun, bindings_of, required_runs


def run(
    competition: Competition,
    entrants: Entrants,
    conductor: Conductor,
    *,
    nonces: Sequence[str] = (),
    restart: Restart | None = None,
) -> ExperimentResult:
    """Enters the entrants, closes the list, and executes their unfinished runs: the seeds depend on all entrants.

    Runs share this host only if each has its own processors and memory by the terms.

    Args:
        nonces: what entrants reveal for the draw of the seeds.
        restart: which failed runs start again; the published record counts the attempts.

    Raises:
        ConfigError: a folder, a nonce or a setting is wrong, an entrant could read the secrets, or this host has less
            than the terms promise to each of the runs at the same time.
        UserError: the secrets were revealed, the installed code differs from the commitment, or this host does not
            offer the sandbox.
    """
    check_evaluator(competition)
    if isinstance(conductor.launcher, LocalLauncher):
        conductor.workers = check_host(competition.terms, entrants, conductor.workers)
    entered = enter_all(competition, entrants)
    draw = draw_seeds(competition, nonces)
    secret = draw.seed_secret(competition.secret, read_entrants(competition))
    write_atomic(competition.private / SEED_SECRET, secret, mode=0o600)
    return conductor.run(
        run_specs(competition, entrants, entered),
        competition.runs / QUEUE_FILE,
        restart=restart,
        on_ready=lambda queue: _refuse(queue, competition, entered, draw),
    )


def check_host(terms: CompetitionTerms, entrants: Entrants, workers: int) -> int:
    """Returns how many runs may share this host: one if it cannot give each its processors.

    Raises:
        ConfigError: it has less memory or fewer processors than the terms promise.
    """
    level = entrants.sandbox or terms.sandbox
    if workers > 1 and get_sandbox(level).unenforceable(Limits(cpus=terms.cpu_limit)):
        said = f"level {level!r} cannot divide the processors of this host among runs: one run at a time"
        print(f"a2perf: {said} (`a2perf doctor` shows why)", file=sys.stderr)
        workers = 1
    fits = participants_bytes() // terms.memory_limit_bytes
    if workers > fits and not entrants.allow_weaker:
        raise ConfigError(
            f"{workers} run(s) at a time with {terms.memory_limit_bytes:,} bytes each need more memory than this host "
            f"gives to participants, {participants_bytes():,} bytes",
            hint=f"use --workers {fits}" if fits else "run on a host with more memory",
        )
    if terms.cpu_limit > usable_processors() and not entrants.allow_weaker:
        raise ConfigError(
            f"the terms give each run {terms.cpu_limit:g} processors, this host has {usable_processors()}",
            hint="run on a host with more processors",
        )
    return workers


def check_evaluator(competition: Competition) -> None:
    """Refuses to continue with code that differs from the commitment.

    Raises:
        UserError: a package or Python has changed.
    """
    if differences := competition.evaluator.differences(Evaluator.current()):
        raise UserError(
            f"the installed code differs from the competition's commitment: {'; '.join(differences)}",
            hint="install the versions in public/evaluator.json",
        )


def run_specs(competition: Competition, entrants: Entrants, entered: Sequence[tuple[Entrant, Path]]) -> list[RunSpec]:
    """Returns the runs of the entrants sorted by seed: an interrupted competition still allows comparisons."""
    plans = [
        (entrant, folder, run)
        for entrant, folder in entered
        for run in required_runs(competition.terms, competition.secret, entrant.place)
    ]
    plans.sort(key=lambda plan: competition.terms.seeds.index(plan[2].seed))  # stable: the training run stays first
    specs: list[RunSpec] = []
    trained: dict[tuple[int, int], RunSpec] = {}
    for entrant, folder, run in plans:
        spec = _spec(competition, entrants, entrant, folder, run, trained.get((entrant.number, run.seed)))
        if run.mode == "train":
            trained[entrant.number, run.seed] = spec
        specs.append(spec)
    return specs


def _spec(
    competition: Competition,
    entrants: Entrants,
    entrant: Entrant,
    folder: Path,
    run: RequiredRun,
    after: RunSpec | None,
) -> RunSpec:
    terms = competition.terms
    home = competition.runs / entrant.place
    sandbox = entrants.sandbox or terms.sandbox
    planned = PlannedRun(
        submission=folder,
        gin_file=competition.public / run.gin_file,
        root=home / run.place,  # a hash, because the entrant can see this path
        seed=run.seed,
        options=RunOptions.of(
            sandbox=sandbox,
            python_env="isolated" if entrant.isolated else "shared",
            allow_weaker=entrants.allow_weaker,
        ),
        bindings=tuple(f"{name} = {value!r}" for name, value in bindings_of(run, competition.folder, home).items()),
        env={seed_secret.VARIABLE: str(competition.private / SEED_SECRET)},
        resources=Resources(memory_bytes=terms.memory_limit_bytes, wall_s=terms.run_time_limit_s),
        readable=(competition.private, competition.public),
        writable=(home,),
    )
    return planned.spec(
        f"{entrant.place}/{run.task.name}/seed_{run.seed}/{run.mode}",
        run.mode,
        {
            "submission": entrant.place,
            "task": run.task.name,
            "seed": run.seed,
            "split": "held out" if run.is_secret else "public",
        },
        identity=[
            entrant.place,
            entrant.sha256,
            competition.commitment.commitment,
            run.task.name,
            run.seed,
            sandbox,
            entrant.isolated,
        ],
        domain=terms.domain,
        after=after,
    )


def _refuse(queue: Queue, competition: Competition, entered: Sequence[tuple[Entrant, Path]], draw: Draw) -> None:
    """Records the failure of entrants that cannot run: folder invalid or changed, or nonce not revealed."""
    listed = read_entrants(competition)
    reasons = draw.refusals(listed)
    now = {entrant.name: entrant for entrant, _ in entered}
    for entrant in listed.all():
        if entrant.name in now and now[entrant.name].number != entrant.number:
            reasons[entrant.place] = f"its folder changed before this run, and entered as {now[entrant.name].place}"
    for entry in queue.entries():
        reason = reasons.get(str(entry.data["submission"]))
        if reason is not None:
            queue.refuse([entry.key], FailureKind.CONTRACT.value, reason)
