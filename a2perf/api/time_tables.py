"""Tables of times to the target: CSV files and mappings, in wide or long form.

Wide: one row per submission, one column per workload. Long: one row per submission, workload, study and trial. The
best trial of a study counts. Each error names the line.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2perf.errors import UserError, did_you_mean
from a2perf.plain_text import plain_text
from a2perf.report.result_boards import Contender, ResultCost, Studies, Workload

SUBMISSION, WORKLOAD, STUDY, TRIAL, BUDGET, BASE, PROVENANCE = (
    "submission", "workload", "study", "trial", "budget", "held_out_of", "provenance",
)  # fmt: skip
VALUE_COLUMNS: dict[str, str] = {
    "seconds": "time_to_result", "joules": "energy_to_result", "samples": "samples_to_result",
}  # fmt: skip
"""Column of the numbers in the long form, and the score that it belongs to."""
PROVENANCES = ("measured", "estimated")
MAX_BYTES, MAX_ROWS, MAX_CELLS = 64 << 20, 1_000_000, 2_000_000
_NEVER = frozenset(("", "inf", "+inf", "infinity", "+infinity", "nan", "none", "null"))
_LONG_HINT = "columns of the long form: submission, workload, seconds (or joules, samples), and if needed study, trial"


@dataclass
class TimesTable:
    """What a table holds.

    Attributes:
        contenders: submissions in the order of their first row.
        workloads: in the order of their first row or column.
        provenance: of energies by submission, where the table states it.
    """

    contenders: list[Contender] = field(default_factory=list)
    workloads: list[Workload] = field(default_factory=list)
    provenance: dict[str, set[str]] = field(default_factory=dict)


def read_times(path: Path, cost: ResultCost) -> TimesTable:
    """Reads a CSV file of times to the target.

    Args:
        path: the file; with a column ``workload`` it has the long form, else the wide one.
        cost: what its numbers count.

    Raises:
        UserError: the file cannot be read, or a line of it is wrong; the message names the line.
    """
    rows = _rows_of(path)
    number, header = rows[0]
    names = [cell.strip().lower() for cell in header]
    table = _long(path, names, rows[1:], cost) if WORKLOAD in names else _wide(path, header, rows[1:])
    if not table.contenders or not table.workloads:
        what = "submission below its header" if not table.contenders else "workload"
        raise UserError(f"{path}, line {number}: the table has no {what}", hint="one row per submission")
    return table


def table_of_mapping(times: Mapping[str, Mapping[str, float | Iterable[float] | None]]) -> TimesTable:
    """Returns the table of a mapping: submission -> workload -> time, or the times of several studies.

    None, NaN and infinity stand for a target that was not reached.

    Raises:
        UserError: a time is missing or not a number above zero.
    """
    table = TimesTable()
    workloads: dict[str, Workload] = {}
    for submission, of_workloads in times.items():
        if not isinstance(of_workloads, Mapping):
            raise UserError(
                f"times of {submission!r} are a {type(of_workloads).__name__}, not a mapping",
                hint="give {submission: {workload: seconds}}, or {workload: [seconds of each study]}",
            )
        contender = Contender(name=str(submission), title=plain_text(str(submission)))
        for workload, given in of_workloads.items():
            workloads.setdefault(str(workload), Workload(name=str(workload), title=plain_text(str(workload))))
            where = f"times of {submission!r} on {workload!r}"
            costs = [_number("" if value is None else str(value), where) for value in _several(given)]
            contender.studies[str(workload)] = Studies(costs)
        table.contenders.append(contender)
    table.workloads = list(workloads.values())
    if not workloads:
        raise UserError("the table of times is empty", hint="give {submission: {workload: seconds}}")
    return table


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]


def _rows_of(path: Path) -> list[tuple[int, list[str]]]:
    """Returns the rows of a file that are not empty, each with the number of its line."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path} is larger than {MAX_BYTES >> 20} MiB", hint="split the table")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", hint="give a CSV file of times") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text file (byte {error.start})", hint="save it as CSV in UTF-8") from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, list[str]]] = []
    cells = 0
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append((reader.line_num, row))
                cells += len(row)
            if len(rows) > MAX_ROWS or cells > MAX_CELLS:
                raise UserError(f"{path} has more than {MAX_ROWS} rows or {MAX_CELLS} cells", hint="split the table")
    except csv.Error as error:
        raise UserError(
            f"{path}, line {reader.line_num}: not CSV ({error})", hint="quote cells that hold commas"
        ) from error
    if not rows:
        raise UserError(f"{path} is empty", hint="first line: submission, then one column per workload")
    width = len(rows[0][1])
    for number, row in rows:
        if len(row) != width:
            raise UserError(
                f"{path}, line {number}: {len(row)} cells, but the header has {width}",
                hint="leave a cell empty where the target was not reached",
            )
    return rows


