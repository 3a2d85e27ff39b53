"""Writes a report: ``index.html``, ``report.md``, ``tables.csv``, ``report.json`` and ``figures/``.

``tables.csv`` is long: one row a number, ready for a data frame. ``report.json`` holds the same numbers by run, with
everything that qualifies them.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from a2perf import __version__
from a2perf.errors import UserError
from a2perf.records import SCHEMA, Failure, Record
from a2perf.report.content import Report, RunSection, make_report
from a2perf.report.experiment import load_experiment
from a2perf.report.markdown import FIGURES, to_markdown_report
from a2perf.report.measures import Measure
from a2perf.report.page import to_page
from a2perf.report.provenance import noise
from a2perf.storage import write_atomic, write_json

CSV_COLUMNS = (
    "run", "submission", "mode", "domain", "task", "env_id", "env_fingerprint", "seed", "state", "category", "measure",
    "value", "unit", "spread", "spread_kind", "n", "provenance", "method", "note",
)  # fmt: skip


class ReportedRun(Record, kw_only=True):
    """One bundle in ``report.json``; what its manifest says is null when the manifest cannot be read.

    Attributes:
        noisy_host: why times of this run should be doubted; empty on a quiet host.
        notes: damage, warnings and failed trackers, in words.
        figures: files of its charts, relative to the report.
    """

    run: str
    mode: str
    state: str
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
    notes: list[str]
    measures: list[Measure]
    figures: list[str]


class ReportRecord(Record, kw_only=True):
    """``report.json``."""

    schema: int = SCHEMA
    a2perf_version: str
    title: str
    runs: list[ReportedRun]


@dataclasses.dataclass(frozen=True)
class ReportFiles:
    """Where a report lies.

    Attributes:
        page: ``index.html``.
        record: what ``report.json`` holds.
        lede: one sentence on what was reported.
    """

    page: Path
    record: ReportRecord
    lede: str


def write_report(runs: Sequence[Path], out: Path, *, title: str | None = None) -> ReportFiles:
    """Reads every run at or below the given folders and writes a report.

    Args:
        runs: run roots, folders that hold them, or bundles.
        out: folder to write; figures of an earlier report there are replaced.
        title: heading of the report.

    Raises:
        UserError: a folder does not exist, holds no run, or ``out`` cannot be written.
    """
    experiment = load_experiment(runs)
    try:
        (out / FIGURES).mkdir(parents=True, exist_ok=True)
        report = make_report(experiment, title)
        record = report_record(report)
        _write_figures(report, out / FIGURES)
        write_atomic(out / "report.md", to_markdown_report(report))
        write_atomic(out / "tables.csv", tables_csv(report))
        write_json(out / "report.json", msgspec.to_builtins(record))
        write_atomic(out / "index.html", to_page(report))
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}", mend="choose another folder with -o") from error
    return ReportFiles(out / "index.html", record, report.lede)


def report_record(report: Report) -> ReportRecord:
    """Returns the numbers of a report as a record."""
    return ReportRecord(a2perf_version=__version__, title=report.title, runs=[_reported(run) for run in report.runs()])


def tables_csv(report: Report) -> str:
    """Returns every number of a report as CSV, one a row; values in their plain unit, never rounded."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for run in report.runs():
        common = _identity(run)
        if not run.measures:
            writer.writerow(common)
        for measure in run.measures:
            writer.writerow({**common, **_measure_cells(measure)})
    return stream.getvalue()


def _write_figures(report: Report, folder: Path) -> None:
    drawn = report.charts()
    kept = {f"{chart.name}.{ending}" for chart in drawn for ending in ("svg", "pdf")}
    for old in folder.iterdir():
        if old.suffix in (".svg", ".pdf") and old.name not in kept:
            old.unlink()
    for chart in drawn:
        write_atomic(folder / f"{chart.name}.svg", chart.svg)
        write_atomic(folder / f"{chart.name}.pdf", chart.pdf)


def _reported(run: RunSection) -> ReportedRun:
    bundle, manifest = run.bundle, run.bundle.manifest
    reported = ReportedRun(
        run=bundle.label,
        mode=bundle.mode,
        state=run.state,
        noisy_host=noise(bundle),
        notes=run.notes,
        measures=run.measures,
        figures=[f"{FIGURES}/{chart.name}.svg" for chart in run.charts],
    )
    if manifest is not None:
        reported.submission = manifest.submission.name
        reported.submission_sha256 = manifest.submission.sha256
        for name in ("domain", "task", "env_id", "env_fingerprint", "root_seed", "exit_code", "exit_reason", "failure"):
            setattr(reported, name, getattr(manifest, name))
    return reported


def _identity(run: RunSection) -> dict[str, Any]:
    bundle, manifest = run.bundle, run.bundle.manifest
    cells: dict[str, Any] = {"run": bundle.label, "mode": bundle.mode, "state": run.state}
    if manifest is not None:
        cells |= {
            "submission": manifest.submission.name,
            "domain": manifest.domain,
            "task": manifest.task,
            "env_id": manifest.env_id or "",
            "env_fingerprint": manifest.env_fingerprint or "",
            "seed": manifest.root_seed,
        }
    return cells


def _measure_cells(measure: Measure) -> dict[str, Any]:
    quantity = measure.quantity
    cells: dict[str, Any] = {
        "category": measure.category,
        "measure": measure.key,
        "value": "" if quantity.value is None else repr(quantity.value),
        "unit": quantity.unit,
        "spread": "" if quantity.spread is None else repr(quantity.spread),
        "spread_kind": quantity.spread_kind or "",
        "n": "" if quantity.n is None else quantity.n,
        "provenance": quantity.provenance or "",
        "method": quantity.method or "",
        "note": quantity.note or "",
    }
    if measure.task is not None:
        cells["task"] = measure.task
    return cells
