"""Remarks on how far the numbers can be trusted: damage, unfinished runs, few seeds, values that do not compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from a2perf.metrics import registry
from a2perf.report.run_sections import RunSection
from a2perf.report.score_tables import MODE_WORDS, ScoreTable
from a2perf.report.task_results import Label, SeedGroup, title_of

_WARNINGS = ("left out", "not finite", "MIXED", "went back", "did not record", "gone over again")


@dataclasses.dataclass(frozen=True)
class Condition:
    """A remark that readers of the numbers need."""

    where: str
    anchor: str
    text: str


@dataclasses.dataclass(frozen=True)
class SharedCondition:
    """A remark with everything that it is about, as (where, anchor)."""

    text: str
    places: tuple[tuple[str, str], ...]


def shared(conditions: Sequence[Condition]) -> list[SharedCondition]:
    """Returns each distinct remark once, in order; a large report repeats most of them."""
    places: dict[str, list[tuple[str, str]]] = {}
    for condition in conditions:
        places.setdefault(condition.text, []).append((condition.where, condition.anchor))
    return [SharedCondition(text, tuple(dict.fromkeys(where))) for text, where in places.items()]


def conditions_of_setting(
    anchor: str, title: str, groups: Sequence[SeedGroup], labels: Mapping[str, Label], table: ScoreTable
) -> list[Condition]:
    """Returns the conditions of a setting: of each algorithm, and of rows that are not ranked."""
    found = []
    names = {row.name: row.label for row in table.rows()}
    for group in groups:
        where = f"{title_of(labels, group.algorithm)}, {MODE_WORDS[group.mode]} on {title}"
        texts = dict.fromkeys(group.conditions)
        for value in group.scores.values():
            if (value.condition or "").startswith("failed"):
                texts[f"{value.name} {value.condition}"] = None
            # most notes describe how a value was computed; only those about left-out data affect trust
            texts.update(dict.fromkeys(note for note in value.notes if any(sign in note for sign in _WARNINGS)))
        missing: dict[str, list[str]] = {}
        for name, label in names.items():
            value_of = group.scores.get(name)
            if value_of is not None and value_of.value is None and (value_of.condition or "").startswith("not enough"):
                missing.setdefault(value_of.condition or "", []).append(label)
        texts.update(dict.fromkeys(f"{condition}: {', '.join(metrics)}" for condition, metrics in missing.items()))
        found += [Condition(where, anchor, text) for text in texts]
    for section in table.sections:
        for row in section.rows:
            if row.remark:
                found.append(Condition(title, anchor, f"{row.label}, {MODE_WORDS[section.mode]}, {row.remark}"))
    return found


def conditions_of_runs(sections: Sequence[RunSection]) -> list[Condition]:
    """Returns the conditions of every run, and the metrics of installed packages that could not be loaded."""
    found = [Condition(run.run.key, run.anchor, text) for run in sections for text in run.conditions]
    return found + [Condition(f"metric package {point}", "", reason) for point, reason in registry.problems().items()]
