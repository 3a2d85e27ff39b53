"""How submissions appear on a page: title, kind and one colour each, the same in every table and chart of the page."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from a2perf.report.names import kind_summary, submission_kind, submission_title
from a2perf.report.task_results import SeedGroup, TaskResults


@dataclasses.dataclass(frozen=True)
class Label:
    """How one submission appears.

    Attributes:
        name: of the submission's folder, as the files have it.
        kind: badge, ``"Pre-trained"``; empty if the submission states no kind.
        place: position among all submissions of the page, which gives the colour.
    """

    title: str
    name: str
    kind: str = ""
    kind_summary: str = ""
    place: int = 0


def labels_of(settings: Sequence[TaskResults]) -> dict[str, Label]:
    """Returns the label of each algorithm of a report, by the algorithm's name in ``TaskResults``.

    Args:
        settings: all tasks of the page; a colour then means the same submission in each of them.
    """
    groups: dict[str, SeedGroup] = {}
    for setting in settings:
        for group in setting.groups:
            groups.setdefault(group.algorithm, group)
    titles = {name: _title(group) for name, group in groups.items()}
    several = {title for title in titles.values() if list(titles.values()).count(title) > 1}
    ordered = sorted(groups, key=lambda name: (name.lower(), name))
    found = {}
    for place, name in enumerate(ordered):
        info = groups[name].runs[0].info
        title = f"{titles[name]} ({name})" if titles[name] in several and titles[name] != name else titles[name]
        found[name] = Label(title, name, submission_kind(info), kind_summary(info.kind), place)
    return found


def title_of(labels: Mapping[str, Label], name: str) -> str:
    """Returns the title of an algorithm, its name if the page has no label for it."""
    return labels[name].title if name in labels else name


def _title(group: SeedGroup) -> str:
    run = group.runs[0]
    title = submission_title(run.algorithm, run.info)
    # ``TaskResults`` tells versions and layouts of one name apart by a suffix, which the title needs as well
    suffix = group.algorithm.removeprefix(run.algorithm) if group.algorithm.startswith(run.algorithm) else ""
    return f"{title}{suffix}" or group.algorithm
