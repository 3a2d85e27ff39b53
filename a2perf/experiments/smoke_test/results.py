"""The results of a smoke test for other programs: ``smoke_test.json`` and JUnit XML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from a2perf._version import __version__
from a2perf.experiments.junit import Outcome, VerdictCase, VerdictSuite, junit_document
from a2perf.experiments.smoke_test.pairs import PairOutcome
from a2perf.storage import write_atomic, write_json

SCHEMA = 1
_OUTCOMES: dict[str, Outcome] = {"passed": "passed", "failed": "failed"}
"""All other results of a phase are skipped test cases."""


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
    """Returns one test case per phase and pair; excluded and impossible ones are marked as skipped."""
    return junit_document(suite_of(outcomes)).encode()


def suite_of(outcomes: Sequence[PairOutcome]) -> VerdictSuite:
    """Returns the phases of all pairs as test cases."""
    return VerdictSuite("smoke tests", tuple(case for outcome in outcomes for case in _cases(outcome)))


def _cases(outcome: PairOutcome) -> list[VerdictCase]:
    what, env = outcome.pair.what, outcome.pair.env
    excluded = outcome.pair.excluded
    cases = [VerdictCase(env, "skipped", "excluded", excluded, group=what)] if excluded else []
    for name, phase in outcome.phases.items():
        result = _OUTCOMES.get(phase.result, "skipped")
        reason = phase.reason or (phase.result if result == "skipped" else "")
        cases.append(
            VerdictCase(f"{env}: {name}", result, phase.result, reason, group=what, seconds=phase.seconds)
        )  # fmt: skip
    return cases
