"""Return against cost: the entries that no other beats in both, drawn with a line; the others stand back.

Every point of the drawing is a link to its submission, so that it can be reached and read without a mouse; the same
points are listed in a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from a2perf.report.drawing import INK, Chart, inline_svg, new_figure, single
from a2perf.report.leaderboard.columns import metric_cell, score_cell
from a2perf.report.leaderboard.ranking import Board, pareto_front
from a2perf.report.leaderboard.scoring import Entry
from a2perf.report.leaderboard.words import slug
from a2perf.report.numbers_text import Scale, row_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COSTS = (
    ("train", "energy_gross", "training energy"),
    ("inference", "energy_gross", "energy of the evaluation"),
    ("inference", "latency_round_trip_median", "latency, median round trip"),
)
_MOST_NAMES = 6
_LONGEST_NAME = 22
_LETTER_SHARE = 0.0155  # width of a letter against that of the axes
_LOG_FROM = 20.0  # costs that lie this many times apart are drawn on a logarithmic axis
_LINK = re.compile(r'<a xlink:href="point-(\d+)"[^>]*>')


@dataclass(frozen=True)
class Point:
    """An entry in the drawing.

    Attributes:
        cost: in the chart's unit.
        gain: the score.
        words: cost and score as the table shows them.
        front: no other entry is at least as good in both and better in one.
    """

    entry: Entry
    cost: float
    gain: float
    words: tuple[str, str]
    front: bool

    @property
    def page(self) -> str:
        """Stem of the submission's page."""
        return slug(self.entry.name, self.entry.version)


@dataclass(frozen=True)
class ParetoView:
    """One chart with its points, the front first, by rising cost."""

    chart: Chart
    cost_title: str
    gain_title: str
    points: tuple[Point, ...]

    def front(self) -> list[Point]:
        """Returns the points that no other dominates."""
        return [point for point in self.points if point.front]

    def svg(self, prefix: str) -> Markup:
        """Returns the drawing for the page, each point a link with a name."""
        drawn = str(inline_svg(self.chart, prefix)).replace('role="img"', 'role="group"', 1)
        return Markup(_LINK.sub(self._link, drawn))  # names are escaped in _link

    def _link(self, match: re.Match[str]) -> str:
        point = self.points[int(match[1])]
        state = "on the front" if point.front else "dominated"
        label = f"{point.entry.name}: {self.gain_title} {point.words[1]}, {self.cost_title} {point.words[0]}, {state}"
        kind = "point front" if point.front else "point"
        return (
            f'<a href="submissions/{point.page}/index.html" class="{kind}" aria-label="{escape(label)}">'
            f"<title>{escape(label)}</title>"
        )


def pareto_views(board: Board, name: str) -> list[ParetoView]:
    """Returns the charts of a board: one for each cost that at least two ranked entries recorded.

    Args:
        board: the entries.
        name: stem of the charts' files.
    """
    views = []
    for mode, metric, title in _COSTS:
        points = _points(board, mode, metric)
        if len(points) >= 2:
            views.append(_view(board, points, title, f"{name}-{mode}-{metric}".replace("_", "-")))
    return views


def static_svg(chart: Chart) -> bytes:
    """Returns the drawing without links, for a file that stands alone."""
    return re.sub(rb"</a>", b"", re.sub(rb'<a xlink:href="point-\d+"[^>]*>', b"", chart.svg))


def _points(board: Board, mode: str, metric: str) -> list[Point]:
    known = []
    for row in board.rows:
        value = row.entry.value(mode, metric)
        # mixed numbers are ranked against nothing
        if row.place is None or value is None or value.value is None or value.provenance == "mixed":
            continue
        known.append((row.entry, value))
    gains = [entry.score.value or 0.0 for entry, _ in known]
    costs = [value.value or 0.0 for _, value in known]
    front = pareto_front(list(zip(costs, gains, strict=True)))
    order = front + sorted(set(range(len(known))) - set(front), key=lambda index: (costs[index], index))
    made = []
    for index in order:
        entry, value = known[index]
        cost = metric_cell(value)._replace(detail="").words()
        made.append(Point(entry, costs[index], gains[index], (cost, score_cell(entry.score).words()), index in front))
    return made


def _view(board: Board, points: Sequence[Point], title: str, name: str) -> ParetoView:
    scale = row_scale([point.cost for point in points], "s" if "latency" in title else "kWh")
    gain_title = "normalised score" if board.reference else "return"
    front = [point for point in points if point.front]
    told = "; ".join(f"{point.entry.name}: {point.words[1]} at {point.words[0]}" for point in front[:_MOST_NAMES])
    chart = single(
        name=name,
        title=f"{gain_title.capitalize()} against {title}",
        caption="Left and up is better. The line joins the entries that no other beats in both; "
        "the hollow ones are beaten by at least one.",
        description=f"{len(front)} of {len(points)} entries are on the front: {told}",
        build=lambda: _figure(points, scale, title, gain_title),
    )
    return ParetoView(chart, title, gain_title, tuple(points))


def _figure(points: Sequence[Point], scale: Scale, cost_title: str, gain_title: str) -> Figure:
    figure = new_figure(3.0)
    axes = figure.add_axes((0.12, 0.17, 0.84, 0.78))
    front = [index for index, point in enumerate(points) if point.front]
    costs = [point.cost / scale.factor for point in points]
    if min(costs) > 0 and max(costs) / min(costs) >= _LOG_FROM:
        axes.set_xscale("log")
        # the usual labels of such an axis are formulas, which the drawings do not set
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(lambda *_: "")
    line = [(costs[index], points[index].gain) for index in front]
    axes.step(*zip(*line, strict=True), where="post", color=INK["blue"], linewidth=1.2, zorder=2)
    for indices, fill, edge, order in (
        ([i for i in range(len(points)) if i not in front], "none", INK["muted"], 3),
        (front, INK["blue"], INK["blue"], 4),
    ):
        if indices:
            dots = axes.scatter(
                [costs[i] for i in indices], [points[i].gain for i in indices],
                s=44, facecolors=fill, edgecolors=edge, linewidths=1.2, zorder=order, clip_on=False,
            )  # fmt: skip
            dots.set_urls([f"point-{i}" for i in indices])
    axes.margins(x=0.12, y=0.14)
    if len(front) <= _MOST_NAMES:
        # above and to the left of a point of the front there is nothing but, at times, the edge of the chart
        axes.autoscale_view()
        shares = axes.transAxes.inverted().transform(axes.transData.transform(line))[:, 0]
        for number, place in enumerate(line):
            name = _short(points[front[number]].entry.name)
            left = shares[number] > len(name) * _LETTER_SHARE
            axes.annotate(
                name, place, xytext=(-5, 5) if left else (-3, -14),
                textcoords="offset points", ha="right" if left else "left", fontsize=8.5, color=INK["ink"],
            )  # fmt: skip
    axes.set_xlabel(f"{cost_title} [{scale.unit}]")
    axes.set_ylabel(gain_title)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
