"""Report sections that other packages add.

A section is a function of the scored results that returns a ``ReportSection``, a list of them, or None if it does not
apply. A package registers it with an entry point of the group ``a2perf.report_sections``::

    [project.entry-points."a2perf.report_sections"]
    energy_per_point = "my_package.sections:energy_per_point"

A script calls ``register_section`` instead. A section that cannot be loaded or that raises appears as a condition of
the report; the rest of the report is not affected.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from a2perf.plugins import RejectedPlugin, load_plugins
from a2perf.report.figures.drawing import Chart
from a2perf.report.tables import Table
from a2perf.report.task_results import TaskResults

GROUP = "a2perf.report_sections"


@dataclasses.dataclass(frozen=True)
class ReportSection:
    """A section of a report.

    Attributes:
        charts: in order, drawn with ``drawing.single`` or ``drawing.interactive``; they are renamed to unique names.
        anchor: filled in by the report.
    """

    title: str
    text: str = ""
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    anchor: str = ""


SectionFunction: TypeAlias = Callable[[Sequence[TaskResults]], ReportSection | list[ReportSection] | None]


_registered: dict[str, SectionFunction] = {}


def register_section(name: str, function: SectionFunction) -> None:
    """Adds a section to all reports of this process; a later registration of the same name replaces the earlier one."""
    _registered[name] = function


def unregister_section(name: str) -> None:
    """Removes a section that ``register_section`` added; an unknown name has no effect."""
    _registered.pop(name, None)


def added_sections(
    results: Sequence[TaskResults], new_name: Callable[..., str]
) -> tuple[list[ReportSection], dict[str, str]]:
    """Calls every section."""
    installed, wrong = _installed()
    problems = dict(wrong)
    found = []
    for name, function in sorted({**installed, **_registered}.items()):
        try:
            given = function(results)
            sections = given if isinstance(given, list) else [] if given is None else [given]
            for section in sections:
                if not isinstance(section, ReportSection):
                    raise TypeError(f"returned {type(section).__name__} instead of ReportSection or None")
        except Exception as error:  # a section of another package may do anything; the report must still be written
            problems[name] = f"{type(error).__name__}: {error}"
            continue
        for section in sections:
            charts = []
            for chart in section.charts:
                stem = new_name(name, chart.name)
                names = [f"{stem}-{view.scale}" if index else stem for index, view in enumerate(chart.views)]
                views = (dataclasses.replace(view, name=new) for view, new in zip(chart.views, names, strict=True))
                charts.append(dataclasses.replace(chart, name=stem, views=tuple(views)))
            found.append(dataclasses.replace(section, charts=tuple(charts), anchor=new_name("section", name)))
    return found, problems


@functools.cache
def _installed() -> tuple[dict[str, SectionFunction], dict[str, str]]:
    found: dict[str, SectionFunction] = {}

    def accept(name: str, function: Any) -> None:
        if not callable(function):
            raise RejectedPlugin(f"{function!r} is not a function")
        found[name] = function

    problems = load_plugins(GROUP, accept)
    return found, {name: str(problem) for name, problem in problems.items()}
