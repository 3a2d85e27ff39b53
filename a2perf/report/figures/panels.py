"""Figures that ``plot()`` of the Python API returns: one panel per task, in the style of reports."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from a2perf.report.figures.charts import shortened
from a2perf.report.figures.drawing import INK, WIDTH_IN, Drawing, chart_style, remove_control_characters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLE_IN = 0.34
_DPI = 110
_LONGEST_COLUMN = 2


@dataclasses.dataclass(frozen=True)
class ChartPanel:
    """One chart of a figure.

    Attributes:
        height_in: height of the chart in inches, without its title.
        draw: draws the chart ``into=`` a part of the figure.
    """

    title: str
    height_in: float
    draw: Callable[..., Drawing]


def panels_figure(panels: Sequence[ChartPanel]) -> Figure:
    """Draws panels from left to right and from top to bottom; more than two take two columns.

    Call it within the style of charts (``figure_for_notebook``).
    """
    from matplotlib.figure import Figure

    columns = 1 if len(panels) <= _LONGEST_COLUMN else 2
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    heights = [height for row in rows for height in (_TITLE_IN, max(panel.height_in for panel in row))]
    figure = Figure(figsize=(WIDTH_IN * columns, sum(heights)))
    grid = figure.add_gridspec(
        len(heights), columns, height_ratios=heights, left=0, right=1, bottom=0, top=1, hspace=0, wspace=0
    )
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        title = figure.add_subfigure(grid[2 * row, column])
        title.text(0.02, 0.3, shortened(panel.title), color=INK["ink"], fontsize=10)  # the font has one weight
        panel.draw(into=figure.add_subfigure(grid[2 * row + 1, column]))
    return figure


def figure_for_notebook(build: Callable[[], Figure]) -> Figure:
    """Builds a figure for a notebook, ``savefig`` and further changes.

    It is not registered in pyplot: a notebook shows it once, and it does not stay in memory.
    """
    with chart_style():
        figure = build()
    figure.set_facecolor("white")  # a transparent figure cannot be read in a dark notebook
    figure.set_dpi(_DPI)
    remove_control_characters(figure)
    # a Jupyter kernel can show figures once matplotlib's inline backend, which registers their formats, is loaded
    if "ipykernel" in sys.modules and "matplotlib_inline" in os.environ.get("MPLBACKEND", ""):
        importlib.import_module("matplotlib_inline.backend_inline")
    return figure
