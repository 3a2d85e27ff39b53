"""Tables as text of 80 columns, and the cells that text and HTML share.

Numbers of a column share one unit and are rounded as in reports; ``≈`` marks the estimates of a model.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from a2perf.api.columns import Columns
from a2perf.plain_text import plain_text, terminal_line
from a2perf.report.numbers_text import Scale, counted, normalised_text, row_scale, written

WIDTH = 80
ESTIMATED_MARK = "≈ "
MISSING = "–"
_ESTIMATED = ("estimated", "mixed")
_ENDS = 5
_TEXT_WIDTHS = (28, 20, 14)
_LONGEST_TEXT, _LONGEST_SAME = 28, 60
_MOST_HIDDEN = 12
_GAP = "  "
_NORMALISED = "normalised_score"


@dataclass(frozen=True)
class ShownColumn:
    """One column, ready to print.

    Attributes:
        heading: name of the column.
        unit: unit of all its numbers after scaling; ``""`` if there is none or each cell has its own.
        cells: one text per shown row.
        is_number: whether it aligns right.
    """

    heading: str
    unit: str
    cells: tuple[str, ...]
    is_number: bool


def shown_rows(count: int, ends: int) -> list[int]:
    """Returns the positions of the first and last rows; of all rows if few are left out."""
    return list(range(count)) if count <= 2 * ends + 1 else [*range(ends), *range(count - ends, count)]


def shown_names(table: Columns) -> list[str]:
    """Returns the columns to show: those with units and provenance of other columns are part of their cells."""
    within = {*table.row_units.values(), *table.row_provenance.values()}
    return [name for name in table.stored() if name not in within]


def shown_column(table: Columns, name: str, positions: Sequence[int], longest: int = _LONGEST_TEXT) -> ShownColumn:
    """Returns the cells of a column at these positions; texts are cut to ``longest`` characters."""
    values, kind = table.stored()[name], table.kinds[name]
    heading = one_line(name, longest)
    if kind != "float":
        cells = tuple(MISSING if values[at] is None else one_line(str(values[at]), longest) for at in positions)
        return ShownColumn(heading, "", cells, kind == "int")
    marks = _marks(table, name, positions)
    if name in table.row_units:
        texts = [_with_unit(table, name, at) for at in positions]
        return ShownColumn(heading, "", _marked(marks, texts), True)
    if name == _NORMALISED:
        texts = [MISSING if math.isnan(values[at]) else normalised_text(values[at]) for at in positions]
        return ShownColumn(heading, "", tuple(texts), True)
    numbers = np.asarray(values, np.float64)
    scale = row_scale(numbers[np.isfinite(numbers)].tolist(), table.units.get(name, ""))
    texts = [MISSING if math.isnan(values[at]) else written(float(values[at]), scale).text() for at in positions]
    return ShownColumn(heading, scale.unit, _marked(marks, texts), True)


def one_line(text: str, longest: int) -> str:
    """Returns untrusted text as one printable line of at most so many characters."""
    line = terminal_line(" ".join(plain_text(text).split()))
    if len(line) <= longest:
        return line
    end = longest // 3  # names differ at their ends as often as at their starts
    return f"{line[: longest - end - 1]}…{line[len(line) - end :]}"


def table_text(table: Columns, ends: int = _ENDS, omitted: int = 0) -> str:
    """Returns a table as text: its first and last rows, and as many columns as 80 characters hold.

    Texts that are the same in all rows go into one line below the table.

    Args:
        table: the table.
        ends: how many rows to show at each end.
        omitted: rows that the caller left out of the middle of the table.
    """
    title = one_line(table.title, WIDTH - 24)
    names = shown_names(table)
    size = f"{counted(len(table) + omitted, 'row')}, {counted(len(table.stored()), 'column')}"
    positions = shown_rows(len(table), ends)
    same = [name for name in names if _is_same(table, name)]
    shown, hidden = _fitting(table, [name for name in names if name not in same], positions)
    heads = [[column.heading for column in shown]]
    if any(column.unit for column in shown):
        heads.append([column.unit for column in shown])
    rows = [[column.cells[row] for column in shown] for row in range(len(positions))]
    left_out = omitted + len(table) - len(positions)
    widths = [(column.is_number, _width(column)) for column in shown]
    lines = [
        _GAP.join(
            text.rjust(width) if right else text.ljust(width) for text, (right, width) in zip(row, widths, strict=True)
        ).rstrip()
        for row in (*heads, *rows)
    ]
    if left_out:
        lines.insert(len(heads) + min(ends, len(rows) // 2), f"… {left_out} more")
    if same:
        constants = ", ".join(f"{name} {one_line(str(table.stored()[name][0]), _LONGEST_SAME)}" for name in same)
        lines.append(_filled(f"in all rows: {constants}"))
    if hidden:
        listed = [one_line(name, _LONGEST_TEXT) for name in hidden[:_MOST_HIDDEN]]
        more = f" and {counted(len(hidden) - _MOST_HIDDEN, 'other')}" if len(hidden) > _MOST_HIDDEN else ""
        lines.append(_filled(f"more columns: {', '.join(listed)}{more}"))
    return "\n".join([f"{title}: {size}" if title else size, *lines])


def _is_same(table: Columns, name: str) -> bool:
    values = table.stored()[name]
    return table.kinds[name] == "text" and len(values) > 1 and values[0] is not None and len(set(values)) == 1


def _fitting(table: Columns, names: Sequence[str], positions: Sequence[int]) -> tuple[list[ShownColumn], Sequence[str]]:
    """Returns the columns that fit, texts shortened as far as that makes more of them fit, and the other names."""
    best: list[ShownColumn] = []
    for longest in _TEXT_WIDTHS:
        shown: list[ShownColumn] = []
        for name in names:
            shown.append(shown_column(table, name, positions, longest))
            if len(shown) > 1 and sum(map(_width, shown)) + len(_GAP) * (len(shown) - 1) > WIDTH:
                shown.pop()
                break
        if len(shown) > len(best):
            best = shown
        if len(best) == len(names):
            break
    return best, names[len(best) :]


def _width(column: ShownColumn) -> int:
    return max(len(text) for text in (column.heading, column.unit, *column.cells))


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _marks(table: Columns, name: str, positions: Sequence[int]) -> list[str]:
    if name in table.row_provenance:
        held = table.stored()[table.row_provenance[name]]
        return [ESTIMATED_MARK if held[at] in _ESTIMATED else "" for at in positions]
    return [ESTIMATED_MARK if table.provenance.get(name) in _ESTIMATED else ""] * len(positions)


def _marked(marks: Sequence[str], texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(text if text == MISSING else f"{mark}{text}" for mark, text in zip(marks, texts, strict=True))


def _with_unit(table: Columns, name: str, at: int) -> str:
    """Returns a number with the unit of its row; all numbers of a row have the scale of its first one."""
    value = float(table.stored()[name][at])
    if math.isnan(value):
        return MISSING
    of_row = [other for other, held in table.row_units.items() if held == table.row_units[name]]
    first = float(table.stored()[next(other for other in table.stored() if other in of_row)][at])
    unit = str(table.stored()[table.row_units[name]][at] or "")
    scale = row_scale([first if math.isfinite(first) and first != 0 else value], unit)
    if scale.unit != unit and scale.unit.startswith("10"):  # a power of ten belongs to the number, not to its unit
        scale = Scale(1.0, unit)
    return f"{written(value, scale).text()} {scale.unit}".rstrip()
