"""What a smoke test leaves for machines: ``smoke_test.json`` and JUnit XML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

from a2perf._version import __version__
from a2perf.experiments.smoke_test.pairs import PairOutcome
from a2perf.plain_text import terminal_text
from a2perf.storage import write_atomic, write_json

SCHEMA = 1


def write_results(folder: Path, outcomes: Sequence[PairOutcome]) -> None:
    """Writes both files."""
    rows = [
        {
            "what": outcome.pair.what,
            "env": outcome.pair.env,
            "excluded": outcome.pair.excluded,
            "phases": {name: asdict(phase) for name, phase in outcome.phases.items()},
        }
        for outcome in outcomes
    ]
    write_json(folder / "smoke_test.json", {"schema": SCHEMA, "a2perf_version": __version__, "pairs": rows})
    write_atomic(folder / "junit.xml", junit(outcomes))


def junit(outcomes: Sequence[PairOutcome]) -> bytes:
    """Returns one test case for each phase of each pair; what was excluded or not possible is skipped."""
    suite = ElementTree.Element("testsuite", name="smoke tests")
    counts = {"tests": 0, "failures": 0, "skipped": 0}
    for outcome in outcomes:
        phases = outcome.phases or {}
        what, env = terminal_text(outcome.pair.what), terminal_text(outcome.pair.env)  # XML holds no control characters
        if outcome.pair.excluded:
            case = ElementTree.SubElement(suite, "testcase", classname=what, name=env)
            ElementTree.SubElement(case, "skipped", message=terminal_text(outcome.pair.excluded))
            counts = {**counts, "tests": counts["tests"] + 1, "skipped": counts["skipped"] + 1}
        for name, phase in phases.items():
            case = ElementTree.SubElement(
                suite, "testcase", classname=what, name=f"{env}: {name}",
                time=f"{phase.seconds:.3f}",
            )  # fmt: skip
            counts["tests"] += 1
            if phase.result == "failed":
                counts["failures"] += 1
                ElementTree.SubElement(case, "failure", message=terminal_text(phase.reason))
            elif phase.result != "passed":
                counts["skipped"] += 1
                ElementTree.SubElement(case, "skipped", message=terminal_text(phase.reason or phase.result))
    for name, count in counts.items():
        suite.set(name, str(count))
    ElementTree.indent(suite)
    text: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text
