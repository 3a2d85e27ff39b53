"""The sections of designs in a report: cost by part, legality, and cost against time and energy of every placer.

Costs of episodes come from the records. Parts, maps and the verdict are computed again from the recorded placements;
where a bundle has none, the section gives the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from a2perf.arrays import Values, as_finite
from a2perf.domains.circuit_training.engine.cost_model import CostWeights
from a2perf.domains.compilation import NUMBA_AVAILABLE
from a2perf.report.figures.drawing import Chart, single
from a2perf.report.own_sections import ReportSection
from a2perf.report.tables import Cell, Column, Quantity, Table, Text
from a2perf.report.task_results import Label, TaskResults, labels_of, title_of
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import JOULES_PER_KWH
from a2perf_placement.profiles import PROFILES
from a2perf_placement.report.charts import draw_cost_against, draw_maps, draw_parts, map_scales
from a2perf_placement.report.recorded_placements import (
    NOT_RECORDED,
    PlacerSummary,
    RecordedPlacement,
    best_placement,
    recorded_profile,
)

MOST_PLACERS = 6
"""Placers with maps, the best first; a report of many submissions would otherwise consist of pictures."""
_DOMAINS = ("circuit_training", "macro_placement")
_NAMES = {"circuit_training": "circuit training", "tilos": "public evaluator"}


def placement_sections(results: Sequence[TaskResults]) -> list[ReportSection]:
    """Returns a section for each design with a recorded evaluation."""
    labels = labels_of(results)
    sections = [placement_section(task, labels) for task in results if task.domain in _DOMAINS]
    return [section for section in sections if section is not None]


def placement_section(task: TaskResults, labels: Mapping[str, Label]) -> ReportSection | None:
    """Returns the section of one design; None if no evaluation of it was recorded."""
    submissions: dict[str, dict[str, Run]] = {name: {} for name in task.algorithms}
    for group in task.groups:
        # A run of a layout that keeps several modes in one folder is in several groups.
        submissions[group.algorithm].update({run.key: run for run in group.runs})
    found = (_result(title_of(labels, name), list(held.values()), task.task) for name, held in submissions.items())
    results = [result for result in found if result is not None]
    if not results:
        return None
    profile = recorded_profile(next(run for held in submissions.values() for run in held.values()))
    results.sort(key=lambda result: (float(result.costs.mean()), result.name))
    shown = [result for result in results if isinstance(result.placement, RecordedPlacement)][:MOST_PLACERS]
    return ReportSection(
        title=f"Placements: {task.title}",
        text=_text(results, shown, PROFILES[profile].weights),
        tables=(_placers(results), *((_parts(shown),) if shown else ())),
        charts=(
            _cost_figure(results, task.name),
            *((_parts_figure(shown, task.name),) if shown else ()),
            *_map_figures(shown, task.name),
        ),
    )


def _result(name: str, held: Sequence[Run], task: str) -> PlacerSummary | None:
    nothing = np.zeros(0)
    evaluations = [
        run for run in held if run.mode == "inference" and run.returns.get("inference", {}).get(task, nothing).size
    ]
    if not evaluations:
        return None
    training = {run.root: run for run in held if run.mode == "train"}
    pairs = [(run, training.get(run.root)) for run in evaluations]
    qualities = {run.tracking.energy.quality for run in evaluations}
    return PlacerSummary(
        name=name,
        costs=np.array([-float(run.returns["inference"][task].mean()) for run in evaluations]),
        seconds=np.array([sum(_seconds(run) for run in pair if run is not None) for pair in pairs]),
        joules=np.array([sum(_energy(run) for run in pair if run is not None) for pair in pairs]),
        provenance="measured" if qualities == {"measured"} else "estimated",
        placement=best_placement(evaluations) if NUMBA_AVAILABLE else "maps need Numba: pip install numba",
    )


def _seconds(run: Run) -> float:
    # Evaluations are timed by the trackers only.
    return run.tracking.wall_s if run.wall_clock_s is None else run.wall_clock_s


def _energy(run: Run) -> float:
    energy = run.tracking.energy
    return energy.gross_kwh * JOULES_PER_KWH if energy.quality in ("measured", "estimated", "mixed") else float("nan")


def _text(results: Sequence[PlacerSummary], shown: Sequence[PlacerSummary], weights: CostWeights) -> str:
    parts = [
        f"Cost is the proxy cost of the environment: {weights.wirelength:g} wirelength + {weights.density:g} density + "
        f"{weights.congestion:g} congestion; lower is better. "
        "It is not a result of place and route: the page “What proxy cost means” of the documentation describes what "
        "it leaves out."
    ]
    if shown:
        parts.append("Parts, maps and legality are computed again from the recorded placements.")
    missing = {result.name: result.placement for result in results if isinstance(result.placement, str)}
    if missing:
        parts.append(f"Without maps: {', '.join(missing)}; {'; '.join(sorted(set(missing.values())))}.")
    return " ".join(parts)


def _placers(results: Sequence[PlacerSummary]) -> Table:
    rows = []
    for result in results:
        placement = result.placement
        if isinstance(placement, RecordedPlacement):
            cost = placement.recorded_cost
            note = None if placement.agrees else f"recomputed {placement.recomputed_cost:.4f}"
            legal = _verdict(placement)
        else:
            cost, note, legal = None, "not recorded" if placement == NOT_RECORDED else "not readable", "unknown"
        rows.append(
            (
                Text(text=result.name),
                _mean(result.costs, "", "recorded"),
                Quantity(value=cost, provenance="recorded", note=note),
                _mean(result.seconds, "s", "measured"),
                _mean(result.joules, "J", result.provenance),
                Text(text=legal),
            )
        )
    return _table(
        "placers",
        "Cost, time and energy of each placer: mean over seeds ± standard deviation; training and evaluation together",
        ("Placer", "Cost", "Shown placement", "Wall time", "Energy", "Macros of it"),
        rows,
    )


def _verdict(placement: RecordedPlacement) -> str:
    verdict = placement.verdict
    if verdict.legal:
        return "legal: no overlap, all inside"
    counts = (
        (len(verdict.overlaps), "overlapping pairs"),
        (len(verdict.outside), "outside"),
        (len(verdict.unplaced), "not placed"),
    )
    return ", ".join(f"{count} {what}" for count, what in counts if count)


def _mean(values: Values, unit: str, provenance: str) -> Quantity:
    known, _ = as_finite(values)
    if not known.size:
        return Quantity(value=None, unit=unit, note="not recorded")
    spread = float(known.std(ddof=1)) if known.size > 1 else None
    return Quantity(
        value=float(known.mean()),
        unit=unit,
        spread=spread,
        spread_kind=None if spread is None else "std over runs, ddof 1",
        n=int(known.size),
        provenance=provenance,
    )


def _table(name: str, caption: str, titles: Sequence[str], rows: Sequence[tuple[Cell, ...]]) -> Table:
    columns = tuple(
        Column(key=f"column_{place}", title=title, align="right" if isinstance(rows[0][place], Quantity) else "left")
        for place, title in enumerate(titles)
    )
    return Table(name=name, caption=caption, columns=columns, rows=tuple(rows))


def _parts(shown: Sequence[PlacerSummary]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for result in shown:
        assert isinstance(result.placement, RecordedPlacement)
        for name, costs in result.placement.costs.items():
            weights = PROFILES[name].weights
            convention = f"{_NAMES[name]} ({weights.wirelength:g}, {weights.density:g}, {weights.congestion:g})"
            numbers = (costs.cost, costs.wirelength, costs.density, costs.congestion)
            texts = (Text(text=result.name), Text(text=convention))
            rows.append((*texts, *(Quantity(value=value) for value in numbers)))
    return _table(
        "parts",
        "Cost by part of the best recorded placement, by both conventions (weights of wirelength, density, congestion)",
        ("Placer", "Convention", "Cost", "Wirelength", "Density", "Congestion"),
        rows,
    )


def _cost_figure(results: Sequence[PlacerSummary], task: str) -> Chart:
    spoken = "; ".join(
        f"{result.name}: cost {result.costs.mean():.4g}, {_spoken(result.seconds, 's')}, {_spoken(result.joules, 'J')}"
        for result in results
    )
    estimated = "estimated" if any(result.provenance == "estimated" for result in results) else "measured"
    return single(
        f"{task}-cost-against-time-and-energy",
        "Cost against wall time and energy",
        "A dot per seed; the cross spans the 95 % intervals of the means. Training and evaluation together; energy is "
        f"{estimated}.",
        spoken,
        functools.partial(draw_cost_against, results),
    )


def _spoken(values: Values, unit: str) -> str:
    known, _ = as_finite(values)
    return f"{known.mean():.3g} {unit}" if known.size else f"unknown {unit}"


def _parts_figure(shown: Sequence[PlacerSummary], task: str) -> Chart:
    costs = {result.name: result.placement.costs for result in shown if isinstance(result.placement, RecordedPlacement)}
    spoken = "; ".join(
        f"{name}, {_NAMES[profile]}: {parts.cost:.4g}"
        for name, held in costs.items()
        for profile, parts in held.items()
    )
    return single(
        f"{task}-cost-by-part",
        "Cost by part",
        "Weighted parts of the best recorded placement. Upper bar: circuit training; lower bar: public evaluator.",
        spoken,
        functools.partial(draw_parts, costs),
    )


def _map_figures(shown: Sequence[PlacerSummary], task: str) -> list[Chart]:
    placements = [result.placement for result in shown if isinstance(result.placement, RecordedPlacement)]
    scales = map_scales([placement.plc for placement in placements])
    figures = []
    for result, placement in zip(shown, placements, strict=True):
        parts = placement.costs[placement.profile]
        seed = placement.run.identity.seed
        figures.append(
            single(
                f"{task}-maps-{result.name}",
                f"{result.name}: placement and maps",
                f"Seed {seed}, cost {placement.recorded_cost:.4f}. Blue: hard macros; grey: soft macros. "
                "All placers of this design share the scale of each map.",
                f"Wirelength {parts.wirelength:.4g}, density {parts.density:.4g}, congestion {parts.congestion:.4g}; "
                f"{_verdict(placement)}",
                functools.partial(draw_maps, placement.plc, scales),
            )
        )
    return figures
