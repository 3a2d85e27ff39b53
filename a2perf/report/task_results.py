"""The results of each task by algorithm and mode, computed from runs, and how submissions appear on a page.

Runs that are seeds of one another (``runs.seed_groups``) are scored together by the registry of metrics. Environments
with different behaviour (fingerprints) never share a table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from a2perf.domains import domain_title, task_title
from a2perf.metrics.scores import SeedGroup, score_group
from a2perf.metrics.values import Profile
from a2perf.plain_text import plain_text
from a2perf.records import SubmissionInfo
from a2perf.report.names import submission_title
from a2perf.runs.bundles.layout import MODES
from a2perf.runs.run import Run
from a2perf.runs.seed_groups import SeedKey, grouped, seed_key

_DIGITS = 8


@dataclasses.dataclass(frozen=True)
class TaskResults:
    """One task of one domain, with all algorithms that were run on it.

    Attributes:
        fingerprint: of the environment if the task has several; else ``""``.
        algorithms: names in order; one column each.
    """

    domain: str
    task: str
    fingerprint: str
    algorithms: tuple[str, ...]
    groups: tuple[SeedGroup, ...]

    @property
    def name(self) -> str:
        """Domain and task as the files name them; names of files and anchors are made of it."""
        return self._apart(" / ".join(plain_text(part) for part in (self.domain, self.task) if part))

    @property
    def title(self) -> str:
        """Heading for people, ``"Dog, pace"``."""
        return self._apart(plain_text(task_title(self.domain, self.task)) if self.task else self.domain_title)

    def _apart(self, name: str) -> str:
        name = name or "Runs without a task"
        return f"{name} (fingerprint {self.fingerprint[:_DIGITS]})" if self.fingerprint else name

    @property
    def domain_title(self) -> str:
        """Title of the domain, ``"Quadruped locomotion"``; empty if it is not known."""
        return plain_text(domain_title(self.domain)) if self.domain else ""

    def of(self, algorithm: str, mode: str) -> SeedGroup | None:
        """Returns the group of an algorithm in a mode."""
        return next((group for group in self.groups if (group.algorithm, group.mode) == (algorithm, mode)), None)

    def in_mode(self, mode: str) -> list[SeedGroup]:
        """Returns the groups of a mode, in the order of the algorithms."""
        found = [self.of(algorithm, mode) for algorithm in self.algorithms]
        return [group for group in found if group is not None]


def results_by_task(runs: Sequence[Run], profile: Profile) -> list[TaskResults]:
    """Groups runs and scores every group, each once."""
    known = [run for run in runs if run.state != "unreadable"]
    held = grouped(known, lambda run: seed_key(run.identity, run.folder))
    behaviours: dict[tuple[str, str, str], set[str]] = {}
    for key in held:
        behaviours.setdefault((key.domain, key.task, key.mode), set()).add(key.fingerprint)
    differing = {(domain, task) for (domain, task, _), prints in behaviours.items() if len(prints) > 1}
    tasks: dict[tuple[str, str, str], dict[SeedKey, list[Run]]] = {}
    for key, members in held.items():
        fingerprint = key.fingerprint or "unknown" if (key.domain, key.task) in differing else ""
        tasks.setdefault((key.domain, key.task, fingerprint), {})[key] = members
    return [_task_results(task, tasks[task], profile) for task in sorted(tasks)]


def _task_results(task: tuple[str, str, str], held: Mapping[SeedKey, list[Run]], profile: Profile) -> TaskResults:
    names = _column_names(list(held))
    algorithms = sorted(set(names.values()), key=lambda name: (name.lower(), name))
    groups = []
    for algorithm in algorithms:
        for mode in MODES:
            for key, members in held.items():
                in_mode = [run for run in members if names[key] == algorithm and mode in run.modes()]
                if in_mode:
                    ordered = sorted(in_mode, key=lambda run: (run.identity.seed or 0, run.root))
                    groups.append(score_group(algorithm, ordered, mode, profile))
    return TaskResults(*task, algorithms=tuple(algorithms), groups=tuple(groups))


def _column_names(keys: Sequence[SeedKey]) -> dict[SeedKey, str]:
    """Returns a unique column per group: its algorithm, a view other than the default, and what else differs."""
    versions: dict[str, set[str]] = {}
    layouts: dict[str, set[str]] = {}
    for key in keys:
        versions.setdefault(key.algorithm, set()).add(key.version)
        layouts.setdefault(key.algorithm, set()).add(key.layout)
    names: dict[SeedKey, str] = {}
    taken: set[tuple[str, str]] = set()
    for key in keys:
        # a group of one run that is never averaged with others: its path is its name
        name = plain_text(key.alone or key.algorithm) or "unnamed"
        if key.view:
            name += f" ({plain_text(key.view)})"
        if len(layouts[key.algorithm]) > 1:
            name += f" ({key.layout})"
        if len(versions[key.algorithm]) > 1 and key.version:
            name += f" ({key.version[:_DIGITS]})"
        # groups of one mode can still differ in the environment's arguments or in unprintable characters
        number = 1
        while (column := name if number == 1 else f"{name} ({number})", key.mode) in taken:
            number += 1
        taken.add((column, key.mode))
        names[key] = column
    return names


@dataclasses.dataclass(frozen=True)
class Label:
    """How one submission appears.

    Attributes:
        place: position among all submissions of the page, which gives the colour.
    """

    title: str
    name: str
    info: SubmissionInfo
    place: int


def labels_of(settings: Sequence[TaskResults]) -> dict[str, Label]:
    """Returns the label of each algorithm of a report, by the algorithm's name in ``TaskResults``."""
    groups: dict[str, SeedGroup] = {}
    for setting in settings:
        for group in setting.groups:
            groups.setdefault(group.algorithm, group)
    titles = {}
    for name, group in groups.items():
        run = group.runs[0]
        # ``TaskResults`` tells versions and layouts of one name apart by a suffix
        suffix = name.removeprefix(run.algorithm) if name.startswith(run.algorithm) else ""
        titles[name] = f"{submission_title(run.algorithm, run.info)}{suffix}" or name
    several = {title for title in titles.values() if list(titles.values()).count(title) > 1}
    ordered = sorted(groups, key=lambda name: (name.lower(), name))
    found = {}
    for place, name in enumerate(ordered):
        info = groups[name].runs[0].info
        title = f"{titles[name]} ({name})" if titles[name] in several and titles[name] != name else titles[name]
        found[name] = Label(title, name, info, place)
    return found


def title_of(labels: Mapping[str, Label], name: str) -> str:
    """Returns the title of an algorithm, its name if the page has no label for it."""
    return labels[name].title if name in labels else name
