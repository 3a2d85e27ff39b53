"""Sections of other packages: on the page and in Markdown, with unique figures; a broken one costs only itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from a2perf.report import ReportSection, register_section, unregister_section, write_report
from a2perf.report.figures.drawing import new_figure, single
from a2perf.report.tables import Column, Table, Text
from a2perf.report.task_results import TaskResults
from a2perf.runs import read_runs
from tests.report.recorded_runs import RunMaker


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Removes the sections of a test."""
    yield
    for name in ("hostile", "broken", "wrong", "none"):
        unregister_section(name)


def _section(results: Sequence[TaskResults]) -> ReportSection:
    row = (Text(text=f"<b>{results[0].task}</b>"),)
    table = Table(name="t", caption="A table", columns=(Column(key="task", title="Task"),), rows=(row,))
    charts = tuple(single("chart", "A chart", "Caption.", "Description.", new_figure) for _ in range(2))
    return ReportSection("Own <i>section</i>", "Text & more", (table,), charts)


def test_a_section_is_on_the_page_and_in_markdown_and_escaped(inference_run: RunMaker, tmp_path: Path) -> None:
    register_section("hostile", _section)
    written = write_report(read_runs([inference_run.top]), tmp_path / "out")
    page = written.page.read_text()
    assert "Own &lt;i&gt;section&lt;/i&gt;</h2>" in page
    assert "&lt;b&gt;" in page
    assert "<b>dog" not in page
    assert "Text &amp; more" in (tmp_path / "out" / "report.md").read_text()
    names = {path.name for path in (tmp_path / "out" / "figures").glob("hostile-*.svg")}
    assert names == {"hostile-chart.svg", "hostile-chart-2.svg"}


def test_a_broken_section_is_a_condition_of_the_report(inference_run: RunMaker, tmp_path: Path) -> None:
    def broken(results: Sequence[TaskResults]) -> ReportSection:
        raise ValueError("no such column")

    register_section("broken", broken)
    register_section("wrong", lambda results: "text")  # type: ignore[arg-type, return-value]
    register_section("none", lambda results: None)
    write_report(read_runs([inference_run.top]), tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert "report section broken: ValueError: no such column" in text
    assert "report section wrong: TypeError: returned str" in text
    assert "section none" not in text
