"""Charts that compare algorithms. Every function takes plain arrays and returns a ``Drawing``.

The place of an algorithm gives its colour, the same in all charts of a page; its runs are thin lines of that colour.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from a2perf.arrays import Values
from a2perf.report.figures.charts import jitter, label_room, plain_counts, rows_of_names, shortened, thinned, time_axis
from a2perf.report.figures.drawing import DASHES, INK, SERIES, ChartSeries, Drawing, new_figure, series_key, tag

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_LEGEND_ROW_IN = 0.19
_PLOT_IN = 2.7
_ROW_IN = 0.42
_TICK_IN = 0.6
FEWEST_JOINED = 5
Level: TypeAlias = tuple[str, float, int | None]
"""Name and value of a horizontal line, and the place that gives its colour; None for grey."""


@dataclasses.dataclass(frozen=True)
class Lines:
    """The lines of one algorithm.

    Attributes:
        runs: (name, x, y) of each run; arrays of shape (points,).
        x, mean, low, high: mean over runs with its interval, shape (points,); None with one run, ``low`` and ``high``
            also if there is no interval.
        place: position of the algorithm on the page, which gives its colour.
    """

    name: str
    place: int
    runs: Sequence[tuple[str, Values, Values]]
    x: Values | None = None
    mean: Values | None = None
    low: Values | None = None
    high: Values | None = None


def lines(
    algorithms: Sequence[Lines],
    *,
    x_name: str,
    y_name: str,
    x_unit: str = "",
    y_unit: str = "",
    log: bool = False,
    from_zero: bool = False,
    levels: Sequence[Level] = (),
    stepped: bool = False,
    into: SubFigure | None = None,
) -> Drawing:
    """Draws lines over an axis: a bold mean with its band, and thin lines of single runs.

    A run of fewer than ``FEWEST_JOINED`` points is drawn as dots that are not joined.

    Args:
        x_unit: added to the label; times in ``"s"`` are scaled.
        levels: dotted horizontal lines with their names at the right end.
        into: a part of a figure, ``lines_height`` inches high; by default a new figure.
    """
    figure, axes, legend_in = _plot(algorithms, into)
    series: list[ChartSeries] = []
    faint = 0.4 if len(algorithms) < 5 else 0.2
    for index, algorithm in enumerate(algorithms):
        key, colour, style = series_key(index), colour_of(algorithm.place), dashes_of(algorithm.place)
        several = algorithm.mean is not None
        main: list[Any] = []
        members = []
        for number, (name, x, y) in enumerate(algorithm.runs):
            (line,) = axes.plot(
                *thinned(x, y, 300),
                color=INK[colour],
                linestyle=style if x.size >= FEWEST_JOINED else "none",
                linewidth=0.7 if several else 1.6,
                alpha=faint if several else 1.0,
                marker="o" if x.size < 12 else None,
                markersize=2.5 if x.size >= FEWEST_JOINED else 4.5,
            )
            member = series_key(index, number)
            if several:
                tag(member, line)
                members.append(ChartSeries(member, f"{algorithm.name}, {name}", colour, _points(x, y), key))
            else:
                tag(key, line)
        if algorithm.x is not None and algorithm.mean is not None:
            drawn_as = "steps-post" if stepped else "default"
            main += axes.plot(
                algorithm.x, algorithm.mean, color=INK[colour], linestyle=style, linewidth=1.9, drawstyle=drawn_as
            )
            if algorithm.low is not None and algorithm.high is not None:
                band = axes.fill_between(
                    algorithm.x,
                    algorithm.low,
                    algorithm.high,
                    color=INK[colour],
                    alpha=0.16,
                    linewidth=0,
                    step="post" if stepped else None,
                )
                main.append(band)
            tag(key, *main)
            points = _points(algorithm.x, algorithm.mean, algorithm.low, algorithm.high)
        else:
            points = [point for _, x, y in algorithm.runs for point in _points(x, y)]
        series += [ChartSeries(key, algorithm.name, colour, points), *members]
    _draw_levels(axes, levels)
    axes.set_xlabel(_with_unit(x_name, x_unit))
    axes.set_ylabel(_with_unit(y_name, y_unit))
    if log:
        axes.set_yscale("log")
        _plain_log(axes)
    elif from_zero:
        axes.set_ylim(bottom=0)
    if x_unit == "s":
        _clock_axis(axes, x_name)
    else:
        plain_counts(axes, "x")
    _legend(figure, axes, algorithms, legend_in)
    return Drawing(figure, axes, tuple(series), x_name, y_name, x_unit, y_unit, legend_in)


def times(calls: Sequence[tuple[str, int, Values]], *, log: bool = True) -> Drawing:
    """Draws the distribution of call times, one row per algorithm, with median and 99th percentile marked.

    Args:
        calls: (name, place, seconds of all calls); positive, shape (calls,).
    """
    names = [name for name, _, _ in calls]
    figure, axes = _rows_plot(names)
    low = min(float(values.min()) for _, _, values in calls)
    high = max(float(np.quantile(values, 0.9995)) for _, _, values in calls)
    high = max(high, low * 1.5)
    bins = int(min(110, max(24, 3 * max(values.size for _, _, values in calls) ** 0.5)))
    edges = np.geomspace(low * 0.9, high * 1.1, bins) if log else np.linspace(0.0, high * 1.05, bins)
    series = []
    for row, (name, place, values) in enumerate(calls):
        colour, key = colour_of(place), series_key(row)
        counts = np.histogram(values, bins=edges)[0].astype(np.float64)
        heights = 0.72 * counts / max(counts.max(), 1.0)
        middles = np.sqrt(edges[:-1] * edges[1:]) if log else (edges[:-1] + edges[1:]) / 2
        base = row + 0.36
        area = axes.fill_between(middles, base, base - heights, color=INK[colour], alpha=0.5, linewidth=0, step="mid")
        marks = []
        for quantile, width in ((0.5, 1.8), (0.99, 1.1)):
            at = float(np.quantile(values, quantile))
            marks += axes.plot([at, at], [base, base - 0.74], color=INK["ink"], linewidth=width)
        tag(key, area, *marks)
        points = [(float(np.quantile(values, q)), row) for q in (0.5, 0.9, 0.99, 0.999)]
        series.append(ChartSeries(key, name, colour, points))
    if log:
        axes.set_xscale("log")
    axes.set_xlim(edges[0], edges[-1])
    rows_of_names(axes, names)
    time_axis(axes)
    axes.set_xlabel("time per call; thick line: median, thin line: 99th percentile")
    return Drawing(figure, axes, tuple(series), "quantile at", "", "s")


def dots(
    groups: Sequence[tuple[str, int, Sequence[Values]]], *, bold: bool = False, into: SubFigure | None = None
) -> Drawing:
    """Draws every episode as a dot: one row per algorithm, one line of dots per run, and a mark at the mean over runs.

    Args:
        groups: (name, place, returns of each run); arrays of shape (episodes,).
    """
    names = [name for name, _, _ in groups]
    size, alpha = (5.0, 0.75) if bold else (3.2, 0.45)
    figure, axes = _rows_plot(names, into)
    series = []
    for row, (name, place, runs) in enumerate(groups):
        colour, key = colour_of(place), series_key(row)
        artists: list[Any] = []
        points: list[tuple[float, float]] = []
        for number, values in enumerate(runs):
            centre = row + (0.0 if len(runs) == 1 else -0.3 + 0.6 * number / (len(runs) - 1))
            heights = centre + jitter(values.size, min(0.22, 0.3 / len(runs)))
            shown_y, shown_x = thinned(heights, values, 400)
            artists += axes.plot(
                shown_x, shown_y, "o", color=INK[colour], markersize=size, alpha=alpha, markeredgewidth=0
            )
            points += [(float(x), float(y)) for x, y in zip(shown_x, shown_y, strict=True)]
        mean = float(np.mean([values.mean() for values in runs]))
        artists += axes.plot([mean, mean], [row - 0.38, row + 0.38], color=INK["ink"], linewidth=1.8)
        tag(key, *artists)
        series.append(ChartSeries(key, name, colour, points))
    rows_of_names(axes, names)
    axes.set_xlabel("return")
    return Drawing(figure, axes, tuple(series), "return", "")


def intervals(
    rows: Sequence[tuple[str, int, float, tuple[float, float] | None]], *, x_name: str, into: SubFigure | None = None
) -> Drawing:
    """Draws one value with its interval per row.

    Args:
        rows: (name, place, value, interval); the interval is None with one run.
    """
    figure, axes = _rows_plot([name for name, _, _, _ in rows], into)
    series = []
    for row, (name, place, value, interval) in enumerate(rows):
        colour, key = colour_of(place), series_key(row)
        low, high = interval or (value, value)
        artists = axes.plot([low, high], [row, row], color=INK[colour], linewidth=1.8)
        artists += axes.plot([value], [row], "o", color=INK[colour], markersize=6)
        tag(key, *artists)
        series.append(ChartSeries(key, name, colour, [(value, row)]))
    rows_of_names(axes, [name for name, _, _, _ in rows])
    axes.margins(x=0.06)
    axes.set_xlabel(x_name)
    return Drawing(figure, axes, tuple(series), x_name, "")


def profiles(algorithms: Sequence[Lines], *, x_name: str) -> Drawing:
    """Draws performance profiles: the share of runs above each threshold, with its interval.

    Args:
        algorithms: thresholds in ``x``, shares in ``mean``, ``low`` and ``high``.
    """
    drawing = lines(algorithms, x_name=x_name, y_name="share of runs above", stepped=True)
    drawing.axes.set_ylim(-0.02, 1.02)
    return drawing


def _draw_levels(axes: Axes, levels: Sequence[Level]) -> None:
    """Draws dotted lines with names at the right end, above the line; crowded names move up."""
    ordered = sorted(levels, key=lambda level: level[1])
    colours = [INK["muted"] if place is None else INK[colour_of(place)] for _, _, place in ordered]
    for (_, value, _), colour in zip(ordered, colours, strict=True):
        axes.axhline(value, color=colour, linestyle=(0, (1, 2)), linewidth=1.2)
    low, high = axes.get_ylim()
    height = -np.inf
    for (name, value, _), colour in zip(ordered, colours, strict=True):
        height = max(value, height + 0.065 * (high - low))
        axes.annotate(
            shortened(name),
            (1.0, height),
            (-2, 2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=8,
            color=colour,
            annotation_clip=False,
        )


def colour_of(place: int) -> str:
    """Returns the colour role of the algorithm at a place."""
    return SERIES[place % len(SERIES)]


def dashes_of(place: int) -> Any:
    """Returns the dashes of the algorithm at a place."""
    return DASHES[(place // len(SERIES)) % len(DASHES)]


def lines_height(algorithms: Sequence[Lines]) -> float:
    """Returns the height of ``lines`` in inches."""
    return _PLOT_IN + _legend_height(algorithms)


def rows_height(count: int) -> float:
    """Returns the height in inches of a chart with so many named rows."""
    return 0.65 + _ROW_IN * max(2, count)


def _legend_height(algorithms: Sequence[Lines]) -> float:
    rows = -(-len(algorithms) // _columns(algorithms))
    return 0.06 + _LEGEND_ROW_IN * rows if len(algorithms) > 1 else 0.0


def _plot(algorithms: Sequence[Lines], into: SubFigure | None) -> tuple[Figure, Axes, float]:
    height, legend_in = lines_height(algorithms), _legend_height(algorithms)
    figure = cast("Figure", into) if into is not None else new_figure(height)
    bottom = (0.5 + legend_in) / height
    axes = figure.add_axes((0.135, bottom, 0.835, 1 - bottom - 0.1 / height))
    return figure, axes, legend_in


def _columns(algorithms: Sequence[Lines]) -> int:
    longest = max((len(algorithm.name) for algorithm in algorithms), default=1)
    return max(1, min(4, 66 // (min(longest, 32) + 5)))


def _legend(figure: Figure, axes: Axes, algorithms: Sequence[Lines], legend_in: float) -> None:
    from matplotlib.lines import Line2D

    if not legend_in:
        return
    handles = [
        Line2D([], [], color=INK[colour_of(a.place)], linestyle=dashes_of(a.place), linewidth=1.9) for a in algorithms
    ]
    names = [shortened(algorithm.name) for algorithm in algorithms]
    legend = axes.legend(
        handles,
        names,
        ncols=_columns(algorithms),
        loc="lower left",
        bbox_to_anchor=(0.01, 0.0, 0.98, 0.0),
        bbox_transform=figure.transSubfigure,
        borderaxespad=0.1,
        columnspacing=1.4,
        labelspacing=0.25,
        handlelength=1.8,
    )
    legend.set_gid("legend")


def _rows_plot(names: Sequence[str], into: SubFigure | None = None) -> tuple[Figure, Axes]:
    from matplotlib.ticker import MaxNLocator

    height = rows_height(len(names))
    figure = cast("Figure", into) if into is not None else new_figure(height)
    left = label_room(names)
    bottom = 0.5 / height
    axes = figure.add_axes((left, bottom, 0.97 - left, 1 - bottom - 0.08 / height))
    # matplotlib counts on labels of three characters; those of returns have up to six
    most = max(3, min(9, int((0.97 - left) * figure.bbox.width / figure.dpi / _TICK_IN)))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]))
    return figure, axes


def _points(x: Values, y: Values, low: Values | None = None, high: Values | None = None) -> list[tuple[float, ...]]:
    columns = [x, y] if low is None or high is None else [x, y, low, high]
    return [tuple(float(number) for number in row) for row in zip(*columns, strict=True)]


def _with_unit(name: str, unit: str) -> str:
    return f"{name}, {unit}" if unit else name


def _clock_axis(axes: Axes, name: str) -> None:
    """Counts long times in minutes or hours."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    longest = axes.get_xlim()[1]
    factor, unit = (3600.0, "h") if longest >= 7200 else (60.0, "min") if longest >= 300 else (1.0, "s")
    high = longest / factor
    locate: Callable[..., Any] = MaxNLocator(nbins=6).tick_values
    ticks = [tick * factor for tick in locate(0.0, high) if 0 <= tick <= high]
    axes.xaxis.set_major_locator(FixedLocator(ticks))  # set_xticks would make an artist for each
    axes.xaxis.set_view_interval(min(ticks), max(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / factor:g}"))
    axes.set_xlabel(_with_unit(name, unit))


def _plain_log(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.get_ylim()
    subs = (1.0, 2.0, 5.0) if high / low < 50 else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=subs, numticks=10))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
