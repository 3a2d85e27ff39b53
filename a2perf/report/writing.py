"""Writes a report: page, Markdown, LaTeX, CSV, JSON, tables and figures. The same runs give the same bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from a2perf.errors import UserError
from a2perf.metrics.values import Profile
from a2perf.report.content import Report, make_report
from a2perf.report.latex import latex_document, score_table_latex
from a2perf.report.markdown import FIGURES, to_markdown_report
from a2perf.report.page import to_page
from a2perf.report.plain_data import ReportRecord, report_record, tables_csv
from a2perf.runs.run import Run
from a2perf.storage import write_atomic, write_json

TABLES = "tables"


@dataclasses.dataclass(frozen=True)
class ReportFiles:
    """The files of a report.

    Attributes:
        page: ``index.html``.
        record: the content of ``report.json``.
    """

    page: Path
    record: ReportRecord
    overview: str
    sentence: str


def write_report(
    runs: Sequence[Run], out: Path, *, title: str | None = None, profile: Profile = "corrected"
) -> ReportFiles:
    """Writes a report of recorded runs.

    Args:
        runs: as ``runs.read_runs`` returns them.
        out: folder to write; figures and tables of an earlier report there are replaced.

    Raises:
        UserError: ``out`` cannot be written.
    """
    try:
        for folder in (FIGURES, TABLES):
            (out / folder).mkdir(parents=True, exist_ok=True)  # fails now rather than after a minute of drawing
        report = make_report(runs, title, profile)
        record = report_record(report)
        _write_figures(report, out / FIGURES)
        _write_tables(report, out / TABLES)
        tables = [section.table for section in report.settings]
        write_atomic(out / "report.md", to_markdown_report(report))
        write_atomic(out / "report.tex", latex_document(tables, report.title))
        write_atomic(out / "tables.csv", tables_csv(report))
        write_json(out / "report.json", msgspec.to_builtins(record))
        write_atomic(out / "index.html", to_page(report))
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}", hint="choose another folder with -o") from error
    return ReportFiles(out / "index.html", record, report.overview, report.summary.sentence)


def _write_figures(report: Report, folder: Path) -> None:
    views = [view for chart in report.charts() for view in chart.views]
    _clear(folder, (".svg", ".pdf"), {f"{view.name}.{ending}" for view in views for ending in ("svg", "pdf")})
    for view in views:
        write_atomic(folder / f"{view.name}.svg", view.svg)
        write_atomic(folder / f"{view.name}.pdf", view.pdf)


def _write_tables(report: Report, folder: Path) -> None:
    tables = [table for section in report.settings for table in (section.table, section.every_metric)]
    _clear(folder, (".tex",), {f"{table.name}.tex" for table in tables})
    for table in tables:
        write_atomic(folder / f"{table.name}.tex", score_table_latex(table))


def _clear(folder: Path, endings: Sequence[str], kept: Iterable[str]) -> None:
    """Removes files of an earlier report from a folder."""
    keep = set(kept)
    for old in folder.iterdir():
        if old.suffix in endings and old.name not in keep:
            old.unlink()
