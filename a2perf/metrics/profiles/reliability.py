"""Reliability of training (across and within runs) and of rollouts, in two profiles of formulas.

``upstream`` reproduces the published numbers of the upstream platform: values in reward units, pooled over runs.
``corrected`` filters with second-order sections, divides differences by the difference of steps,
takes each run's value first and then the mean over runs with a bootstrap interval, and can normalise. The formulas
descend from Chan et al., "Measuring the Reliability of Reinforcement Learning Algorithms" (ICLR 2020).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from a2perf.arrays import as_finite
from a2perf.constants import ReliabilityMetrics
from a2perf.errors import ConfigError
from a2perf.metrics.definition import Metric, metric
from a2perf.metrics.profiles import reliability_corrected, reliability_upstream
from a2perf.metrics.profiles.curves import clean_all
from a2perf.metrics.profiles.reliability_corrected import Normalise
from a2perf.metrics.runs_in_mode import ScoredRuns
from a2perf.metrics.values import PROFILES, Direction, Lead, MetricResult, Profile, profile_named


def metric_name(name: object) -> str:
    """Returns the stable name for an enum member, its name, or the alias ``LowerCVaROnAcross``."""
    if isinstance(name, ReliabilityMetrics):
        return name.value
    text = str(name.value if isinstance(name, enum.Enum) else name)
    return ReliabilityMetrics[text].value if text in ReliabilityMetrics.__members__ else text


def training(
    curves: Sequence[tuple[Any, Any]], profile: Profile, normalise: Normalise | None = None
) -> dict[str, MetricResult]:
    """Scores the training curves of several runs of one algorithm on one task by every metric of the profile.

    The curves are ``(steps, values)``; steps of different runs may differ. If the data does not suffice, ``value`` is
    ``None`` and ``condition`` is the reason. ``normalise`` is for the ``corrected`` profile; an unknown one is a
    ``ConfigError``.
    """
    profile = profile_named(profile)
    if isinstance(normalise, str) and normalise != "curve_range":
        raise ConfigError(f"normalise={normalise!r} is not valid", hint='give "curve_range" or two reference scores')
    cleaned, notes = clean_all(curves)
    if profile == "upstream":
        found = reliability_upstream.training(cleaned)
    else:
        found = reliability_corrected.training(cleaned, TRAINING_NAMES, normalise)
    return _completed(found, profile, len(cleaned), notes, normalise)


def rollouts(
    returns: Sequence[Any], profile: Profile, normalise: tuple[float, float] | None = None
) -> dict[str, MetricResult]:
    """Scores the rollouts of several runs of one algorithm on one task.

    The ``upstream`` profile pools the rollouts of all runs; ``corrected`` takes each run's value, then the mean, with
    the reference scores ``normalise`` at 0 and 1.
    """
    profile = profile_named(profile)
    notes, runs = [], []
    for number, values in enumerate(returns):
        finite, lost = as_finite(values)
        if lost:
            notes.append(f"run {number}: {lost} of {finite.size + lost} returns are not finite and left out")
        if finite.size:
            runs.append(finite)
        else:
            notes.append(f"run {number} has no finite return and is left out")
    if profile == "upstream":
        found = reliability_upstream.rollouts(runs, ROLLOUT_NAMES)
    else:
        found = reliability_corrected.rollouts(runs, ROLLOUT_NAMES, normalise)
    return _completed(found, profile, len(runs), notes, normalise)


def _completed(
    found: Mapping[str, MetricResult], profile: Profile, runs: int, notes: Sequence[str], normalise: object
) -> dict[str, MetricResult]:
    for name, result in found.items():
        unit = METRICS[name].unit
        unit = unit if profile == "corrected" or unit != "per step" else ""
        result.unit = f"normalised {unit}".rstrip() if normalise is not None else unit
        result.n = runs
        result.notes = [*result.notes, *notes]
    return dict(found)


def _training_of(runs: ScoredRuns, profile: Profile) -> dict[str, MetricResult]:
    return training(runs.curves, profile)


def _rollouts_of(runs: ScoredRuns, profile: Profile) -> dict[str, MetricResult]:
    """With several tasks, rollouts are scored task by task only."""
    tasks = list(runs.returns.values())
    if len(tasks) <= 1:
        return rollouts(tasks[0] if tasks else [], profile)
    several = f"{len(tasks)} tasks: rollouts are scored task by task only, since their rewards have different scales"
    return {name: MetricResult(condition=several, n=len(tasks[0])) for name in ROLLOUT_NAMES}


_CHAN = "Chan et al., ICLR 2020"
_RANGES = "IQR: interquartile range; Mad: median absolute deviation; Stddev: sample standard deviation (ddof 1)"


def _of_training(
    name: str,
    label: str,
    direction: Direction,
    formula: str,
    needs: str,
    unit: str = "",
    shared: Callable[[ScoredRuns, Profile], dict[str, MetricResult]] = _training_of,
    **more: Any,
) -> Metric:
    made = metric(
        name=name,
        label=label,
        category="reliability",
        unit=unit,
        direction=direction,
        formula=formula,
        source=_CHAN,
        needs=needs,
        across=True,
        profiles=PROFILES if name in reliability_upstream.TRAINING or shared is _rollouts_of else ("corrected",),
        **more,
    )
    return made(lambda runs, profile: runs.once(shared, profile)[name])


def _of_rollouts(name: str, label: str, direction: Direction, formula: str, needs: str, **more: Any) -> Metric:
    formula += "; upstream: over the returns of all runs pooled; corrected: of each run, then the mean over runs"
    return _of_training(name, label, direction, formula, needs, shared=_rollouts_of, **more)


_WITHIN = (
    f"{_RANGES}, of the differences of a curve in sliding windows of five median step differences, mean over windows; "
    "upstream: centred windows, plain differences, windows of all runs pooled; corrected: trailing full windows, "
    "differences divided by those of steps, each run first"
)
_ACROSS = (
    f"{_RANGES}, across runs at each step after a Butterworth low-pass (order 8, 0.01 of Nyquist, forwards and "
    "backwards), mean over steps; upstream: zeros dropped; corrected: at up to 101 evaluation points"
)
_TWO_POINTS = "2 points of a run"
_WITHIN_NEEDS = "6 points of a run (upstream: 3)"
_ALL = (
    _of_training("IqrAcrossRuns", "Dispersion across runs (IQR)", "min", _ACROSS, "3 runs", lead=Lead.TABLE),
    _of_training(
        "IqrWithinRuns", "Dispersion within runs (IQR)", "min", _WITHIN, _WITHIN_NEEDS, "per step", lead=Lead.TABLE
    ),
    _of_training(
        "LowerCVaROnDiffs",
        "Short-term risk (CVaR on differences)",
        "min",
        "mean of the differences between points that are <= their 5th percentile, sign flipped: a typical worst drop; "
        "upstream: all runs pooled; corrected: divided by the differences of steps, each run first",
        _TWO_POINTS,
        "per step",
        lead=Lead.TABLE,
    ),
    _of_training(
        "LowerCVaROnDrawdown",
        "Long-term risk (CVaR on drawdown)",
        "min",
        "mean of the drawdowns (highest value so far less the value) that are >= their 95th percentile; upstream: all "
        "runs pooled; corrected: each run first. The name is historic: it is the upper tail",
        _TWO_POINTS,
        lead=Lead.TABLE,
    ),
    _of_training(
        "MedianPerfDuringTraining",
        "Median performance during training",
        "max",
        "median of each run's curve, mean over runs",
        "1 point of a run",
        title="Median training return",
        lead={"train": Lead.TEXT},
    ),
    _of_training(
        "LowerCVarOnAcross",
        "Risk across runs (CVaR)",
        "max",
        "mean of the final values of the runs that are <= their 5th percentile; with up to 20 runs the worst run",
        "3 runs (upstream: 1)",
        title="Worst runs",
        lead={"train": Lead.TEXT},
    ),
    _of_rollouts(
        "IqrAcrossRollouts",
        "Dispersion across rollouts (IQR)",
        "min",
        "interquartile range",
        "2 rollouts",
        lead=Lead.TABLE,
    ),
    _of_rollouts(
        "LowerCVaRAcrossRollouts",
        "Risk across rollouts (CVaR)",
        "max",
        "mean of the returns that are <= their 5th percentile",
        "1 rollout",
        title="Worst 5 %",
        lead={"inference": Lead.TEXT},
    ),
    _of_training("MadWithinRuns", "Dispersion within runs (MAD)", "min", _WITHIN, _WITHIN_NEEDS, "per step"),
    _of_training("StddevWithinRuns", "Dispersion within runs (std)", "min", _WITHIN, _WITHIN_NEEDS, "per step"),
    _of_training("MadAcrossRuns", "Dispersion across runs (MAD)", "min", _ACROSS, "3 runs"),
    _of_training("StddevAcrossRuns", "Dispersion across runs (std)", "min", _ACROSS, "3 runs"),
    _of_training(
        "UpperCVaROnDiffs",
        "Largest rises (CVaR on differences)",
        "none",
        "mean of the differences per step that are >= their 95th percentile, each run first",
        _TWO_POINTS,
        "per step",
    ),
    _of_training(
        "MaxDrawdown",
        "Long-term risk (maximum drawdown)",
        "min",
        "highest drawdown of each run, mean over runs",
        _TWO_POINTS,
    ),
    _of_training(
        "UpperCVaROnAcross",
        "Best runs (CVaR)",
        "none",
        "mean of the final values of the runs that are >= their 95th percentile; with up to 20 runs the best run",
        "3 runs",
    ),
    _of_rollouts(
        "MadAcrossRollouts", "Dispersion across rollouts (MAD)", "min", "median absolute deviation", "2 rollouts"
    ),
    _of_rollouts(
        "StddevAcrossRollouts", "Dispersion across rollouts (std)", "min", "standard deviation, ddof 1", "2 rollouts"
    ),
    _of_rollouts(
        "UpperCVaRAcrossRollouts",
        "Best rollouts (CVaR)",
        "none",
        "mean of the returns that are >= their 95th percentile",
        "1 rollout",
    ),
)
METRICS: dict[str, Metric] = {one.name: one for one in _ALL}
WORST_ROLLOUTS = METRICS["LowerCVaRAcrossRollouts"]
SPREAD_OF_ROLLOUTS = METRICS["StddevAcrossRollouts"]
ROLLOUT_NAMES = tuple(name for name in METRICS if name.endswith("AcrossRollouts"))
TRAINING_NAMES = tuple(name for name in METRICS if name not in ROLLOUT_NAMES)
