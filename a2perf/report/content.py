"""The content of a report, independent of the format: summary, tasks with tables and charts, then every run.

The page, Markdown and LaTeX render the ``Report`` that is made here.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from a2perf.metrics import registry
from a2perf.metrics.scores import SeedGroup
from a2perf.metrics.values import Profile
from a2perf.plain_text import plain_text
from a2perf.report import provenance
from a2perf.report.across_tasks import AcrossTasks, across_tasks
from a2perf.report.figures.drawing import Chart
from a2perf.report.figures.setting_charts import charts_of_setting
from a2perf.report.names import MODE_TITLES
from a2perf.report.numbers_text import counted
from a2perf.report.own_sections import ReportSection, added_sections
from a2perf.report.run_sections import RootSection, RunSection, root_section, run_table
from a2perf.report.score_tables import ScoreTable, score_table
from a2perf.report.summary import FirstScreen, summary_of
from a2perf.report.tables import Table
from a2perf.report.task_results import Label, TaskResults, labels_of, results_by_task, title_of
from a2perf.runs.run import Run
from a2perf.runs.seed_groups import is_environment_known

MAX_RUNS_WITH_CHARTS = 12
"""In a larger report the runs appear only in the charts of their task; one chart per run would be too many."""
_WARNINGS = ("left out", "not finite", "MIXED", "went back", "did not record", "gone over again")
STATES = ("finished", "failed", "interrupted", "unfinished", "unreadable", "recorded")


@dataclasses.dataclass(frozen=True)
class Condition:
    """A remark that readers of the numbers need."""

    where: str
    href: str
    text: str


def shared(conditions: Sequence[Condition]) -> dict[str, list[tuple[str, str]]]:
    """Returns each distinct remark once, in order, with everything that it is about, as (where, link)."""
    places: dict[str, dict[tuple[str, str], None]] = {}
    for condition in conditions:
        places.setdefault(condition.text, {})[condition.where, condition.href] = None
    return {text: list(where) for text, where in places.items()}


@dataclasses.dataclass(frozen=True)
class SettingSection:
    """One task with all algorithms that were run on it."""

    anchor: str
    setting: TaskResults
    table: ScoreTable
    every_metric: ScoreTable
    charts: list[Chart]


@dataclasses.dataclass(frozen=True)
class Report:
    """The content of a report.

    Attributes:
        own_charts: each run has its own charts and is on the page; a large report has a page per run instead.
    """

    title: str
    overview: str
    summary: FirstScreen
    profile: Profile
    settings: list[SettingSection]
    across: list[AcrossTasks]
    added: list[ReportSection]
    run_table: Table
    sources: Table
    conditions: list[Condition]
    roots: list[RootSection]
    own_charts: bool
    rules: int = registry.RULES

    def runs(self) -> list[RunSection]:
        """Returns the sections of all runs in order."""
        return [run for root in self.roots for run in root.runs]

    def charts(self) -> list[Chart]:
        """Returns every chart in order."""
        compared = [chart for setting in self.settings for chart in setting.charts]
        compared += [across.chart for across in self.across if across.chart is not None]
        compared += [chart for added in self.added for chart in added.charts]
        return [*compared, *(chart for run in self.runs() for chart in run.charts)]


def make_report(
    runs: Sequence[Run], title: str | None = None, profile: Profile = "corrected", verdict: str = ""
) -> Report:
    """Turns runs into a report.

    Args:
        runs: ordered by root.
        verdict: which of two submissions is better, after the sentence on top.
    """
    new_name = functools.partial(_new_name, set())
    results = results_by_task(runs, profile)
    labels = labels_of(results)
    settings: list[SettingSection] = []
    conditions: list[Condition] = []
    for setting in results:
        anchor = new_name(setting.name)
        table = score_table(setting, anchor, profile, labels, short=True)
        every_metric = score_table(setting, f"{anchor}-all", profile, labels)
        charts = charts_of_setting(setting, labels, new_name)
        settings.append(SettingSection(anchor, setting, table, every_metric, charts))
        conditions += conditions_of_setting(anchor, setting.title, setting.groups, labels, table)
    own_charts = len(runs) <= MAX_RUNS_WITH_CHARTS
    by_root: dict[str, list[Run]] = {}
    for run in runs:
        by_root.setdefault(run.root, []).append(run)
    roots = [root_section(label, held, new_name, profile, own_charts) for label, held in by_root.items()]
    sections = [section for root in roots for section in root.runs]
    links = {section.run.key: section.href for section in sections}
    own, problems = added_sections(results, new_name)
    conditions += conditions_of_runs(sections)
    conditions += [Condition(f"report section {name}", "", plain_text(reason)) for name, reason in problems.items()]
    algorithms = sorted({run.algorithm for run in runs if run.state != "unreadable"} - {""})
    made_title = ", ".join(title_of(labels, name) for name in algorithms) or "a2perf report"
    if len(algorithms) > 3:
        made_title = f"{len(algorithms)} submissions on {counted(len(results), 'task')}"
    first = summary_of(results, [part.anchor for part in settings], labels, runs, links)
    return Report(
        title=plain_text(title) if title else made_title,
        overview=_overview(runs),
        summary=dataclasses.replace(first, sentence=" ".join(filter(None, (first.sentence, verdict)))),
        profile=profile,
        settings=settings,
        across=across_tasks(results, labels, new_name),
        added=own,
        run_table=run_table(sections),
        sources=provenance.sources_table(results, labels, links),
        conditions=conditions,
        roots=roots,
        own_charts=own_charts,
    )


def _new_name(given: set[str], *words: str) -> str:
    """Returns a name made of words that is new and safe in files and anchors."""
    base = re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")[:80].strip("-") or "run"
    name, count = base, 1
    while name in given:
        count += 1
        name = f"{base}-{count}"
    given.add(name)
    return name


def _overview(runs: Sequence[Run]) -> str:
    manifests = [run.manifest for run in runs if run.manifest is not None]
    submissions = len({run.algorithm for run in runs if run.state != "unreadable"})
    environments = len({manifest.env_id for manifest in manifests} - {"", None})
    is_known = [is_environment_known(run.identity, run.folder) for run in runs]
    if not environments:
        named = [run.identity for run, known in zip(runs, is_known, strict=True) if known]
        environments = len({(identity.domain, identity.task) for identity in named})
    unknown = is_known.count(False)
    where = f" on {counted(environments, 'environment')}" if environments or not unknown else ""
    where += f", {unknown} of unknown environment" if unknown else ""
    counts = Counter(run.state for run in runs)
    states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    days = sorted({attempt.started_at[:10] for manifest in manifests for attempt in manifest.attempts} - {""})
    when = "" if not days else f" {days[0]}." if len(days) == 1 else f" {days[0]} to {days[-1]}."
    return f"{counted(len(runs), 'run')} of {counted(submissions, 'submission')}{where}: {states}.{when}"


def conditions_of_setting(
    anchor: str, title: str, groups: Sequence[SeedGroup], labels: Mapping[str, Label], table: ScoreTable
) -> list[Condition]:
    """Returns the conditions of a setting: of each algorithm, and of rows that are not ranked."""
    found = []
    names = {row.name: row.label for row in table.rows()}
    for group in groups:
        where = f"{title_of(labels, group.algorithm)}, {MODE_TITLES[group.mode]} on {title}"
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
        found += [Condition(where, f"#{anchor}", text) for text in texts]
    for section in table.sections:
        for row in section.rows:
            if row.remark:
                found.append(Condition(title, f"#{anchor}", f"{row.label}, {MODE_TITLES[section.mode]}, {row.remark}"))
    return found


def conditions_of_runs(sections: Sequence[RunSection]) -> list[Condition]:
    """Returns the conditions of every run, and the metrics of installed packages that could not be loaded."""
    found = [Condition(run.run.key, run.href, text) for run in sections for text in run.conditions]
    return found + [Condition(f"metric package {point}", "", reason) for point, reason in registry.problems().items()]
