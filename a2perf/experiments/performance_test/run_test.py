"""Runs one performance test: starts runs, judges each one when it ends, and stops when the verdict is certain.

The benchmark matrix executes the runs and stores each as a bundle with its log, costs and curves. The same test on the
same code resumes after an interruption.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
import shlex
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from a2perf._version import __version__
from a2perf.errors import ConfigError, MissingDependency, with_hint
from a2perf.experiments.benchmark_matrix import (
    BenchmarkMatrix,
    MatrixRun,
    command_matrix,
    run_matrix,
    submission_matrix,
    tagger,
)
from a2perf.experiments.junit import Outcome, VerdictCase, VerdictSuite, junit_document
from a2perf.experiments.needs import missing_package
from a2perf.experiments.performance_test.condition import PerformanceVerdict
from a2perf.experiments.performance_test.configuration import PerformanceTest
from a2perf.launch import Conductor, Queue, RunEvent, State
from a2perf.launch.queue_entry import INFRASTRUCTURE
from a2perf.plugins import install_line
from a2perf.records import RolloutResults, RunState
from a2perf.runs.bundles.bundle_reader import BundleReader
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.layout import ROLLOUTS, bundle_path
from a2perf.runs.stores.store import RunStore, logged_names, read_curve
from a2perf.storage import write_atomic, write_json

ROLLOUT_COLUMNS = ("rollouts/mean_return", "rollouts/success_rate", "rollouts/mean_length")
"""Columns from the evaluator's episodes of a submission, not from its logs."""

RUNNER = "a2perf.experiments.runners.stable_baselines3"
_PLANS = ".perftest"
_SCHEMA = 1
_OUTCOMES: dict[PerformanceVerdict, Outcome] = {PerformanceVerdict.PASSED: "passed", PerformanceVerdict.OPEN: "error"}
"""All other verdicts are failures."""


@dataclass
class RunOutcome:
    """The result of one run of a test.

    Attributes:
        state: ``"met"``, ``"missed"``, ``"crashed"``, ``"infrastructure"``, ``"not run"``.
        values: the judged number of every column; None if it was never logged, NaN if it was not finite.
        reason: remark on the end of the run; empty for a normal end.
    """

    seed: int
    run: str
    state: str
    values: list[float | None] = field(default_factory=list)
    steps: float | None = None
    reason: str = ""
    wall_s: float | None = None


@dataclass
class TestOutcome:
    """The result of a test.

    Attributes:
        verdict: the verdict; ``OPEN`` if the test was interrupted or the infrastructure failed.
        exit_code: 0 passed, 1 failed or out of time, 3 infrastructure, 130 interrupted.
    """

    test: PerformanceTest
    verdict: PerformanceVerdict
    runs: list[RunOutcome]
    message: str
    started_at: str
    wall_s: float
    exit_code: int
    version: str


