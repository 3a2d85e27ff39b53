"""Figures of runs and scores in the style of reports: one panel per task, one colour per algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from a2perf.api.scored_group import ScoredGroup
from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.metrics.values import MetricValue
from a2perf.plain_text import plain_text
from a2perf.report.names import MODE_TITLES, metric_title
from a2perf.report.numbers_text import ESTIMATED, row_scale
from a2perf.runs.bundles.layout import MODES
from a2perf.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from a2perf.report.figures.drawing import Drawing
    from a2perf.report.figures.panels import ChartPanel

KINDS = ("returns", "curves")
_DIGITS = 8
_FEW_EPISODES = 40
_MOST_TICKS = 6


def runs_figure(runs: Sequence[Run], kind: str | None = None) -> Figure:
    """Draws every episode as a dot (``"returns"``), or the training curves (``"curves"``, and without episodes)."""
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"unknown kind {kind!r}{did_you_mean(kind, KINDS)}", hint=f"use one of {', '.join(KINDS)}")
    panels: list[ChartPanel] = []
    for drawn in KINDS if kind is None else (kind,):
        panels = panels or (_return_panels(runs) if drawn == "returns" else _curve_panels(runs))
    if not panels:
        what = {"returns": "episodes", "curves": "training curve"}.get(kind or "", "episodes and no training curve")
        raise UserError(
            f"there is nothing to draw: the runs hold no {what}", hint="print the runs to see what they hold"
        )
    return _drawn(panels)


def intervals_figure(groups: Sequence[ScoredGroup], metric: str) -> Figure:
    """Draws one metric with its intervals over runs; a ``ConfigError`` if no group has a value of it."""
    from a2perf.report.figures.compared_charts import intervals, rows_height
    from a2perf.report.figures.panels import ChartPanel

    by_task: dict[str, list[tuple[str, MetricValue]]] = {}
    for group, (title, name) in zip(groups, _titles_and_names(groups), strict=True):
        value = group.value_of(metric)
        if value is not None:
            by_task.setdefault(title, []).append((name, value))
    if not by_task:
        known = sorted({name for group in groups for name, value in group.scores.items() if value.value is not None})
        near = did_you_mean(metric, known)
        raise ConfigError(f"no group has a value of {metric!r}{near}", hint=f"use one of {', '.join(known)}")
    places = _places(name for found in by_task.values() for name, _ in found)
    panels = []
    for title, found in by_task.items():
        factor, x_name = _scaled_axis(metric, [value for _, value in found])
        rows = []
        for name, value in found:
            ends = None if value.interval is None else (value.interval[0] / factor, value.interval[1] / factor)
            rows.append((name, places[name], (value.value or 0.0) / factor, ends))
        panels.append(ChartPanel(title, rows_height(len(rows)), partial(_into, intervals, rows, x_name=x_name)))
    return _drawn(panels)


def _return_panels(runs: Sequence[Run]) -> list[ChartPanel]:
    from a2perf.report.figures.compared_charts import dots, rows_height
    from a2perf.report.figures.panels import ChartPanel
    from a2perf.report.figures.setting_charts import episode_rows
    from a2perf.report.task_results import labels_of, results_by_task

    settings = results_by_task([run for run in runs if run.returns], "corrected")
    labels = labels_of(settings)
    panels = []
    for setting in settings:
        for mode in MODES:
            for task, rows in episode_rows(setting, mode, labels).items():
                title = setting.title if mode == "inference" else _title(setting.domain, task, mode)
                bold = max(sum(run.size for run in values) for _, _, values in rows) <= _FEW_EPISODES
                panels.append(ChartPanel(title, rows_height(len(rows)), partial(_into, dots, rows, bold=bold)))
    return panels


def _curve_panels(runs: Sequence[Run]) -> list[ChartPanel]:
    from a2perf.report.figures.compared_charts import lines, lines_height
    from a2perf.report.figures.panels import ChartPanel
    from a2perf.report.learning import learned
    from a2perf.report.task_results import labels_of, results_by_task

    settings = results_by_task([run for run in runs if run.curve is not None], "corrected")
    labels = labels_of(settings)
    panels = []
    for setting in settings:
        curves = [learned(group, labels[group.algorithm], "steps") for group in setting.in_mode("train")]
        if drawn := [curve for curve in curves if curve is not None]:
            draw = partial(_into, lines, drawn, x_name="steps", y_name="training return")
            panels.append(ChartPanel(setting.title, lines_height(drawn), draw))
    return panels


def _drawn(panels: Sequence[ChartPanel]) -> Figure:
    from a2perf.report.figures.panels import figure_for_notebook, panels_figure

    return figure_for_notebook(partial(panels_figure, panels))


def _into(chart: Callable[..., Drawing], data: Any, into: SubFigure, **options: Any) -> Drawing:
    drawing = chart(data, into=into, **options)
    if not options.get("y_name"):  # labels of many ticks overlap where values need several digits
        drawing.axes.locator_params(axis="x", nbins=_MOST_TICKS)
    return drawing


def _titles_and_names(groups: Sequence[ScoredGroup]) -> list[tuple[str, str]]:
    """Returns the title of the panel, one per environment, and the unique name of the row of each group of seeds."""
    prints: dict[tuple[str, str, str], set[str]] = {}
    versions: dict[str, set[str]] = {}
    for group in groups:
        prints.setdefault((group.domain, group.task, group.mode), set()).add(group.fingerprint)
        versions.setdefault(group.algorithm, set()).add(group.version)
    found: list[tuple[str, str]] = []
    for group in groups:
        title = _title(group.domain, group.task, group.mode)
        if len(prints[group.domain, group.task, group.mode]) > 1:
            title += f" (fingerprint {group.fingerprint[:_DIGITS] or 'unknown'})"
        name = f"{group.algorithm} ({group.view})" if group.view else group.algorithm
        if len(versions[group.algorithm]) > 1 and group.version:
            name += f" ({group.version[:_DIGITS]})"
        number = 1
        while (title, unique := name if number == 1 else f"{name} ({number})") in found:
            number += 1
        found.append((title, unique))
    return found


def _title(domain: str, task: str, mode: str) -> str:
    """Returns the title of a task, with the mode of a value that is not of an evaluation."""
    from a2perf.domains import domain_title, task_title

    where = task_title(domain, task) if task else domain_title(domain) if domain else "Runs without a task"
    return plain_text(where if mode == "inference" else f"{where}, {MODE_TITLES[mode]}")


def _places(names: Iterable[str]) -> dict[str, int]:
    """Returns the place of each name, which gives its colour, the same in all panels."""
    return {name: place for place, name in enumerate(sorted(set(names), key=lambda name: (name.lower(), name)))}


def _scaled_axis(metric: str, values: Sequence[MetricValue]) -> tuple[float, str]:
    """Returns the number to divide by and the label of the axis: metric, unit, mark of estimates, interval."""
    scale = row_scale([value.value or 0.0 for value in values], values[0].unit)
    mark = "≈ " if any(value.provenance in ESTIMATED for value in values) else ""
    unit = f", {scale.unit}" if scale.unit else ""
    return scale.factor, f"{mark}{metric_title(metric)}{unit} (line: 95 % interval over runs)"
