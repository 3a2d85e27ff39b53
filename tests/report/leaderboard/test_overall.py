"""Submissions over all tasks of a domain."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from a2perf.metrics.bootstrap import bootstrap
from a2perf.metrics.statistics import iqm
from a2perf.report.leaderboard import write_leaderboard
from tests.report.leaderboard.made_entries import Field, references_of

REFERENCES = references_of(trot=20.0, pace=10.0)


def test_runs_and_tasks_are_put_together_for_those_who_entered_every_task(field: Field, tmp_path: Path) -> None:
    for task, level in (("trot", 10.0), ("pace", 8.0)):
        field.entry("whole", level, seeds=4, task=task, train=False)
        field.entry("better", level * 1.2, seeds=4, task=task, train=False)
    field.entry("half", 19.0, task="trot", train=False)
    field.entry("whole", 3.0, task="unknown", train=False)
    (overall,) = write_leaderboard(field.top, tmp_path / "site", references=REFERENCES, reports=False).record.overall
    assert overall.tasks == ["pace", "trot"]
    assert [(row.name, row.place, row.best, row.worst) for row in overall.rows] == [
        ("better", 1, 1, 1),
        ("whole", 2, 2, 2),
        ("half", None, None, None),
    ]
    assert overall.rows[2].score.condition == "no rank on pace"
    matrix = np.array([[(8.0 + 0.2 * (s - 1)) / 10.0, (10.0 + 0.2 * (s - 1)) / 20.0] for s in range(4)])
    assert overall.rows[1].score.value == pytest.approx(iqm(np.ravel(matrix)))
    estimate = bootstrap(matrix, repetitions=10_000, method="small")
    assert overall.rows[1].score.low == pytest.approx(estimate.low)
    page = (tmp_path / "site" / "index.html").read_text()
    assert "Score, all tasks" in page
    assert "better leads with" in page
    assert "1 of 2 tasks missing" in page


def test_a_single_task_and_plain_returns_make_no_whole(field: Field, tmp_path: Path) -> None:
    field.entry("agent", 10.0, task="trot", train=False)
    field.entry("agent", 10.0, task="unknown", train=False)
    field.entry("agent", 10.0, task="other", train=False)
    record = write_leaderboard(field.top, tmp_path / "site", references=REFERENCES, reports=False).record
    assert (len(record.boards), record.overall) == (3, [])


def test_tasks_of_two_domains_have_tables_of_their_own(field: Field, tmp_path: Path) -> None:
    field.entry("walker", 10.0, task="trot", train=False)
    for name, level in (("random", 1.0), ("placer", 8.0), ("broken", 9.0)):
        field.entry(name, level, task="ariane", domain="circuit_training", train=False)
    field.fail(next(field.top.glob("broken-*/ariane/seed_0/inference")))
    references = references_of(trot=20.0, ariane=10.0)
    record = write_leaderboard(field.top, tmp_path / "site", references=references, reports=False).record
    assert ([board.task for board in record.boards], record.overall) == (["ariane", "trot"], [])
    page = (tmp_path / "site" / "index.html").read_text()
    assert re.search(r'class="left score best"[^>]*><span class="cell"><span class="number">0.800</span>', page)
    assert "1 of 3 runs not finished" in page
