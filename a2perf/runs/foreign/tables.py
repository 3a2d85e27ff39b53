"""CSV files of measurements and training curves, read by column, complete or damaged.

A file may hold rows of two versions of its writer (a second header line in the middle, or rows of another width), an
incomplete last line, and cells that are not numbers. Reading continues, and each of these becomes a condition.

Emissions tables have two generations of writers. The earlier platform's fork of codecarbon wrote one row per interval
with cumulative energies and a column ``ram_process``, as a2perf does; stock codecarbon writes one row per run and no
``ram_process``. Each writer of a distributed run keeps its own table; ``run_id`` distinguishes their rows.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.runs.bundles.files import BundleFiles, FolderFiles
from a2perf.storage import MAX_VALUES
from a2perf.stranger_files import BoundExceeded, Kind, NotRegular, StrangerFileError

Column = NDArray[np.float64] | list[str]
MAX_BYTES = 256 << 20
MAX_COLUMNS, MAX_LINE_CHARACTERS, MAX_HEADERS = 10_000, 1 << 20, 100
_MOST_NAME = 100  # limit on the characters of a column's name in a condition
_LEFT_OUT = "what follows was left out"
_EMISSIONS = ("run_id", "timestamp", "duration", "energy_consumed", "cpu_power", "gpu_power", "ram_power")
_EMPTY = frozenset(("", "None", "nan", "NaN", "null"))


@dataclass
class CsvTable:
    """Columns of equal length.

    Attributes:
        columns: float64 with NaN for empty and non-numeric cells; a list of text if hardly any cell is a number.
    """

    columns: dict[str, Column] = field(default_factory=dict)
    rows: int = 0
    conditions: list[str] = field(default_factory=list)

    def numbers(self, name: str) -> NDArray[np.float64] | None:
        """Returns a numeric column; None if there is none of that name."""
        column = self.columns.get(name)
        return column if isinstance(column, np.ndarray) else None


def read_table(path: Path) -> CsvTable:
    """Reads a CSV file at a path; see ``table_of``."""
    return table_of(FolderFiles(path.parent), path.name)


def table_of(files: BundleFiles, name: str, *, skip_comments: bool = False, needs: Sequence[str] = ()) -> CsvTable:
    """Reads a CSV file with a header line; an unreadable file gives an empty table with a condition.

    Args:
        skip_comments: skip leading lines that begin with ``#``, as in Monitor files.
    """
    try:
        data = files.read(name, MAX_BYTES).removeprefix(codecs.BOM_UTF8)
        data.decode("utf-8")
    except NotRegular:
        return CsvTable(conditions=["not a regular file, not read"])
    except BoundExceeded:
        return CsvTable(conditions=[f"larger than {MAX_BYTES >> 20} MiB; left out"])
    except StrangerFileError as error:
        return CsvTable(conditions=[error.message.removeprefix(f"{name} ")])
    except UnicodeDecodeError as error:
        return CsvTable(conditions=[f"not a text file (byte {error.start})"])
    if b"\x00" in data:
        return CsvTable(conditions=["not a text file (it holds null bytes)"])
    if skip_comments:
        while data.startswith(b"#"):
            data = data.partition(b"\n")[2]
    return _table(data, needs)


def stacked(tables: Sequence[CsvTable]) -> CsvTable:
    """Concatenates tables of several writers or versions; absent columns are NaN."""
    if len(tables) == 1:
        return tables[0]
    result = CsvTable(rows=sum(table.rows for table in tables))
    result.conditions = [condition for table in tables for condition in table.conditions]
    names = dict.fromkeys(name for table in tables for name in table.columns)
    if len(names) * result.rows > 4 * MAX_VALUES:  # absent columns would be filled up
        return CsvTable(
            conditions=[*result.conditions, "tables of different columns, too large to be joined; left out"]
        )
    for name in names:
        found = [table.columns.get(name) for table in tables]
        if any(isinstance(column, list) for column in found):
            words: list[str] = []
            for table, column in zip(tables, found, strict=True):
                words += [""] * table.rows if column is None else [str(cell) for cell in column]
            result.columns[name] = words
        else:
            result.columns[name] = np.concatenate(
                [
                    np.full(table.rows, np.nan) if column is None else np.asarray(column, np.float64)
                    for table, column in zip(tables, found, strict=True)
                ]
            )
    return result


def read_emissions(files: BundleFiles, names: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Returns the columns of the emissions tables of a run, one per writer, concatenated, and their conditions."""
    tables: list[CsvTable] = []
    conditions: list[str] = []
    for name in names:
        status = files.status(name)
        if status is not None and status.kind is Kind.LINK:
            conditions.append(f"{status.path}: symbolic link, not followed")
            continue
        table = table_of(files, name, needs=_EMISSIONS)
        conditions += [f"{name}: {condition}" for condition in [*table.conditions, *_remarks(table)]]
        if table.rows:
            tables.append(table)
    return (stacked(tables).columns if tables else {}), conditions


