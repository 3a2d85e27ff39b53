"""Scores as text: what ``a2perf score`` prints, and the representations of ``Scores`` and ``Result``."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from a2perf.api.table import ESTIMATED_MARK, WIDTH
from a2perf.plain_text import plain_text
from a2perf.report.numbers_text import counted, normalised_text, rounded

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


class NormalisedReturn(NamedTuple):
    """The mean return of a group on the scale of its task: 0 is the floor and 1 the expert.

    Attributes:
        value: the normalised mean return.
        interval: ``(low, high)`` over runs; None with one run.
        scale: the scale in words.
    """

    value: float
    interval: tuple[float, float] | None
    scale: str


def document_text(document: Mapping[str, Any], *, every: bool = False, further: str = "") -> str:
    """Returns the scores of all groups, the conditions of the runs and the counts, as lines.

    Args:
        document: of ``scores.json``.
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

    returns = group["scores"].get("returns")
    found = protocol.scored_task(group["task"], group["fingerprint"], group["protocol"])
    if group["mode"] != "inference" or found is None:
        return None
    task = found.task
    if returns is None or returns["value"] is None:
        return None
    interval = None
    if returns["interval"] is not None:
        low, high = (float(task.normalise(end)) for end in returns["interval"])
        interval = (low, high)
    return NormalisedReturn(float(task.normalise(returns["value"])), interval, found.scale)


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
