"""Charts of one run. Every function takes plain arrays and returns a figure; ``drawing.pictures`` turns it into files.

Colours follow the role: blue is the main quantity, orange a second one, grey a reference.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from a2perf.arrays import Values
from a2perf.plain_text import plain_text
from a2perf.report.figures.drawing import INK, new_figure
from a2perf.runs.bundles.tables import CsvTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 600
THINNED = " Of many episodes, the lowest and the highest of each stretch are drawn."
"""Follows a caption of dots if ``is_thinned``."""
_LABEL_LENGTH = 32
_SHORTEST_INTERVAL_S = 0.05
_RATES = ("cpu_percent", "cpu_power_w")
_POWER = (("cpu_power_w", "CPU", "blue"), ("gpu_power_w", "GPU", "orange"), ("ram_power_w", "RAM", "green"))
_MEMORY = (("rss_bytes", "RSS", "blue"), ("pss_bytes", "PSS", "orange"), ("gpu_memory_bytes", "GPU", "violet"))


def episode_returns(returns: Values) -> Figure:
    """Draws one dot per episode in the order played, of many only the extremes of each stretch.

    Args:
        returns: shape (episodes,).
    """
    from matplotlib.ticker import MaxNLocator

    figure = new_figure()
    axes = figure.add_axes((0.13, 0.18, 0.84, 0.78))
    mean, spread = float(returns.mean()), float(returns.std())
    axes.axhspan(mean - spread, mean + spread, color=INK["band"], linewidth=0, zorder=0)
    axes.axhline(mean, color=INK["muted"], linewidth=1)
    shown = thinned(np.arange(1.0, returns.size + 1), returns)
    axes.plot(*shown, "o", color=INK["blue"], markersize=4, alpha=0.85, clip_on=False)
    axes.set_xlim(0.4, returns.size + 0.6)
    axes.set_xlabel("episode")
    axes.set_ylabel("return")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    return figure


def system_over_time(trace: CsvTable, seconds: Values) -> Figure:
    """Draws power by component, memory and CPU use of the process tree over time, the run's phases shaded.

    Args:
        seconds: time of each row since the start, shape (rows,), increasing.
    """
    trace = reliable(trace, seconds)
    power = [row for row in _POWER if _positive(trace, row[0])]
    memory = [row for row in _MEMORY if _positive(trace, row[0])]
    busy = [("cpu_percent", "CPU", "blue")] if _positive(trace, "cpu_percent") else []
    drawn = [(series, unit) for series, unit in ((power, "power, W"), (memory, "memory"), (busy, "CPU, %")) if series]
    count = max(1, len(drawn))
    figure = new_figure(0.75 + 1.15 * count)
    height = figure.get_figheight()
    edges = {"left": 0.15, "right": 0.9, "bottom": 0.5 / height, "top": 1 - 0.28 / height, "hspace": 0.16}
    panels = list(figure.subplots(count, 1, sharex=True, squeeze=False, gridspec_kw=edges)[:, 0])
    for panel, (series, unit) in zip(panels, drawn, strict=False):
        factor = 1.0
        if unit == "memory":
            highest = max(float(np.nanmax(_column(trace, name))) for name, _, _ in series)
            factor, unit = (2.0**30, "memory, GiB") if highest >= 2**30 else (2.0**20, "memory, MiB")
        ends = []
        for name, label, colour in series:
            values = _column(trace, name) / factor
            known = np.isfinite(values)
            style = "-" if known.sum() > 1 else "o"
            panel.plot(*thinned(seconds[known], values[known]), style, color=INK[colour], linewidth=1.4, markersize=3)
            ends.append((float(values[known][-1]), label, INK[colour]))
        panel.set_ylim(bottom=0)
        panel.set_ylabel(unit)
        panel.yaxis.set_label_coords(-0.135, 0.5)
        _end_labels(panel, ends, float(seconds[-1]))
        panel.set_xlim(float(seconds[0]), max(float(seconds[-1]), float(seconds[0]) + 1e-3))
    phases = trace.columns.get("phase")
    _shade_phases(panels, phases if isinstance(phases, list) else None, seconds)
    panels[-1].set_xlabel("time since the start of the run, s")
    return figure


def reliable(trace: CsvTable, seconds: Values) -> CsvTable:
    """Blanks unreliable samples: rates over a very short interval, and the costs of a process tree that has ended.

    The kernel counts processor time in ticks of 10 ms, so a rate over a few milliseconds is chance.

    Args:
        seconds: time of each row, shape (rows,).
    """
    short = np.diff(seconds, prepend=0.0) < _SHORTEST_INTERVAL_S
    processes = trace.numbers("processes")
    gone = np.zeros(seconds.size, dtype=bool) if processes is None else processes == 0
    blanked = dict(trace.columns)
    for names, blank in ((_RATES, short | gone), (("rss_bytes", "pss_bytes"), gone)):
        for name in names:
            values = trace.numbers(name)
            if values is not None:
                blanked[name] = np.where(blank, np.nan, values)
    return CsvTable(blanked, trace.rows)


def thinned(x: Values, y: Values, points: int = _POINTS) -> tuple[Values, Values]:
    """Keeps the smallest and the largest value of each stretch, and with them every peak.

    Args:
        x: shape (n,).
        y: shape (n,).
    """
    if x.size <= points:
        return x, y
    edges = np.linspace(0, x.size, points // 2 + 1).astype(int)
    kept = {0, x.size - 1}
    for start, end in itertools.pairwise(edges):
        kept.update((start + int(np.argmin(y[start:end])), start + int(np.argmax(y[start:end]))))
    index = np.array(sorted(kept))
    return x[index], y[index]


def is_thinned(values: Iterable[Values], points: int = _POINTS) -> bool:
    """Returns whether a chart of dots leaves some out."""
    return any(array.size > points for array in values)


def jitter(count: int, width: float = 0.22) -> Values:
    """Returns offsets within ±width that spread points evenly without chance (golden-ratio sequence)."""
    return np.asarray(((np.arange(count) * 0.6180339887) % 1.0 - 0.5) * 2 * width, dtype=np.float64)


def rows_of_names(axes: Axes, names: Sequence[str]) -> None:
    """Gives every row a name, the first at the top, and lines across instead of along."""
    from matplotlib.ticker import FixedFormatter, FixedLocator

    axes.yaxis.set_major_locator(FixedLocator(range(len(names))))  # set_yticks would make an artist for each
    axes.yaxis.set_major_formatter(FixedFormatter([shortened(name) for name in names]))
    axes.tick_params(axis="y", labelcolor=INK["ink"])
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    axes.spines["left"].set_visible(False)


def label_room(names: Iterable[str]) -> float:
    """Returns the share of a figure's width that the labels of rows need."""
    return 0.04 + 0.0145 * max((len(shortened(name)) for name in names), default=0)


