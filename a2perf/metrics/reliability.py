"""Reliability of training (across and within runs) and of rollouts, in two profiles of formulas.

``upstream`` reproduces the published numbers of the upstream platform: values in reward units, pooled over runs.
``corrected`` filters with second-order sections, divides differences by the difference of steps,
takes each run's value first and then the mean over runs with a bootstrap interval, and can normalise. The formulas
descend from Chan et al., "Measuring the Reliability of Reinforcement Learning Algorithms" (ICLR 2020).

    scores = training([(steps, returns), ...], profile="upstream")
    scores["IqrAcrossRuns"].value
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from a2perf.arrays import as_finite
from a2perf.constants import ReliabilityMetrics
from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.metrics import reliability_corrected, reliability_upstream
from a2perf.metrics.curves import clean_all
from a2perf.metrics.definition import Metric, metric
from a2perf.metrics.reliability_catalogue import DEFINITIONS, ROLLOUT_NAMES, TRAINING_NAMES
from a2perf.metrics.reliability_corrected import Options
from a2perf.metrics.runs_in_mode import ScoredRuns
from a2perf.metrics.values import MetricResult, MetricValue, Profile, profile_named

__all__ = ["METRICS", "Options", "ReliabilityScores", "metric_name", "rollouts", "training"]


def metric_name(name: object) -> str:
    """Returns the stable name for an enum member, its name, or the alias ``LowerCVaROnAcross``."""
    if isinstance(name, ReliabilityMetrics):
        return name.value
    text = str(name.value if isinstance(name, enum.Enum) else name)
    return ReliabilityMetrics[text].value if text in ReliabilityMetrics.__members__ else text


class ReliabilityScores(Mapping[str, MetricValue]):
    """Values by metric name; members of the enum and its alias ``LowerCVaROnAcross`` find theirs too."""

    def __init__(self, values: Mapping[str, MetricValue]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: object) -> MetricValue:
        return self._values[metric_name(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return metric_name(name) in self._values

    def __repr__(self) -> str:
        return f"ReliabilityScores({self._values!r})"


def training(
    curves: Sequence[tuple[Any, Any]],
    profile: Profile = "upstream",
    *,
    names: Sequence[object] | None = None,
    options: Options | None = None,
) -> ReliabilityScores:
    """Scores the training curves of several runs of one algorithm on one task.

    Args:
        curves: ``(steps, values)`` of each run, arrays of equal length; steps of different runs may differ.
        profile: ``"upstream"`` or ``"corrected"``.
        names: the metrics wanted (names or ``ReliabilityMetrics``); all of the profile when ``None``.
        options: window, evaluation points, time frame, normalisation and intervals of the ``corrected`` profile.

    Returns:
        A value for every requested metric. If the data does not suffice, ``value`` is ``None`` and ``condition`` is
        the reason; ``notes`` mention points that were left out.

    Raises:
        UserError: an unknown profile or metric, options for the ``upstream`` profile, or a curve with steps and values
            of different lengths.
    """
    profile = _checked(profile, options)
    wanted = _wanted(names, profile, TRAINING_NAMES[profile])
    return _labelled(_training(curves, profile, wanted, options), profile)


def _training(
    curves: Sequence[tuple[Any, Any]], profile: Profile, wanted: Sequence[str], options: Options | None
) -> dict[str, MetricResult]:
    cleaned, notes = clean_all(curves)
    if profile == "upstream":
        found = reliability_upstream.training(cleaned, wanted)
    else:
        found = reliability_corrected.training(cleaned, wanted, options or Options())
    return _completed(found, profile, len(cleaned), notes, options)


def rollouts(
    returns: Sequence[Any],
    profile: Profile = "upstream",
    *,
    names: Sequence[object] | None = None,
    options: Options | None = None,
) -> ReliabilityScores:
    """Scores the rollouts of several runs of one algorithm on one task.

    Args:
        profile: ``"upstream"`` pools the rollouts of all runs; ``"corrected"`` takes each run's value, then the mean.
        names: the metrics wanted; all when ``None``.
        options: as for ``training``; normalisation by curve range does not apply to rollouts.

    Raises:
        UserError: an unknown profile or metric, or options that do not apply.
    """
    profile = _checked(profile, options)
    return _labelled(_rollouts(returns, profile, _wanted(names, profile, ROLLOUT_NAMES), options), profile)


def _rollouts(
    returns: Sequence[Any], profile: Profile, wanted: Sequence[str], options: Options | None
) -> dict[str, MetricResult]:
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
        found = reliability_upstream.rollouts(runs, wanted)
    else:
        found = reliability_corrected.rollouts(runs, wanted, options or Options())
    return _completed(found, profile, len(runs), notes, options)


def _checked(profile: str, options: Options | None) -> Profile:
    found = profile_named(profile)
    if found == "upstream" and options is not None:
        raise UserError(
            "the upstream profile repeats published formulas and takes no options", hint="use profile='corrected'"
        )
    return found


def _wanted(names: Sequence[object] | None, profile: str, valid: Sequence[str]) -> list[str]:
    if names is None:
        return list(valid)
    wanted = list(dict.fromkeys(metric_name(name) for name in names))
    for name in wanted:
        if name not in valid:
            near = did_you_mean(name, valid)
            raise ConfigError(
                f"the {profile} profile has no such metric here: {name!r}{near}", hint=f"use {', '.join(valid)}"
            )
    return wanted


def _completed(
    found: Mapping[str, MetricResult], profile: Profile, runs: int, notes: Sequence[str], options: Options | None
) -> dict[str, MetricResult]:
    normalised = options is not None and options.normalise is not None
    for name, result in found.items():
        unit = str(DEFINITIONS[name]["unit"])
        unit = unit if profile == "corrected" or unit != "per step" else ""
        result.unit = f"normalised {unit}".rstrip() if normalised else unit
        result.n = runs
        result.notes = [*result.notes, *notes]
    return dict(found)


def _labelled(found: Mapping[str, MetricResult], profile: Profile) -> ReliabilityScores:
    return ReliabilityScores({name: METRICS[name].labelled(result, profile) for name, result in found.items()})


def _training_of(runs: ScoredRuns, profile: Profile) -> dict[str, MetricResult]:
    return _training(runs.curves, profile, list(TRAINING_NAMES[profile]), None)


def _rollouts_of(runs: ScoredRuns, profile: Profile) -> dict[str, MetricResult]:
    """With several tasks, rollouts are scored task by task only."""
    tasks = list(runs.returns.values())
    if len(tasks) <= 1:
        return _rollouts(tasks[0] if tasks else [], profile, list(ROLLOUT_NAMES), None)
    several = f"{len(tasks)} tasks: rollouts are scored task by task only, since their rewards have different scales"
    return {name: MetricResult(condition=several, n=len(tasks[0])) for name in ROLLOUT_NAMES}


def _one(name: str) -> Callable[[ScoredRuns, Profile], MetricResult]:
    shared = _rollouts_of if name in ROLLOUT_NAMES else _training_of
    return lambda runs, profile: runs.once(shared, profile)[name]


METRICS: dict[str, Metric] = {name: metric(**definition)(_one(name)) for name, definition in DEFINITIONS.items()}
