"""What a reader of the numbers should know: damage, unfinished runs, too few seeds, values that do not compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from a2perf.metrics import registry
from a2perf.report.run_sections import RunSection
from a2perf.report.score_tables import MODE_WORDS, ScoreTable
from a2perf.report.task_results import SeedGroup

_WARNINGS = ("left out", "not finite", "MIXED", "went back", "did not record", "gone over again")


@dataclasses.dataclass(frozen=True)
class Condition:
    """Something that a reader of the numbers should know.

    Attributes:
        where: what it is about: a run, or an algorithm in a setting.
        anchor: of that part of the page.
        words: the condition.
    """

    where: str
    anchor: str
    words: str


def conditions_of_setting(anchor: str, title: str, groups: Sequence[SeedGroup], table: ScoreTable) -> list[Condition]:
    """Returns the conditions of a setting: of each algorithm, and of rows that are not ranked.

    Args:
        anchor: of the setting's part of the page.
        title: of the setting.
        groups: what was scored.
        table: the rows that are shown first.
    """
    found = []
    shown = {row.name: row.label for row in table.rows()}
    for group in groups:
        where = f"{group.algorithm}, {MODE_WORDS[group.mode]} on {title}"
        words = dict.fromkeys(group.conditions)
        for value in group.scores.values():
            if (value.condition or "").startswith("failed"):
                words[f"{value.name} {value.condition}"] = None
            # how a value was made is not a condition of it; what it leaves out is
            words.update(dict.fromkeys(note for note in value.notes if any(sign in note for sign in _WARNINGS)))
        lacking: dict[str, list[str]] = {}
        for name, label in shown.items():
            value_of = group.scores.get(name)
            if value_of is not None and value_of.value is None and (value_of.condition or "").startswith("not enough"):
                lacking.setdefault(value_of.condition or "", []).append(label)
        words.update(dict.fromkeys(f"{condition}: {', '.join(labels)}" for condition, labels in lacking.items()))
        found += [Condition(where, anchor, told) for told in words]
    for section in table.sections:
        for row in section.rows:
            if row.remark:
                found.append(Condition(title, anchor, f"{row.label}, {MODE_WORDS[section.mode]}, {row.remark}"))
    return found


def conditions_of_runs(sections: Sequence[RunSection]) -> list[Condition]:
    """Returns the conditions of every run, and metrics of installed packages that could not be loaded."""
    found = [Condition(run.run.key, run.anchor, words) for run in sections for words in run.conditions]
    return found + [Condition(f"metric package {point}", "", words) for point, words in registry.problems().items()]
