"""Submissions by tasks, across domains."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from a2perf.report.leaderboard import write_leaderboard
from tests.report.leaderboard.made_entries import Field, references_of

REFERENCES = references_of(trot=20.0, ariane=10.0)


def test_tasks_of_two_domains_are_in_one_matrix_of_the_record(field: Field, tmp_path: Path) -> None:
    field.entry("walker", 10.0, task="trot", train=False)
    field.entry("random", 2.0, task="trot", train=False)
    for name, level in (("random", 1.0), ("placer", 8.0), ("broken", 9.0)):
        field.entry(name, level, task="ariane", domain="circuit_training", train=False)
    field.entry("walker", 3.0, task="unknown", train=False)
    for path in field.top.glob("broken-*/ariane/seed_0/inference"):
        field.fail(path)
    site = write_leaderboard(field.top, tmp_path / "site", references=REFERENCES, reports=False)
    (matrix,) = site.record.matrices
    assert matrix.tasks == ["ariane", "trot"]
    assert matrix.domains == ["circuit_training", "quadruped_locomotion"]
    scores = {row.name: {task: score.value for task, score in row.by_task.items()} for row in matrix.rows}
    assert scores["walker"] == {"trot": pytest.approx(0.5)}
    assert scores["random"] == {"ariane": pytest.approx(0.1), "trot": pytest.approx(0.1)}
    assert [row.name for row in matrix.rows] == ["placer", "random", "broken", "walker"]
    assert {row.name: row.not_ranked for row in matrix.rows}["broken"] == ["ariane"]
    leads = {row.name: row.leads for row in matrix.rows}
    assert leads == {"placer": ["ariane"], "random": [], "broken": [], "walker": ["trot"]}
    page = (tmp_path / "site" / "index.html").read_text()
    assert re.search(r'<td class="score best"[^>]*><span class="number">0.800</span>', page)
    assert "1 of 3 runs not finished" in page
    record = json.loads((tmp_path / "site" / "leaderboard.json").read_text())
    assert len(record["matrices"][0]["rows"]) == 4


def test_one_domain_needs_no_such_table(field: Field, tmp_path: Path) -> None:
    field.entry("walker", 10.0, task="trot", train=False)
    field.entry("placer", 8.0, task="unknown", domain="circuit_training", train=False)  # no references: plain returns
    assert write_leaderboard(field.top, tmp_path / "s", references=REFERENCES, reports=False).record.matrices == []
