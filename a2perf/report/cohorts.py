"""From runs to what a paper compares: settings (a domain's task), algorithms, and their scores by mode.

Runs that agree in everything but the seed are one *cohort* and scored together, by the registry of metrics and nothing
else. Environments of different behaviour (fingerprints) never share a setting.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from a2perf.metrics import application, registry
from a2perf.metrics.runs_in_mode import ScoredRuns, scored_runs
from a2perf.metrics.scores import conditions_of, is_told
from a2perf.metrics.values import MetricValue, Profile
from a2perf.plain_text import plain_text
from a2perf.runs.layout import MODES
from a2perf.runs.run import Run

_DIGITS = 8


@dataclasses.dataclass(frozen=True)
class Cohort:
    """The runs of one algorithm in one mode: seeds of one another.

    Attributes:
        algorithm: name, unique in the setting.
        scores: by name, in the order of the registry; metrics that are not of this mode left out.
        tasks: application metrics of each task, in generalization.
        conditions: what a reader of these scores should know.
    """

    algorithm: str
    mode: str
    runs: tuple[Run, ...]
    data: ScoredRuns
    scores: dict[str, MetricValue]
    tasks: dict[str, dict[str, MetricValue]]
    conditions: tuple[str, ...]

    @property
    def seeds(self) -> list[int | None]:
        """Root seed of each run."""
        return [run.identity.seed for run in self.runs]

    def seed_names(self) -> list[str]:
        """Returns a name for each run, ``"seed 3"`` where that is unique."""
        names = ["" if seed is None else f"seed {seed}" for seed in self.seeds]
        if len(set(names)) < len(names) or "" in names:
            return [run.root for run in self.runs]
        return names


@dataclasses.dataclass(frozen=True)
class Setting:
    """One task of one domain, with all algorithms that were run on it.

    Attributes:
        fingerprint: of the environment, where a task has several; else ``""``.
        algorithms: names in order; one column each.
    """

    domain: str
    task: str
    fingerprint: str
    algorithms: tuple[str, ...]
    cohorts: tuple[Cohort, ...]

    @property
    def title(self) -> str:
        """Heading of the setting."""
        where = " / ".join(plain_text(part) for part in (self.domain, self.task) if part) or "Runs without a task"
        return f"{where} (fingerprint {self.fingerprint[:_DIGITS]})" if self.fingerprint else where

    def of(self, algorithm: str, mode: str) -> Cohort | None:
        """Returns the cohort of an algorithm in a mode."""
        for cohort in self.cohorts:
            if (cohort.algorithm, cohort.mode) == (algorithm, mode):
                return cohort
        return None

    def in_mode(self, mode: str) -> list[Cohort]:
        """Returns the cohorts of a mode, in the order of the algorithms."""
        found = [self.of(algorithm, mode) for algorithm in self.algorithms]
        return [cohort for cohort in found if cohort is not None]


def settings_of(runs: Sequence[Run], profile: Profile) -> list[Setting]:
    """Pools runs and scores every pool, each once.

    Args:
        runs: all runs; those whose manifest cannot be read belong to no setting.
        profile: set of formulas.
    """
    known = [run for run in runs if run.state != "unreadable"]
    behaviours: dict[tuple[str, str, str], set[str]] = {}
    for run in known:
        identity = run.identity
        behaviours.setdefault((identity.domain, identity.task, identity.mode), set()).add(identity.fingerprint)
    differing = {(domain, task) for (domain, task, _), held in behaviours.items() if len(held) > 1}
    grouped: dict[tuple[str, str, str], list[Run]] = {}
    for run in known:
        identity = run.identity
        fingerprint = identity.fingerprint or "unknown" if (identity.domain, identity.task) in differing else ""
        grouped.setdefault((identity.domain, identity.task, fingerprint), []).append(run)
    return [_setting(key, grouped[key], profile) for key in sorted(grouped)]


def _setting(key: tuple[str, str, str], runs: list[Run], profile: Profile) -> Setting:
    names = _column_names(runs)
    algorithms = sorted(set(names), key=lambda name: (name.lower(), name))
    cohorts = []
    for algorithm in algorithms:
        members = [run for run, name in zip(runs, names, strict=True) if name == algorithm]
        for mode in MODES:
            in_mode = [run for run in members if mode in run.modes()]
            if in_mode:
                cohorts.append(_cohort(algorithm, mode, in_mode, profile))
    return Setting(*key, algorithms=tuple(algorithms), cohorts=tuple(cohorts))


def _column_names(runs: Sequence[Run]) -> list[str]:
    """Returns the column of each run: its algorithm, with what tells versions of one name apart."""
    versions: dict[str, set[str]] = {}
    layouts: dict[str, set[str]] = {}
    for run in runs:
        versions.setdefault(run.algorithm, set()).add(run.identity.version)
        layouts.setdefault(run.algorithm, set()).add(run.folder.layout)
    names = []
    for run in runs:
        name = run.algorithm or "unnamed"
        if len(layouts[run.algorithm]) > 1:
            name += f" ({run.folder.layout})"
        if len(versions[run.algorithm]) > 1 and run.identity.version:
            name += f" ({run.identity.version[:_DIGITS]})"
        names.append(name)
    return names


def _cohort(algorithm: str, mode: str, runs: Sequence[Run], profile: Profile) -> Cohort:
    ordered = sorted(runs, key=lambda run: (run.identity.seed or 0, run.root))
    data = scored_runs(ordered, mode)
    scores = {name: value for name, value in registry.score(data, profile).items() if is_told(value, mode)}
    tasks = application.per_task(data, profile) if mode == "generalization" else {}
    conditions = conditions_of(ordered, data, mode)
    return Cohort(algorithm, mode, tuple(ordered), data, scores, tasks, tuple(conditions))
