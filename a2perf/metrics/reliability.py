"""Reliability of training (across and within runs) and of rollouts, in two profiles of formulas.

``a2perf`` repeats the earlier public platform, so that published numbers can be recomputed: values in reward units,
pooled over runs. ``corrected`` filters with second-order sections, divides differences by the difference of steps,
takes each run's value first and then the mean over runs with a bootstrap interval, and can normalise. The formulas
descend from Chan et al., "Measuring the Reliability of Reinforcement Learning Algorithms" (ICLR 2020).

    scores = training([(steps, returns), ...], profile="a2perf")
    scores["IqrAcrossRuns"].value
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from a2perf.constants import ReliabilityMetrics
from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.metrics import reliability_corrected, reliability_earlier
from a2perf.metrics.curves import clean_all
from a2perf.metrics.reliability_catalogue import METRICS, ROLLOUT_NAMES, TRAINING_NAMES
from a2perf.metrics.reliability_corrected import Options
from a2perf.metrics.values import PROFILES, MetricValue, Profile, RunData, as_finite

__all__ = ["METRICS", "Options", "Scores", "metric_name", "rollouts", "training"]


def metric_name(name: object) -> str:
    """Returns the stable name for an enum member, its name, or the alias ``LowerCVaROnAcross``."""
    if isinstance(name, ReliabilityMetrics):
        return name.value
    text = str(name.value if isinstance(name, enum.Enum) else name)
    return ReliabilityMetrics[text].value if text in ReliabilityMetrics.__members__ else text


class Scores(Mapping[str, MetricValue]):
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
        return f"Scores({self._values!r})"


def training(
    curves: Sequence[tuple[Any, Any]],
    profile: Profile = "a2perf",
    *,
    names: Sequence[object] | None = None,
    options: Options | None = None,
) -> Scores:
    """Scores the training curves of several runs of one algorithm on one task.

    Args:
        curves: ``(steps, values)`` of each run, arrays of equal length; steps of different runs may differ.
        profile: ``"a2perf"`` or ``"corrected"``.
        names: the metrics wanted (names or ``ReliabilityMetrics``); all of the profile when ``None``.
        options: window, evaluation points, time frame, normalisation and intervals of the ``corrected`` profile.

    Returns:
        A value for every metric asked for. Where the data does not suffice, ``value`` is ``None`` and ``condition``
        says why; points that were left out are in ``notes``.

    Raises:
        UserError: an unknown profile or metric, options for the ``a2perf`` profile, or a curve whose steps and values
            differ in length.
    """
    _check(profile, options)
    wanted = _wanted(names, profile, TRAINING_NAMES)
    if profile == "a2perf":
        cleaned, notes = clean_all(curves, restarts="average")
        found = reliability_earlier.training(cleaned, wanted)
    else:
        cleaned, notes = clean_all(curves, restarts="discard")
        found = reliability_corrected.training(cleaned, wanted, options or Options())
    return _labelled(found, wanted, profile, len(cleaned), notes, options)


def rollouts(
    returns: Sequence[Any],
    profile: Profile = "a2perf",
    *,
    names: Sequence[object] | None = None,
    options: Options | None = None,
) -> Scores:
    """Scores the rollouts of several runs of one algorithm on one task.

    Args:
        returns: one array of episode returns a run.
        profile: ``"a2perf"`` pools the rollouts of all runs; ``"corrected"`` takes each run's value, then the mean.
        names: the metrics wanted; all when ``None``.
        options: as for ``training``; normalisation by curve range does not apply to rollouts.

    Raises:
        UserError: an unknown profile or metric, or options that do not apply.
    """
    _check(profile, options)
    wanted = _wanted(names, profile, ROLLOUT_NAMES)
    notes, runs = [], []
    for number, values in enumerate(returns):
        finite, lost = as_finite(values)
        if lost:
            notes.append(f"run {number}: {lost} of {finite.size + lost} returns are not finite and left out")
        if finite.size:
            runs.append(finite)
        else:
            notes.append(f"run {number} has no finite return and is left out")
    if profile == "a2perf":
        found = reliability_earlier.rollouts(runs, wanted)
    else:
        found = reliability_corrected.rollouts(runs, wanted, options or Options())
    return _labelled(found, wanted, profile, len(runs), notes, options)


def training_of(data: RunData, profile: Profile) -> Mapping[str, MetricValue]:
    """Scores the curves among recorded data; what the registry calls."""
    return training(data.curves, profile)


def rollouts_of(data: RunData, profile: Profile) -> Mapping[str, MetricValue]:
    """Scores the returns among recorded data; with several tasks, each run's tasks are taken one after another."""
    tasks = list(data.returns.values())
    if len(tasks) <= 1:
        return rollouts(tasks[0] if tasks else [], profile)
    several = f"{len(tasks)} tasks: rollouts are scored task by task only, since their rewards have different scales"
    return {
        name: MetricValue(
            name=name, direction=METRICS[name].direction, profile=profile, condition=several, n=len(tasks[0])
        )
        for name in ROLLOUT_NAMES[profile]
    }


def _check(profile: str, options: Options | None) -> None:
    if profile not in PROFILES:
        near = did_you_mean(str(profile), PROFILES)
        raise ConfigError(f"unknown profile {profile!r}{near}", hint=f"use one of {', '.join(PROFILES)}")
    if profile == "a2perf" and options is not None:
        raise UserError(
            "the a2perf profile repeats published formulas and takes no options", hint="use profile='corrected'"
        )


def _wanted(names: Sequence[object] | None, profile: str, of_kind: Mapping[str, Sequence[str]]) -> list[str]:
    valid = list(of_kind[profile])
    if names is None:
        return valid
    wanted = list(dict.fromkeys(metric_name(name) for name in names))
    for name in wanted:
        if name not in valid:
            near = did_you_mean(name, valid)
            raise ConfigError(
                f"the {profile} profile has no such metric here: {name!r}{near}", hint=f"use {', '.join(valid)}"
            )
    return wanted


def _labelled(
    found: Mapping[str, reliability_earlier.Result],
    wanted: Sequence[str],
    profile: Profile,
    runs: int,
    notes: Sequence[str],
    options: Options | None,
) -> Scores:
    normalised = options is not None and options.normalise is not None
    labelled = {}
    for name in wanted:
        result, metric = found[name], METRICS[name]
        unit = metric.unit if profile == "corrected" or metric.unit != "per step" else ""
        if normalised:
            unit = f"normalised {unit}".rstrip()
        labelled[name] = MetricValue(
            name=name,
            value=result.value,
            spread=result.spread,
            spread_kind=result.spread_kind if result.spread is not None else None,
            interval=result.interval,
            per_run=result.per_run,
            n=runs,
            unit=unit,
            direction=metric.direction,
            profile=profile,
            condition=result.condition,
            notes=[*result.notes, *notes],
        )
    return Scores(labelled)