class _Judge:
    """Judges runs when they end, and determines when the verdict is certain."""

    def __init__(self, test: PerformanceTest, store: Path, say: Callable[[str], None]) -> None:
        self.test, self.store, self.say = test, store, say
        self.outcomes: dict[str, RunOutcome] = {}
        self.started = time.monotonic()
        self.has_crash = False
        self.missing = ""

    def ended(self, run: MatrixRun, event: RunEvent) -> None:
        """Handles the end of a run."""
        entry = event.entry
        assert entry is not None
        if entry.state is State.FAILED:
            missing = missing_package(run.folder)
            self.missing = self.missing or missing
            state = "infrastructure" if missing or entry.kind == INFRASTRUCTURE else "crashed"
            self.has_crash |= state == "crashed"
            reason = f"missing package: {missing}" if missing else entry.failure
            self.outcomes[run.name] = RunOutcome(run.seed, run.name, state, reason=reason, wall_s=event.wall_s)
            self.say(f"  seed {run.seed}: {state} ({reason})")
        else:
            self.judge(run, wall_s=event.wall_s)

    def judge(self, run: MatrixRun, reason: str = "", wall_s: float | None = None) -> None:
        """Reads the logged values of a finished run and compares them with the condition."""
        condition = self.test.condition
        stored = [one for one in RunStore(self.store).runs() if one.folder.path == run.folder]
        values: dict[str, float | None] = {}
        notes, last = [reason] if reason else [], None
        for column in condition.columns:
            if column in ROLLOUT_COLUMNS:
                values[column] = _of_rollouts(run.folder, column)
            elif (curve := read_curve(stored[0], column) if stored else None) is None:
                values[column] = None
            else:
                values[column] = condition.judged(curve.steps, curve.values)
                bound, most = condition.last_step(curve.steps), condition.max_steps
                if most is not None and most < bound < math.inf:
                    notes.append(f"{column} of step {bound:.0f}, the first value at or after max_steps = {most}")
                if len(curve.steps):
                    last = max(last or 0.0, float(curve.steps.max()))
        infinite = [column for column, value in values.items() if value is not None and not math.isfinite(value)]
        notes += [f"{column} is not a finite number, which meets no condition" for column in infinite]
        if missing := [column for column, value in values.items() if value is None]:
            logged = ", ".join(logged_names(stored)) or "nothing"
            notes.append(f"never logged {', '.join(missing)}; it logged {logged}")
        reason, judged = "; ".join(notes), [values[column] for column in condition.columns]
        state = "met" if condition.is_met(judged) else "missed"
        self.outcomes[run.name] = RunOutcome(run.seed, run.name, state, judged, last, reason, wall_s)
        numbers = ", ".join(
            f"{column} {'never logged' if value is None else f'{value:g}'}" for column, value in values.items()
        )
        steps = "" if last is None else f" after {last:.0f} steps"
        self.say(f"  seed {run.seed}: {state} ({numbers}){steps}" + (f" [{reason}]" if reason else ""))

    def verdict(self) -> PerformanceVerdict:
        """Returns the current verdict."""
        states = [outcome.state for outcome in self.outcomes.values()]
        return self.test.condition.verdict(
            states.count("met"),
            states.count("missed") + states.count("crashed"),
            out_of_time=time.monotonic() - self.started > 60.0 * self.test.max_duration_minutes,
        )

    def is_settled(self) -> bool:
        """Returns whether no further run can change the verdict."""
        if self.missing:  # every further run would end the same way
            return True
        return self.verdict() is not PerformanceVerdict.OPEN or (self.test.abort_on_crash and self.has_crash)

    def tell_progress(self) -> None:
        """Prints the elapsed time and the largest number of further runs."""
        left = self.test.condition.total_runs - len(self.outcomes)
        took, limit = time.monotonic() - self.started, 60.0 * self.test.max_duration_minutes
        self.say(f"Performance testing runs for {_clock(took)} of {_clock(limit)}. Max. {left} runs left.")


def run_test(
    test: PerformanceTest, store: Path, conductor: Conductor, *, say: Callable[[str], None] = print
) -> TestOutcome:
    """Runs a test.

    Raises:
        UserError: the command, submission or configuration of the test does not exist.
    """
    started_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    for notice in test.notices:
        say(f"note: {notice}")
    judge = _Judge(test, store, say)
    matrix = _matrix(test, store)
    run_of = {spec.key: run for run in matrix.runs for spec in run.specs}
    judge.tell_progress()

    def on_ready(queue: Queue) -> None:
        finished = {entry.key for entry in queue.entries() if entry.state is State.FINISHED}
        for run in matrix.runs:
            if run.specs[-1].key in finished:
                judge.judge(run, "finished before")

    def on_event(event: RunEvent) -> None:
        entry = event.entry
        run = None if entry is None else run_of[entry.key]
        if entry is None or run is None or run.name in judge.outcomes:
            return
        # The configurations of a submission follow one another.
        if entry.state is State.FAILED or (entry.state is State.FINISHED and entry.key == run.specs[-1].key):
            judge.ended(run, event)
            if not judge.is_settled():
                judge.tell_progress()

    result = run_matrix(matrix, conductor, on_ready=on_ready, on_event=on_event, stop=judge.is_settled)
    verdict = PerformanceVerdict.OPEN if judge.missing else judge.verdict()
    interrupted = result.exit_code == 130 and not judge.is_settled()
    runs = [judge.outcomes.get(run.name) or RunOutcome(run.seed, run.name, "not run") for run in matrix.runs]
    if test.abort_on_crash and judge.has_crash and verdict is not PerformanceVerdict.PASSED:
        verdict = PerformanceVerdict.FAILED
    outcome = TestOutcome(
        test=test,
        verdict=verdict,
        runs=runs,
        message=_message(test, verdict, sum(run.state == "met" for run in runs), judge.missing),
        started_at=started_at,
        wall_s=time.monotonic() - judge.started,
        exit_code=130 if interrupted else {PerformanceVerdict.PASSED: 0, PerformanceVerdict.OPEN: 3}.get(verdict, 1),
        version=matrix.plan.autotag.tag if matrix.plan.autotag is not None else "",
    )
    say(outcome.message)
    say(f"  ({test.condition.hint()})")
    return outcome


def without_verdict(test: PerformanceTest, error: MissingDependency) -> TestOutcome:
    """Returns the outcome of a test that cannot run on this host."""
    message = f"Performance test {test.name} came to no verdict: {with_hint(error.message, error.hint)}"
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return TestOutcome(test, PerformanceVerdict.OPEN, [], message, now, 0.0, exit_code=3, version="")


