"""``time_to_result`` and ``a2perf leaderboard --score`` on tables: both forms, wrong cells, and what is printed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import a2perf
from a2perf.cli import cli
from a2perf.errors import ConfigError, UserError

WIDE = """submission,x,y,z,y_variant
shampoo,100,200,50,210
adam,120,,80,300
sgd,inf,260,NaN,
"""
LONG = """submission,workload,study,trial,seconds,budget,held_out_of
a,x,1,1,30,100,
a,x,1,2,10,100,
a,x,2,1,,100,
a,x,2,2,20,100,
a,x,3,1,101,100,
a,x_hard,1,1,5,,x
a,x_hard,2,1,5,,x
a,x_hard,3,1,5,,x
b,x,1,1,40,100,
b,x,2,1,40,100,
b,x,3,1,40,100,
b,x_hard,1,1,5,,x
b,x_hard,2,1,,,x
b,x_hard,3,1,inf,,x
"""


def _file(tmp_path: Path, text: str, name: str = "times.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_wide_table_with_a_held_out_variant(tmp_path: Path) -> None:
    found = a2perf.time_to_result(_file(tmp_path, WIDE), held_out={"y_variant": "y"}, points=None)
    (board,) = found.boards
    assert {row.name: row.score for row in board.rows} == pytest.approx(
        {"shampoo": 1.0, "adam": ((4 - 1.2) / 3 + (4 - 1.6) / 3) / 3, "sgd": 0.0}
    )
    sgd = next(row for row in board.rows if row.name == "sgd")
    assert (sgd.cells["y"].median, sgd.cells["y"].ratio) == (260.0, None)
    counted = a2perf.time_to_result(_file(tmp_path, WIDE), held_out={"y_variant": "y"}, count_held_out=True)
    assert len(counted.boards[0].counted()) == 4


def test_a_long_table_with_trials_studies_budgets_and_a_held_out_variant(tmp_path: Path) -> None:
    (board,) = a2perf.time_to_result(_file(tmp_path, LONG)).boards
    rows = {row.name: row for row in board.rows}
    assert rows["a"].cells["x"].studies == [10.0, 20.0, None]
    assert rows["a"].cells["x"].median == 20.0
    assert rows["b"].cells["x_hard"].median is None
    assert (rows["a"].score, rows["b"].score) == (1.0, 0.0)
    assert board.studies == 3
    assert rows["a"].low is not None


def test_missing_studies_count_as_not_reached(tmp_path: Path) -> None:
    text = "submission,workload,study,seconds\na,x,1,10\na,x,2,10\na,x,3,10\nb,x,1,5\n"
    (board,) = a2perf.time_to_result(_file(tmp_path, text)).boards
    assert {row.name: row.score for row in board.rows} == {"a": 1.0, "b": 0.0}
    assert "fewer than 3 studies, the missing count as not reached: b on x (1)" in board.notes


def test_a_mapping_with_studies_and_equal_places() -> None:
    times = {"a": {"x": [1, 2, 3]}, "b": {"x": 2.0}, "c": {"x": None}, "d": {"x": math.nan}}
    (board,) = a2perf.time_to_result({name: of for name, of in times.items() if name != "b"}).boards
    assert [(row.name, row.place) for row in board.rows] == [("a", 1), ("c", 2), ("d", 2)]
    table = a2perf.time_to_result(times).table()
    assert table.units["median"] == "s"
    assert len(table) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("submission,x\na,0\n", "line 2, column 'x': '0' is not a number above zero"),
        ("submission,x\na,-3\n", "line 2, column 'x': '-3' is not a number above zero"),
        ("submission,x\na,1h\n", "'1h' is not a number above zero"),
        ("submission,x\na,-inf\n", "'-inf' is not a number above zero"),
        ("submission,x\na,1\n\na,2\n", "line 4: 'a' is also on line 2"),
        ("submission,x\na,1,2\n", "line 2: 3 cells, but the header has 2"),
        ("submission,x,x\na,1,2\n", "two columns have the same name"),
        ("submission,x\n", "has no submission below its header"),
        ("submission\na\n", "has no workload"),
        ("", "is empty"),
        ("submission,workload,secnds\na,x,1\n", "no column of numbers"),
        ("submission,workload,seconds,sudy\na,x,1,1\n", "column 'sudy' is unknown; did you mean 'study'?"),
        ("submission,workload,joules\na,x,1\n", "the numbers are joules, but the score is time_to_result"),
        ("submission,workload,seconds\na,x,1\na,x,2\n", "line 3: 'a' on 'x' is also on line 2"),
        ("submission,workload,seconds\n,x,1\n", "line 2: the submission has no name"),
        ("submission,workload,seconds,held_out_of\na,x,1,\nb,x,1,y\n", "line 3: 'x' is held out of 'y' here"),
        ("submission,workload,seconds,held_out_of\na,x,1,y\n", "held-out variant x of y: 'y' is not a workload"),
        ('submission,x\n"a,1\n', "not CSV"),
    ],
)
def test_a_wrong_table_names_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        a2perf.time_to_result(_file(tmp_path, text))
    assert message in raised.value.message
    assert raised.value.hint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"score": "time_to_resul"}, "did you mean 'time_to_result'"),
        ({"r_max": 0.5}, "r_max is 0.5"),
        ({"points": 1}, "points is 1"),
        ({"target": math.nan}, "the target is nan"),
        ({"held_out": {"q": "x"}}, "'q' is not a workload"),
        ({"held_out": {"x": "y", "y": "x"}}, "held-out variant itself"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        a2perf.time_to_result({"a": {"x": 1.0, "y": 2.0}}, **arguments)
    with pytest.raises(ConfigError, match="times are a int"):
        a2perf.time_to_result(3)  # type: ignore[arg-type]


def test_energies_of_a_table_are_split_by_provenance(tmp_path: Path) -> None:
    text = "submission,workload,joules,provenance\na,x,1,measured\nb,x,2,estimated\nc,x,3,measured\nc,y,3,estimated\n"
    boards = a2perf.time_to_result(_file(tmp_path, text), score="energy_to_result").boards
    assert [(board.provenance, [row.name for row in board.rows]) for board in boards] == [
        ("estimated", ["b"]), ("measured", ["a"]),
    ]  # fmt: skip
    assert boards[0].left_out[0].reason == "measured and estimated numbers are not compared"


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["leaderboard", *arguments], catch_exceptions=False, standalone_mode=False)


def test_the_command_prints_the_ranking_json_and_a_page(tmp_path: Path) -> None:
    table = str(_file(tmp_path, WIDE))
    shown = _run("--score", "time_to_result", "--times", table, "--held-out", "y_variant=y").output
    assert "rank  score  95 % interval  exact  solved  submission" in shown
    assert shown.splitlines()[2].split() == ["1", "1.000", "–", "1.000", "3", "of", "3", "shampoo"]
    out = tmp_path / "site"
    document = json.loads(_run("--score", "time-to-result", "--times", table, "-o", str(out), "--json").output)
    assert document["boards"][0]["points"] == 100
    assert json.loads((out / "leaderboard.json").read_text()) == document
    exact = json.loads(_run("--score", "time_to_result", "--times", table, "--exact", "--json").output)
    assert exact["boards"][0]["rows"][0]["exact"] == exact["boards"][0]["rows"][0]["score"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--score", "time_to_result"], "neither was given"),
        (["x", "--score", "time_to_result", "--times", "y.csv"], "both were given"),
        (["x", "-o", "y", "--exact"], "--exact belongs to --score"),
        (["x"], "-o DIR is missing"),
        (["-o", "y"], "FOLDER is missing"),
        (["--score", "time_to_result", "--times", "y.csv", "--held-out", "x"], "is not VARIANT=BASE"),
        (["--score", "time_to_result", "--times", "missing.csv"], "cannot be read: No such file"),
        (["--score", "time_to_result", "--times", "y.csv", "--target", "0.5"], "has no target to set"),
    ],
)
def test_the_command_refuses_what_does_not_fit(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError) as raised:
        _run(*arguments)
    assert message in raised.value.message
    assert raised.value.hint
