"""The report's figures: learning curves, reliability against energy, and frames of each domain."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from document import Picture, Plot
from findings import Findings, Row
from PIL import Image

from a2perf.domains import task_title
from a2perf.domains.registry import get_domain
from a2perf.report.compared_charts import Lines, colour_of, lines
from a2perf.report.drawing import INK, Chart, ChartSeries, Drawing, interactive, new_figure, series_key, tag
from a2perf.report.learning import pooled_over_runs

_FRAMES, _FRAMES_A_ROW, _GAP = 8, 4, 4
_LOG_FROM = 10.0
_MARKERS = ("o", "s", "^", "D")


def curves(found: Findings) -> Plot | None:
    """Returns the learning curves, one chart per task; None without learned baselines."""
    charts = [chart for task in found.tasks() if (chart := _curves_of(found, task.name)) is not None]
    if not charts:
        return None
    return Plot(
        "curves", "Learning curves: logged training returns against environment steps, mean over seeds with its "
        "interval, single seeds as thin lines. Dotted: evaluated return of the random policy and of the expert. "
        "Training returns include exploration and sometimes shorter episodes, so a curve may end below the evaluated "
        "return.",
        tuple(charts),
    )  # fmt: skip


def _curves_of(found: Findings, task: str) -> Chart | None:
    learned = [(row, row.curves) for row in found.of(task) if row.baseline.learns]
    drawn = [(row, held) for row, held in learned if any(steps.size > 1 for steps, _ in held)]
    if not drawn:
        return None
    made = []
    for row, held in drawn:
        runs = [(f"seed {place + 1}", steps, values) for place, (steps, values) in enumerate(held) if steps.size > 1]
        pooled = pooled_over_runs([(steps, values) for _, steps, values in runs]) if len(runs) > 1 else None
        made.append(Lines(row.label, row.place, runs, *(pooled or ())))
    references = found.protocol.task(task)

    def build(log: bool = False) -> Drawing:
        drawing = lines(made, x_name="environment steps", y_name="return")
        if log:
            _log_steps(drawing)
        for kind in ("random", "expert"):
            level = references.reference(kind).mean
            drawing.axes.axhline(level, color=INK["muted"], linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
        return drawing

    ends = [steps[-1] for _, held in drawn for steps, _ in held]
    starts = [steps[0] for _, held in drawn for steps, _ in held]
    builds: dict[str, Callable[[], Drawing]] = {"linear": build}
    if min(starts) > 0 and max(ends) / min(ends) >= _LOG_FROM:  # some train for far fewer steps than others
        builds = {"log": lambda: build(log=True), "linear": build}
    last = "; ".join(f"{row.label} ends at {held[0][1][-1]:.3g}" for row, held in drawn)
    title = task_title(references.domain, task)
    return interactive(f"curves-{task.replace('_', '-')}", title, "", f"{len(drawn)} baselines: {last}", builds)


def _log_steps(drawing: Drawing) -> None:
    """Counts steps on a logarithmic axis, with a label at each power of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = drawing.axes.xaxis
    drawing.axes.set_xscale("log")
    axis.set_major_locator(LogLocator(base=10, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _count(value)))
    axis.set_minor_formatter(NullFormatter())


def _count(steps: float) -> str:
    for factor, unit in ((1e6, "M"), (1e3, "k")):
        if steps >= factor:
            return f"{steps / factor:g}{unit}"
    return f"{steps:g}"


def reliability_energy(found: Findings) -> Plot | None:
    """Returns the worst rollouts against training energy; None with fewer than two points."""
    points = [point for row in found.rows if (point := _point(found, row)) is not None]
    if len(points) < 2:
        return None
    domains = found.domains()
    chart = interactive(
        "reliability-energy", "Worst rollouts against training energy", "",
        "; ".join(f"{row.label} on {row.entry.task}: {y:.2f} at {x:.2g} Wh" for row, x, y in points),
        {"linear": lambda: _scatter(points, domains)},
    )  # fmt: skip
    shapes = ", ".join(f"{word} {get_domain(domain).title}" for domain, word in zip(
        domains, ("circles", "squares", "triangles", "diamonds"), strict=False))  # fmt: skip
    return Plot(
        "reliability-energy", "Reliability against energy: the mean of the worst twentieth of rollouts, normalised (0: "
        "mean of the random policy, 1: mean of the expert), against the energy per training run. One point per "
        f"baseline and task; up and left is better; {shapes}. A model estimated the energy unless the tables mark it "
        "as measured.", (chart,),
    )  # fmt: skip


