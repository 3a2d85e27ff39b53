"""Charts of score against cost with the Pareto front.

Every point links to its submission and has a name for screen readers; the table of the task holds the same numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from a2perf.metrics import registry
from a2perf.metrics.values import Lead
from a2perf.report.figures.drawing import INK, Chart, inline_svg, new_figure, single
from a2perf.report.leaderboard.columns import column_title, is_partial, metric_cell, score_cell
from a2perf.report.leaderboard.ranking import Board, pareto_front
from a2perf.report.leaderboard.scoring import Entry
from a2perf.report.names import slug, submission_title
from a2perf.report.numbers_text import Scale, row_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_LABELS, _LONGEST_LABEL = 12, 24
_LABEL_HEIGHT, _LETTER_WIDTH = 0.062, 0.0145
"""Of a label, as shares of the height and width of the axes."""
_DOT = 0.012
"""Half the width of a point, as a share of the width of the axes."""
_LOG_FROM = 20.0  # ratio of the largest to the smallest cost from which on the axis is logarithmic
_LINK = re.compile(r'<a xlink:href="point-(\d+)"[^>]*>')


@dataclass(frozen=True)
class Point:
    """An entry in the chart.

    Attributes:
        cost_interval: ends of its interval; the cost itself if no uncertainty was recorded.
        chance: whether it is no better than the floor; such points are dimmed and never on the front.
    """

    entry: Entry
    cost: float
    cost_interval: tuple[float, float]
    gain: float
    low: float
    high: float
    text: tuple[str, str]
    front: bool
    chance: bool

    @property
    def page(self) -> str:
        """Folder of the submission's page."""
        return slug(self.entry.name, self.entry.version)

    @property
    def title(self) -> str:
        """Title of the submission."""
        return submission_title(self.entry.name, self.entry.info)


@dataclass(frozen=True)
class ParetoView:
    """One chart with its points, the front first, by rising cost."""

    chart: Chart
    cost_title: str
    gain_title: str
    points: tuple[Point, ...]

    def front(self) -> list[Point]:
        """Returns the points on the Pareto front."""
        return [point for point in self.points if point.front]

    def svg(self, prefix: str, top: str = "") -> Markup:
        """Returns the drawing for a page; each point is a link."""
        drawn = str(inline_svg(self.chart, prefix)).replace('role="img"', 'role="group"', 1)
        return Markup(_LINK.sub(lambda match: self._link(match, top), drawn))  # titles are escaped in _link

    def _link(self, match: re.Match[str], top: str) -> str:
        point = self.points[int(match[1])]
        state = "on the Pareto front" if point.front else "no better than the floor" if point.chance else "dominated"
        label = f"{point.title}: {self.gain_title} {point.text[1]}, {self.cost_title} {point.text[0]}, {state}"
        kind = "point front" if point.front else "point"
        return (
            f'<a href="{top}submissions/{point.page}/index.html" class="{kind}" aria-label="{escape(label)}">'
            f"<title>{escape(label)}</title>"
        )


def pareto_views(board: Board, name: str) -> list[ParetoView]:
    """Returns one chart per cost that at least two ranked entries recorded."""
    views = []
    costs = [(mode, metric) for mode in ("train", "inference") for metric in registry.leading(Lead.CHART, mode)]
    for mode, metric in costs:
        points = _points(board, mode, metric.name)
        if len(points) >= 2:
            partial = any(is_partial(row.entry.value(mode, metric.name), mode, row.entry) for row in board.rows)
            noisy = any(mode in row.entry.on_noisy_hosts for row in board.rows)
            reasons = (
                " Entries with a language model are left out: the energy of its server is not known."
                if partial
                else "",
                " Entries with runs on a noisy host are left out." if noisy else "",
            )
            title, stem = column_title(metric, mode).lower(), f"{name}-{mode}-{metric.name}".replace("_", "-")
            scale = row_scale([point.cost for point in points], metric.unit)
            views.append(_view(board, points, title, scale, stem, "".join(reasons)))
    return views


