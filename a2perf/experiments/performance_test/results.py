"""What machines read of performance tests: ``performance_test.json``, and JUnit XML for continuous integration."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec

from a2perf._version import __version__
from a2perf.experiments.performance_test.condition import PerformanceVerdict
from a2perf.experiments.performance_test.run_test import TestOutcome
from a2perf.plain_text import terminal_text
from a2perf.storage import write_atomic, write_json

SCHEMA = 1
RESULT = "performance_test.json"
JUNIT = "junit.xml"


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
    """Returns one test case for each performance test; one that came to no verdict is an error, not a failure."""
    failed = (PerformanceVerdict.FAILED, PerformanceVerdict.OUT_OF_TIME)
    failures = sum(outcome.verdict in failed for outcome in outcomes)
    errors = sum(outcome.verdict is PerformanceVerdict.OPEN for outcome in outcomes)
    suite = ElementTree.Element(
        "testsuite",
        name="performance tests",
        tests=str(len(outcomes)),
        failures=str(failures),
        errors=str(errors),
        time=f"{sum(outcome.wall_s for outcome in outcomes):.3f}",
    )
    for outcome in outcomes:
        # XML holds no control characters
        name, message = terminal_text(outcome.test.name), terminal_text(outcome.message)
        case = ElementTree.SubElement(
            suite, "testcase", classname="performance", name=name, time=f"{outcome.wall_s:.3f}"
        )
        runs = [f"seed {run.seed}: {run.state} {run.values} {run.reason}".strip() for run in outcome.runs]
        lines = [terminal_text(line) for line in runs]
        if outcome.verdict is not PerformanceVerdict.PASSED:
            kind = "error" if outcome.verdict is PerformanceVerdict.OPEN else "failure"
            ElementTree.SubElement(case, kind, message=message).text = "\n".join(lines)
        ElementTree.SubElement(case, "system-out").text = "\n".join([message, *lines])
    ElementTree.indent(suite)
    text: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text
