"""Who is compared with whom, rank ranges, and Pareto fronts."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from a2perf.records import PythonEnvRecord, TaskView
from a2perf.report.leaderboard import Board, Entry, Score, write_leaderboard
from a2perf.report.leaderboard.columns import columns_of, entry_cell, ranks_by_cost
from a2perf.report.leaderboard.pages import board_anchor
from a2perf.report.leaderboard.pareto import pareto_views
from a2perf.report.leaderboard.ranking import boards_of, pareto_front
from a2perf.report.ranks import leaders, rank_ranges
from tests.report.leaderboard.made_entries import Field, references


def _boards(field: Field, tmp_path: Path) -> list[Board]:
    return write_leaderboard(field.top, tmp_path / "site", references=references, reports=False).record.boards


def test_ranks_are_ranges_where_intervals_overlap() -> None:
    assert rank_ranges([(5.0, 6.0), (3.0, 4.0), (1.0, 2.0)]) == [(1, 1), (2, 2), (3, 3)]
    assert rank_ranges([(5.0, 6.0), (4.0, 5.5), (1.0, 2.0)]) == [(1, 2), (1, 2), (3, 3)]
    # the middle one overlaps both others, which do not overlap each other
    assert rank_ranges([(5.0, 6.0), (3.0, 5.5), (1.0, 3.5)]) == [(1, 2), (1, 3), (2, 3)]
    assert rank_ranges([(2.0, 2.0), (2.0, 2.0)]) == [(1, 2), (1, 2)]
    assert rank_ranges([]) == []
    # one run has no interval, and so no sure rank
    assert rank_ranges([(5.0, 6.0), (None, None), (1.0, 2.0)]) == [(1, 2), (1, 3), (2, 3)]


def test_only_entries_that_may_be_first_lead_and_ties_lead_nothing() -> None:
    assert leaders([(5.0, 6.0), (4.0, 5.5), (1.0, 2.0)]) == {0, 1}
    assert leaders([(5.0, 6.0), (4.0, 4.5), (1.0, 2.0)], "min") == {2}
    assert leaders([(2.0, 2.5), (2.0, 2.0)]) == set()
    assert leaders([(5.0, 6.0), (None, None), (1.0, 2.0)]) == set()
    assert leaders([(5.0, 6.0)]) == set()


def test_views_of_a_task_share_a_board_with_a_row_for_each(field: Field, tmp_path: Path) -> None:
    text = {
        "domain": "web_navigation",
        "task": "text_trot",
        "env_kwargs": {"num_websites": 10, "observation": "text"},
        "view": TaskView(task="trot", arguments={"observation": "text"}),
    }
    arrays = {"domain": "web_navigation", "env_kwargs": {"num_websites": 10}}
    field.entry("both", 12.0, train=False, **arrays)
    field.entry("both", 4.0, train=False, **text)
    field.entry("reader", 18.0, train=False, **text)
    files = write_leaderboard(field.top, tmp_path / "site", references=references, reports=False)
    (board,) = files.record.boards
    assert (board.task, board.env_kwargs, board.differs) == ("trot", '{"num_websites": 10}', [])
    rows = [(row.place, row.entry.name, row.entry.view, round(row.entry.score.value or 0, 2)) for row in board.rows]
    assert rows == [(1, "reader", "text", 0.9), (2, "both", "", 0.6), (3, "both", "text", 0.2)]
    page = next((tmp_path / "site" / "tasks").glob("trot-*.html")).read_text()
    view = re.compile(r'<td [^>]*class="left view"[^>]*><span class="cell">(\w+)</span></td>')
    assert view.findall(page) == ["text", "arrays", "text"]
    assert view.findall(files.page.read_text()) == ["text", "arrays", "text"]
    lines = (tmp_path / "site" / "leaderboard.csv").read_text().splitlines()
    place = lines[0].split(",").index("view")
    assert [line.split(",")[place] for line in lines[1:]] == ["text", "", "text"]


def test_rank_ranges_hold_every_order_that_the_intervals_allow() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        ends = np.sort(rng.integers(0, 8, size=(4, 2)), axis=1).astype(float)
        ranges = rank_ranges([(low, high) for low, high in ends.tolist()])
        for choice in itertools.product(*([low, high] for low, high in ends.tolist())):
            for index, value in enumerate(choice):
                strictly_better = sum(other > value for other in choice)
                strictly_worse = sum(other < value for other in choice)
                assert ranges[index][0] <= 1 + strictly_better + sum(v == value for v in choice) - 1
                assert ranges[index][1] >= len(choice) - strictly_worse - sum(v == value for v in choice) + 1


def test_the_front_holds_what_nothing_beats() -> None:
    points = [(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 4.0), (2.0, 3.0), (1.0, 0.5)]
    assert pareto_front([(cost, gain, gain) for cost, gain in points]) == [0, 1, 4, 3]
    rng = np.random.default_rng(0)
    cloud = [tuple(point) for point in rng.integers(0, 12, size=(60, 2)).astype(float).tolist()]
    front = set(pareto_front([(cost, gain, gain) for cost, gain in cloud]))
    for index, (cost, gain) in enumerate(cloud):
        beaten = any(c <= cost and g >= gain and (c, g) != (cost, gain) for c, g in cloud)
        assert (index in front) is not beaten


def test_points_with_overlapping_scores_or_costs_do_not_beat_each_other() -> None:
    cheap, dear, worse = (1.0, 0.90, 1.00), (2.0, 0.88, 0.95), (3.0, 0.5, 0.6)
    assert pareto_front([cheap, dear, worse]) == [0, 1]
    points = [(1.0, 0.9, 0.95), (1.1, 0.5, 0.6), (2.0, 0.5, 0.6)]
    assert pareto_front(points) == [0]
    # the second costs more, but by less than its uncertainty
    assert pareto_front(points, [(0.8, 1.2), (0.9, 1.3), (1.6, 2.4)]) == [0, 1]


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ([{"env_fingerprint": "1" * 8}, {"env_fingerprint": "2" * 8}], "the environment's behaviour"),
        ([{"env_kwargs": {"difficulty": 1}}, {"env_kwargs": {"difficulty": 3}}], "the environment's arguments"),
    ],
)
def test_other_environments_are_never_ranked_together(
    changes: list[dict[str, Any]], differs: str, field: Field, tmp_path: Path
) -> None:
    for name, given in zip(("old", "new"), changes, strict=True):
        field.entry(name, 10.0, train=False, **given)
    boards = _boards(field, tmp_path)
    assert [[row.entry.name for row in board.rows] for board in boards] == [["old"], ["new"]]
    assert all(board.differs == [differs] for board in boards)
    assert all(row.best == row.worst == 1 for board in boards for row in board.rows)
    assert len({board_anchor(board) for board in boards}) == 2


def test_measured_and_estimated_energy_are_never_ranked_together(field: Field, tmp_path: Path) -> None:
    field.entry("estimated", 10.0, train=False)
    for seed in range(3):
        field.evaluate("measured", [9.0, 9.0], seed, quality="measured")
    boards = _boards(field, tmp_path)
    assert {board.provenance: [row.entry.name for row in board.rows] for board in boards} == {
        "estimated": ["estimated"],
        "measured": ["measured"],
    }
    assert all("the provenance of energy" in board.differs for board in boards)


def test_an_entry_without_an_evaluation_stands_beside_the_others(field: Field, tmp_path: Path) -> None:
    field.entry("whole", 10.0)
    field.train("only_trained", 0)
    (board,) = _boards(field, tmp_path)
    assert [(row.entry.name, row.place) for row in board.rows] == [("whole", 1), ("only_trained", None)]
    assert board.rows[1].entry.not_ranked == ["no episode of a finished evaluation"]


def test_the_open_track_also_holds_those_that_kept_a_budget(field: Field, tmp_path: Path) -> None:
    def entry(name: str, track: str, value: float) -> Entry:
        return Entry(
            version=name,
            domain="d",
            task="t",
            env_id="E-v0",
            fingerprint="f",
            env_kwargs="{}",
            name=name,
            protocol="v1",
            track=track,
            provenance="estimated",
            reference="v1",
            rules=1,
            scores={},
            runs=[],
            not_ranked=[],
            notes=[],
            score=Score(value=value, low=value - 0.1, high=value + 0.1, n=3, normalised=True),
        )

    entries = [entry("free", "open", 0.9), entry("thrifty", "fixed samples", 0.5), entry("lean", "fixed samples", 0.4)]
    boards = {board.track: [(row.entry.name, row.best) for row in board.rows] for board in boards_of(entries)}
    assert boards == {
        "fixed samples": [("thrifty", 1), ("lean", 1)],
        "open": [("free", 1), ("thrifty", 2), ("lean", 2)],
    }
    assert [board.track for board in boards_of(entries[1:])] == ["fixed samples"]


def test_energy_without_that_of_a_language_model_has_a_note_and_no_rank(field: Field, tmp_path: Path) -> None:
    for name, level in (("asks", 18.0), ("one", 12.0), ("two", 6.0)):
        field.entry(name, level, train=False, models=["small"] if name == "asks" else [])
    for path in field.top.glob("asks*/trot/seed_*/inference"):
        field.seal(path)
    board = _boards(field, tmp_path)[0]
    energy = next(column for column in columns_of([board]) if column.key == "inference.energy_per_decision")
    cells = {row.entry.name: entry_cell(row.entry, energy.key) for row in board.rows}
    assert "without the model" in cells["asks (small)"].detail
    assert "without the model" not in cells["one"].detail + cells["two"].detail
    view = next(view for view in pareto_views(board, "board") if view.cost_title == "energy per decision")
    assert {point.entry.name for point in view.points} == {"one", "two"}
    assert "Entries with a language model are left out" in view.chart.caption


def test_costs_of_a_noisy_host_have_no_rank(field: Field, tmp_path: Path) -> None:
    for name, level in (("loud", 18.0), ("quiet", 12.0), ("calm", 6.0)):
        field.entry(name, level, train=False, noisy=name == "loud", latency_scale=1 + (name == "calm"))
    (board,) = _boards(field, tmp_path)
    energy = next(column for column in columns_of([board]) if column.key == "inference.energy_per_decision")
    entries = {row.entry.name: row.entry for row in board.rows}
    ranks = ranks_by_cost([energy.comparable(entry) for entry in entries.values()])
    assert dict(zip(entries, ranks, strict=True)) == {"loud": "", "quiet": "rank 1", "calm": "rank 2"}
    assert "noisy host: no rank" in entry_cell(entries["loud"], energy.key).detail
    for key in ("inference.processor_time_per_decision", "inference.latency_round_trip_mean"):
        assert "noisy host: no rank" in entry_cell(entries["loud"], key).detail
        assert "noisy host" not in entry_cell(entries["calm"], key).detail
    for view in pareto_views(board, "board"):
        assert {point.entry.name for point in view.points} == {"quiet", "calm"}
        assert "noisy host are left out" in view.chart.caption


def test_the_energy_of_a_whole_evaluation_has_no_rank(field: Field, tmp_path: Path) -> None:
    for name, level in (("one", 12.0), ("two", 6.0)):
        field.entry(name, level, train=False)
    (board,) = _boards(field, tmp_path)
    columns = {column.key: column for column in columns_of([board])}
    whole = columns["inference.energy_gross"]
    assert (whole.direction, whole.main) == ("none", False)
    assert ranks_by_cost([whole.comparable(row.entry) for row in board.rows]) == ["", ""]
    per_decision = entry_cell(board.rows[0].entry, "inference.processor_time_per_decision")
    assert "transport 0.020" in per_decision.detail
    latency = entry_cell(board.rows[0].entry, "inference.latency_round_trip_mean")
    assert "median" in latency.detail
    assert "p99" in latency.detail


def test_runs_whose_packages_were_built_have_no_rank(field: Field, tmp_path: Path) -> None:
    for name, level in (("built", 18.0), ("wheels", 12.0)):
        field.entry(name, level, train=False, python_env=PythonEnvRecord(kind="isolated", builds=name == "built"))
    (board,) = _boards(field, tmp_path)
    assert [(row.entry.name, row.place) for row in board.rows] == [("wheels", 1), ("built", None)]
    assert "python_env = 'built'" in board.rows[1].entry.not_ranked[0]
