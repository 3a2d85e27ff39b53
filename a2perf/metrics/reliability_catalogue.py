"""What each reliability metric is: one small record, with both profiles' formulas and what they need."""

from __future__ import annotations

from typing import Any, TypeAlias

from a2perf.metrics.values import PROFILES, Direction, Profile

Definition: TypeAlias = dict[str, Any]
"""Arguments of the decorator ``metric``."""
_CHAN = "Chan et al., ICLR 2020"
_RANGES = "IQR: interquartile range; Mad: median absolute deviation; Stddev: sample standard deviation (ddof 1)"
_IN_BOTH = (
    "IqrWithinRuns", "IqrAcrossRuns", "LowerCVaROnDiffs", "LowerCVaROnDrawdown", "LowerCVarOnAcross",
    "MedianPerfDuringTraining",
)  # fmt: skip


def _of_training(name: str, label: str, direction: Direction, formula: str, needs: str, unit: str = "") -> Definition:
    profiles: tuple[Profile, ...] = PROFILES if name in _IN_BOTH else ("corrected",)
    return {
        "name": name, "label": label, "category": "reliability", "unit": unit, "direction": direction,
        "formula": formula, "source": _CHAN, "needs": needs, "profiles": profiles, "across": True,
    }  # fmt: skip


def _of_rollouts(name: str, label: str, direction: Direction, formula: str, needs: str) -> Definition:
    formula += "; upstream: over the returns of all runs pooled; corrected: of each run, then the mean over runs"
    return _of_training(name, label, direction, formula, needs) | {"profiles": PROFILES}


def _within(kind: str, words: str) -> Definition:
    return _of_training(
        f"{kind}WithinRuns",
        f"Dispersion within runs ({words})",
        "min",
        f"{_RANGES}, of the differences of a curve in sliding windows of five median step differences, mean over "
        "windows; upstream: centred windows, plain differences, windows of all runs pooled; corrected: trailing full "
        "windows, differences divided by those of steps, each run first",
        "3 points of a run",
        "per step",
    )


def _across(kind: str, words: str) -> Definition:
    return _of_training(
        f"{kind}AcrossRuns",
        f"Dispersion across runs ({words})",
        "min",
        f"{_RANGES}, across runs at each step after a Butterworth low-pass (order 8, 0.01 of Nyquist, forwards and "
        "backwards), mean over steps; upstream: zeros dropped; corrected: at up to 101 evaluation points",
        "3 runs",
    )


_ALL = (
    _within("Iqr", "IQR"),
    _within("Mad", "MAD"),
    _within("Stddev", "std"),
    _across("Iqr", "IQR"),
    _across("Mad", "MAD"),
    _across("Stddev", "std"),
    _of_training(
        "LowerCVaROnDiffs",
        "Short-term risk (CVaR on differences)",
        "min",
        "mean of the differences between points that are <= their 5th percentile, sign flipped: a typical worst drop; "
        "upstream: all runs pooled; corrected: divided by the differences of steps, each run first",
        "2 points of a run",
        "per step",
    ),
    _of_training(
        "UpperCVaROnDiffs",
        "Largest rises (CVaR on differences)",
        "none",
        "mean of the differences per step that are >= their 95th percentile, each run first",
        "2 points of a run",
        "per step",
    ),
    _of_training(
        "LowerCVaROnDrawdown",
        "Long-term risk (CVaR on drawdown)",
        "min",
        "mean of the drawdowns (highest value so far less the value) that are >= their 95th percentile; upstream: all "
        "runs pooled; corrected: each run first. The name is historic: it is the upper tail",
        "2 points of a run",
    ),
    _of_training(
        "MaxDrawdown",
        "Long-term risk (maximum drawdown)",
        "min",
        "highest drawdown of each run, mean over runs",
        "2 points of a run",
    ),
    _of_training(
        "LowerCVarOnAcross",
        "Risk across runs (CVaR)",
        "max",
        "mean of the final values of the runs that are <= their 5th percentile; with up to 20 runs the worst run",
        "3 runs (upstream: 1)",
    ),
    _of_training(
        "UpperCVaROnAcross",
        "Best runs (CVaR)",
        "none",
        "mean of the final values of the runs that are >= their 95th percentile; with up to 20 runs the best run",
        "3 runs",
    ),
    _of_training(
        "MedianPerfDuringTraining",
        "Median performance during training",
        "max",
        "median of each run's curve, mean over runs",
        "1 point of a run",
    ),
    _of_rollouts("IqrAcrossRollouts", "Dispersion across rollouts (IQR)", "min", "interquartile range", "2 rollouts"),
    _of_rollouts(
        "MadAcrossRollouts", "Dispersion across rollouts (MAD)", "min", "median absolute deviation", "2 rollouts"
    ),
    _of_rollouts(
        "StddevAcrossRollouts", "Dispersion across rollouts (std)", "min", "standard deviation, ddof 1", "2 rollouts"
    ),
    _of_rollouts(
        "LowerCVaRAcrossRollouts",
        "Risk across rollouts (CVaR)",
        "max",
        "mean of the returns that are <= their 5th percentile",
        "1 rollout",
    ),
    _of_rollouts(
        "UpperCVaRAcrossRollouts",
        "Best rollouts (CVaR)",
        "none",
        "mean of the returns that are >= their 95th percentile",
        "1 rollout",
    ),
)
DEFINITIONS: dict[str, Definition] = {definition["name"]: definition for definition in _ALL}
ROLLOUT_NAMES = tuple(name for name in DEFINITIONS if name.endswith("AcrossRollouts"))
TRAINING_NAMES: dict[Profile, tuple[str, ...]] = {
    profile: tuple(
        name
        for name, definition in DEFINITIONS.items()
        if profile in definition["profiles"] and name not in ROLLOUT_NAMES
    )
    for profile in PROFILES
}
