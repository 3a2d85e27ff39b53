"""The scores of one group of runs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec

from a2perf.api import score_text
from a2perf.metrics import registry
from a2perf.metrics.values import MetricValue
from a2perf.plain_text import plain_text, terminal_text

NORMALISED = "normalised_score"
"""Name of the mean return on the scale of its task in tables and figures."""


class ShownValue(MetricValue, kw_only=True, frozen=True):
    """A ``MetricValue`` that prints as in reports: ``≈ 0.677 mWh, estimated (cpu=tdp_model)``."""

    def __repr__(self) -> str:
        if self.value is None:
            return terminal_text(f"no value: {self.condition or 'not recorded'}")
        entry = msgspec.structs.asdict(self)
        method = f" ({plain_text(self.method)})" if self.method else ""
        return terminal_text(f"{score_text.number_text(entry)}, {self.provenance}{method}")


@dataclass(frozen=True, repr=False)
class ScoredGroup:
    """The scores of one group: runs that are seeds of one experiment. Immutable.

    Attributes:
        algorithm: name of the submission or algorithm.
        domain: the domain, ``""`` if unknown.
        task: the task, ``""`` if unknown or if there are several.
        mode: ``"train"``, ``"inference"`` or ``"generalization"``.
        seeds: root seed of each run; None if unknown.
        runs: name of each run.
        version: hash of the submission's files, ``""`` if unknown.
        fingerprint: hash of the environment's behaviour, ``""`` if unknown.
        view: what the submission observed, ``"text"``; ``""`` for the default of the domain.
        conditions: remarks that a reader of the scores needs.
        entry: the group in ``scores.json``.

    Example:
        >>> group = a2perf.score("results/recorded/small/minimal.zip").groups[0]
        >>> group["returns"].value, group["returns"].interval
    """

    algorithm: str
    domain: str
    task: str
    mode: str
    seeds: tuple[int | None, ...]
    runs: tuple[str, ...]
    version: str
    fingerprint: str
    view: str
    conditions: tuple[str, ...]
    entry: Mapping[str, Any] = field(hash=False)

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> ScoredGroup:
        """Returns an entry of ``groups`` in ``scores.json``."""
        fields: dict[str, Any] = {name: plain_text(entry[name]) for name in ("algorithm", "domain", "task", "view")}
        fields |= {name: entry[name] for name in ("mode", "version", "fingerprint")}
        fields |= {name: tuple(map(plain_text, entry[name])) for name in ("runs", "conditions")}
        return cls(**fields, seeds=tuple(entry["seeds"]), entry=entry)

    @property
    def scores(self) -> Mapping[str, MetricValue]:
        """Value of each metric by name, with unit, interval over runs, provenance and notes."""
        return MappingProxyType(self._scores)

    @property
    def tasks(self) -> Mapping[str, Mapping[str, MetricValue]]:
        """Returns and success of each task, in generalization."""
        return {plain_text(task): metric_values(entry) for task, entry in self.entry["tasks"].items()}

    @property
    def normalised(self) -> score_text.NormalisedReturn | None:
        """Mean return with 0 for the floor and 1 for an expert; None without reference scores."""
        return score_text.normalised_return(self.entry)

    def value_of(self, metric: str) -> MetricValue | None:
        """Returns a metric that has a value; ``"normalised_score"`` is the normalised mean return. None without one."""
        found = self.normalised
        name = registry.meaning(metric, [*([NORMALISED] if found is not None else []), *self._scores])
        if name == NORMALISED and found is not None:
            returns = self.scores["returns"]
            return ShownValue(
                name=NORMALISED, value=found.value, interval=found.interval, n=returns.n, direction="max",
                profile=returns.profile, provenance=returns.provenance, method=found.scale,
            )  # fmt: skip
        value = self._scores.get(name or "")
        return value if value is not None and value.value is not None else None

    def __getitem__(self, metric: str) -> MetricValue:
        """Returns a metric.

        Raises:
            ConfigError: the group has no such metric.
        """
        what = f"{self.algorithm}, {self.mode}: no metric"
        return self._scores[registry.resolve(metric, self._scores, what=what)]

    def __repr__(self) -> str:
        return terminal_text("\n".join(score_text.group_lines(self.entry)))

    @functools.cached_property
    def _scores(self) -> dict[str, MetricValue]:
        return metric_values(self.entry["scores"])


def metric_values(entries: Mapping[str, Any]) -> dict[str, MetricValue]:
    """Returns the metrics of an entry of ``scores.json`` by name."""
    return {name: msgspec.convert(entry, ShownValue) for name, entry in entries.items()}
