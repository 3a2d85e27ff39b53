"""HTML of tables and links in notebooks: escaped, without scripts, readable on light and dark pages.

Colours derive from ``currentColor``, which is the text colour of the page around.
"""

from __future__ import annotations

from markupsafe import Markup

from a2perf.api.columns import Columns
from a2perf.api.table_text import ESTIMATED_MARK, ShownColumn, shown_column, shown_names, shown_rows
from a2perf.plain_text import plain_text

_ENDS = 10
_LONGEST_TEXT = 60

_STYLE = Markup("""<style>
.a2perf-view{font:13px/1.45 system-ui,sans-serif;color:inherit;max-width:100%;overflow-x:auto;
 scrollbar-width:thin;scrollbar-color:color-mix(in srgb,currentColor 35%,transparent) transparent}
.a2perf-view table{border-collapse:collapse;margin:.3em 0;font-size:inherit;color:inherit;background:none;
 border:0;width:auto;display:table}
.a2perf-view caption{text-align:left;font-weight:600;padding:.2em 0;color:inherit;caption-side:top}
.a2perf-view th,.a2perf-view td{padding:.2em .7em;text-align:left;vertical-align:top;white-space:nowrap;border:0;
 background:none;color:inherit}
.a2perf-view thead th{border-bottom:1px solid;border-color:color-mix(in srgb,currentColor 35%,transparent);
 font-weight:600}
.a2perf-view tbody tr{border-top:1px solid;border-color:color-mix(in srgb,currentColor 12%,transparent);
 background:none}
.a2perf-view tbody th{font-weight:400}
.a2perf-view .n{text-align:right;font-variant-numeric:tabular-nums}
.a2perf-view .q{opacity:.75;font-weight:400;font-size:.92em;white-space:normal}
.a2perf-view p{margin:.2em 0}
.a2perf-view code{background:none;color:inherit;padding:0;word-break:break-all}
</style>""")


def view(*parts: str) -> Markup:
    """Returns escaped parts (``Markup``) or texts in one block with the style of results."""
    return Markup('{}<div class="a2perf-view">{}</div>').format(_STYLE, Markup("").join(parts))


def quiet(text: str) -> Markup:
    """Returns a remark in smaller, fainter type."""
    return Markup('<p class="q">{}</p>').format(plain_text(text))


def table_html(table: Columns, ends: int = _ENDS) -> Markup:
    """Returns a table as HTML: all columns, the first and last rows, every text escaped.

    Args:
        table: the table.
        ends: how many rows to show at each end.
    """
    names = shown_names(table)
    positions = shown_rows(len(table), ends)
    columns = [shown_column(table, name, positions, _LONGEST_TEXT) for name in names]
    head = Markup("").join(_head(table, name, column) for name, column in zip(names, columns, strict=True))
    rows = [_row(columns, row) for row in range(len(positions))]
    left_out = len(table) - len(positions)
    if left_out:
        more = Markup('<tr><td class="q" colspan="{}">… {} more rows</td></tr>').format(len(columns), left_out)
        rows.insert(ends, more)
    if not rows:
        rows.append(Markup('<tr><td class="q" colspan="{}">no rows</td></tr>').format(len(columns)))
    caption = Markup("<caption>{}</caption>").format(plain_text(table.title)) if table.title else Markup("")
    content = Markup("<table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(
        caption, head, Markup("").join(rows)
    )
    marked = any(cell.startswith(ESTIMATED_MARK) for column in columns for cell in column.cells)
    return view(content, quiet(f"{ESTIMATED_MARK}estimated by a model") if marked else "")


def _head(table: Columns, name: str, column: ShownColumn) -> Markup:
    unit = Markup('<br><span class="q">{}</span>').format(column.unit) if column.unit else Markup("")
    described = table.descriptions.get(name, "")
    title = Markup(' title="{}"').format(plain_text(described)) if described else Markup("")
    return Markup('<th scope="col" class="{}"{}>{}{}</th>').format(
        "n" if column.is_number else "", title, column.heading, unit
    )


def _row(columns: list[ShownColumn], row: int) -> Markup:
    cells = Markup("").join(
        Markup('<td class="{}">{}</td>').format("n" if column.is_number else "", column.cells[row])
        for column in columns
    )
    return Markup("<tr>{}</tr>").format(cells)