def _point(found: Findings, row: Row) -> tuple[Row, float, float] | None:
    energy, worst = row.number("train", "energy_gross"), row.number("inference", "LowerCVaRAcrossRollouts")
    if not (row.baseline.learns or row.baseline.kind == "search") or not energy or worst is None:
        return None
    return row, energy * 1e3, float(np.asarray(found.protocol.task(row.entry.task).normalise(worst)))


def _scatter(points: list[tuple[Row, float, float]], domains: list[str]) -> Drawing:
    from matplotlib.lines import Line2D

    names = list(dict.fromkeys(row.baseline.title for row, *_ in points))
    legend_in = 0.06 + 0.19 * -(-len(names) // 3)
    height = 3.3 + legend_in
    figure = new_figure(height)
    bottom = (0.5 + legend_in) / height
    axes = figure.add_axes((0.115, bottom, 0.855, 1 - bottom - 0.1 / height))
    series, handles = [], []
    for index, name in enumerate(names):
        mine = [point for point in points if point[0].baseline.title == name]
        colour = colour_of(mine[0][0].place)
        artists: list[Any] = []
        for row, x, y in mine:
            marker = _MARKERS[domains.index(row.entry.domain) % len(_MARKERS)]
            artists += axes.plot([x], [y], marker, color=INK[colour], markersize=6.5, alpha=0.85, markeredgewidth=0)
        tag(series_key(index), *artists)
        series.append(ChartSeries(series_key(index), name, colour, [(x, y) for _, x, y in mine]))
        handles.append(Line2D([], [], color=INK[colour], marker="o", linestyle="", markersize=6))
    energies = [x for _, x, _ in points]
    if max(energies) / min(energies) > 20:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_formatter(lambda *_: "")
    for level in (0.0, 1.0):
        axes.axhline(level, color=INK["muted"], linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
    axes.set_xlabel("energy per training run, Wh")
    axes.set_ylabel("worst rollouts, normalised")
    legend = axes.legend(
        handles, names, ncols=3, loc="lower left", bbox_to_anchor=(0.01, 0.0, 0.98, 0.0),
        bbox_transform=figure.transFigure, borderaxespad=0.1, columnspacing=1.4, labelspacing=0.25,
    )  # fmt: skip
    legend.set_gid("legend")
    return Drawing(figure, axes, tuple(series), "energy", "worst rollouts", "Wh", "", legend_in)


def frames(found: Findings, domain: str) -> Picture | None:
    """Returns frames of a recorded episode of the best baseline; None if no bundle has any."""
    # the last task of a domain in the protocol's order is its hardest
    for task in reversed(found.tasks(domain)):
        for row in found.of(task.name):
            picture = row.picture()
            if picture is not None:
                title = get_domain(domain).title
                png, width = folded(picture, min(_FRAMES, int(row.lengths[0])) if row.lengths.size else _FRAMES)
                return Picture(
                    f"frames-{domain}",
                    f"{title}, `{task.name}`: frames of a recorded episode of {row.label}, in reading order.",
                    f"{title}: frames of an episode of {task.name} by {row.label}",
                    png, width,
                )  # fmt: skip
    return None


def folded(picture: bytes, count: int) -> tuple[bytes, int]:
    """Returns a strip of ``count`` frames, which is long and low, as rows of equal width on white; and that width."""
    with Image.open(io.BytesIO(picture)) as opened:
        strip = opened.convert("RGB")
    width = max(1, strip.width // max(1, count))
    # frames taller than wide fit in one row
    across = min(count, _FRAMES_A_ROW if width > strip.height else _FRAMES)
    rows = -(-count // across)
    sheet = Image.new("RGB", (across * width, rows * strip.height + _GAP * (rows - 1)), "white")
    for place in range(count):
        frame = strip.crop((place * width, 0, (place + 1) * width, strip.height))
        sheet.paste(frame, ((place % across) * width, (place // across) * (strip.height + _GAP)))
    stream = io.BytesIO()
    sheet.save(stream, format="PNG", optimize=True)
    return stream.getvalue(), sheet.width
