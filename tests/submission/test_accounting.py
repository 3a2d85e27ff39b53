"""Recorded processor time of programs of known work: that of ``getrusage``, and nothing of guard and evaluator."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from a2perf.sandbox import get_sandbox, task_clock

_PLACE = Path(__file__).parents[2] / "perf" / "accounting.py"
_SPEC = importlib.util.spec_from_file_location("accounting", _PLACE)
assert _SPEC is not None
assert _SPEC.loader is not None
accounting = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(accounting)


@pytest.fixture(params=["process", "none"])
def level(request: pytest.FixtureRequest) -> str:
    """A level with a control group, and one without."""
    if request.param == "process" and any("control group" in text for text in get_sandbox("process").missing()):
        pytest.skip("no control group can be created")
    if request.param == "none" and (reason := task_clock.why_unavailable()) is not None:
        pytest.skip(reason)
    return request.param


def tolerance(account: str) -> float:
    return 0.02 if account in ("control group", "cgroup_v1", "cgroup_v2") else 0.05


@pytest.mark.parametrize("program", accounting.PROGRAMS)
def test_training_is_charged_what_its_processes_used(program: str, level: str, tmp_path: Path) -> None:
    ratio, account = accounting.training_ratio(tmp_path, program, level)
    assert account == {"process": "control group", "none": "kernel task clock"}[level]
    assert ratio == pytest.approx(1.0, abs=tolerance(account))


def test_training_beside_two_busy_processes_is_charged_the_same(level: str, tmp_path: Path) -> None:
    with accounting.busy(2):
        ratio, account = accounting.training_ratio(tmp_path, "sleeping_between_steps", level)
    assert ratio == pytest.approx(1.0, abs=tolerance(account))


def test_scored_steps_are_charged_what_their_calls_used(level: str, tmp_path: Path) -> None:
    ratio, account = accounting.steps_ratio(tmp_path, level)
    assert ratio == pytest.approx(1.0, abs=tolerance(account))
