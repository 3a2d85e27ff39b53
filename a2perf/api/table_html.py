"""Tables as HTML for notebooks."""

from __future__ import annotations

from markupsafe import Markup

from a2perf.api.columns import ColumnTable
from a2perf.api.html import quiet, shown, view
from a2perf.api.table_text import ESTIMATED_MARK, ShownColumn, shown_column, shown_names, shown_rows

_ENDS = 10
_LONGEST_TEXT = 60


def table_html(table: ColumnTable, ends: int = _ENDS, omitted: int = 0, *, captioned: bool = True) -> Markup:
    """Returns a table as HTML: all columns, the first and last rows, every text escaped.

    Args:
        table: the table.
        ends: how many rows to show at each end.
        omitted: rows that the caller left out of the middle of the table.
        captioned: show the title.
    """
    names = shown_names(table)
    positions, gap = shown_rows(len(table), ends)
    columns = [shown_column(table, name, positions, _LONGEST_TEXT) for name in names]
    head = Markup("").join(_head(table, name, column) for name, column in zip(names, columns, strict=True))
    rows = [_row(columns, row) for row in range(len(positions))]
    left_out = omitted + len(table) - len(positions)
    if left_out:
        more = Markup('<tr><td class="q" colspan="{}">… {} more rows</td></tr>').format(len(columns), left_out)
        rows.insert(len(rows) // 2 if gap is None else gap, more)
    if not rows:
        rows.append(Markup('<tr><td class="q" colspan="{}">no rows</td></tr>').format(len(columns)))
    caption = Markup("<caption>{}</caption>").format(shown(table.title)) if table.title and captioned else Markup("")
    content = Markup("<table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(
        caption, head, Markup("").join(rows)
    )
    marked = any(cell.startswith(ESTIMATED_MARK) for column in columns for cell in column.cells)
    return view(content, quiet(f"{ESTIMATED_MARK}estimated by a model") if marked else "")


def _head(table: ColumnTable, name: str, column: ShownColumn) -> Markup:
    unit = Markup('<br><span class="q">{}</span>').format(column.unit) if column.unit else Markup("")
    described = table.descriptions.get(name, "")
    title = Markup(' title="{}"').format(shown(described)) if described else Markup("")
    return Markup('<th scope="col" class="{}"{}>{}{}</th>').format(
        "n" if column.is_number else "", title, column.heading, unit
    )


def _row(columns: list[ShownColumn], row: int) -> Markup:
    cells = Markup("").join(
        Markup('<td class="{}">{}</td>').format("n" if column.is_number else "", column.cells[row])
        for column in columns
    )
    return Markup("<tr>{}</tr>").format(cells)
