"""The grid of curves against steps or time, one panel per environment; for papers and pull requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from a2perf.errors import UserError
from a2perf.report.charts import plain_counts, shortened
from a2perf.report.compared_charts import colour_of
from a2perf.report.drawing import DASHES, INK, SERIES, new_figure
from a2perf.rlops.compare.comparison import ComparedGroups
from a2perf.rlops.compare.curves import Line, line_of
from a2perf.rlops.compare.selection import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_UNIT_NAMES = {"s": "s", "m": "min", "h": "h"}
_LEGEND_ROW_IN = 0.22


@dataclass(frozen=True)
class Style:
    """How the grid is drawn; fields of ``Comparison.plot`` and ``write``.

    Attributes:
        ncols: panels in a row.
        ncols_legend: columns of the legend.
        xlabel: label of the horizontal axis; by default the axis's name.
        ylabel: label of the vertical axis; by default the metric's name.
        sharex: panels share the horizontal axis.
        max_steps: nothing beyond is drawn.
        rolling: values that each point is the mean of; by default 100, or a tenth of a shorter curve.
        time_unit: ``"s"``, ``"m"`` or ``"h"``.
        cm: width of a panel in inches.
        rm: height of a panel in inches.
        hspace: room between rows, as a share of a panel's height.
        wspace: room between columns, as a share of a panel's width.
    """

    ncols: int = 2
    ncols_legend: int = 2
    xlabel: str | None = None
    ylabel: str | None = None
    sharex: bool = False
    max_steps: float | None = None
    rolling: int | None = None
    time_unit: str = "m"
    cm: float = 4.0
    rm: float = 3.0
    hspace: float | None = None
    wspace: float | None = None


Lines = list[list["Line | None"]]
"""By panel and group."""


def lines_of(comparison: ComparedGroups, style: Style, *, time: bool = False) -> Lines:
    """Returns what is drawn.

    Raises:
        UserError: nothing was logged up to ``max_steps``.
    """
    if style.max_steps is not None:
        first = min(float(c.steps[0]) for panel in comparison.panels for cell in panel.cells for c in cell.curves)
        if style.max_steps < first:
            raise UserError(
                f"max_steps={style.max_steps:g} is before the first value, at step {first:g}",
                hint="give a larger number, or leave it out",
            )
    unit = style.time_unit if time else None
    return [
        [line_of(cell, time_unit=unit, rolling=style.rolling, max_steps=style.max_steps) for cell in panel.cells]
        for panel in comparison.panels
    ]


def grid(comparison: ComparedGroups, lines: Lines, style: Style, *, time: bool = False) -> Figure:
    """Draws all panels; within ``drawing.pictures`` only.

    Args:
        comparison: what is compared.
        lines: as from ``lines_of``; a panel without any is left out.
        style: how.
        time: the horizontal axis is time.
    """
    drawn = [(panel, row) for panel, row in zip(comparison.panels, lines, strict=True) if any(row)]
    drawn = drawn or list(zip(comparison.panels, lines, strict=True))
    columns = max(1, min(style.ncols, len(drawn)))
    rows = -(-len(drawn) // columns)
    legend_rows = -(-len(comparison.names) // max(1, style.ncols_legend))
    legend_in = 0.12 + _LEGEND_ROW_IN * legend_rows
    width, height = style.cm * columns, style.rm * rows + legend_in
    figure = new_figure(height)
    figure.set_size_inches(width, height)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=style.sharex)
    figure.subplots_adjust(
        left=0.72 / width,
        right=1 - 0.22 / width,
        top=1 - 0.35 / height,
        bottom=(legend_in + 0.5) / height,
        hspace=0.9 / max(style.rm - 0.9, 0.3) if style.hspace is None else style.hspace,
        wspace=0.95 / max(style.cm - 0.95, 0.3) if style.wspace is None else style.wspace,
    )
    flat, label = list(axes.flat), x_label(comparison, style, time=time)
    for (panel, row), place in zip(drawn, flat, strict=False):
        _panel(place, panel, row, style, label)
    for place in flat[len(drawn) :]:
        place.set_axis_off()
    _legend(figure, comparison.names, style.ncols_legend)
    return figure


def stroke(place: int) -> tuple[str, Any]:
    """Returns colour and dashes of the group at a place."""
    return INK[colour_of(place)], DASHES[(place // len(SERIES)) % len(DASHES)]


def x_label(comparison: ComparedGroups, style: Style, *, time: bool) -> str:
    """Returns the label of the horizontal axis."""
    if time:
        return f"time, {_UNIT_NAMES[style.time_unit]}"
    return style.xlabel or comparison.request.groups[0].xaxis.replace("_", " ")


def _panel(axes: Axes, panel: Panel, lines: Sequence[Line | None], style: Style, label: str) -> None:
    for place, line in enumerate(lines):
        if line is None:
            continue
        colour, dashes = stroke(place)
        marker = "o" if line.x.size == 1 else None
        axes.plot(line.x, line.mean, color=colour, linestyle=dashes, marker=marker, markersize=4)
        if np.any(line.std > 0):
            axes.fill_between(line.x, line.mean - line.std, line.mean + line.std, color=colour, alpha=0.16, linewidth=0)
    axes.set_title(shortened(panel.name), fontsize=9.5, loc="left", color=INK["ink"])
    axes.set_ylabel(shortened(style.ylabel or panel.metric))
    axes.set_xlabel(label)
    axes.margins(x=0.01)
    plain_counts(axes, "x")


def _legend(figure: Figure, names: Sequence[str], columns: int) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for place in range(len(names)):
        colour, dashes = stroke(place)
        handles.append(Line2D([], [], color=colour, linestyle=dashes, linewidth=1.9))
    figure.legend(handles, list(names), ncols=max(1, columns), loc="lower center", borderaxespad=0.4, handlelength=1.8)
