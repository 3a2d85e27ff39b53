"""Writes a report: page, Markdown, LaTeX, CSV, JSON, tables and figures. The same runs give the same bytes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from a2perf.errors import UserError
from a2perf.metrics.values import Profile
from a2perf.report.content import Report, make_report
from a2perf.report.figures.drawing import only_in_pages
from a2perf.report.latex import latex_document, to_latex
from a2perf.report.markdown import FIGURES, to_markdown_report
from a2perf.report.notebook import link_html
from a2perf.report.page import to_pages
from a2perf.report.plain_data import ReportRecord, report_record, tables_csv
from a2perf.report.run_sections import RUN_PAGES
from a2perf.runs.run import Run
from a2perf.storage import write_atomic, write_json

TABLES = "tables"


@dataclass(frozen=True, repr=False)
class WrittenReport:
    """A written report. ``print`` shows its result in one sentence, a notebook also a link to the page.

    Attributes:
        page: ``index.html``, which works without a network; a large report has a page per run root beside it.
        record: the content of ``report.json``.
        sentence: the result in one sentence.
        overview: one sentence that counts what was reported.
    """

    page: Path
    record: ReportRecord
    sentence: str
    overview: str

    @property
    def folder(self) -> Path:
        """The folder of the report: page, Markdown, LaTeX, CSV, JSON, tables and figures."""
        return self.page.parent

    def __repr__(self) -> str:
        return f"{self.sentence}\n{self.overview}\nreport: {self.page}"

    def _repr_html_(self) -> str:
        return link_html(self.page, "report", [self.sentence, self.overview])


def write_report(
    runs: Sequence[Run], out: Path, *, title: str | None = None, profile: Profile = "corrected", verdict: str = ""
) -> WrittenReport:
    """Writes a report of recorded runs; arguments and errors as for ``a2perf.write_report``.

    ``verdict`` is which of two submissions is better, in words.
    """
    try:
        for folder in (FIGURES, TABLES):
            (out / folder).mkdir(parents=True, exist_ok=True)  # fails now rather than after a minute of drawing
        report = make_report(runs, title, profile, verdict)
        record = report_record(report)
        views = [view for chart in report.charts() for view in chart.views]
        figures = {f"{view.name}.svg": view.svg for view in views} | {f"{view.name}.pdf": view.pdf for view in views}
        _write_files(out / FIGURES, figures, (".svg", ".pdf"))
        every = [table for section in report.settings for table in (section.table, section.every_metric)]
        _write_files(out / TABLES, {f"{table.name}.tex": to_latex(table.table()) for table in every}, (".tex",))
        tables = [section.table.table() for section in report.settings]
        write_atomic(out / "report.md", to_markdown_report(report))
        write_atomic(out / "report.tex", latex_document(tables, report.title))
        write_atomic(out / "tables.csv", tables_csv(report))
        write_json(out / "report.json", msgspec.to_builtins(record))
        _write_pages(report, out)
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}", hint="choose another folder with -o") from error
    return WrittenReport(out / "index.html", record, report.summary.sentence, report.overview)


def write_page(runs: Sequence[Run], out: Path, title: str) -> None:
    """Writes the pages of a report alone, into an empty folder, in half the time."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with only_in_pages():
        _write_pages(make_report(runs, title), out, figures="")


def _write_pages(report: Report, out: Path, figures: str = FIGURES) -> None:
    shutil.rmtree(out / RUN_PAGES, ignore_errors=True)
    for name, text in to_pages(report, figures=figures):
        write_atomic(out / name, text)


def _write_files(folder: Path, files: Mapping[str, bytes | str], endings: Sequence[str]) -> None:
    """Writes files into a folder, and removes those of an earlier report."""
    for old in folder.iterdir():
        if old.suffix in endings and old.name not in files:
            old.unlink()
    for name, content in files.items():
        write_atomic(folder / name, content)
