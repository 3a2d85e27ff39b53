"""The metrics that there are: built-in ones, and those that installed packages add.

A package adds metrics with an entry point of the group ``a2perf.metrics`` that names a ``Metric`` or a list of them::

    [project.entry-points."a2perf.metrics"]
    my_metric = "my_package.metrics:MY_METRIC"

One that cannot be loaded, or a metric that raises, costs only itself.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from a2perf.constants import SystemMetrics
from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.metrics import application, data_cost, efficiency, latency, per_decision, system
from a2perf.metrics.definition import Metric
from a2perf.metrics.profiles.reliability import METRICS as RELIABILITY
from a2perf.metrics.profiles.reliability import metric_name
from a2perf.metrics.runs_in_mode import ScoredRuns
from a2perf.metrics.statistics import ranks
from a2perf.metrics.values import CATEGORIES, NORMALISED, Lead, MetricResult, MetricValue, Profile, profile_named
from a2perf.plugins import RejectedPlugin, load_plugins

GROUP = "a2perf.metrics"
# Version of the formulas. It is stored with scores; only scores of the same version are comparable.
# 4: costs of scored steps alone; 3: latency of scored steps in place of timed calls; 2: intervals for few runs
RULES = 4
_OF_SYSTEM_ENUM = {
    SystemMetrics.INFERENCE_TIME: ("latency_",),
    SystemMetrics.TRAINING_TIME: ("wall_clock", "cpu_time"),
    SystemMetrics.MEMORY_USAGE: ("memory_",),
}

_MOST_NAMED = 6


def all_metrics() -> dict[str, Metric]:
    """Returns every metric by name: application, reliability, system, data, then those of packages.

    Within a category those that lead come first, in the order in which outputs list them.
    """
    return dict(_load()[0])


def leading(least: Lead, mode: str) -> list[Metric]:
    """Returns the metrics that lead in a mode."""
    return [metric for metric in all_metrics().values() if metric.lead_in(mode) >= least]


def beside(name: str) -> list[Metric]:
    """Returns the metrics that short tables write in the cells of another."""
    return [metric for metric in all_metrics().values() if metric.beside == name]


def problems() -> dict[str, str]:
    """Returns the entry points that gave no metric, with the reason."""
    return dict(_load()[1])


def reload() -> None:
    """Forgets what packages had registered; the next look-up asks them again."""
    _load.cache_clear()
    _words.cache_clear()


def select(selection: Iterable[object] | object) -> list[Metric]:
    """Returns the metrics of names, categories (``"system"``) and members of the enums of metrics.

    A name that no metric has is a ``ConfigError``.
    """
    known = all_metrics()
    several = list(selection) if isinstance(selection, Iterable) and not isinstance(selection, str) else [selection]
    chosen: dict[str, Metric] = {}
    for wanted in several:
        for metric in _matching(wanted, known):
            chosen[metric.name] = metric
    return list(chosen.values())


def score(
    runs: ScoredRuns, profile: Profile = "corrected", *, names: Iterable[object] | None = None
) -> dict[str, MetricValue]:
    """Computes metrics of runs that differ by their seed, in the order of the registry.

    A metric without formula in the profile is left out, and, with ``names`` of None, one that does not apply to the
    runs. One that raises becomes a value with the error as its ``condition``.
    """
    profile = profile_named(profile)
    found = {}
    for metric in all_metrics().values() if names is None else select(names):
        if profile not in metric.profiles:
            continue
        try:
            if names is None and metric.applies is not None and not metric.applies(runs):
                continue
            found[metric.name] = metric.score(runs, profile)
        except Exception as error:  # a metric of a package may do anything; the others must still be computed
            failed = MetricResult(condition=f"failed: {type(error).__name__}: {error}", provenance="recorded")
            found[metric.name] = metric.labelled(failed, profile)
    return found


def rank(by_algorithm: Mapping[str, MetricValue]) -> dict[str, float]:
    """Ranks algorithms by one metric, 1 for the best; ties share the mean rank; those without a value are left out.

    Values of several metrics, units, profiles or provenances, and a metric without a better or worse, are a
    ``UserError``.
    """
    valued = {name: value for name, value in by_algorithm.items() if value.value is not None}
    if not valued:
        return {}
    kinds = {(value.name, value.unit, value.profile) for value in valued.values()}
    if len(kinds) > 1:
        listed = "; ".join(sorted(" ".join(str(part) for part in kind) for kind in kinds))
        raise UserError(f"different kinds of values cannot be ranked: {listed}", hint="score all with one profile")
    provenances = {value.provenance for value in valued.values()}
    if len(provenances) > 1 or "mixed" in provenances:
        listed = ", ".join(f"{name}: {value.provenance}" for name, value in valued.items())
        raise UserError(
            f"measured and estimated values are never ranked against each other ({listed})",
            hint="rank only runs that were recorded the same way",
        )
    direction = next(iter(valued.values())).direction
    if direction == "none":
        raise UserError("this metric has no better or worse", hint="rank by another metric")
    numbers = [float(value.value) for value in valued.values() if value.value is not None]
    return dict(zip(valued, ranks(numbers, best=direction).tolist(), strict=True))


def _matching(wanted: object, known: Mapping[str, Metric]) -> Sequence[Metric]:
    if isinstance(wanted, str) and wanted.upper() in SystemMetrics.__members__:
        wanted = SystemMetrics[wanted.upper()]
    if isinstance(wanted, SystemMetrics):
        starts = _OF_SYSTEM_ENUM[wanted]
        return [metric for name, metric in known.items() if name.startswith(starts)]
    if isinstance(wanted, Metric):
        return [wanted]
    name = metric_name(wanted)
    if name in CATEGORIES:
        return [metric for metric in known.values() if metric.category == name]
    return [known[resolve(name, known)]]


def meaning(text: object, known: Iterable[str] | None = None) -> str | None:
    """Returns the name of the metric that a text means, by name, label, title or another word; None if there is none.

    Args:
        text: ``"latency_round_trip_mean"``, ``"round_trip, mean"``, ``"Decision latency"`` or ``"latency"``; case
            and punctuation do not count.
        known: the names to choose from; all metrics when None.
    """
    names = all_metrics() if known is None else dict.fromkeys(known)
    name = metric_name(text)
    if name in names:
        return name
    plain = _plain(name)
    if plain == "score" and NORMALISED in names:
        return NORMALISED
    meant = [*_words().get(plain, ()), *(other for other in names if _plain(other) == plain)]
    return next((one for one in meant if one in names), None)


def resolve(text: object, known: Iterable[str] | None = None, *, what: str = "there is no metric") -> str:
    """Returns the metric that a text means, as ``meaning``; without one a ``ConfigError`` that begins with ``what``."""
    names = list(all_metrics() if known is None else known)
    found = meaning(text, names)
    if found is not None:
        return found
    metrics = all_metrics()
    words = [word for name in names if name in metrics for word in (metrics[name].title, *metrics[name].words)]
    near = did_you_mean(str(text), [*names, *words])
    first = [name for name in names if name in metrics and metrics[name].leads(Lead.COLUMN)]
    some = (first or names)[:_MOST_NAMED]
    more = f" and {len(names) - len(some)} more, see docs/reference/scores.md" if len(names) > len(some) else ""
    raise ConfigError(f"{what} {str(text)!r}{near}", hint=f"use {', '.join(some)}{more}")


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


@functools.cache
def _words() -> dict[str, list[str]]:
    """Returns the metrics that each text means, without case and punctuation."""
    found: dict[str, list[str]] = {}
    for name, metric in all_metrics().items():
        for word in dict.fromkeys(map(_plain, (metric.label, metric.title, *metric.words))):
            found.setdefault(word, []).append(name)
    return found


@functools.cache
def _load() -> tuple[dict[str, Metric], dict[str, str]]:
    built_in = (
        *application.METRICS,
        *RELIABILITY.values(),
        *efficiency.METRICS,
        *per_decision.METRICS,
        *latency.METRICS,
        *system.METRICS,
        *data_cost.METRICS,
    )
    found = {metric.name: metric for metric in built_in}

    def accept(_: str, loaded: Any) -> None:
        refused = ""
        for metric in [loaded] if isinstance(loaded, Metric) else list(loaded):
            if not isinstance(metric, Metric):
                refused = f"{metric!r} is not a Metric"
            elif metric.name in found:
                refused = f"the name {metric.name!r} is taken"
            else:
                found[metric.name] = metric
        if refused:
            raise RejectedPlugin(refused)

    problems = load_plugins(GROUP, accept)
    return found, {name: str(problem) for name, problem in problems.items()}
