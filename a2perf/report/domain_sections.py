"""Report sections of the domains: their plain tables and figures become parts of the report.

A domain names a function (``Domain.report_section``) that is called once per task of it. One that fails appears as a
condition; the rest of the report is not affected.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from a2perf.domains import domains, load_attribute
from a2perf.domains.report_section import DomainSection, SectionFigure, SectionTable, TableNumber, TaskRuns
from a2perf.metrics.bootstrap import mean_interval
from a2perf.report.drawing import INK, Chart, new_figure, single
from a2perf.report.labels import Label, title_of
from a2perf.report.own_sections import AddedSection, ReportSection
from a2perf.report.tables import Cell, Column, Quantity, Table, Text
from a2perf.report.task_results import TaskResults
from a2perf.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def domain_sections(
    results: Sequence[TaskResults], labels: Mapping[str, Label], new_name: Callable[..., str]
) -> tuple[list[AddedSection], dict[str, str]]:
    """Calls the section function of the domain of every task.

    Args:
        results: the scored tasks of the report.
        labels: of the submissions, by their names in ``results``.
        new_name: makes a unique name, safe in files and anchors, out of words.

    Returns:
        The sections in the order of the tasks; and why others failed, by task.
    """
    found, problems = [], {}
    for task in results:
        domain = domains().get(task.domain)
        if domain is None or domain.report_section is None:
            continue
        try:
            section = load_attribute(domain.report_section)(_task_runs(task, labels))
            if section is not None:
                found.append(AddedSection(new_name("section", task.name), _report_section(section, task, new_name)))
        except Exception as error:  # a domain of another package may do anything; the report must still be written
            problems[task.name] = f"{type(error).__name__}: {error}"
    return found, problems


def _task_runs(task: TaskResults, labels: Mapping[str, Label]) -> TaskRuns:
    submissions: dict[str, dict[str, Run]] = {name: {} for name in task.algorithms}
    for group in task.groups:
        # A run of a layout that keeps several modes in one folder is in several groups.
        submissions[group.algorithm].update({run.key: run for run in group.runs})
    held = {title_of(labels, name): tuple(runs.values()) for name, runs in submissions.items()}
    return TaskRuns(task.domain, task.task, task.title, held, mean_interval)


def _report_section(section: DomainSection, task: TaskResults, new_name: Callable[..., str]) -> ReportSection:
    return ReportSection(
        title=section.title,
        text=section.text,
        tables=tuple(_table(table) for table in section.tables),
        charts=tuple(_chart(figure, new_name(task.name, figure.name)) for figure in section.figures),
    )


def _table(table: SectionTable) -> Table:
    numeric = {
        place for row in table.rows for place, cell in enumerate(row) if isinstance(cell, TableNumber)
    }  # one number makes the column one of numbers
    columns = tuple(
        Column(key=f"column_{place}", title=title, align="right" if place in numeric else "left")
        for place, title in enumerate(table.columns)
    )
    rows = tuple(tuple(_cell(cell) for cell in row) for row in table.rows)
    return Table(name=table.name, caption=table.caption, columns=columns, rows=rows)


def _cell(cell: str | TableNumber) -> Cell:
    if isinstance(cell, str):
        return Text(text=cell)
    return Quantity(
        value=cell.value,
        unit=cell.unit,
        spread=cell.spread,
        spread_kind=None if cell.spread is None else "std over runs, ddof 1",
        n=cell.n,
        provenance=cell.provenance,
        note=cell.note,
    )


def _chart(figure: SectionFigure, name: str) -> Chart:
    return single(name, figure.title, figure.caption, figure.description, functools.partial(_drawn, figure))


def _drawn(section: SectionFigure) -> Figure:
    figure = new_figure(section.height_in)
    section.draw(figure, INK)
    return figure
