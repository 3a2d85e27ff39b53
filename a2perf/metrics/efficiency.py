"""What learning costs: the time and the energy until the training return first reaches the task's threshold.

The thresholds are the protocol's. As in time-to-accuracy benchmarks (Coleman et al. 2017, "DAWNBench"; Mattson et al.
2020, "MLPerf Training Benchmark", section 3.2) every run must reach the threshold: a mean over only those that did
would reward the ones that fail. The curve and the times of its points are what the participant logged; energy and
wall clock are the evaluator's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.system import RUN_SPREAD, provenance_over_runs
from a2perf.metrics.system_series import EnergyCourse, energy_course
from a2perf.metrics.values import Metric, MetricValue, Profile, RunData, Values, not_enough

WINDOW = 5
"""Points that are averaged, so that one lucky evaluation does not count as having learnt."""
_SLACK = 1.05  # the participant's clock starts after the evaluator's and stops before it, but for rounding
_EVENLY = "points without a time are taken as spread evenly over the run"


class _Reached(NamedTuple):
    """One run's answer: seconds and kWh where it reached the threshold; ``why`` where there is no number."""

    seconds: float | None = None
    kwh: float | None = None
    quality: str = ""
    evenly: bool = False
    reached: bool = False
    why: str = ""


def efficiency_values(data: RunData, profile: Profile) -> dict[str, MetricValue]:
    """Computes ``time_to_threshold`` and ``energy_to_threshold``."""
    runs = [_run(data, place) for place in range(len(data.curves))]
    return {metric.name: _over_runs(metric, data, runs, profile) for metric in METRICS}


def first_reached(values: Values, threshold: float) -> int | None:
    """Returns the index of the first point whose trailing mean over ``WINDOW`` points reaches the threshold."""
    if values.size < WINDOW:
        return None
    means = np.convolve(values, np.full(WINDOW, 1.0 / WINDOW), mode="valid")
    at = np.flatnonzero(means >= threshold)
    return int(at[0]) + WINDOW - 1 if at.size else None


def logged_at(data: RunData, place: int) -> tuple[Values, Values | None] | None:
    """Returns when the finite points of a run's curve were logged and what the run had used by then.

    Args:
        data: of the runs.
        place: of the curve in ``data.curves``.

    Returns:
        Seconds since the start of the run and cumulative kWh (None without a course of energy), each of shape
        ``(finite points,)``; None where the files name no times that can be right.
    """
    steps, values = (np.asarray(column, np.float64).ravel() for column in data.curves[place])
    run = data.curve_runs[place] if place < len(data.curve_runs) else place
    report: Mapping[str, Any] = data.tracking[run] if run < len(data.tracking) else {}
    course = energy_course(data.emissions[run]) if run < len(data.emissions) else None
    seconds = _elapsed(data, place, np.isfinite(steps) & np.isfinite(values), course, _wall(report, course))
    if seconds is None:
        return None
    return seconds, None if course is None else np.interp(seconds, course.elapsed_s, course.kwh)


def _run(data: RunData, place: int) -> _Reached:
    if data.threshold is None:
        return _Reached()
    steps, values = (np.asarray(column, np.float64).ravel() for column in data.curves[place])
    known = np.isfinite(steps) & np.isfinite(values)
    if np.count_nonzero(known) < WINDOW:
        return _Reached(why=f"a curve has {np.count_nonzero(known)} point(s), needs {WINDOW}")
    at = first_reached(values[known], data.threshold)
    if at is None:
        return _Reached()
    run = data.curve_runs[place] if place < len(data.curve_runs) else place
    report: Mapping[str, Any] = data.tracking[run] if run < len(data.tracking) else {}
    course = energy_course(data.emissions[run]) if run < len(data.emissions) else None
    wall = _wall(report, course)
    logged = _elapsed(data, place, known, course, wall)
    evenly = logged is None
    if logged is None:
        if wall is None:
            return _Reached(reached=True, why="neither the curve nor the trackers recorded a time")
        span = float(np.max(steps[known]))
        logged = wall * steps[known] / span if span > 0 else np.full(np.count_nonzero(known), wall)
    seconds = float(logged[at])
    kwh, quality = _energy_until(seconds, report, course, wall)
    return _Reached(seconds, kwh, quality, evenly, reached=True)


def _elapsed(data: RunData, place: int, known: Any, course: EnergyCourse | None, wall: float | None) -> Values | None:
    """Returns the points' times since the start of the run, or None where there are none that can be right."""
    times = data.curve_times[place] if place < len(data.curve_times) else None
    if times is None:
        return None
    seconds = np.asarray(times[0], np.float64).ravel()
    if seconds.size != known.size:
        return None
    seconds = seconds[known]
    if times[1] == "epoch":
        if course is None or not np.isfinite(course.started_s):
            return None
        seconds = seconds - course.started_s
    fits = np.isfinite(seconds).all() and (np.diff(seconds) >= 0).all() and seconds[0] >= 0
    return seconds if fits and (wall is None or seconds[-1] <= wall * _SLACK + 1.0) else None


