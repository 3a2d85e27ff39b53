"""The columns of a board: which metrics stand in it from the start, which can be added, and how a cell reads."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from a2perf.metrics import registry
from a2perf.metrics.definition import Metric
from a2perf.metrics.values import MetricValue
from a2perf.records import Record
from a2perf.report.leaderboard.ranking import Board
from a2perf.report.leaderboard.scoring import Entry, Score
from a2perf.report.numbers_text import Scale, power_of_ten, row_scale, written

MODE_WORDS = {"train": "training", "inference": "evaluation", "generalization": "generalization"}
_MAIN: dict[str, str] = {
    "inference.returns": "Return",
    "inference.success_rate": "Success",
    "train.energy_to_threshold": "Energy to threshold",
    "train.time_to_threshold": "Time to threshold",
    "train.energy_gross": "Training energy",
    "inference.energy_gross": "Evaluation energy",
    "inference.latency_round_trip_median": "Latency (round trip)",
    "inference.memory_rss_peak": "Peak memory",
}
_ALWAYS = ("inference.returns", "train.energy_to_threshold", "train.time_to_threshold")


class BoardColumn(Record, kw_only=True):
    """A metric as a column.

    Attributes:
        key: ``"<mode>.<metric>"``.
        main: stands in the table from the start.
    """

    key: str
    title: str
    unit: str
    direction: str
    category: str
    formula: str
    main: bool = False

    def value(self, entry: Entry) -> MetricValue | None:
        """Returns the entry's value, None where it has none."""
        mode, _, metric = self.key.partition(".")
        return entry.value(mode, metric)


class Cell(NamedTuple):
    """What a cell shows.

    Attributes:
        sort: what the column is sorted by; None goes last.
        number: the value in words, with its unit apart.
        detail: interval, spread or why there is no value.
        estimated: a model's number, not an instrument's.
    """

    sort: float | None
    number: str
    unit: str
    detail: str
    estimated: bool = False

    def words(self) -> str:
        """Returns the cell on one line."""
        mark = "≈ " if self.estimated else ""
        detail = self.detail if not self.detail or self.detail.startswith(("[", "±")) else f"({self.detail})"
        return f"{mark}{self.number} {self.unit}".rstrip() + (f" {detail}" if detail else "")


def columns_of(boards: Iterable[Board]) -> list[BoardColumn]:
    """Returns every metric of which some entry has a value, the main ones first."""
    metrics = registry.all_metrics()
    present = {
        (mode, name)
        for board in boards
        for row in board.rows
        for mode, scores in row.entry.scores.items()
        for name, value in scores.items()
        if value.value is not None
    }
    main = [
        _column(key, metrics[name], title=title, main=True)
        for key, title in _MAIN.items()
        for mode, _, name in [key.partition(".")]
        if key in _ALWAYS or (mode, name) in present
    ]
    more = [
        _column(f"{mode}.{name}", metric, title=f"{metric.label}, {words}")
        for mode, words in MODE_WORDS.items()
        for name, metric in metrics.items()
        if (mode, name) in present and f"{mode}.{name}" not in _MAIN
    ]
    return [*main, *more]


def metric_cell(value: MetricValue | None, scale: Scale | None = None) -> Cell:
    """Returns a metric's cell; its interval where it has one, else its spread.

    Args:
        value: None where the entry has none.
        scale: unit of the column; the value's own when None.
    """
    if value is None:
        return Cell(None, "–", "", "")
    if value.value is None:
        return Cell(None, "–", "", value.condition or "")
    scale = scale or row_scale([value.value], value.unit)
    number = written(value.value, scale, value.spread, value.interval)
    detail = ""
    if value.interval is not None and value.interval[0] < value.interval[1]:
        detail = number.interval()
    elif value.interval is None and value.spread:
        detail = f"± {number.spread}" + ("" if number.exponent is None else f" × {power_of_ten(number.exponent)}")
    if value.provenance == "mixed":
        detail = f"{detail}; measured and estimated mixed".lstrip("; ")
    sort = value.value if math.isfinite(value.value) else None
    words = number._replace(spread="").text()
    return Cell(sort, words, unit_words(scale), detail, value.provenance in ("estimated", "mixed"))


def score_cell(score: Score) -> Cell:
    """Returns the cell of the score; a normalised one with three decimals, as intervals of few seeds carry no more."""
    if score.value is None:
        return Cell(None, "–", "", score.condition or "")
    if score.low is None or score.high is None:
        interval, detail = None, "1 run, no interval"
    elif score.low == score.high:
        interval, detail = None, f"the same in all {score.n} runs"
    else:
        interval, detail = (score.low, score.high), f"[{_fixed(score.low)}, {_fixed(score.high)}]"
    if score.normalised:
        return Cell(score.value, _fixed(score.value), "", detail)
    spread = None if interval is None else (interval[1] - interval[0]) / 2 or None
    number = written(score.value, row_scale([score.value], ""), spread, interval)
    return Cell(score.value, number._replace(spread="").text(), "", detail if interval is None else number.interval())


def unit_words(scale: Scale) -> str:
    """Returns the unit as it follows a number; one that starts with a power of ten needs its sign."""
    return f"× {scale.unit}" if scale.unit.startswith("10") else scale.unit


def scales_of(board: Board, columns: Iterable[BoardColumn]) -> dict[str, Scale]:
    """Returns the unit of each column of a board, the one in which its values are read best."""
    return {
        column.key: row_scale(
            [found.value for row in board.rows if (found := column.value(row.entry)) and found.value is not None],
            column.unit,
        )
        for column in columns
    }


def _column(key: str, metric: Metric, *, title: str, main: bool = False) -> BoardColumn:
    return BoardColumn(
        key=key, title=title, unit=metric.unit, direction=metric.direction, category=metric.category,
        formula=metric.formula, main=main,
    )  # fmt: skip


def _fixed(value: float) -> str:
    text = f"{abs(value):.3f}"
    return f"−{text}" if value < 0 and float(text) else text
