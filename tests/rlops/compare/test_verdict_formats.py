"""Verdicts as JUnit XML and as GitHub annotations; ``junitparser`` reads back equal values."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from junitparser import Failure, Skipped
from junitparser.xunit2 import JUnitXml

from a2perf.cli.shared_options import annotate
from a2perf.errors import ConfigError, UserError
from a2perf.experiments import smoke_test
from a2perf.experiments.junit import VerdictCase, VerdictSuite, junit_document, write_junit
from a2perf.experiments.performance_test import run_test as performance_test
from a2perf.experiments.performance_test.condition import PerformanceVerdict
from a2perf.experiments.smoke_test import SmokePair, SmokePhase
from a2perf.report.github import annotations_of, append_to_summary, suite_markdown
from a2perf.rlops.compare.comparison import compare_panels
from a2perf.rlops.compare.panel import GroupRuns, Panel
from a2perf.rlops.compare.request import Group, Request
from a2perf.rlops.compare.verdict import Tolerance
from a2perf.rlops.compare.writing import suites_of
from a2perf.rlops.filters import RunQuery
from tests.rlops.compare.conftest import record
from tests.rlops.compare.made_experiment import EXPERIMENT, NEW, OLD
from tests.rlops.conftest import Run

HOSTILE = "a::b,c%d\r\n::error::owned \x1b[31m\x00<&>\"' \ufffe"


COMPARE = f"rlops --exp-name {EXPERIMENT} --tags {NEW} {OLD} --no-figures --no-report"


def test_junitparser_reads_the_verdicts_and_numbers_of_the_record(
    run: Run, written_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    status, out, _ = run(f"{COMPARE} --store {written_store} --junit made/junit.xml --fail-on regression")
    assert status == 1
    assert "::error" not in out
    (suite,) = JUnitXml.fromfile("made/junit.xml")
    assert (suite.name, suite.tests, suite.failures, suite.skipped) == (f"{NEW} against {OLD}", 3, 1, 2)
    expected = {panel["panel"]: panel for panel in record()["candidates"][0]["panels"]}
    for case in suite:
        panel = expected[case.name]
        values = {one.name: one.value for one in case.properties()}
        for name in ("difference", "low", "high", "tolerance", "p_regression"):
            assert float(values[name]) == panel[name]
        assert float(values["probability_of_improvement"]) == panel["probability_of_improvement"]["value"]
        assert (int(values["candidate_n"]), int(values["lost"])) == (panel["candidate_n"], panel["lost"])
        assert values["verdict"] == panel["verdict"]
        (result,) = case.result
        kind = Failure if panel["verdict"] == "REGRESSION" else Skipped
        assert isinstance(result, kind)
        assert panel["reason"] in result.message


def test_fail_on_inconclusive_makes_failures_of_skipped_cases(run: Run, written_store: Path) -> None:
    run(f"{COMPARE} --store {written_store} --junit junit.xml --fail-on inconclusive")
    (suite,) = JUnitXml.fromfile("junit.xml")
    assert (suite.failures, suite.skipped) == (3, 0)


def test_github_gets_annotations_and_the_summary(
    run: Run, written_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    (tmp_path / "summary.md").write_text("earlier\n")
    _, out, _ = run(f"{COMPARE} --store {written_store} --fail-on regression")
    lines = [text for text in out.splitlines() if text.startswith("::")]
    assert [text.partition(" title=")[0] for text in lines] == ["::error", "::warning", "::warning"]
    assert lines[0].startswith(f"::error title=REGRESSION%3A HalfCheetah-v2 ({NEW} against {OLD})::−3959 [−4157, ")
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("earlier\n### ❌ REGRESSION")
    assert summary.count("REGRESSION") == 3  # the heading, the environment, overall


def test_a_file_that_cannot_be_written_is_a_user_error(run: Run, written_store: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, _, errors = run(f"{COMPARE} --store {written_store} --junit {tmp_path}/file/junit.xml")
    assert status == 2
    assert "give another --junit FILE" in errors


def panel(name: str, candidate: list[float], baseline: list[float], metric: str = "r") -> Panel:
    import numpy as np

    cells = tuple(GroupRuns(scores=np.array(scores)) for scores in (baseline, candidate))
    return Panel(name, name, metric, cells)


def compared(panels: list[Panel], name: str = "new") -> Any:
    groups = tuple(Group(one, RunQuery(text=one)) for one in ("old", name))
    return compare_panels(panels, Request(groups, 0, tolerance=Tolerance(0.05)))


def test_a_loss_that_only_all_environments_show_is_a_failed_case() -> None:
    old = [99.0, 100.0, 101.0, 100.5, 99.5]
    panels = [panel(f"env {at}", [score * 0.938 for score in old], old) for at in range(12)]
    groups = compared(panels)
    assert groups.verdict == "REGRESSION"
    (suite,) = suites_of(groups)
    assert {case.outcome for case in suite.cases[:-1]} == {"skipped"}
    assert (suite.cases[-1].name, suite.cases[-1].outcome) == ("overall", "failed")
    with pytest.raises(ConfigError, match="fail_on='regresion' is not valid; did you mean 'regression'"):
        suites_of(groups, "regresion")


def test_hostile_names_stay_one_annotation_and_valid_xml() -> None:
    groups = compared([panel(HOSTILE, [1.0, 1.1, 0.9], [9.0, 9.1, 8.9])], name=f"new {HOSTILE}")
    suites = suites_of(groups)
    (line,) = annotations_of(suites)
    assert line.startswith("::error title=REGRESSION%3A a%3A%3Ab%2Cc%25d%0A%3A%3Aerror%3A%3Aowned ")
    assert not {"\n", "\r", "\x1b", "\x00"} & set(line)
    root = ET.fromstring(junit_document(suites))
    (case,) = root.iter("testcase")
    assert (case.get("name") or "").startswith("a::b,c%d")
    assert r"\x1b[31m" in (case.get("name") or "")
    assert (case.get("name") or "").endswith("<&>\"' \\ufffe")
    parsed = JUnitXml.fromstring(junit_document(suites).encode())
    assert [len(suite) for suite in parsed] == [1]


def test_numbers_survive_with_all_digits(tmp_path: Path) -> None:
    value = 0.1 + 0.2
    case = VerdictCase("t", "passed", properties={"value": value, "none": None, "n": 3}, seconds=1.5, output="said")
    write_junit(tmp_path / "a" / "junit.xml", [VerdictSuite("s", (case,), {"confidence": 0.95})])
    (suite,) = JUnitXml.fromfile(str(tmp_path / "a" / "junit.xml"))
    (read,) = list(suite)
    assert {one.name: one.value for one in read.properties()} == {"value": repr(value), "n": "3"}
    assert [one.value for one in suite.properties()] == ["0.95"]
    assert (read.time, read.system_out, read.is_passed) == (1.5, "said", True)


def test_one_suite_is_its_own_document() -> None:
    suite = VerdictSuite("s", (VerdictCase("t", "error", "open", "no verdict"), VerdictCase("u", "skipped")))
    root = ET.fromstring(junit_document(suite))
    assert (root.tag, root.get("tests"), root.get("errors"), root.get("skipped")) == ("testsuite", "2", "1", "1")
    assert annotations_of([suite], skipped=False) == ["::error title=open%3A t (s)::no verdict"]
    assert suite_markdown(suite).splitlines()[-2:] == ["| t | open | no verdict |", "| u |  |  |"]


def test_performance_and_smoke_tests_annotate_their_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    run = SimpleNamespace(seed=1, state="crashed", values=[], reason="exit status 1")
    test = SimpleNamespace(name="Reach/sac-test")
    outcome = SimpleNamespace(test=test, verdict=PerformanceVerdict.FAILED, message="1 of 2", wall_s=2.0, runs=[run])
    annotate(performance_test.suite_of(cast("Any", [outcome])))
    pairs = [
        SmokePair("ppo", "CartPole-v1", phases={"train": SmokePhase("failed", "NaN", 1.0)}),
        SmokePair("sac", "CartPole-v1", excluded="needs continuous actions"),
    ]
    annotate(smoke_test.suite_of(pairs), to_errors=True)
    said = capsys.readouterr()
    assert said.out == "::error title=failed%3A Reach/sac-test (performance)::1 of 2\n"
    assert said.err == "::error title=failed%3A CartPole-v1%3A train (ppo)::NaN\n"
    rows = (tmp_path / "summary.md").read_text().splitlines()
    assert "| ppo CartPole-v1: train | failed | NaN |" in rows
    assert "| sac CartPole-v1 | excluded | needs continuous actions |" in rows


def test_without_a_workflow_there_is_no_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert append_to_summary("x") is False
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    with pytest.raises(UserError, match="cannot be written"):
        append_to_summary("x")