def _wall(report: Mapping[str, Any], course: EnergyCourse | None) -> float | None:
    wall = report.get("wall_s")
    if isinstance(wall, int | float) and np.isfinite(wall) and wall > 0:
        return float(wall)
    return float(course.elapsed_s[-1]) if course is not None and course.elapsed_s[-1] > 0 else None


def _energy_until(
    seconds: float, report: Mapping[str, Any], course: EnergyCourse | None, wall: float | None
) -> tuple[float | None, str]:
    energy = report.get("energy")
    section: Mapping[str, Any] = energy if isinstance(energy, Mapping) else {}
    quality = str(section.get("quality") or "")
    if course is not None and quality != "none":
        return float(np.interp(seconds, course.elapsed_s, course.kwh)), quality or course.quality
    total = section.get("gross_kwh")
    if isinstance(total, int | float) and np.isfinite(total) and wall and quality not in ("none", ""):
        # a total without a course is spread evenly, which is an estimate whatever measured it
        return float(total) * min(seconds / wall, 1.0), "estimated"
    return None, ""


def _over_runs(metric: Metric, data: RunData, runs: Sequence[_Reached], profile: Profile) -> MetricValue:
    key: Literal["seconds", "kwh"] = "kwh" if metric.unit == "kWh" else "seconds"
    numbers = [getattr(run, key) for run in runs]
    made: dict[str, Any] = {
        "name": metric.name, "unit": metric.unit, "direction": metric.direction, "profile": profile,
    }  # fmt: skip
    condition = _condition(metric, data, runs, numbers)
    if condition is not None:
        return MetricValue(**made, per_run=numbers, n=sum(run.reached for run in runs), condition=condition)
    values = np.array(numbers, np.float64)
    several = values.size > 1
    kinds = ["estimated" if run.evenly else run.quality if key == "kwh" else "recorded" for run in runs]
    notes = [f"threshold {data.threshold:.6g}, trailing mean over {WINDOW} points"]
    if any(run.evenly for run in runs):
        notes.append(_EVENLY)
    return MetricValue(
        **made,
        value=float(values.mean()),
        spread=float(values.std(ddof=1)) if several else None,
        spread_kind=RUN_SPREAD if several else None,
        interval=mean_interval(values) if several and profile == "corrected" else None,
        per_run=numbers,
        n=int(values.size),
        provenance=provenance_over_runs(kinds),
        method="the participant's curve and times of logging; energy and wall clock by the evaluator",
        notes=notes,
    )


def _condition(metric: Metric, data: RunData, runs: Sequence[_Reached], numbers: Sequence[float | None]) -> str | None:
    """Says why there is no number, or None where every run has one."""
    if data.threshold is None:
        return "the protocol names no threshold for this task"
    if not runs:
        return not_enough(0, 1, "training curves")
    told = next((run.why for run in runs if run.why), None)
    if told is not None:
        return told
    reached = sum(run.reached for run in runs)
    expected = max(len(runs), len(data.tracking), len(data.emissions))
    if reached == 0:
        return f"threshold {data.threshold:.6g} never reached by {expected} run(s)"
    if reached < expected:
        return f"threshold {data.threshold:.6g} reached by {reached} of {expected} runs only"
    if any(number is None for number in numbers):
        return f"{metric.label.split(' to ')[0].lower()} was not recorded by every run"
    return None


def _metric(name: str, label: str, unit: str, formula: str, needs: str) -> Metric:
    return Metric(
        name=name, label=label, category="system", unit=unit, direction="min", provenance="as recorded",
        formula=f"{formula} the first point whose trailing mean over {WINDOW} points reaches the threshold; "
        "mean over runs, all of which must reach it",
        source="time to accuracy: Coleman et al. 2017 (DAWNBench); Mattson et al. 2020 (MLPerf Training)",
        needs=needs, compute=efficiency_values,
    )  # fmt: skip


METRICS: tuple[Metric, ...] = (
    _metric(
        "time_to_threshold", "Time to threshold", "s", "seconds from the start of training to",
        f"a threshold; 1 curve of {WINDOW} points and the run's wall clock",
    ),
    _metric(
        "energy_to_threshold", "Energy to threshold", "kWh", "cumulative gross energy of training up to",
        f"a threshold; 1 curve of {WINDOW} points and an emissions table or the run's energy",
    ),
)  # fmt: skip