def plain_cell(cell: object) -> object:
    """Returns a cell for people and files: whole numbers as integers, ``""`` for NaN."""
    if isinstance(cell, float | np.floating):
        return "" if np.isnan(cell) else int(cell) if float(cell).is_integer() else float(cell)
    return cell


def _table(data: bytes, needs: Sequence[str]) -> CsvTable:
    conditions: list[str] = []
    try:
        rows = [row for row in csv.reader(_bounded_lines(data, conditions)) if row]
    except csv.Error as error:
        return CsvTable(conditions=[f"not a CSV file ({error})"])
    if not rows:
        return CsvTable(conditions=conditions or ["no header line"])
    header = rows[0]
    parts: list[tuple[list[str], list[list[str]]]] = [(header, [])]
    torn = 0
    for row in rows[1:]:
        if row[0] == header[0] and len(row) > 1 and all(not _is_number(cell) for cell in row):
            if row != parts[-1][0]:
                if len(parts) == MAX_HEADERS:
                    conditions.append(f"more than {MAX_HEADERS} header lines; what follows was left out")
                    break
                parts.append((row, []))
        elif len(row) != len(parts[-1][0]):
            torn += 1
        else:
            parts[-1][1].append(row)
    if torn:
        conditions.append(f"{torn} row(s) with a wrong number of cells left out")
    generations = {tuple(names) for names, _ in parts}
    if len(generations) > 1:
        conditions.append(f"mixed headers: rows of {len(generations)} generations, joined by column name")
    complete = data.endswith(b"\n") or bool(conditions and conditions[0].endswith(_LEFT_OUT))
    if not complete and parts[-1][1] and rows[-1] is parts[-1][1][-1]:
        # an incomplete last number may still look like a number
        parts[-1][1].pop()
        conditions.append("the last row is cut off; it was left out")
    result = stacked([_columns(names, cells, conditions) for names, cells in parts if cells or len(parts) == 1])
    missing = [name for name in needs if name not in result.columns]
    if missing:
        conditions.append(f"no column {', '.join(missing)}")
    result.conditions = conditions
    return result


def _bounded_lines(data: bytes, conditions: list[str]) -> Iterator[str]:
    """Yields lines until one is too long or the cells are too many, which becomes a condition."""
    cells = 0
    for line in io.TextIOWrapper(io.BytesIO(data), "utf-8", newline=""):
        columns = line.count(",") + 1
        cells += columns
        if len(line) > MAX_LINE_CHARACTERS or columns > MAX_COLUMNS:
            limits = f"{MAX_LINE_CHARACTERS >> 20} Mi characters or {MAX_COLUMNS} cells"
            conditions.append(f"a line of more than {limits}; it and {_LEFT_OUT}")
            return
        if cells > MAX_VALUES:
            conditions.append(f"more than {MAX_VALUES} cells; {_LEFT_OUT}")
            return
        yield line


def _columns(header: list[str], rows: list[list[str]], conditions: list[str]) -> CsvTable:
    table = CsvTable(rows=len(rows))
    for name, cells in zip(header, zip(*rows, strict=True) if rows else [()] * len(header), strict=True):
        try:
            table.columns[name] = np.array(cells, np.float64)
            continue
        except ValueError:
            pass
        if not any(_is_number(cell) for cell in cells):
            table.columns[name] = np.full(len(cells), np.nan) if all(cell in _EMPTY for cell in cells) else list(cells)
            continue
        values = np.array([float(cell) if _is_number(cell) else np.nan for cell in cells])
        bad = sum(not _is_number(cell) and cell not in _EMPTY for cell in cells)
        if bad * 2 > len(cells):
            table.columns[name] = list(cells)
            continue
        if bad:
            conditions.append(f"{bad} cell(s) of column {name[:_MOST_NAME]} are not numbers")
        table.columns[name] = values
    return table


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _remarks(table: CsvTable) -> list[str]:
    if not table.rows:
        return []
    remarks = []
    identifiers = table.columns.get("run_id")
    writers = [str(cell) for cell in identifiers] if identifiers is not None else [""] * table.rows
    duration = table.numbers("duration")
    seconds = [] if duration is None else _within(duration.tolist(), writers)
    back = sum(math.isfinite(a) and math.isfinite(b) and b < a for a, b in seconds)
    stamps = table.columns.get("timestamp")
    if isinstance(stamps, list):
        # ISO 8601 sorts as text within one file
        back = max(back, sum(later < earlier for earlier, later in _within(stamps, writers)))
    if back:
        remarks.append(f"the clock runs backwards at {back} row(s)")
    if "ram_process" not in table.columns:
        remarks.append("no column ram_process: written by stock codecarbon; memory of the processes is not known")
    if len(set(writers)) == table.rows == 1:
        remarks.append("one row: only run totals recorded, no time series")
    return remarks


def _within(values: list[Any], writers: list[str]) -> list[tuple[Any, Any]]:
    """Returns each value with the next one of the same writer."""
    last: dict[str, Any] = {}
    pairs = []
    for value, writer in zip(values, writers, strict=True):
        if writer in last:
            pairs.append((last[writer], value))
        last[writer] = value
    return pairs
