"""The scores of one group of runs, as an object and as text: what ``a2perf score`` prints."""

from __future__ import annotations

import functools
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from a2perf.api.views.table import WIDTH
from a2perf.metrics import registry
from a2perf.metrics.values import NORMALISED, Lead, MetricValue
from a2perf.plain_text import plain_text, terminal_text
from a2perf.report.names import MODE_TITLES
from a2perf.report.numbers_text import (
    Scale,
    counted,
    interval_text,
    marks_of,
    normalised_text,
    rounded_text,
    sample_text,
    written,
)

if TYPE_CHECKING:
    from a2perf.metrics.protocol import NormalisedReturn

_MOST_CONDITIONS = 20
_DIGITS = 8


class ShownValue(MetricValue, kw_only=True, frozen=True):
    """A ``MetricValue`` that prints as in reports: ``≈ 0.677 mWh, estimated (cpu=tdp_model)``."""

    def __repr__(self) -> str:
        if self.value is None:
            return terminal_text(f"no value: {self.condition or 'not recorded'}")
        method = f" ({plain_text(self.method)})" if self.method else ""
        return terminal_text(f"{number_text(self)}, {self.provenance}{method}")


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
        return {plain_text(task): _values(entry) for task, entry in self.entry["tasks"].items()}

    @property
    def normalised(self) -> NormalisedReturn | None:
        """Mean return with 0 for the floor and 1 for an expert; None without reference scores."""
        from a2perf.metrics import protocol

        found = None
        if self.mode == "generalization":
            return protocol.over_tasks(self._scores.get("generalization_score"))
        if self.mode == "inference":
            found = protocol.scored_task(self.entry["task"], self.fingerprint, self.entry["protocol"])
        return None if found is None else found.normalised(self._scores.get("returns"))

    def value_of(self, metric: str) -> MetricValue | None:
        """Returns a metric that has a value; ``"normalised_score"`` is the normalised mean return. None without one."""
        found = self.normalised
        name = registry.meaning(metric, [*([NORMALISED] if found is not None else []), *self._scores])
        if name == NORMALISED and found is not None:
            returns = self.scores["generalization_score" if self.mode == "generalization" else "returns"]
            return ShownValue(
                name=NORMALISED,
                value=found.value,
                interval=found.interval,
                n=returns.n,
                direction="max",
                profile=returns.profile,
                provenance=returns.provenance,
                method=found.scale,
            )
        value = self._scores.get(name or "")
        return value if value is not None and value.value is not None else None

    def __getitem__(self, metric: str) -> MetricValue:
        """Returns a metric; a ``ConfigError`` if the group has none of this name."""
        what = f"{self.algorithm}, {self.mode}: no metric"
        return self._scores[registry.resolve(metric, self._scores, what=what)]

    def __repr__(self) -> str:
        return terminal_text("\n".join(self.lines()))

    def title(self) -> str:
        """Returns algorithm, mode, task and a view other than the default on one line, control characters unchanged."""
        entry = self.entry
        where = "/".join(part for part in (entry["domain"], entry["task"]) if part)
        view = f", observes {entry['view']}" if entry["view"] else ""
        return f"{entry['algorithm']}, {MODE_TITLES[self.mode]}" + (f" on {where}" if where else "") + view

    def lines(self, *, every: bool = False) -> list[str]:
        """Returns title, conditions and the main metrics that have a value, or every metric."""
        lines = [f"{self.title()}: {sample_text(self.entry['policies'], self.entry['episodes'])}"]
        lines += [wrapped(f"! {condition}") for condition in self.entry["conditions"]]
        if every:
            width = max(map(len, self._scores), default=0)
            for name, value in self._scores.items():
                text = value.condition if value.value is None else number_text(value)
                line = f"  {name:{width}}  {text}"
                lines.append(textwrap.fill(line, WIDTH, subsequent_indent=" " * (width + 4), drop_whitespace=True))
            return lines
        if (normalised := self.normalised) is not None:
            lines.append(text_line("Score", normalised_number(normalised), normalised.scale))
        for metric in registry.leading(Lead.TEXT, self.mode):
            if (shown := self._scores.get(metric.name)) is not None and shown.value is not None:
                lines.append(text_line(metric.title, number_text(shown)))
                if metric.name == "returns" and shown.interval and len(set(self.entry["policies"])) > 1:
                    lines.append(text_line("Interval", ends_text(shown.interval), "95 %, over trained policies"))
        return lines

    @functools.cached_property
    def _scores(self) -> dict[str, MetricValue]:
        return _values(self.entry["scores"])


def ends_text(interval: tuple[float, float]) -> str:
    """Returns ``[1.10, 1.30]``, rounded to the second digit of its half width."""
    low, high = interval
    return written((low + high) / 2, Scale(1.0, ""), (high - low) / 2, interval).interval()


def _values(entries: Mapping[str, Any]) -> dict[str, MetricValue]:
    found: dict[str, MetricValue] = msgspec.convert(entries, dict[str, ShownValue])
    return found


def document_text(
    document: Mapping[str, Any], groups: Sequence[ScoredGroup], *, every: bool = False, further: str = ""
) -> str:
    """Returns the scores of all groups in ``scores.json``, the conditions of the runs and the counts, as lines.

    Args:
        further: where the conditions are that are not listed.
    """
    titles = Counter(group.title() for group in groups)
    lines: list[str] = []
    for group in groups:
        first, *rest = group.lines(every=every)
        # other arguments of the environment, another version, or no environment
        entry = group.entry
        detail = entry["runs"][0] if not entry["task"] else entry["env_kwargs"] or entry["version"][:_DIGITS]
        if titles[group.title()] > 1 and detail:
            first = f"{first} ({plain_text(detail)})"
        lines += [first, *rest, ""]
    found: dict[str, list[str]] = {}
    for run in document["runs"]:
        for condition in run["conditions"]:
            found.setdefault(condition, []).append(run["run"])
    if found:
        lines.append(f"Conditions of {counted(len({run for runs in found.values() for run in runs}), 'run')}:")
    for condition, (first, *others) in list(found.items())[:_MOST_CONDITIONS]:
        lines.append(wrapped(f"{first}{f' and {len(others)} more' if others else ''}: {condition}"))
    if len(found) > _MOST_CONDITIONS:
        lines.append(f"  {len(found) - _MOST_CONDITIONS} more in {further or 'the document'}")
    lines.append(
        f"{counted(len(document['runs']), 'run')}, {counted(len(groups), 'group')}; "
        f"profile {document['profile']}, rules {document['rules']}"
    )
    return "\n".join(lines)


def text_line(title: str, number: str, remark: str = "") -> str:
    """Returns one line of the short text."""
    return f"  {title:<29}{number:<20}  {remark}".rstrip()


def number_text(shown: MetricValue) -> str:
    """Returns a value with its spread and unit, rounded as in reports; ≈ marks a model's estimate."""
    assert shown.value is not None
    return f"{marks_of(shown.provenance)[0]} {rounded_text(shown.value, shown.unit, shown.spread)}".lstrip()


def normalised_number(score: NormalisedReturn) -> str:
    """Returns a normalised score with its interval as text."""
    return f"{normalised_text(score.value)} {interval_text(score.interval)}".rstrip()


def wrapped(text: str) -> str:
    """Returns an indented paragraph of 80 columns."""
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
