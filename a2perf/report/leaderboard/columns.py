"""The columns of a table of entries: the ones shown first, the ones that can be added, and the text of cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
from markupsafe import Markup

from a2perf.metrics import registry
from a2perf.metrics.definition import Metric
from a2perf.metrics.values import CATEGORIES, Lead, MetricValue
from a2perf.report.leaderboard.ranking import Board
from a2perf.report.leaderboard.scoring import Entry, Score
from a2perf.report.names import MODE_TITLES, WITHOUT_MODEL
from a2perf.report.numbers_text import Scale, marks_of, normalised_text, row_scale, written
from a2perf.report.ranks import DISTORTED_UNITS, ENERGY_UNITS, lacks_uncertainty, ordering_interval, rank_ranges
from a2perf.report.tables import Text, interval_bar

_UNEVEN = 3.0
"""A mean latency of more medians than this is named."""
_NEVER_NEGATIVE = ("s", "kWh", "W", "bytes")


@dataclass(frozen=True)
class BoardColumn:
    """A metric in a mode as a column.

    Attributes:
        unit: of its values on all boards.
        main: whether it is shown first; the reader can add others.
    """

    metric: Metric
    mode: str
    unit: str
    main: bool

    @property
    def key(self) -> str:
        """``"<mode>.<metric>"``."""
        return f"{self.mode}.{self.metric.name}"

    @property
    def title(self) -> str:
        """Title of the column."""
        return column_title(self.metric, self.mode) if self.main else f"{self.metric.label}, {MODE_TITLES[self.mode]}"

    @property
    def direction(self) -> str:
        """``"min"``, ``"max"`` or ``"none"``."""
        return "none" if self.metric.whole_run and self.mode != "train" else self.metric.direction

    def value(self, entry: Entry) -> MetricValue | None:
        """Returns the entry's value, None if it has none."""
        return entry.value(self.mode, self.metric.name)

    def comparable(self, entry: Entry) -> MetricValue | None:
        """Returns the entry's value; None if it has none, if it is only a part, or if load has distorted it."""
        value = self.value(entry)
        return None if is_partial(value, self.mode, entry) or is_distorted(value, self.mode, entry) else value


def columns_of(boards: Iterable[Board]) -> list[BoardColumn]:
    """Returns every metric that at least one entry has a value of, the main ones first."""
    present: dict[tuple[str, str], set[str]] = {}
    for board in boards:
        for row in board.rows:
            for mode, scores in row.entry.scores.items():
                for name, value in scores.items():
                    if value.value is not None:
                        present.setdefault((mode, name), set()).add(value.unit)
    units = {found: ", ".join(sorted(of)) for found, of in present.items()}
    main = [
        BoardColumn(metric, mode, units[mode, metric.name], main=True)
        for category in CATEGORIES
        for mode in ("train", "inference")
        for metric in registry.leading(Lead.COLUMN, mode)
        if metric.category == category and (mode, metric.name) in units
    ]
    first = {column.key for column in main}
    more = [
        BoardColumn(metric, mode, units[mode, name], main=False)
        for mode in MODE_TITLES
        for name, metric in registry.all_metrics().items()
        if (mode, name) in units and f"{mode}.{name}" not in first
    ]
    return [*main, *more]


def metric_cell(value: MetricValue | None, scale: Scale | None = None) -> Text:
    """Returns a metric's cell with its interval, or with its spread if it has no interval."""
    if value is None:
        return Text()
    if value.value is None:
        return Text(detail=value.condition)
    scale = scale or row_scale([value.value], value.unit)
    interval = value.interval
    if interval is not None and value.unit in _NEVER_NEGATIVE:
        interval = (max(0.0, interval[0]), interval[1])  # with few runs the interval of the mean may reach below zero
    number = written(value.value, scale, value.spread, interval)
    details = []
    if value.interval is not None and value.interval[0] < value.interval[1]:
        details.append(number.interval())
    elif value.interval is None and value.spread:
        details.append(f"± {number.spread} {number.power}".rstrip())
    if lacks_uncertainty(value):
        details.append("uncertainty not recorded")
    mark, hint = marks_of(value.provenance)
    return Text(
        text=number._replace(spread="").text(),
        unit=unit_text(scale),
        detail="; ".join(details),
        mark=mark,
        hint=hint,
        sort=value.value if math.isfinite(value.value) else None,
    )


