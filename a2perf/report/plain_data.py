"""The numbers of a report for programs: ``report.json`` and ``tables.csv``, not rounded, in base units.

``tables.csv`` is in long form, one row per number, ready for a data frame. Rows of level ``algorithm`` are scores over
runs, rows of level ``run`` belong to one run. ``report.json`` adds provenance, intervals and conditions.
"""

from __future__ import annotations

from typing import Any

from a2perf._version import __version__
from a2perf.metrics.bootstrap import Estimate
from a2perf.metrics.values import CATEGORIES, MetricValue
from a2perf.records import SCHEMA, Failure, Record
from a2perf.report.content import Report, SettingSection
from a2perf.report.markdown import FIGURES
from a2perf.report.run_numbers import Measure
from a2perf.report.run_sections import RunSection
from a2perf.report.tables import Quantity, csv_text, exact
from a2perf.runs.bundles.layout import MODES
from a2perf.runs.run import noise

CSV_COLUMNS = (
    "level",
    "run",
    "submission",
    "mode",
    "domain",
    "task",
    "env_id",
    "env_fingerprint",
    "seed",
    "state",
    "category",
    "measure",
    "value",
    "unit",
    "spread",
    "spread_kind",
    "low",
    "high",
    "n",
    "best",
    "direction",
    "provenance",
    "condition",
    "method",
    "note",
)
_OF_NUMBER = ("value", "unit", "spread", "spread_kind", "n", "direction", "provenance", "condition", "method", "note")


class ReportedScore(Record, kw_only=True):
    """One cell of a table of scores.

    Attributes:
        remark: why no value of the row is marked.
    """

    algorithm: str
    mode: str
    category: str
    label: str
    best: bool
    remark: str
    score: MetricValue
    task: str | None = None


class ReportedSetting(Record, kw_only=True):
    """One task with all algorithms that were run on it, in ``report.json``."""

    domain: str
    task: str
    fingerprints: list[str]
    algorithms: list[str]
    runs: dict[str, list[str]]
    seeds: dict[str, list[int | None]]
    conditions: dict[str, list[str]]
    scores: list[ReportedScore]
    figures: list[str]


class ReportedRun(Record, kw_only=True):
    """One run in ``report.json``; fields of its manifest are null if no manifest could be read."""

    run: str
    mode: str
    state: str
    layout: str
    submission: str | None = None
    submission_sha256: str | None = None
    domain: str | None = None
    task: str | None = None
    env_id: str | None = None
    env_fingerprint: str | None = None
    root_seed: int | None = None
    exit_code: int | None = None
    exit_reason: str | None = None
    failure: Failure | None = None
    noisy_host: list[str]
    conditions: list[str]
    measures: list[Measure]
    figures: list[str]


class ReportedAcross(Record, kw_only=True):
    """Submissions over the tasks of a domain, in ``report.json``.

    Attributes:
        scores: normalised score by submission, run and task.
    """

    domain: str
    tasks: list[str]
    scores: dict[str, list[list[float]]]
    iqm: dict[str, Estimate]


class ReportRecord(Record, kw_only=True):
    """``report.json``."""

    schema: int = SCHEMA
    a2perf_version: str
    title: str
    profile: str
    rules: int
    settings: list[ReportedSetting]
    runs: list[ReportedRun]
    across_tasks: list[ReportedAcross]


def report_record(report: Report) -> ReportRecord:
    """Returns the numbers of a report as a record."""
    return ReportRecord(
        a2perf_version=__version__,
        title=report.title,
        profile=report.profile,
        rules=report.rules,
        settings=[_reported_setting(section) for section in report.settings],
        runs=[_reported_run(run) for run in report.runs()],
        across_tasks=[
            ReportedAcross(
                domain=across.domain,
                tasks=list(across.tasks),
                iqm=across.estimates,
                scores={name: matrix.tolist() for name, matrix in across.scores.items()},
            )
            for across in report.across
        ],
    )


