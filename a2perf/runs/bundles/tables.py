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

from a2perf.runs.bundles.files import BundleFiles
from a2perf.storage import MAX_VALUES
from a2perf.stranger_files import BoundExceeded, Kind, NotRegular, StrangerFileError

Column = NDArray[np.float64] | list[str]
MAX_BYTES = 256 << 20
MAX_COLUMNS, MAX_LINE_CHARACTERS, MAX_HEADERS = 10_000, 1 << 20, 100
_MOST_NAME = 100  # limit on the characters of a column's name in a condition
_LEFT_OUT = "what follows was left out"
_EMISSIONS = ("run_id", "timestamp", "duration", "energy_consumed", "cpu_power", "gpu_power", "ram_power")
_MOST = 1e100  # squares and sums of larger numbers overflow
_EMPTY = frozenset(("", "None", "null"))
ABSENT = math.copysign(math.nan, -1.0)
"""The value of an empty cell. A NaN that a run logged has the other sign, since it is a failure and not an absence."""


@dataclass
class CsvTable:
    """Columns of equal length.

    Attributes:
        columns: float64 with ``ABSENT`` for empty and non-numeric cells; a list of text if hardly any is a number.
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
    return table_of(BundleFiles(path.parent), path.name)


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
    """Concatenates tables of several writers or versions; absent columns are ``ABSENT``."""
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
                    np.full(table.rows, ABSENT) if column is None else np.asarray(column, np.float64)
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


def is_absent(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Returns which values of a column are empty cells."""
    return np.isnan(values) & np.signbit(values)


def plain_cell(cell: object) -> object:
    """Returns a cell for people and files: whole numbers as integers, ``""`` for ``ABSENT``, ``"nan"`` for NaN."""
    if isinstance(cell, float | np.floating):
        if np.isnan(cell):
            return "" if np.signbit(cell) else "nan"
        return int(cell) if float(cell).is_integer() else float(cell)
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
    torn: list[list[str]] = []
    short = 0
    for row in rows[1:]:
        if row[0] == header[0] and len(row) > 1 and all(not _is_number(cell) for cell in row):
            if row != parts[-1][0]:
                if len(parts) == MAX_HEADERS:
                    conditions.append(f"more than {MAX_HEADERS} header lines; what follows was left out")
                    break
                parts.append((row, []))
        elif len(row) != len(parts[-1][0]):
            # the writer leaves out columns without a value; the energies before them stand in their places
            padded = _padded(row, parts[-1][0]) if needs else None
            if padded is None:
                torn.append(row)
            else:
                parts[-1][1].append(padded)
                short += 1
        else:
            parts[-1][1].append(row)
    if short:
        conditions.append(f"{short} row(s) without their empty columns, read up to the first of them")
    if torn:
        conditions.append(f"{len(torn)} row(s) with a wrong number of cells left out")
        if lost := _lost_runs(torn, parts):
            return CsvTable(
                conditions=[*conditions, f"no costs: those of {lost} run(s) are in rows that were left out"]
            )
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


def _padded(row: list[str], header: list[str]) -> list[str] | None:
    """Returns a short row of an emissions table up to the country, and empty cells from there on.

    Returns None if a cell is missing before the country, which shows in a word among the numbers.
    """
    if "country_name" not in header or not header.index("country_name") < len(row) < len(header):
        return None
    place, first = header.index("country_name"), header.index("duration") if "duration" in header else 0
    if _is_number(row[place]) or not all(_is_number(cell) or cell in _EMPTY for cell in row[first:place]):
        return None
    return [*row[:place], *[""] * (len(header) - place)]


def _lost_runs(torn: Sequence[list[str]], parts: Sequence[tuple[list[str], list[list[str]]]]) -> int:
    """Returns how many runs of an emissions table have no complete row; energies of the others are cumulative."""
    header = parts[0][0]
    if "run_id" not in header or "energy_consumed" not in header:
        return 0
    kept = {row[names.index("run_id")] for names, rows in parts if "run_id" in names for row in rows}
    at = header.index("run_id")
    return len({row[at] for row in torn if len(row) > at} - kept)


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
            values = np.array(cells, np.float64)
            values[np.isnan(values)] = np.nan  # the text "-nan" is a NaN too
            if (large := np.isfinite(values) & (np.abs(values) > _MOST)).any():
                conditions.append(f"{large.sum()} cell(s) of column {name[:_MOST_NAME]} are too large")
                values[large] = ABSENT
            table.columns[name] = values
            continue
        except ValueError:
            pass
        if not any(_is_number(cell) for cell in cells):
            table.columns[name] = np.full(len(cells), ABSENT) if all(cell in _EMPTY for cell in cells) else list(cells)
            continue
        known = np.array([_is_number(cell) for cell in cells])
        values = np.array([float(cell) if number else 0.0 for cell, number in zip(cells, known, strict=True)])
        values[np.isnan(values)], values[~known] = np.nan, ABSENT
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
