"""The first screen: scores between random and expert, failed runs first, chips that qualify a result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from a2perf.metrics import protocol
from a2perf.records import Failure, FailureKind
from a2perf.report.summary import FirstScreen, summary_of
from a2perf.report.task_results import labels_of, results_by_task
from a2perf.runs import read_runs
from tests.report.recorded_runs import RunMaker, identity

TASK = protocol.load().tasks["dog_pace"]
PACE = ("dog_pace", TASK)


def _summary(runs: RunMaker) -> FirstScreen:
    read = read_runs([runs.top])
    results = results_by_task(read, "corrected")
    anchors = {run.key: run.key for run in read}
    return summary_of(results, [result.name for result in results], labels_of(results), read, anchors)


def _rows(found: FirstScreen) -> list[dict[str, Any]]:
    """Returns the cells of each submission by column; headings of tasks are left out."""
    keys = [column.key for column in found.table.columns]
    return [dict(zip(keys, row, strict=True)) for row in found.table.rows if len(row) > 1]


def test_one_run_has_a_score_and_a_bar_but_no_interval(runs: RunMaker) -> None:
    runs.scored("walker", PACE, 1, [0.5, 0.7, 0.9])
    found = _summary(runs)
    assert found.sentence == "Dog, pace: 70 % of the expert by walker (3 episodes, 1 seed: no interval)."
    (row,) = _rows(found)
    assert (row["score"].text, row["score"].detail) == ("0.700", "")
    assert (row["worst"].text, row["worst"].detail) == ("0.500", "of 3 episodes")
    floor, expert = map(float, re.findall(r"M([\d.]+) 2v12", row["score"].drawing))
    (at,) = map(float, re.findall(r'cx="([\d.]+)"', row["score"].drawing))
    assert (at - floor) / (expert - floor) == pytest.approx(0.7, abs=0.01)
    assert "1 seed" in [chip.text for chip in row["trust"].chips if chip.state == "warn"]


def test_rows_are_ordered_by_score_and_overlapping_leaders_are_named_together(runs: RunMaker) -> None:
    for seed in (1, 2, 3):
        runs.scored("a", PACE, seed, [0.80 + 0.02 * seed])
        runs.scored("b", PACE, seed, [0.81 + 0.02 * seed])
        runs.scored("c", PACE, seed, [0.10 + 0.02 * seed])
    found = _summary(runs)
    assert [row["submission"].text for row in _rows(found)] == ["b", "a", "c"]
    assert found.sentence.startswith("Dog, pace: b and a lead with overlapping intervals; 85 % of the expert by b (3 ")
    assert all("[" in row["score"].detail for row in _rows(found))


def test_a_score_below_the_floor_is_not_praised(runs: RunMaker) -> None:
    runs.scored("fallen", PACE, 1, [-0.4])
    found = _summary(runs)
    assert f"no submission is better than the {TASK.floor} (best: fallen, −0.400)" in found.sentence


def test_failed_runs_are_listed_with_reason_and_log(runs: RunMaker) -> None:
    runs.scored("walker", PACE, 1, [0.5])
    failure = Failure(
        kind=FailureKind.EXCEPTION, where="train", message="Boom", traceback="", log="logs/participant.log"
    )
    runs.failed("evil", failure, log="last line")
    found = _summary(runs)
    (failed,) = found.failed
    assert failed.reason == "exception in train: Boom"
    assert failed.log == "evil/train/logs/participant.log"
    chips = [chip.text for row in _rows(found) for chip in row["trust"].chips if chip.state == "bad"]
    assert "1 of 1 runs failed" in chips


def test_a_submission_has_one_colour_on_all_tasks(runs: RunMaker, tmp_path: Path) -> None:
    runs.scored("walker", PACE, 1, [0.5])
    for root, name in (("x", "a"), ("y", "walker")):
        runs.manifest(root, "inference", task="other", submission=identity(name))
        runs.rollouts(root, [1.0])
    colours: dict[str, set[str]] = {}
    for row in _rows(_summary(runs)):
        colours.setdefault(row["submission"].text, set()).add(row["submission"].drawing)
    assert [len(found) for found in colours.values()] == [1, 1]