def tables_csv(report: Report) -> str:
    """Returns every number of a report as CSV, one per row."""
    rows: list[dict[str, Any]] = []
    for setting in report.settings:
        for of in _scores(setting):
            group = {"level": "algorithm", "submission": of.algorithm, "mode": of.mode, "category": of.category}
            where = {"domain": setting.setting.domain, "task": of.task or setting.setting.task}
            rows.append(group | where | {"best": "yes" if of.best else ""} | _cells(of.score.name, of.score))
    for section in report.runs():
        run, identity = section.run, section.run.identity
        common = {
            "level": "run",
            "run": run.root,
            "mode": run.mode,
            "state": section.state,
            "submission": identity.algorithm,
            "domain": identity.domain,
            "task": identity.task,
            "env_fingerprint": identity.fingerprint,
            "seed": _cell(identity.seed),
            "env_id": "" if run.manifest is None else run.manifest.env_id or "",
        }
        for one in section.measures:
            where = {"category": one.category, "mode": one.mode} | ({} if one.task is None else {"task": one.task})
            rows.append(common | where | _cells(one.key, one.quantity))
        if not section.measures:
            rows.append(common)
    return csv_text(CSV_COLUMNS, rows)


def _cells(name: str, number: MetricValue | Quantity) -> dict[str, str]:
    cells = {"measure": name} | {key: _cell(getattr(number, key, None)) for key in _OF_NUMBER}
    if isinstance(number, MetricValue):
        low, high = number.interval or (None, None)
        cells |= {"low": _cell(low), "high": _cell(high), "note": "; ".join(number.notes)}
        cells["provenance"] *= number.value is not None
    return cells


def _cell(value: float | str | None) -> str:
    return exact(value) if isinstance(value, float) else "" if value is None else str(value)


def _scores(section: SettingSection) -> list[ReportedScore]:
    table = section.every_metric
    # the order in which files have always listed them; the page puts inference before training
    ordered = sorted(table.sections, key=lambda part: (MODES.index(part.mode), CATEGORIES.index(part.category)))
    return [
        ReportedScore(
            algorithm=name,
            mode=part.mode,
            category=part.category,
            label=row.label,
            best=cell.best,
            remark=row.remark,
            score=value,
            task=row.task,
        )
        for part in ordered
        for row in part.rows
        for name, cell, value in zip(table.algorithms, row.cells, row.values, strict=True)
        if value is not None
    ]


def _reported_setting(section: SettingSection) -> ReportedSetting:
    setting = section.setting
    return ReportedSetting(
        domain=setting.domain,
        task=setting.task,
        fingerprints=sorted({r.identity.fingerprint for c in setting.groups for r in c.runs} - {""}),
        algorithms=list(setting.algorithms),
        runs={f"{c.algorithm}/{c.mode}": [run.key for run in c.runs] for c in setting.groups},
        seeds={f"{c.algorithm}/{c.mode}": c.seeds for c in setting.groups},
        conditions={f"{c.algorithm}/{c.mode}": list(c.conditions) for c in setting.groups if c.conditions},
        scores=_scores(section),
        figures=[f"{FIGURES}/{view.name}.svg" for chart in section.charts for view in chart.views],
    )


def _reported_run(section: RunSection) -> ReportedRun:
    run, manifest = section.run, section.run.manifest
    reported = ReportedRun(
        run=run.root,
        mode=run.mode,
        state=section.state,
        layout=run.folder.layout,
        noisy_host=noise(run),
        conditions=section.conditions,
        measures=section.measures,
        figures=[f"{FIGURES}/{chart.name}.svg" for chart in section.charts],
    )
    if manifest is not None:
        reported.submission = manifest.submission.name
        reported.submission_sha256 = manifest.submission.sha256
        for name in ("domain", "task", "env_id", "env_fingerprint", "root_seed", "exit_code", "exit_reason", "failure"):
            setattr(reported, name, getattr(manifest, name))
    return reported