def _of_rollouts(folder: Path, column: str) -> float | None:
    reader = BundleReader.of(files_of(bundle_path(folder, "inference")))
    results = reader.record(ROLLOUTS, RolloutResults)
    if reader.manifest is None or reader.manifest.state is not RunState.FINISHED or not results or not results.episodes:
        return None
    episodes = results.episodes
    if column == "rollouts/mean_return":
        return float(np.mean([episode.episode_return for episode in episodes]))
    if column == "rollouts/mean_length":
        return float(np.mean([episode.length for episode in episodes]))
    successes = [episode.success for episode in episodes if episode.success is not None]
    return float(np.mean(successes)) if len(successes) == len(episodes) else None


def _matrix(test: PerformanceTest, store: Path) -> BenchmarkMatrix:
    store.mkdir(parents=True, exist_ok=True)
    tag = tagger(store)
    if test.submission is not None:
        if not test.gin_configs:
            raise ConfigError(f"{test.path}: gin_configs is empty", hint="name the configurations of the submission")
        return submission_matrix(
            store,
            test.submission,
            test.gin_configs,
            [test.env],
            test.seeds,
            flags=test.flags,
            tag=tag,
            experiment=test.study_name,
        )
    command = test.command
    if command is None:
        content = asdict(test.training) if test.training is not None else {}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:12]
        # the hash is part of the name and so of the command: another budget is another run
        path = store.absolute() / _PLANS / f"{test.study_name}-{digest}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, content)
        command = shlex.join([sys.executable, "-m", RUNNER, "--training", str(path)])
    return command_matrix(store, command, [test.env], test.seeds, tag=tag, experiment=test.study_name)


def _message(test: PerformanceTest, verdict: PerformanceVerdict, met: int, missing: str) -> str:
    condition = test.condition
    if missing:
        ours = re.search(r"'a2perf_(\w+)", missing)
        how = f" ({install_line(ours[1])})" if ours else ""
        return f"Performance test {test.name} came to no verdict: {missing}. Install the package{how} and run it again."
    if verdict is PerformanceVerdict.PASSED:
        columns = " and ".join(condition.columns)
        bounds = " and ".join(f"{value:g}" for value in condition.values)
        least = "least" if condition.direction == ">=" else "most"
        return (
            f"Performance test {test.name} successful! The value for {columns} was at {least} {bounds} in {met} runs."
        )
    if verdict is PerformanceVerdict.FAILED:
        return f"Performance test {test.name} failed. The needed number of successful runs could not be achieved."
    if verdict is PerformanceVerdict.OUT_OF_TIME:
        return (
            f"The needed number of successful runs could not be achieved within {test.max_duration_minutes:g} minutes "
            f"for performance test {test.name}."
        )
    return f"Performance test {test.name} came to no verdict: not every run could be executed."


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def as_json(outcome: TestOutcome) -> dict[str, Any]:
    """Returns the record of a test."""
    test, condition = outcome.test, outcome.test.condition
    return {
        "schema": _SCHEMA,
        "a2perf_version": __version__,
        "name": test.name,
        "study_name": test.study_name,
        "env": test.env,
        "verdict": outcome.verdict.value,
        "message": outcome.message,
        "exit_code": outcome.exit_code,
        "condition": msgspec.to_builtins(condition),
        "pass_probability": {f"{rate:g}": condition.pass_probability(rate) for rate in (0.5, 0.8, 0.95)},
        "n_jobs": test.n_jobs,
        "version": outcome.version,
        "host": socket.gethostname(),
        "started_at": outcome.started_at,
        "wall_s": round(outcome.wall_s, 3),
        "runs": [msgspec.to_builtins(run) for run in outcome.runs],
    }


def write_results(folder: Path, outcomes: Sequence[TestOutcome]) -> None:
    """Writes ``<folder>/<test>/performance_test.json`` of every test and one ``junit.xml`` of all."""
    for outcome in outcomes:
        place = folder / outcome.test.name
        place.mkdir(parents=True, exist_ok=True)
        write_json(place / "performance_test.json", as_json(outcome))
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "junit.xml", junit_document(suite_of(outcomes)))


def suite_of(outcomes: Sequence[TestOutcome]) -> VerdictSuite:
    """Returns one test case per performance test; a test without a verdict is an error, not a failure."""
    cases = []
    for outcome in outcomes:
        runs = [f"seed {run.seed}: {run.state} {run.values} {run.reason}".strip() for run in outcome.runs]
        case = VerdictCase(
            outcome.test.name,
            _OUTCOMES.get(outcome.verdict, "failed"),
            outcome.verdict.value,
            outcome.message,
            "\n".join(runs),
            output="\n".join([outcome.message, *runs]),
            group="performance",
            seconds=outcome.wall_s,
        )
        cases.append(case)
    return VerdictSuite("performance tests", tuple(cases))
