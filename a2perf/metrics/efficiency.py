"""What learning costs: the time and the energy until the training return first reaches the task's threshold.

The thresholds are the protocol's. As in time-to-accuracy benchmarks (Coleman et al. 2017, "DAWNBench"; Mattson et al.
2020, "MLPerf Training Benchmark", section 3.2) every run must reach the threshold: a mean over only those that did
would reward the ones that fail. The curve and the times of its points are what the participant logged; energy and
wall clock are the evaluator's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics.definition import (
    AS_RECORDED,
    Metric,
    add_uncertainty,
    mean_over_runs,
    metric,
    provenance_over_runs,
    with_uncertainty,
)
from a2perf.metrics.runs_in_mode import ScoredRuns, once_per_run
from a2perf.metrics.system_series import EnergyCourse, energy_course
from a2perf.metrics.values import Lead, MetricResult, Profile, RunNumber, not_enough
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import recorded

WINDOW = 5
"""Length of the trailing mean in points: one lucky evaluation does not count as learned."""
_SLACK = 1.05  # the participant's clock starts after the evaluator's and stops before it, but for rounding
_EVENLY = "points without a time are taken as spread evenly over the run"


class Reached(NamedTuple):
    """What one run had used when its curve first reached the threshold; a number that is not known is None.

    Attributes:
        seconds: since the start of training.
        kwh: cumulative gross energy.
        quality: ``"measured"`` or ``"estimated"`` energy; ``""`` without energy.
        evenly: whether the points were spread evenly over the run because they have no valid times.
        why: why a number is missing, other than that the threshold was not reached.
    """

    seconds: float | None = None
    kwh: float | None = None
    quality: str = ""
    evenly: bool = False
    reached: bool = False
    why: str = ""


def first_reached(values: Values, threshold: float) -> int | None:
    """Returns the index of the first point at which the trailing mean over ``WINDOW`` points reaches the threshold."""
    if values.size < WINDOW:
        return None
    means = np.convolve(values, np.full(WINDOW, 1.0 / WINDOW), mode="valid")
    at = np.flatnonzero(means >= threshold)
    return int(at[0]) + WINDOW - 1 if at.size else None


def logged_at(run: Run) -> tuple[Values, Values | None] | None:
    """Returns the seconds since the start of a run at the finite points of its curve, and the cumulative kWh by then.

    The energy is None without a course of energy; the result is None if the files name no times that can be right.
    """
    steps, values = _curve(run)
    course = _course(run)
    seconds = _elapsed(run, np.isfinite(steps) & np.isfinite(values), course, _wall(run, course))
    if seconds is None:
        return None
    return seconds, None if course is None else np.interp(seconds, course.elapsed_s, course.kwh)


@once_per_run
def _course(run: Run) -> EnergyCourse | None:
    return energy_course(run.emissions.get(run.mode, {}))


def _curve(run: Run) -> tuple[Values, Values]:
    assert run.curve is not None
    return np.asarray(run.curve.steps, np.float64).ravel(), np.asarray(run.curve.values, np.float64).ravel()


def _reached_by(runs: ScoredRuns, profile: Profile) -> list[Reached]:
    if runs.threshold is None:
        return [Reached() for run in runs.runs if run.curve is not None]
    return [reached(run, runs.threshold) for run in runs.runs if run.curve is not None]


def reached(run: Run, threshold: float) -> Reached:
    """Returns what a training run with a curve had used when its trailing mean first reached the threshold."""
    steps, values = _curve(run)
    known = np.isfinite(steps) & np.isfinite(values)
    if np.count_nonzero(known) < WINDOW:
        return Reached(why=f"a curve has {np.count_nonzero(known)} point(s), needs {WINDOW}")
    at = first_reached(values[known], threshold)
    if at is None:
        return Reached()
    course = _course(run)
    wall = _wall(run, course)
    logged = _elapsed(run, known, course, wall)
    evenly = logged is None
    if logged is None:
        if wall is None:
            return Reached(reached=True, why="neither the curve nor the trackers recorded a time")
        span = float(np.max(steps[known]))
        logged = wall * steps[known] / span if span > 0 else np.full(np.count_nonzero(known), wall)
    seconds = float(logged[at])
    kwh, quality = _energy_until(seconds, run, course, wall)
    return Reached(seconds, kwh, quality, evenly, reached=True)


def _elapsed(run: Run, known: Any, course: EnergyCourse | None, wall: float | None) -> Values | None:
    """Returns the times of the points since the start of the run; None if none are recorded or they are invalid."""
    if run.curve is None or run.curve.times_s is None:
        return None
    seconds = np.asarray(run.curve.times_s, np.float64).ravel()
    if seconds.size != known.size:
        return None
    seconds = seconds[known]
    if run.curve.times_since == "epoch":
        if course is None or not np.isfinite(course.started_s):
            return None
        seconds = seconds - course.started_s
    fits = np.isfinite(seconds).all() and (np.diff(seconds) >= 0).all() and seconds[0] >= 0
    return seconds if fits and (wall is None or seconds[-1] <= wall * _SLACK + 1.0) else None


def _wall(run: Run, course: EnergyCourse | None) -> float | None:
    wall = recorded(run.tracking.wall_s)
    if wall is not None and wall > 0:
        return wall
    return float(course.elapsed_s[-1]) if course is not None and course.elapsed_s[-1] > 0 else None


def _energy_until(
    seconds: float, run: Run, course: EnergyCourse | None, wall: float | None
) -> tuple[float | None, str]:
    energy = run.tracking.energy
    if course is not None and energy.quality != "none":
        return float(np.interp(seconds, course.elapsed_s, course.kwh)), energy.quality or course.quality
    total = recorded(energy.gross_kwh)
    if total is not None and wall and energy.quality not in ("none", ""):
        # a total without a course is spread evenly, which is an estimate whatever measured it
        return total * min(seconds / wall, 1.0), "estimated"
    return None, ""


def _over_runs(runs: ScoredRuns, profile: Profile, numbers: list[float | None], kinds: list[str]) -> MetricResult:
    found = runs.once(_reached_by, profile)
    condition = _condition(runs, found)
    if condition is not None:
        count = sum(run.reached for run in found)
        return MetricResult(per_run=numbers, n=count, provenance="recorded", condition=condition)
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return MetricResult(
            per_run=numbers, n=len(numbers), provenance="recorded", condition="energy was not recorded by every run"
        )
    result = mean_over_runs(np.array(known, np.float64), profile)
    result.provenance = provenance_over_runs(
        ["estimated" if run.evenly else kind for run, kind in zip(found, kinds, strict=True)]
    )
    result.method = "the participant's curve and times of logging; energy and wall clock by the evaluator"
    result.notes = [f"threshold {runs.threshold:.6g}, trailing mean over {WINDOW} points"]
    result.notes += [_EVENLY] if any(run.evenly for run in found) else []
    return result


def _condition(runs: ScoredRuns, found: Sequence[Reached]) -> str | None:
    """Returns why there is no number of any run, or None if every run reached the threshold."""
    if runs.threshold is None:
        return "the protocol names no threshold for this task"
    if not found:
        return not_enough(0, 1, "training curves")
    reason = next((run.why for run in found if run.why), None)
    if reason is not None:
        return reason
    count = sum(run.reached for run in found)
    if count == 0:
        return f"threshold {runs.threshold:.6g} never reached by {len(runs.runs)} run(s)"
    if count < len(runs.runs):
        return f"threshold {runs.threshold:.6g} reached by {count} of {len(runs.runs)} runs only"
    return None


def _to_threshold(unit: str, label: str, formula: str, needs: str) -> Any:
    return metric(
        unit=unit,
        label=label,
        direction="min",
        provenance=AS_RECORDED,
        across=True,
        needs=f"a threshold; {needs}",
        lead={"train": Lead.COLUMN},
        formula=f"{formula} the first point at which the trailing mean over {WINDOW} points reaches the threshold; "
        "mean over runs, all of which must reach it",
        source="time to accuracy: Coleman et al. 2017 (DAWNBench); Mattson et al. 2020 (MLPerf Training)",
    )


@_to_threshold(
    "s",
    "Time to threshold",
    "seconds from the start of training to",
    f"1 curve of {WINDOW} points and the run's wall clock",
)
def time_to_threshold(runs: ScoredRuns, profile: Profile) -> MetricResult:
    """Seconds of each run."""
    found = runs.once(_reached_by, profile)
    return _over_runs(runs, profile, [run.seconds for run in found], ["recorded"] * len(found))


@_to_threshold(
    "kWh",
    "Energy to threshold",
    "cumulative gross energy of training up to",
    f"1 curve of {WINDOW} points and an emissions table or the run's energy",
)
def energy_to_threshold(runs: ScoredRuns, profile: Profile) -> MetricResult:
    """Energy of each run; its uncertainty is that of the run's energy, in proportion."""
    found = runs.once(_reached_by, profile)
    result = _over_runs(runs, profile, [run.kwh for run in found], [run.quality for run in found])
    if result.value is not None:
        energies = [run.tracking.energy for run in runs.runs if run.curve is not None]
        numbers = [
            with_uncertainty(RunNumber(run.kwh), energy.gross_uncertainty, energy.gross_kwh)
            for run, energy in zip(found, energies, strict=True)
        ]
        add_uncertainty(result, numbers, profile)
    return result


METRICS: tuple[Metric, ...] = (energy_to_threshold, time_to_threshold)