def entry_cell(entry: Entry, key: str, scale: Scale | None = None, note: str = "") -> Text:
    """Returns the cell of an entry, with what qualifies it: a language model, a noisy host, other statistics."""
    mode, _, metric = key.partition(".")
    value = entry.value(mode, metric)
    cell = metric_cell(value, scale)
    notes = [cell.detail, *_beside(entry, mode, metric, scale), WITHOUT_MODEL if is_partial(value, mode, entry) else ""]
    if is_distorted(value, mode, entry):
        notes.append("⚠ noisy host: no rank")
    return msgspec.structs.replace(cell, detail="; ".join(filter(None, (*notes, note))))


def _beside(entry: Entry, mode: str, metric: str, scale: Scale | None) -> Iterator[str]:
    own = entry.value(mode, metric)
    if own is None or own.value is None:
        return
    scale = scale or row_scale([own.value], own.unit)
    for other in registry.beside(metric):
        value = entry.value(mode, other.name)
        if value is not None and value.value is not None:
            title = other.title.rpartition(", ")[2]
            yield f"{title} {written(value.value, scale).text()}"
            if title == "median" and own.value > _UNEVEN * value.value:
                yield "few calls do most of the work"


def is_distorted(value: MetricValue | None, mode: str, entry: Entry) -> bool:
    """Returns whether a value is a cost that was measured on a noisy host."""
    known = value is not None and value.value is not None and value.unit in DISTORTED_UNITS
    return known and mode in entry.on_noisy_hosts


def is_partial(value: MetricValue | None, mode: str, entry: Entry) -> bool:
    """Returns whether a value is an energy of an entry with a language model, which used energy elsewhere."""
    energy = value is not None and value.value is not None and value.unit in ENERGY_UNITS
    return energy and entry.had_a_model(mode)


def ranks_by_cost(values: Sequence[MetricValue | None]) -> list[str]:
    """Returns the rank of each value in a column of energies, ``"rank 1–2"`` where intervals overlap; ``""`` elsewhere.

    Values without a recorded uncertainty have no rank, and neither have the others beside them.
    """
    held = [(place, value) for place, value in enumerate(values) if value is not None and value.value is not None]
    texts = [""] * len(values)
    if len(held) < 2 or any(
        value.unit not in ENERGY_UNITS or value.direction == "none" or lacks_uncertainty(value) for _, value in held
    ):
        return texts
    ends = [ordering_interval(value) for _, value in held]
    lowest_first = [(None, None) if low is None or high is None else (-high, -low) for low, high in ends]
    for (place, _), (best, worst) in zip(held, rank_ranges(lowest_first), strict=True):
        texts[place] = f"rank {best}" if best == worst else f"rank {best}–{worst}"
    return texts


def score_cell(score: Score, ends: tuple[float, float] | None = None, *, best: bool = False) -> Text:
    """Returns the cell of the score; normalised scores have three decimals, since intervals of few seeds are wide.

    Args:
        ends: of the scale on which score and interval are drawn, with marks at 0 (floor) and 1 (expert).
    """
    if score.value is None:
        return Text(detail=score.condition)
    if score.low is None or score.high is None:
        interval, detail = None, "1 run, no interval"
    elif score.low == score.high:
        interval, detail = None, f"the same in all {score.n} runs"
    else:
        interval, detail = (score.low, score.high), f"[{normalised_text(score.low)}, {normalised_text(score.high)}]"
    if score.normalised:
        text = normalised_text(score.value)
    else:
        spread = None if interval is None else (interval[1] - interval[0]) / 2 or None
        number = written(score.value, row_scale([score.value], ""), spread, interval)
        text, detail = number._replace(spread="").text(), detail if interval is None else number.interval()
    drawing = Markup("")
    if ends is not None and score.normalised:
        drawing = interval_bar(score.value, score.low, score.high, ends)
    return Text(text=text, detail=detail, sort=score.value, best=best, drawing=drawing)


def scale_of(scores: Iterable[Score]) -> tuple[float, float]:
    """Returns the ends of a scale that shows all scores, 0 and 1."""
    ends = [end for score in scores for end in (score.low, score.high, score.value) if end is not None]
    return min([0.0, *ends]), max([1.0, *ends])


def unit_text(scale: Scale) -> str:
    """Returns the unit as it follows a number; a power of ten gets a multiplication sign."""
    return f"× {scale.unit}" if scale.unit.startswith("10") else scale.unit


def scales_of(board: Board, columns: Iterable[BoardColumn]) -> dict[str, Scale]:
    """Returns one unit per column of a board, the one that suits its values."""
    return {
        column.key: row_scale(
            [found.value for row in board.rows if (found := column.value(row.entry)) and found.value is not None],
            column.unit,
        )
        for column in columns
    }


def column_title(metric: Metric, mode: str) -> str:
    """Returns the title of a metric that leads; energy of a whole run is that of training."""
    return f"Training {metric.title.lower()}" if mode == "train" and metric.whole_run else metric.title
