"""Scores as tables: one row per group and metric, or one row per group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from a2perf.api.columns import Kind
from a2perf.api.scored_group import NORMALISED, ScoredGroup
from a2perf.api.table import Table
from a2perf.metrics import registry
from a2perf.metrics.values import MetricValue

_LONG: dict[str, tuple[Kind, str]] = {
    "algorithm": ("text", "name of the submission or algorithm"),
    "task": ("text", "the task; of each task in generalization, and empty for a value over all tasks"),
    "mode": ("text", "train, inference or generalization"),
    "metric": ("text", "name of the metric"),
    "value": ("float", "the value, in the unit of the row"),
    "spread": ("float", "a standard deviation; spread_kind names the population"),
    "low": ("float", "lower end of the 95 % interval over runs"),
    "high": ("float", "upper end of the 95 % interval over runs"),
    "n": ("int", "number of runs behind the value"),
    "unit": ("text", "unit; empty for the unit of the reward"),
    "direction": ("text", "max: higher is better; min: lower is better"),
    "provenance": ("text", "measured, estimated, mixed or recorded"),
    "condition": ("text", "why there is no value"),
    "domain": ("text", "the domain"),
    "spread_kind": ("text", "the population of the spread"),
    "method": ("text", "how the number was measured or estimated"),
    "profile": ("text", "set of formulas"),
    "version": ("text", "hash of the submission's files"),
    "fingerprint": ("text", "hash of the environment's behaviour"),
    "view": ("text", "what the submission observed; empty for the default of the domain"),
}
_OF_GROUP = ("algorithm", "domain", "mode", "version", "fingerprint", "view")
_IN_UNIT_OF_ROW = ("value", "spread", "low", "high")
_FIRST: dict[str, Kind] = {"algorithm": "text", "task": "text", "mode": "text", "runs": "int"}
_LAST: dict[str, Kind] = {"domain": "text", "version": "text", "fingerprint": "text", "view": "text"}


def long_table(groups: Sequence[ScoredGroup], metrics: Iterable[str] | None = None) -> Table:
    """Returns one row per group and metric; generalization also has one row per task.

    Raises:
        ConfigError: no group has one of these metrics.
    """
    chosen = _chosen(groups, metrics)
    columns: dict[str, list[object]] = {name: [] for name in _LONG}
    for group in groups:
        for task, value in _entries(group):
            if value.name not in chosen:
                continue
            low, high = value.interval or (None, None)
            row = {"task": task, "metric": value.name, "low": low, "high": high}
            for name in columns:
                of = group if name in _OF_GROUP else value
                columns[name].append(row[name] if name in row else getattr(of, name))
    return Table(
        columns,
        title="Scores",
        row_units=dict.fromkeys(_IN_UNIT_OF_ROW, "unit"),
        row_provenance=dict.fromkeys(_IN_UNIT_OF_ROW, "provenance"),
        descriptions={name: words for name, (_, words) in _LONG.items()},
        kinds={name: kind for name, (kind, _) in _LONG.items()},
    )


def wide_table(groups: Sequence[ScoredGroup], metrics: Iterable[str] | None = None) -> Table:
    """Returns one row per group and one column per metric that any group has a value of.

    Raises:
        ConfigError: no group has one of these metrics.
    """
    from a2perf.report.score_tables import HEADLINES

    chosen = _chosen(groups, metrics)
    if metrics is None:
        chosen.sort(key=lambda name: HEADLINES.index(name) if name in HEADLINES else len(HEADLINES))
    found = {name: [group.value_of(name) for group in groups] for name in chosen}
    if metrics is None:
        chosen = [name for name in chosen if any(value is not None for value in found[name])]
    columns: dict[str, list[object]] = {name: [getattr(group, name) for group in groups] for name in _FIRST}
    columns["runs"] = [len(group.runs) for group in groups]
    kinds: dict[str, Kind] = {**_FIRST, **dict.fromkeys(chosen, "float"), **_LAST}
    units, provenance = {}, {}
    for name in chosen:
        columns[name] = [None if value is None else value.value for value in found[name]]
        known = [value for value in found[name] if value is not None]
        units[name] = known[0].unit if known else ""
        sources = {value.provenance for value in known}
        if sources:
            provenance[name] = sources.pop() if len(sources) == 1 else "mixed"
    columns |= {name: [getattr(group, name) for group in groups] for name in _LAST}
    return Table(columns, title="Scores by group", units=units, provenance=provenance, kinds=kinds)


def _entries(group: ScoredGroup) -> Iterator[tuple[str, MetricValue]]:
    if (normalised := group.value_of(NORMALISED)) is not None:
        yield group.task, normalised
    for value in group.scores.values():
        yield group.task, value
    for task, values in group.tasks.items():
        for value in values.values():
            yield task, value


def _chosen(groups: Sequence[ScoredGroup], metrics: Iterable[str] | None) -> list[str]:
    known = [NORMALISED] if any(group.normalised for group in groups) else []
    known += dict.fromkeys(name for group in groups for name in group.scores)
    known += sorted({name for group in groups for values in group.tasks.values() for name in values} - set(known))
    if metrics is None:
        return known
    chosen = [metrics] if isinstance(metrics, str) else list(metrics)
    return [registry.resolve(name, known, what="no group has a metric") for name in chosen]