def shortened(name: str) -> str:
    """Returns a name as one line of plain text, cut to what a label has room for."""
    name = " ".join(plain_text(name).split())  # names come from recorded files of participants
    return name if len(name) <= _LABEL_LENGTH else f"{name[: _LABEL_LENGTH - 1]}…"


def _end_labels(panel: Axes, ends: list[tuple[float, str, str]], at: float) -> None:
    """Names each line at its right end, pushed apart where two would overlap."""
    low, high = panel.get_ylim()
    least = 0.17 * (high - low)
    placed: list[float] = []
    for value, label, colour in sorted(ends):
        height = max(value, placed[-1] + least) if placed else value
        placed.append(height)
        panel.annotate(
            label,
            (at, height),
            (5, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=8.5,
            annotation_clip=False,
        )


def _shade_phases(panels: list[Axes], phases: list[str] | None, seconds: Values) -> None:
    if not phases or len(phases) != seconds.size:
        return
    starts = [0, *(index for index in range(1, len(phases)) if phases[index] != phases[index - 1])]
    span = max(float(seconds[-1] - seconds[0]), 1e-9)
    for order, (start, end) in enumerate(zip(starts, [*starts[1:], len(phases)], strict=True)):
        # a sample describes the interval before it
        left, right = float(seconds[max(start - 1, 0)]), float(seconds[end - 1])
        for panel in panels:
            if order % 2 == 0:
                panel.axvspan(left, right, color=INK["band"], linewidth=0, zorder=0)
        wide_enough = (right - left) / span > 0.012 * (len(phases[start]) + 1)
        if phases[start] and wide_enough:
            panels[0].annotate(
                phases[start],
                ((left + right) / 2, 1.0),
                (0, 4),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=INK["muted"],
                annotation_clip=False,
            )


def _column(trace: CsvTable, name: str) -> Values:
    values = trace.numbers(name)
    assert values is not None  # only columns for which ``_positive`` holds are drawn
    return values


def _positive(trace: CsvTable, name: str) -> bool:
    values = trace.numbers(name)
    return values is not None and bool(np.isfinite(values).any()) and bool(np.nanmax(values) > 0)


def time_axis(axes: Axes) -> None:
    """Writes the ticks of a horizontal axis in seconds as 20 µs and 3 ms."""
    from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

    if axes.get_xscale() == "log":
        low, high = axes.get_xlim()
        subs = (1.0,) if high / low > 1e3 else (1.0, 3.0) if high / low > 30 else (1.0, 2.0, 5.0)
        axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=8))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.xaxis.set_major_formatter(EngFormatter(unit="s"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def plain_counts(axes: Axes, which: str) -> None:
    """Writes the ticks of an axis (``"x"`` or ``"y"``) as 10k and 2M."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    def short(value: float, _: object) -> str:
        for factor, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= factor:
                return f"{value / factor:g}{name}"
        return f"{value:g}"

    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(MaxNLocator(nbins=6))
    axis.set_major_formatter(FuncFormatter(short))
