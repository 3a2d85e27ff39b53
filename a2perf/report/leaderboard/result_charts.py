"""The chart of a board of results: the performance profile of each submission."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from a2perf.metrics.time_to_result import shares_within
from a2perf.report.compared_charts import Lines, lines
from a2perf.report.drawing import Chart, single
from a2perf.report.numbers_text import normalised_text
from a2perf.report.result_boards import COSTS, ResultBoard

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TAUS = 601
MOST_LINES = 18
"""Of the best submissions; more lines cannot be distinguished."""


def profile_chart(board: ResultBoard, name: str) -> Chart:
    """Draws the share of workloads that each submission solves within a multiple of the shortest time of any.

    Args:
        board: at least one submission.
        name: stem of the chart's files.
    """
    noun = COSTS[board.score].noun
    shown = board.rows[:MOST_LINES]
    more = f" The best {len(shown)} of {len(board.rows)} are drawn." if len(shown) < len(board.rows) else ""
    listed = "; ".join(
        f"{row.title}: score {normalised_text(row.score)}, {_reach(board, row.solved())}" for row in shown
    )
    return single(
        name=name,
        title=f"{COSTS[board.score].title}: performance profile",
        caption=f"Share of workloads on which a submission reaches the target with at most so many times the least "
        f"{noun} of any submission. The area under a line from 1 to {board.r_max:g} is its score.{more}",
        description=listed,
        build=lambda: profile_figure(board),
    )


def profile_figure(board: ResultBoard) -> Figure:
    """Returns the figure of ``profile_chart``; only within ``drawing.chart_style``."""
    noun = COSTS[board.score].noun
    taus = np.linspace(1.0, board.r_max, _TAUS)
    counted = [work.name for work in board.counted()]
    drawn = []
    for place, row in enumerate(board.rows[:MOST_LINES]):
        ratios = [np.inf if (ratio := row.cells[name].ratio) is None else ratio for name in counted]
        name = f"{row.title} {normalised_text(row.score)}"
        drawn.append(Lines(name, place, (), taus, shares_within(np.array(ratios), taus)))
    drawing = lines(drawn, x_name=f"multiple of the least {noun}", y_name="share of workloads solved", stepped=True)
    drawing.axes.set_xlim(1.0, board.r_max)
    drawing.axes.set_ylim(-0.02, 1.02)
    return drawing.figure


def _reach(board: ResultBoard, solved: int) -> str:
    return f"{solved} of {len(board.counted())} targets reached"
