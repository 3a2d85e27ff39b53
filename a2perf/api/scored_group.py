"""The scores of one group of runs, as an object and as text: what ``a2perf score`` prints."""

from __future__ import annotations

import functools
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from a2perf.api.views.table import ESTIMATED_MARK, WIDTH
from a2perf.metrics import registry
from a2perf.metrics.values import MetricValue
from a2perf.plain_text import plain_text, terminal_text
from a2perf.report.numbers_text import counted, normalised_text, rounded

NORMALISED = "normalised_score"
"""Name of the mean return on the scale of its task in tables and figures."""
_MOST_CONDITIONS = 20
_DIGITS = 8
MODE_NAMES = {"train": "training", "inference": "inference", "generalization": "generalization"}
HEADLINES = {
    "inference": (
        ("returns", "Return", "mean over episodes"),
        ("LowerCVaRAcrossRollouts", "Worst 5 %", "mean return of the worst episodes"),
        ("outcome_consistency", "Outcomes", "consistency: 1 if all repeats of an episode agree"),
        ("robustness", "Robustness", "success under perturbations / success without"),
        ("calibration", "Confidence", "calibration: 1 if it is the success rate"),
        ("energy_gross", "Energy", ""),
        ("latency_round_trip_median", "Latency", "median per decision"),
        ("memory_rss_peak", "Memory", "peak"),
    ),
    "generalization": (
        ("generalization", "Score", "over all tasks"),
        ("energy_gross", "Energy", ""),
        ("wall_clock", "Time", ""),
        ("memory_rss_peak", "Memory", "peak"),
    ),
    "train": (
        ("MedianPerfDuringTraining", "Return", "median during training"),
        ("LowerCVarOnAcross", "Worst 5 %", "of the final returns over runs"),
        ("energy_gross", "Energy", ""),
        ("wall_clock", "Time", ""),
        ("memory_rss_peak", "Memory", "peak"),
    ),
}
"""The metrics of the short text by mode, each with a plain title and a remark."""


class ShownValue(MetricValue, kw_only=True, frozen=True):
    """A ``MetricValue`` that prints as in reports: ``≈ 0.677 mWh, estimated (cpu=tdp_model)``."""

    def __repr__(self) -> str:
        if self.value is None:
            return terminal_text(f"no value: {self.condition or 'not recorded'}")
        entry = msgspec.structs.asdict(self)
        method = f" ({plain_text(self.method)})" if self.method else ""
        return terminal_text(f"{number_text(entry)}, {self.provenance}{method}")


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
    def normalised(self) -> NormalisedReturn | None:
        """Mean return with 0 for the floor and 1 for an expert; None without reference scores."""
        return normalised_return(self.entry)

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
        return terminal_text("\n".join(group_lines(self.entry)))

    @functools.cached_property
    def _scores(self) -> dict[str, MetricValue]:
        return metric_values(self.entry["scores"])


def metric_values(entries: Mapping[str, Any]) -> dict[str, MetricValue]:
    """Returns the metrics of an entry of ``scores.json`` by name."""
    return {name: msgspec.convert(entry, ShownValue) for name, entry in entries.items()}


class NormalisedReturn(NamedTuple):
    """The mean return of a group on the scale of its task: 0 is the floor and 1 the expert.

    ``interval`` is over runs, None with one run; ``scale`` is the scale in words.
    """

    value: float
    interval: tuple[float, float] | None
    scale: str


def document_text(document: Mapping[str, Any], *, every: bool = False, further: str = "") -> str:
    """Returns the scores of all groups in ``scores.json``, the conditions of the runs and the counts, as lines.

    Args:
        every: list all metrics instead of the main ones.
        further: where the conditions are that are not listed.
    """
    titles = Counter(map(group_title, document["groups"]))
    lines: list[str] = []
    for group in document["groups"]:
        first, *rest = group_lines(group, every=every)
        # other arguments of the environment, another version, or no environment
        detail = group["runs"][0] if not group["task"] else group["env_kwargs"] or group["version"][:_DIGITS]
        if titles[group_title(group)] > 1 and detail:
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
        f"{counted(len(document['runs']), 'run')}, {counted(len(document['groups']), 'group')}; "
        f"profile {document['profile']}, rules {document['rules']}"
    )
    return "\n".join(lines)


def group_lines(group: Mapping[str, Any], *, every: bool = False) -> list[str]:
    """Returns title, conditions and metrics of one group of ``scores.json``."""
    lines = [f"{group_title(group)}: {counted(len(group['runs']), 'run')}"]
    lines += [wrapped(f"! {condition}") for condition in group["conditions"]]
    return [*lines, *(_all_lines(group["scores"]) if every else [text_line(*line) for line in headlines(group)])]


def group_title(group: Mapping[str, Any]) -> str:
    """Returns algorithm, mode and task of a group on one line, with what it observed if that is not the default."""
    where = "/".join(part for part in (group["domain"], group["task"]) if part)
    mode = MODE_NAMES.get(group["mode"], group["mode"])
    view = f", observes {group['view']}" if group["view"] else ""
    return f"{group['algorithm']}, {mode}" + (f" on {where}" if where else "") + view


def headlines(group: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yields title, number and remark of the main metrics of a group that have a value."""
    normalised = normalised_return(group)
    if normalised is not None:
        yield "Score", normalised_number(normalised), normalised.scale
    for metric, title, remark in HEADLINES.get(group["mode"], HEADLINES["train"]):
        entry = group["scores"].get(metric)
        if entry is not None and entry["value"] is not None:
            yield title, number_text(entry), remark


def text_line(title: str, number: str, remark: str = "") -> str:
    """Returns one line of the short text."""
    return f"  {title:<11}{number:<30}{remark}".rstrip()


def number_text(entry: Mapping[str, Any]) -> str:
    """Returns a value with its spread and unit, rounded as in reports; ≈ marks a model's estimate."""
    number = rounded(entry["value"], entry["unit"], entry["spread"])
    spread = f" ± {number.spread}" if number.spread else ""
    mark = ESTIMATED_MARK if entry["provenance"] in ("estimated", "mixed") else ""
    return f"{mark}{number.value}{spread} {number.unit}".rstrip()


def normalised_return(group: Mapping[str, Any]) -> NormalisedReturn | None:
    """Returns the normalised mean return; None if the protocol has no reference scores of the task."""
    from a2perf.metrics import protocol

    returns = group["scores"].get("returns") or {"value": None}
    found = protocol.scored_task(group["task"], group["fingerprint"], group["protocol"])
    if group["mode"] != "inference" or found is None or returns["value"] is None:
        return None
    ends = returns["interval"]
    interval = None if ends is None else (float(found.task.normalise(ends[0])), float(found.task.normalise(ends[1])))
    return NormalisedReturn(float(found.task.normalise(returns["value"])), interval, found.scale)


def normalised_number(score: NormalisedReturn) -> str:
    """Returns a normalised score with its interval as text."""
    text = normalised_text(score.value)
    if score.interval is not None:
        low, high = map(normalised_text, score.interval)
        text += f" [{low}, {high}]"
    return text


def wrapped(text: str) -> str:
    """Returns an indented paragraph of 80 columns."""
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _all_lines(scores: Mapping[str, Any]) -> list[str]:
    width = max(map(len, scores), default=0)
    lines = []
    for name, entry in scores.items():
        text = entry["condition"] if entry["value"] is None else number_text(entry)
        line = f"  {name:{width}}  {text}"
        lines.append(textwrap.fill(line, WIDTH, subsequent_indent=" " * (width + 4), drop_whitespace=True))
    return lines