def static_svg(chart: Chart) -> bytes:
    """Returns the drawing without links, as a file."""
    return re.sub(rb"</a>", b"", re.sub(rb'<a xlink:href="point-\d+"[^>]*>', b"", chart.svg))


def _points(board: Board, mode: str, metric: str) -> list[Point]:
    known = []
    for row in board.rows:
        value = row.entry.value(mode, metric)
        # a sum of measured and estimated energy cannot be compared with either
        if row.place is None or value is None or value.value is None or value.provenance == "mixed":
            continue
        if is_partial(value, mode, row.entry) or mode in row.entry.on_noisy_hosts:
            continue
        known.append((row.entry, value))
    intervals = [_interval(entry) for entry, _ in known]
    costs = [value.value or 0.0 for _, value in known]
    chance = _no_better_than_floor([entry for entry, _ in known], intervals, normalised=bool(board.reference))
    above = [index for index in range(len(known)) if index not in chance]
    cost_ends = [  # only energies of known uncertainty have an interval
        (cost, cost)
        if value.uncertainty is None or value.interval is None
        else (max(0.0, value.interval[0]), value.interval[1])
        for cost, (_, value) in zip(costs, known, strict=True)
    ]
    points = [(costs[index], *intervals[index]) for index in above]
    front = [above[place] for place in pareto_front(points, [cost_ends[index] for index in above])]
    order = front + sorted(set(range(len(known))) - set(front), key=lambda index: (costs[index], index))
    return [
        Point(
            entry=entry,
            cost=costs[index],
            cost_interval=cost_ends[index],
            gain=entry.score.value or 0.0,
            low=intervals[index][0],
            high=intervals[index][1],
            front=index in front,
            chance=index in chance,
            text=(metric_cell(value).line(), score_cell(entry.score).line(detail=True)),
        )
        for index in order
        for entry, value in [known[index]]
    ]


def _interval(entry: Entry) -> tuple[float, float]:
    score = entry.score
    value = score.value or 0.0
    low, high = (value if score.low is None else score.low, value if score.high is None else score.high)
    return round(low, 9), round(high, 9)  # equal scores differ by roundings, which beat nobody


def _no_better_than_floor(
    entries: Sequence[Entry], intervals: Sequence[tuple[float, float]], *, normalised: bool
) -> set[int]:
    """Returns the entries of the kind "random", and those with an interval that overlaps that of one of them or 0."""
    limits = [high for entry, (_, high) in zip(entries, intervals, strict=True) if entry.info.kind == "random"]
    limit = max([*limits, *([0.0] if normalised else [])], default=None)
    if limit is None:
        return set()
    return {
        index
        for index, (entry, (low, _)) in enumerate(zip(entries, intervals, strict=True))
        if entry.info.kind == "random" or low <= limit
    }


def _view(board: Board, points: Sequence[Point], title: str, scale: Scale, name: str, left_out: str) -> ParetoView:
    gain_title = "normalised score" if board.reference else "return"
    front = [point for point in points if point.front]
    listed = "; ".join(f"{point.title}: {point.text[1]} at {point.text[0]}" for point in front[:_MOST_LABELS])
    chart = single(
        name=name,
        title=f"{gain_title.capitalize()} against {title}",
        caption="Up and left is better. Filled: on the Pareto front. Hollow: dominated. "
        f"Grey: no better than the floor. Bars: 95 % intervals of score and energy.{left_out}",
        description=f"{len(front)} of {len(points)} entries are on the Pareto front: {listed}",
        build=lambda: _figure(points, scale, title, gain_title),
    )
    return ParetoView(chart, title, gain_title, tuple(points))