def _wide(path: Path, header: Sequence[str], rows: Sequence[tuple[int, list[str]]]) -> TimesTable:
    names = [cell.strip() for cell in header]
    lower = [name.lower() for name in names]
    first = lower.index(SUBMISSION) if SUBMISSION in lower else 0
    studies = lower.index(STUDY) if STUDY in lower else None
    columns = {place: name for place, name in enumerate(names) if place not in (first, studies)}
    if "" in columns.values() or len(set(columns.values())) < len(columns):
        raise UserError(
            f"{path}, line 1: a column has no name, or two columns have the same name",
            hint="first column: submission; then one column per workload",
        )
    table = TimesTable(workloads=[Workload(name=name, title=plain_text(name)) for name in columns.values()])
    found: dict[str, Contender] = {}
    seen: dict[tuple[str, ...], int] = {}
    for number, row in rows:
        name = _name(row[first], f"{path}, line {number}")
        study = "" if studies is None else row[studies].strip()
        _once(seen, (name, study), number, path, f"{name!r}" + (f", study {study!r}" if study else ""))
        contender = found.setdefault(name, Contender(name=name, title=plain_text(name)))
        for place, workload in columns.items():
            cost = _number(row[place], f"{path}, line {number}, column {workload!r}")
            contender.studies.setdefault(workload, Studies()).costs.append(cost)
    table.contenders = list(found.values())
    return table


def _long(path: Path, names: Sequence[str], rows: Sequence[tuple[int, list[str]]], cost: ResultCost) -> TimesTable:
    value = _value_column(path, names, cost)
    known = {SUBMISSION, WORKLOAD, STUDY, TRIAL, BUDGET, BASE, PROVENANCE, value}
    for name in names:
        if name not in known or names.count(name) > 1:
            why = "given twice" if name in known else "unknown"
            raise UserError(
                f"{path}, line 1: column {name!r} is {why}{'' if name in known else did_you_mean(name, known)}",
                hint=_LONG_HINT,
            )
    if SUBMISSION not in names:
        raise UserError(f"{path}, line 1: the column submission is missing", hint=_LONG_HINT)
    table = TimesTable()
    found: dict[str, Contender] = {}
    workloads: dict[str, Workload] = {}
    best: dict[tuple[str, str], dict[str, float]] = {}
    seen: dict[tuple[str, ...], int] = {}
    for number, row in rows:
        where = f"{path}, line {number}"
        cells = dict(zip(names, (cell.strip() for cell in row), strict=True))
        name, workload = _name(cells[SUBMISSION], where), _name(cells[WORKLOAD], where, "workload")
        study, trial = cells.get(STUDY, ""), cells.get(TRIAL, "")
        labels = "".join(f", {kind} {label!r}" for kind, label in ((STUDY, study), (TRIAL, trial)) if label)
        _once(seen, (name, workload, study, trial), number, path, f"{name!r} on {workload!r}{labels}")
        spent = _number(cells[value], f"{where}, column {value!r}")
        if BUDGET in cells and spent > _number(cells[BUDGET], f"{where}, column {BUDGET!r}"):
            spent = math.inf
        base = cells.get(BASE, "")
        known_work = workloads.setdefault(
            workload, Workload(name=workload, title=plain_text(workload), held_out_of=base)
        )
        if known_work.held_out_of != base:
            raise UserError(
                f"{where}: {workload!r} is held out of {base or 'nothing'!r} here and of "
                f"{known_work.held_out_of or 'nothing'!r} above", hint="repeat the same base in all of its rows",
            )  # fmt: skip
        if stated := cells.get(PROVENANCE, "").lower():
            if stated not in PROVENANCES:
                raise UserError(f"{where}: provenance {stated!r}", hint=f"use one of {', '.join(PROVENANCES)}")
            table.provenance.setdefault(name, set()).add(stated)
        found.setdefault(name, Contender(name=name, title=plain_text(name)))
        trials = best.setdefault((name, workload), {})
        trials[study] = min(spent, trials.get(study, math.inf))
    for (name, workload), by_study in best.items():
        found[name].studies[workload] = Studies(list(by_study.values()))
    table.contenders, table.workloads = list(found.values()), list(workloads.values())
    return table


def _value_column(path: Path, names: Sequence[str], cost: ResultCost) -> str:
    present = [name for name in VALUE_COLUMNS if name in names]
    if len(present) != 1:
        what = f"several columns of numbers: {', '.join(present)}" if present else "no column of numbers"
        raise UserError(f"{path}, line 1: {what}", hint=_LONG_HINT)
    if VALUE_COLUMNS[present[0]] != cost.name:
        raise UserError(
            f"{path}, line 1: the numbers are {present[0]}, but the score is {cost.name}",
            hint=f"use --score {VALUE_COLUMNS[present[0]]}",
        )
    return present[0]


def _once(seen: dict[tuple[str, ...], int], key: tuple[str, ...], number: int, path: Path, what: str) -> None:
    if key in seen:
        raise UserError(
            f"{path}, line {number}: {what} is also on line {seen[key]}",
            hint="give studies and trials labels in columns study and trial",
        )
    seen[key] = number


def _name(cell: str, where: str, what: str = "submission") -> str:
    if not (name := cell.strip()):
        raise UserError(f"{where}: the {what} has no name", hint=f"every row names its {what}")
    return name


def _number(cell: str, where: str) -> float:
    text = cell.strip()
    if text.lower() in _NEVER:
        return math.inf
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0 or math.isinf(value):
        raise UserError(
            f"{where}: {plain_text(text)[:40]!r} is not a number above zero",
            hint="use plain decimals such as 3600.5; leave the cell empty, or write inf, if it was not reached",
        )
    return value
