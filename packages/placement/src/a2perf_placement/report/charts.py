"""Figures of placements for reports: placement and maps, cost by part, cost against time and energy.

Maps are drawn as one colour of varying opacity, which can be read on light and dark pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.arrays import Values
from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.metrics.bootstrap import mean_interval
from a2perf.report.figures.drawing import INK, SERIES, new_figure
from a2perf_placement.profiles import PROFILES, PlacementCosts
from a2perf_placement.report.recorded_placements import PlacerSummary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PARTS = (("wirelength", "blue"), ("density", "orange"), ("congestion", "violet"))
_SOFT_PIXELS = 480  # of the picture of soft macros
_LABEL_LENGTH = 22


class MapScales(NamedTuple):
    """The values of full colour in the maps of density and of congestion."""

    density: float
    congestion: float


def map_scales(engines: Sequence[PlacementCost]) -> MapScales:
    """Returns scales that hold every map of some placements."""
    density = [float(plc.get_grid_cells_density().max(initial=0.0)) for plc in engines]
    congestion = [
        float(max(plc.get_horizontal_routing_congestion().max(), plc.get_vertical_routing_congestion().max()))
        for plc in engines
    ]
    return MapScales(max(density, default=1.0) or 1.0, max(congestion, default=1.0) or 1.0)


def draw_maps(plc: PlacementCost, scales: MapScales) -> Figure:
    """Draws a placement and its maps of density, horizontal and vertical congestion, two by two."""
    figure = new_figure(5.6)
    panels = figure.subplots(2, 2)
    figure.subplots_adjust(0.02, 0.02, 0.925, 0.95, 0.2, 0.12)
    width, height = plc.get_canvas_width_height()
    _draw_placement(panels[0, 0], plc)
    grid = plc.get_congestion_grid_num_columns_rows()
    maps = (
        ("density", plc.get_grid_cells_density(), plc.get_grid_num_columns_rows(), scales.density),
        ("horizontal congestion", plc.get_horizontal_routing_congestion(), grid, scales.congestion),
        ("vertical congestion", plc.get_vertical_routing_congestion(), grid, scales.congestion),
    )
    for axes, (title, values, (columns, rows), most) in zip(panels.flat[1:], maps, strict=True):
        cells = np.asarray(values, np.float64).reshape(rows, columns)
        picture = _shaded(cells / most, INK["red"])
        axes.imshow(picture, origin="lower", extent=(0, width, 0, height), interpolation="nearest", aspect="equal")
        _frame(axes, f"{title}, up to {cells.max():.2f}", width, height)
        _scale_bar(axes, most, name=title.replace(" ", "-"))
    return figure


def draw_parts(costs: Mapping[str, Mapping[str, PlacementCosts]]) -> Figure:
    """Draws the weighted parts of the cost as stacked bars, a bar per profile."""
    height = 0.75 + 0.5 * len(costs)
    figure = new_figure(height)
    axes = figure.add_axes((0.26, 0.42 / height, 0.66, 1 - 0.72 / height))
    for row, held in enumerate(costs.values()):
        for offset, (profile, parts) in zip((-0.19, 0.19), held.items(), strict=True):
            left, weights = 0.0, PROFILES[profile].weights
            for name, colour in _PARTS:
                size = getattr(weights, name) * getattr(parts, name)
                axes.barh(row + offset, size, 0.32, left, color=INK[colour], alpha=0.9 if offset < 0 else 0.55)
                left += size
            axes.annotate(
                f"{left:.3f}",
                (left, row + offset),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                color=INK["muted"],
                annotation_clip=False,
            )
    axes.set_yticks(range(len(costs)), [_short(name) for name in costs])
    axes.set_ylim(len(costs) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("weighted cost")
    _legend(figure, [(name, INK[colour]) for name, colour in _PARTS], marker="s")
    return figure


def draw_cost_against(placers: Sequence[PlacerSummary]) -> Figure:
    """Draws cost against wall time and against energy: a dot per seed, the intervals of the means as crosses."""
    height = 3.0 + 0.16 * (len(placers) // 3)
    figure = new_figure(height)
    colours = [INK[SERIES[number % len(SERIES)]] for number in range(len(placers))]
    legend = 0.19 * ((len(placers) + 2) // 3) + 0.08
    bottom, top = 0.45 / height, 1 - legend / height
    left = figure.add_axes((0.11, bottom, 0.40, top - bottom))
    right = figure.add_axes((0.57, bottom, 0.40, top - bottom), sharey=left)
    for axes, quantity, label in ((left, "seconds", "wall time, s"), (right, "joules", "energy, J")):
        for placer, colour in zip(placers, colours, strict=True):
            _draw_points(axes, getattr(placer, quantity), placer.costs, colour)
        if axes.lines:
            _logarithmic(axes)
        else:
            axes.text(0.5, 0.5, "not recorded", transform=axes.transAxes, ha="center", color=INK["muted"])
        axes.set_xlabel(label)
        axes.margins(0.12)
    left.set_ylabel("cost")
    right.tick_params(labelleft=False)
    _legend(figure, [(_short(placer.name), colour) for placer, colour in zip(placers, colours, strict=True)])
    return figure


def _legend(figure: Figure, entries: Sequence[tuple[str, str]], marker: str = "o") -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], linestyle="", marker=marker, color=colour, markersize=5) for _, colour in entries]
    figure.legend(
        handles,
        [name for name, _ in entries],
        loc="upper left",
        bbox_to_anchor=(0.08, 1.0),
        ncols=3,
        borderpad=0.2,
        handletextpad=0.3,
        columnspacing=1.2,
        labelcolor=INK["muted"],
    )


def _logarithmic(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _draw_points(axes: Axes, across: Values, costs: Values, colour: str) -> None:
    known = np.isfinite(across) & (across > 0)
    x, y = across[known], costs[known]
    if not x.size:
        return
    axes.plot(x, y, "o", color=colour, markersize=3.5, alpha=0.5, markeredgewidth=0)
    if x.size < 2:
        return
    # The interval of a mean of times can reach below zero, which a logarithmic axis cannot show.
    low, high = mean_interval(x)
    axes.plot([max(low, float(x.min()) / 2), high], [y.mean()] * 2, color=colour, linewidth=1.2)
    axes.plot([x.mean()] * 2, list(mean_interval(y)), color=colour, linewidth=1.2)


def _draw_placement(axes: Axes, plc: PlacementCost) -> None:
    from matplotlib.collections import PolyCollection

    width, height = plc.get_canvas_width_height()
    state = plc.state
    # Hundreds of translucent boxes are a small picture, and a large drawing.
    shade = np.zeros((_SOFT_PIXELS, _SOFT_PIXELS))
    small = np.concatenate([state.soft, state.standard_cells])
    small = small[state.placed[small] == 1]
    for box in plc.node_boxes(small.tolist()) if small.size else ():
        columns = np.clip([round(box[at] / width * _SOFT_PIXELS) for at in (0, 2)], 0, _SOFT_PIXELS)
        rows = np.clip([round(box[at] / height * _SOFT_PIXELS) for at in (1, 3)], 0, _SOFT_PIXELS)
        shade[rows[0] : max(rows[1], rows[0] + 1), columns[0] : max(columns[1], columns[0] + 1)] += 1.0
    picture = _shaded(1.0 - 0.72**shade, INK["muted"])
    axes.imshow(picture, origin="lower", extent=(0, width, 0, height), interpolation="nearest", aspect="equal")
    hard = state.hard[state.placed[state.hard] == 1]
    if hard.size:
        boxes = np.asarray(plc.node_boxes(hard.tolist()))
        corners = boxes[:, [[0, 1], [2, 1], [2, 3], [0, 3]]]
        axes.add_collection(
            PolyCollection(list(corners), facecolor=INK["blue"], edgecolor=INK["blue"], alpha=0.55, linewidth=0.6)
        )
    ports = state.ports[state.placed[state.ports] == 1]
    axes.plot(state.x[ports], state.y[ports], ".", color=INK["green"], markersize=1.5, rasterized=True)
    _frame(axes, "placement", width, height)


def _shaded(shares: NDArray[np.float64], colour: str) -> NDArray[np.float64]:
    from matplotlib.colors import to_rgb

    picture = np.empty((*shares.shape, 4))
    picture[..., :3], picture[..., 3] = to_rgb(colour), np.clip(shares, 0.0, 1.0)
    return picture


def _scale_bar(axes: Axes, most: float, name: str) -> None:
    bar = axes.inset_axes((1.03, 0.0, 0.035, 1.0))
    ramp = _shaded(np.linspace(0.0, 1.0, 64)[:, None], INK["red"])
    shown = bar.imshow(ramp, origin="lower", extent=(0, 1, 0, most), aspect="auto", interpolation="nearest")
    shown.set_gid(f"scale-{name}")  # equal pictures would get equal ids
    bar.set_xticks([])
    bar.yaxis.tick_right()
    bar.set_yticks([0.0, most], ["0", f"{most:.3g}"])
    bar.tick_params(axis="y", labelsize=7, length=0, pad=1)
    _edges(bar)


def _frame(axes: Axes, title: str, width: float, height: float) -> None:
    axes.set_title(title, fontsize=8.5, color=INK["muted"], pad=3, loc="left")
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    _edges(axes)


def _edges(axes: Any) -> None:
    for side in axes.spines.values():
        side.set_visible(True)
        side.set_color(INK["rule"])
        side.set_linewidth(0.8)


def _short(name: str) -> str:
    return name if len(name) <= _LABEL_LENGTH else name[: _LABEL_LENGTH - 1] + "…"