def _figure(points: Sequence[Point], scale: Scale, cost_title: str, gain_title: str) -> Figure:
    figure = new_figure(3.4)
    axes = figure.add_axes((0.1, 0.15, 0.87, 0.81))
    costs = [point.cost / scale.factor for point in points]
    if min(costs) > 0 and max(costs) / min(costs) >= _LOG_FROM:
        axes.set_xscale("log")
        # the default labels of a logarithmic axis are formulas, which the drawings do not typeset
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(lambda *_: "")
    for index, point in enumerate(points):
        axes.vlines(costs[index], point.low, point.high, color=_colour(point), linewidth=1.1, alpha=0.7, zorder=2)
        left, right = (end / scale.factor for end in point.cost_interval)
        if left < right:
            axes.hlines(point.gain, left, right, color=_colour(point), linewidth=1.1, alpha=0.7, zorder=2)
    for indices, filled in (
        ([index for index, point in enumerate(points) if not point.front], False),
        ([index for index, point in enumerate(points) if point.front], True),
    ):
        if not indices:
            continue
        colours = [_colour(points[index]) for index in indices]
        dots = axes.scatter(
            [costs[index] for index in indices],
            [points[index].gain for index in indices],
            s=44,
            facecolors=colours if filled else "none",
            edgecolors=colours,
            linewidths=1.3,
            zorder=4,
            clip_on=False,
        )
        dots.set_urls([f"point-{index}" for index in indices])
    axes.margins(x=0.14)
    lowest, highest = min(point.low for point in points), max(point.high for point in points)
    if gain_title == "return":
        axes.margins(x=0.14, y=0.14)
    else:  # the whole scale: a zoomed axis would make ties look like differences
        axes.set_ylim(min(0.0, lowest) - 0.06, max(1.0, highest) + 0.1)
    axes.autoscale_view(scaley=gain_title == "return")
    _label(axes, [(point.title, costs[index], point.gain, point.chance) for index, point in enumerate(points)])
    axes.set_xlabel(f"{cost_title} [{scale.unit}]")
    axes.set_ylabel(gain_title)
    return figure


def _colour(point: Point) -> str:
    return INK["blue"] if point.front else INK["muted"]


def _label(axes: Axes, points: Sequence[tuple[str, float, float, bool]]) -> None:
    """Writes the names beside the points; a label that would cover another one moves down, or up at the bottom."""
    to_axes = axes.transAxes.inverted()
    spots = [tuple(to_axes.transform(axes.transData.transform((x, y)))) for _, x, y, _ in points]
    dots = [(x - _DOT, x + _DOT, y) for x, y in spots]
    placed: list[tuple[float, float, float]] = []  # left, right and middle of each label in axes coordinates
    order = sorted(range(len(points)), key=lambda index: -spots[index][1])
    for index in order[:_MOST_LABELS]:
        (name, _, _, chance), (x, y) = points[index], spots[index]
        text = name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"
        width = len(text) * _LETTER_WIDTH
        left_side = x + 0.02 + width > 1.0
        start = x - 0.02 - width if left_side else x + 0.02
        middle = _free(start, start + width, y, [*placed, *dots])
        placed.append((start, start + width, middle))
        axes.annotate(
            text,
            (start if not left_side else x - 0.02, middle),
            xycoords="axes fraction",
            ha="right" if left_side else "left",
            va="center",
            fontsize=8.5,
            color=INK["muted" if chance else "ink"],
            annotation_clip=False,
        )


def _free(start: float, end: float, wanted: float, placed: Sequence[tuple[float, float, float]]) -> float:
    """Returns the height nearest to ``wanted`` at which no label of the same columns is."""
    beside = [middle for left, right, middle in placed if start < right and left < end]
    steps = [wanted + sign * step * _LABEL_HEIGHT / 2 for step in range(60) for sign in (-1, 1)]
    inside = [step for step in steps if 0.03 <= step <= 1.0]
    return next((step for step in inside if all(abs(step - other) >= _LABEL_HEIGHT for other in beside)), wanted)
