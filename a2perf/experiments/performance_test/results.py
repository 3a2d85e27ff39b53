"""The results of performance tests for other programs: ``performance_test.json`` and JUnit XML."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from a2perf._version import __version__
from a2perf.experiments.junit import Outcome, VerdictCase, VerdictSuite, junit_document
from a2perf.experiments.performance_test.condition import PerformanceVerdict
from a2perf.experiments.performance_test.run_test import TestOutcome
from a2perf.storage import write_atomic, write_json

SCHEMA = 1
RESULT = "performance_test.json"
JUNIT = "junit.xml"
_OUTCOMES: dict[PerformanceVerdict, Outcome] = {
    PerformanceVerdict.PASSED: "passed",
    PerformanceVerdict.OPEN: "error",
}
"""All other verdicts are failures."""


def as_json(outcome: TestOutcome) -> dict[str, Any]:
    """Returns the record of a test."""
    test, condition = outcome.test, outcome.test.condition
    return {
        "schema": SCHEMA,
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
        write_json(place / RESULT, as_json(outcome))
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / JUNIT, junit(outcomes))


def junit(outcomes: Sequence[TestOutcome]) -> bytes:
    """Returns one test case per performance test; a test without a verdict is an error, not a failure."""
    return junit_document(suite_of(outcomes)).encode()


def suite_of(outcomes: Sequence[TestOutcome]) -> VerdictSuite:
    """Returns performance tests as test cases, with the state and values of each run."""
    return VerdictSuite("performance tests", tuple(_case(outcome) for outcome in outcomes))


def _case(outcome: TestOutcome) -> VerdictCase:
    runs = [f"seed {run.seed}: {run.state} {run.values} {run.reason}".strip() for run in outcome.runs]
    return VerdictCase(
        outcome.test.name,
        _OUTCOMES.get(outcome.verdict, "failed"),
        outcome.verdict.value,
        outcome.message,
        "\n".join(runs),
        output="\n".join([outcome.message, *runs]),
        group="performance",
        seconds=outcome.wall_s,
    )
