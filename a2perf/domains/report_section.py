"""What a domain shows in a report beside the scores: plain tables and figures about the runs of one task.

``Domain.report_section`` names a function that takes `TaskRuns` and returns a `DomainSection`. It neither reads nor
writes formats of reports: ``a2perf.report`` turns the section into a part of the page, Markdown and figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from a2perf.arrays import Values
from a2perf.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TaskRuns:
    """The recorded runs of one task.

    Attributes:
        domain: name of the domain.
        task: name of the task.
        title: of the task, for people.
        submissions: runs of all modes by the name of the submission, in the order of the report.
        mean_interval: returns the ends of the 95 % interval of the mean of a few values, shape (n,) with n >= 2.
    """

    domain: str
    task: str
    title: str
    submissions: Mapping[str, tuple[Run, ...]]
    mean_interval: Callable[[Values], tuple[float, float]]


@dataclass(frozen=True)
class TableNumber:
    """A number in a table.

    Attributes:
        value: in ``unit``; None if it is not known, for the reason in ``note``.
        unit: SI or domain unit; seconds and bytes are scaled on display.
        spread: standard deviation over ``n`` runs, in ``unit``.
        n: number of runs behind the value.
        provenance: ``"measured"``, ``"estimated"``, ``"recorded"`` or ``"mixed"``.
        note: a caveat in a few words.
    """

    value: float | None
    unit: str = ""
    spread: float | None = None
    n: int | None = None
    provenance: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class SectionTable:
    """A table.

    Attributes:
        name: file-name-like identity, unique in the section.
        caption: one line that describes the rows.
        columns: headings.
        rows: a text or number per column; texts are escaped on display.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | TableNumber, ...], ...]


@dataclass(frozen=True)
class SectionFigure:
    """A figure.

    Attributes:
        name: file-name-like identity, unique in the section.
        title: what it shows.
        caption: how to read it, one sentence.
        description: what a reader who cannot see it needs to know, with numbers.
        height_in: height of the figure, inches; all figures of a report have the same width.
        draw: draws into an empty figure with the colours of the report by role (``"ink"``, ``"muted"``, ``"rule"``,
            ``"blue"``, ``"orange"``, ``"green"``, ``"red"``, ``"violet"`` and more); the page replaces exactly these.
    """

    name: str
    title: str
    caption: str
    description: str
    height_in: float
    draw: Callable[[Figure, Mapping[str, str]], None]


@dataclass(frozen=True)
class DomainSection:
    """The section of one task.

    Attributes:
        title: heading, a few words.
        text: one paragraph below it.
        tables: in order.
        figures: in order.
    """

    title: str
    text: str = ""
    tables: tuple[SectionTable, ...] = ()
    figures: tuple[SectionFigure, ...] = ()
