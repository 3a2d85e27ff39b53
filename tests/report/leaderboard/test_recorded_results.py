"""Time, energy and samples to a result of recorded submissions: what counts as a study, and what is compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from a2perf.errors import UserError
from a2perf.metrics.time_to_result import ScoreRules
from a2perf.report.leaderboard.recorded_results import recorded_results
from a2perf.report.leaderboard.result_writing import results_csv, write_results
from a2perf.report.result_boards import COSTS, ResultBoard
from a2perf.runs.bundle import integrity
from tests.report.leaderboard.conftest import HOSTILE
from tests.report.leaderboard.made_entries import Field, references

EXACT = ScoreRules(points=None)


def _boards(field: Field, score: str = "time_to_result", **options: object) -> list[ResultBoard]:
    return recorded_results(
        field.top, COSTS[score], EXACT, integrity=integrity, references=references, **options,  # type: ignore[arg-type]
    )  # fmt: skip


def _quicker(field: Field, name: str, seed: int, factor: float) -> None:
    """Writes a training run whose curve rises ``factor`` times as fast in time and steps."""
    path = field.train(name, seed)
    lines = [f"{100 * point / factor:g},{point * 0.1},{point * 0.5 / factor}" for point in range(100)]
    table = "\n".join(["env_steps,mean_return,time_elapsed", *lines]) + "\n"
    (path / "artifacts" / "progress.csv").write_text(table)
    field.seal(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Field:
    """Submissions that reach the return of 4 twice as fast, as usual, never in the evaluation, and without a curve."""
    field = Field(tmp_path_factory.mktemp("results") / "runs")
    field.entry("quick", 16.0, train=False)
    for seed in range(3):
        _quicker(field, "quick", seed, 2.0)
    field.entry("usual", 15.0)
    field.entry("boaster", 3.0)  # its curve claims more than its evaluation shows
    field.entry("scripted", 18.0, train=False)
    field.entry("crasher", 12.0, seeds=2)
    field.fail(field.train("crasher", 2))
    return field


@pytest.fixture(scope="module")
def board(made: Field) -> ResultBoard:
    """The board of their times."""
    (found,) = _boards(made)
    return found


def test_seconds_samples_and_joules_until_the_trailing_mean_reaches_the_target(made: Field, board: ResultBoard) -> None:
    assert (board.studies, board.unit, [work.target for work in board.workloads]) == (3, "s", ["return of at least 4"])
    rows = {row.name: row for row in board.rows}
    assert rows["quick"].cells["trot"].studies == [10.5, 10.5, 10.5]
    assert rows["usual"].cells["trot"].median == 21.0
    assert rows["usual"].cells["trot"].ratio == 2.0
    assert (rows["quick"].score, rows["usual"].score) == pytest.approx((1.0, 2 / 3))
    assert [row.rank() for row in board.rows][:2] == ["1", "2"]
    (samples,) = _boards(made, "samples_to_result")
    assert {row.name: row.cells["trot"].median for row in samples.rows}["usual"] == 4200.0
    (energy,) = _boards(made, "energy_to_result")
    assert energy.provenance in ("measured", "estimated")
    joules = {row.name: row.cells["trot"].median or 0.0 for row in energy.rows}
    assert joules["usual"] == pytest.approx(2 * joules["quick"])
    # these records state no uncertainty of their energies, which are therefore not ordered
    assert [row.rank() for row in energy.rows if row.solved()] == ["1–3", "1–3"]
    assert any(note.startswith("energies without a recorded uncertainty are not ordered") for note in energy.notes)


def test_a_curve_that_the_evaluation_does_not_confirm_does_not_count(board: ResultBoard) -> None:
    cell = next(row for row in board.rows if row.name == "boaster").cells["trot"]
    assert cell.median is None
    assert cell.studies == [None, None, None]
    assert "seed 0 reached the target, but its evaluation has a mean return of 2.8" in cell.note


def test_a_submission_without_a_curve_or_without_a_rank_is_not_scored(board: ResultBoard) -> None:
    reasons = {one.name: one.reason for one in board.left_out}
    assert reasons["scripted"] == "no training run"
    assert reasons["crasher"].startswith("no rank on any task: 1 of 5 runs not finished")
    assert {row.name for row in board.rows} == {"quick", "usual", "boaster"}


def test_another_target_moves_the_time(made: Field) -> None:
    (board,) = _boards(made, target=0.25)  # a return of 5 with references of 0 and 20
    assert board.workloads[0].target == "return of at least 5"
    assert {row.name: row.cells["trot"].median for row in board.rows}["usual"] == 26.0


def test_energies_of_different_provenance_have_boards_of_their_own(field: Field) -> None:
    for name, quality in (("counted", "measured"), ("modelled", "estimated")):
        field.entry(name, 15.0, seeds=1)
        (table,) = (path for path in field.top.rglob("train_emissions.csv") if name in str(path))
        header, *rows = table.read_text().splitlines()
        table.write_text("\n".join([f"{header},quality", *(f"{row},{quality}" for row in rows)]) + "\n")
        field.seal(table.parent.parent)
    boards = _boards(field, "energy_to_result")
    kinds = {board.provenance: [row.name for row in board.rows] for board in boards}
    assert kinds == {"measured": ["counted"], "estimated": ["modelled"]}
    assert len(_boards(field)) == 1


def test_a_folder_without_targets_has_no_board(field: Field) -> None:
    field.entry("usual", 15.0, seeds=1, task="pace")
    assert _boards(field) == []


def test_the_page_holds_the_table_the_profile_and_no_markup_of_strangers(field: Field, tmp_path: Path) -> None:
    field.entry(HOSTILE, 15.0, seeds=1)
    field.entry("usual", 15.0, seeds=1)
    boards = _boards(field)
    page = write_results(boards, tmp_path / "site", title="Trial")
    text = page.read_text(encoding="utf-8")
    assert HOSTILE not in text
    assert "share of workloads solved" in text
    assert "1 study, no interval" in text
    assert (tmp_path / "site/figures/profile-0.pdf").stat().st_size > 1000
    document = json.loads((tmp_path / "site/leaderboard.json").read_text())
    assert document["boards"][0]["rows"][0]["cells"]["trot"]["studies"] == [21.0]
    assert len(results_csv(boards).splitlines()) == 3
    first = text, (tmp_path / "site/leaderboard.csv").read_bytes()
    write_results(boards, tmp_path / "site", title="Trial")
    assert first == (page.read_text(encoding="utf-8"), (tmp_path / "site/leaderboard.csv").read_bytes())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds no result leaderboard"):
        write_results(boards, tmp_path / "other", title="Trial")
