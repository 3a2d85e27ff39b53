"""Submissions over the tasks of a domain: normalised by the protocol's references, and only where they compare."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.domains import domain_title, task_title
from a2perf.metrics import protocol
from a2perf.metrics.protocol import ProtocolTask
from a2perf.report.across_tasks import AcrossTasks, across_tasks
from a2perf.report.task_results import labels_of, results_by_task
from a2perf.runs import read_runs
from tests.report.recorded_runs import RunMaker


@pytest.fixture
def tasks() -> list[tuple[str, ProtocolTask]]:
    """Two tasks of one domain that have references."""
    by_domain: dict[str, list[tuple[str, ProtocolTask]]] = {}
    for name, task in protocol.load().tasks.items():
        if task.has_references():
            by_domain.setdefault(task.domain, []).append((name, task))
    return next(held[:2] for held in by_domain.values() if len(held) > 1)


def _compared(runs: RunMaker) -> list[AcrossTasks]:
    results = results_by_task(read_runs([runs.top]), "corrected")
    return across_tasks(results, labels_of(results), lambda *words: "-".join(words))


def test_scores_are_zero_at_the_floor_and_one_at_the_expert(
    runs: RunMaker, tasks: list[tuple[str, ProtocolTask]]
) -> None:
    for task in tasks:
        for seed in (1, 2, 3, 4):
            runs.scored("expert", task, seed, [1.0])
            runs.scored("half", task, seed, [0.2 * seed])
    (found,) = _compared(runs)
    assert found.tasks == tuple(sorted(name for name, _ in tasks))
    assert found.estimates["expert"].value == pytest.approx(1.0)
    # 0.2, 0.4, 0.6, 0.8 on both tasks: the middle half is 0.4 and 0.6
    assert found.estimates["half"].value == pytest.approx(0.5)
    assert found.estimates["half"].low < 0.5 < found.estimates["half"].high
    assert [row[0].text for row in found.table.rows] == ["expert", "half"]  # type: ignore[union-attr]
    assert found.chart is not None


def test_a_submission_without_a_run_on_a_task_says_so_and_has_no_mean(
    runs: RunMaker, tasks: list[tuple[str, ProtocolTask]]
) -> None:
    for task in tasks:
        runs.scored("whole", task, 1, [0.5])
    runs.scored("part", tasks[0], 1, [0.9])
    (found,) = _compared(runs)
    assert set(found.estimates) == {"whole"}
    (row,) = [row for row in found.table.rows if row[0].text == "part"]  # type: ignore[union-attr]
    assert row[1].detail == f"not run on {task_title(tasks[1][1].domain, tasks[1][0])}"  # type: ignore[union-attr]


def test_an_environment_of_another_behaviour_has_no_references(
    runs: RunMaker, tasks: list[tuple[str, ProtocolTask]]
) -> None:
    for task in tasks:
        runs.scored("a", task, 1, [0.5], fingerprint="ab" * 32)
    assert _compared(runs) == []


def test_the_report_holds_them(runs: RunMaker, tasks: list[tuple[str, ProtocolTask]], tmp_path: Path) -> None:
    from a2perf.report import write_report

    for task in tasks:
        for seed in (1, 2):
            runs.scored("a", task, seed, [0.25 * seed])
    report = write_report(read_runs([runs.top]), tmp_path / "out")
    (across,) = report.record.across_tasks
    assert across.scores["a"] == [pytest.approx([0.25, 0.25]), pytest.approx([0.5, 0.5])]
    name = f"{domain_title(across.domain)}: all tasks"
    assert f">{name}</h2>" in report.page.read_text()
    assert "IQM of normalised scores" in (tmp_path / "out" / "report.md").read_text()
    assert list((tmp_path / "out" / "figures").glob("*across-tasks-profile.pdf"))
