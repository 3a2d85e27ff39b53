"""CSV files read column by column, tolerant of what crashes and older writers leave behind.

A row cut short, a repeated header and a cell that is no number are counted and stated; nothing else is lost.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

MAX_BYTES = 64 * 2**20


@dataclasses.dataclass(frozen=True)
class Columns:
    """One CSV file.

    Attributes:
        numbers: float64 arrays, shape (rows,), NaN where a cell is empty or no number.
        words: the columns that hold text, one entry a row.
        rows: number of complete rows.
        problems: what could not be read, in words.
    """

    numbers: dict[str, Values]
    words: dict[str, list[str]]
    rows: int
    problems: tuple[str, ...]

    def first(self, *names: str) -> Values | None:
        """Returns the first of the named columns that holds at least one finite number."""
        for name in names:
            values = self.numbers.get(name)
            if values is not None and bool(np.isfinite(values).any()):
                return values
        return None

    def word(self, name: str) -> str | None:
        """Returns the values of a text column that is constant, or its distinct values joined by ``", "``."""
        entries = sorted({entry for entry in self.words.get(name, []) if entry})
        return ", ".join(entries) if entries else None


def read_columns(path: Path, max_bytes: int = MAX_BYTES) -> Columns:
    """Reads a CSV file with one header line.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it has no header line, is larger than ``max_bytes``, or is not text.
    """
    if path.stat().st_size > max_bytes:
        raise ValueError(f"larger than {max_bytes // 2**20} MiB")
    with path.open(encoding="utf-8", errors="strict", newline="") as stream:
        reader = csv.reader(stream)
        try:
            header = next(reader, None)
            if not header:
                raise ValueError("no header line")
            rows, torn, repeated = _complete_rows(reader, header)
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"not a CSV file ({error})") from error
    problems = []
    if torn:
        problems.append(f"{torn} row(s) with a wrong number of cells left out")
    if repeated:
        problems.append(f"{repeated} repeated header line(s) left out")
    numbers: dict[str, Values] = {}
    words: dict[str, list[str]] = {}
    for index, name in enumerate(header):
        cells = [row[index] for row in rows]
        values, unreadable = _floats(cells)
        if unreadable * 2 > sum(cell != "" for cell in cells):
            words[name] = cells
            continue
        numbers[name] = values
        if unreadable:
            problems.append(f"{unreadable} cell(s) of column {name} are no numbers")
    return Columns(numbers, words, len(rows), tuple(problems))


def _complete_rows(reader: Iterable[list[str]], header: list[str]) -> tuple[list[list[str]], int, int]:
    rows: list[list[str]] = []
    torn = repeated = 0
    for row in reader:
        if not row:
            continue
        if len(row) != len(header):
            torn += 1
        elif row == header:
            repeated += 1
        else:
            rows.append(row)
    return rows, torn, repeated


def _floats(cells: list[str]) -> tuple[Values, int]:
    try:
        return np.array(cells, dtype=np.float64), 0  # the fast way, for columns without gaps
    except ValueError:
        pass
    values = np.full(len(cells), np.nan)
    unreadable = 0
    for index, cell in enumerate(cells):
        if not cell or cell in ("None", "nan"):
            continue
        try:
            values[index] = float(cell)
        except ValueError:
            unreadable += 1
    return values, unreadable
