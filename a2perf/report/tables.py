"""Typed tables: every number keeps its unit, spread, sample size and provenance until it is printed.

A table is made once and rendered as Markdown, HTML, CSV or text; ``numbers_text`` rounds and scales the numbers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import msgspec
from markupsafe import Markup, escape

from a2perf.plain_text import csv_cell, html_text, safe_link
from a2perf.plain_text import markdown_text as markdown_text
from a2perf.report.numbers_text import marks_of, rounded, rounded_text

MISSING = "–"
_MANY = 6
"""Columns of scores above which the type is smaller and the table scrolls."""
_WIDTH, _MARGIN = 112, 5
"""Of a drawn interval, in CSS pixels."""
Align = Literal["left", "right"]
LineKind = Literal["cells", "heading", "remark"]
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Quantity(msgspec.Struct, kw_only=True, frozen=True):
    """A number that a paper may print.

    Attributes:
        value: in ``unit``; None if it is not known, for the reason in ``note``.
        unit: SI or domain unit of value and spread, ``""`` for pure numbers; seconds and bytes are scaled on display.
        spread: same unit as value.
        spread_kind: what the spread is, ``"std over episodes, ddof 0"``.
        n: number of samples behind the value.
        provenance: ``"measured"`` by an instrument, ``"estimated"`` by a model, ``"recorded"`` (a reward, a count) or
            ``"mixed"``.
        method: the instrument, the model, or what one value includes.
        note: a caveat in a few words.
        beside: what is read together with it, ``"p99 1.2 ms"``.
    """

    value: float | None
    unit: str = ""
    spread: float | None = None
    spread_kind: str | None = None
    n: int | None = None
    provenance: str | None = None
    method: str | None = None
    note: str | None = None
    beside: str = ""


class Text(msgspec.Struct, kw_only=True, frozen=True):
    """Text in a cell, or a number that is rounded already.

    Attributes:
        detail: a quieter text below, ``; `` between its parts; ``warning`` stands out.
        unit, mark: after and before the number; ``hint`` is what the mark means.
        href: a target inside the same page or site.
        code: shown in a fixed-width face.
        sort: what the reader's sorting of the column compares; cells without it come last.
        best: the value may be the best of its column.
        drawing: markup after the text, on pages only.
    """

    text: str = MISSING
    detail: str | None = None
    warning: str | None = None
    unit: str = ""
    mark: str = ""
    hint: str = ""
    state: str | None = None
    href: str | None = None
    code: bool = False
    sort: float | str | None = None
    best: bool = False
    drawing: Markup = Markup("")

    def line(self, *, detail: bool = False) -> str:
        """Returns the cell on one line, without detail and warning if not asked for."""
        line = " ".join(part for part in (self.mark, self.text, self.unit) if part)
        if not detail or not self.detail:
            return line
        return f"{line} {self.detail if self.detail.startswith(('[', '±')) else f'({self.detail})'}"


class Chips(msgspec.Struct, kw_only=True, frozen=True):
    """Short remarks side by side: ``state`` is the tone of each, ``hint`` the explanation in a tooltip."""

    chips: tuple[Text, ...]


Cell = Quantity | Text | Chips


class Column(msgspec.Struct, kw_only=True, frozen=True):
    """A column of a table.

    Attributes:
        kind: class of its cells on a page; the first column that is not a ``"rank"`` names the rows.
        first: order that the reader's first click sorts by; a column without it is not sorted.
        is_sorted: the rows are in this order already.
        hint: what the column means.
        detail: a quieter line below the heading.
    """

    key: str
    title: str
    align: Align = "left"
    kind: str = ""
    first: Literal["", "ascending", "descending"] = ""
    is_sorted: bool = False
    hint: str = ""
    detail: str = ""

    def heading(self) -> str:
        """Returns title and detail on one line."""
        return f"{self.title} ({self.detail})" if self.detail else self.title


class Table(msgspec.Struct, kw_only=True, frozen=True):
    """A table with a caption.

    Attributes:
        name: id of a ranking on its page.
        kind: rows of ``"cards"``, a ``"ranking"`` and the ``"overview"`` become cards on a narrow screen; readers can
            sort a ranking.
        rows: a row of one cell is a heading or a remark over all columns.
        about: attributes of each row on a page, by name.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    kind: Literal["plain", "scores", "cards", "ranking", "overview"] = "plain"
    about: tuple[Mapping[str, str], ...] = ()


def ranking(
    caption: str, held: Iterable[tuple[Column, Iterable[Cell]]], about: Iterable[Mapping[str, str]], name: str = ""
) -> Table:
    """Returns a ranking of the columns ``with_values``."""
    columns, rows = with_values(held)
    return Table(name=name, caption=caption, columns=columns, rows=rows, kind="ranking", about=tuple(about))


def with_values(
    held: Iterable[tuple[Column, Iterable[Cell]]],
) -> tuple[tuple[Column, ...], tuple[tuple[Cell, ...], ...]]:
    """Returns the columns that hold a value, and the rows of their cells."""
    shown = [(column, cells) for column, of in held if not all(map(_is_empty, cells := list(of)))]
    return tuple(column for column, _ in shown), tuple(zip(*(cells for _, cells in shown), strict=True))


def text_table(
    caption: str,
    heads: Sequence[str | Column],
    rows: Iterable[Sequence[Cell | str]],
    *,
    texts: int = 1,
    kind: Literal["plain", "cards"] = "plain",
) -> Table:
    """Returns a table of texts; the columns from ``texts`` on are numbers, which align right."""
    heading = (
        Column(key=head, title=head, align="left" if at < texts else "right") if isinstance(head, str) else head
        for at, head in enumerate(heads)
    )
    cells = tuple(tuple(Text(text=cell) if isinstance(cell, str) else cell for cell in row) for row in rows)
    return Table(name="", caption=caption, columns=tuple(heading), rows=cells, kind=kind)


def lines_of(table: Table) -> Iterator[tuple[LineKind, tuple[Cell, ...], Mapping[str, str]]]:
    """Yields each row with what it is, and with its attributes on a page: the walk of every format."""
    for row, about in zip(table.rows, table.about or (_NOTHING,) * len(table.rows), strict=True):
        spanning: LineKind = "heading" if about.get("class") == "category" else "remark"
        yield (spanning if len(row) < len(table.columns) else "cells"), row, about


def to_text(table: Table) -> str:
    """Renders a table for a terminal."""
    widths = _widths(table)
    aligned = [
        [
            text.rjust(width) if column.align == "right" else text.ljust(width)
            for text, width, column in zip(row, widths, table.columns, strict=True)
        ]
        for row in _texts(table)
    ]
    return "".join(f"{'  '.join(row).rstrip()}\n" for row in aligned)


def narrowed(table: Table, width: int, expendable: Sequence[str]) -> Table:
    """Returns a table without some columns, as few of the expendable ones as make its text fit a width."""
    widths = dict(zip((column.key for column in table.columns), _widths(table), strict=True))
    for key in expendable:
        if sum(widths.values()) + 2 * (len(widths) - 1) <= width:
            break
        widths.pop(key, None)
    kept = [at for at, column in enumerate(table.columns) if column.key in widths]
    rows = tuple(tuple(row[at] for at in kept) for row in table.rows)
    return msgspec.structs.replace(table, columns=tuple(table.columns[at] for at in kept), rows=rows)


def to_csv(table: Table) -> str:
    """Renders a table as CSV."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([csv_cell(text) for text in row] for row in _texts(table))
    return stream.getvalue()


def csv_text(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns rows as CSV; no cell is a formula, and a name without a cell is left empty."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
    return stream.getvalue()


def exact(value: float | None) -> str:
    """Returns a number with all its digits; empty without one."""
    return "" if value is None else repr(float(value))


def to_markdown(table: Table) -> str:
    """Renders a table as GitHub-flavoured Markdown."""
    heads = [markdown_text(column.heading()) for column in table.columns]
    rules = ["---:" if column.align == "right" else "---" for column in table.columns]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(rules)} |"]
    for kind, row, _ in lines_of(table):
        text, spanned = " | ".join(map(_markdown_cell, row)), len(table.columns) - len(row)
        lines.append(f"| {f'**{text}**' if kind == 'heading' else text} |{'  |' * spanned}")
    return "\n".join(lines) + "\n"


def to_html(table: Table, label: str = "") -> Markup:
    """Renders a table as an HTML fragment that scrolls if it is too wide; every text is escaped.

    Args:
        label: accessible name; the caption if there is none.
    """
    head = Markup("").join(_html_head(table, column) for column in table.columns)
    body = Markup("").join(_html_row(table, *line) for line in lines_of(table))
    is_wide = table.kind == "scores" and len(table.columns) > _MANY
    return Markup(
        '<div class="scroll{fits}" tabindex="0" role="region" aria-label="{label}">'
        '<table role="table" class="{kind}"{name}><caption>{caption}</caption>'
        '<thead role="rowgroup"><tr role="row">{head}</tr></thead><tbody role="rowgroup">{body}</tbody></table></div>'
    ).format(
        fits=" fits" if table.kind == "scores" and not is_wide else "",
        label=label or table.caption,
        kind=f"{table.kind} many" if is_wide else table.kind,
        caption=table.caption,
        head=head,
        body=body,
        name=Markup(' id="{}"').format(table.name) if table.name and table.kind == "ranking" else "",
    )


def quantity_text(quantity: Quantity) -> str:
    """Returns one line such as ``≈ 12.3 ± 0.4 W (n = 20)``."""
    if quantity.value is None:
        return "–" if quantity.note is None else f"– ({quantity.note})"
    mark = f"{marks_of(quantity.provenance)[0]} ".lstrip()
    count = "" if quantity.n is None else f" (n = {quantity.n})"
    return f"{mark}{rounded_text(quantity.value, quantity.unit, quantity.spread)}{count}"


def _texts(table: Table) -> list[list[str]]:
    """Returns the lines of a table, the headings first."""
    heads = [column.heading() for column in table.columns]
    return [heads, *([*map(_cell_text, row), *[""] * (len(heads) - len(row))] for _, row, _ in lines_of(table))]


def _widths(table: Table) -> list[int]:
    return [max(map(len, texts)) for texts in zip(*_texts(table), strict=True)]


def _html_head(table: Table, column: Column) -> Markup:
    classes = f"{column.align} {column.kind}".rstrip()
    if not column.first:
        title = Markup(' title="{}"').format(column.hint) if column.hint else ""
        below = Markup("<small>{}</small>").format(column.detail) if column.detail else ""
        return Markup('<th scope="col" role="columnheader" class="{}"{}>{}{}</th>').format(
            classes, title, column.title, below
        )
    return Markup(
        '<th scope="col" role="columnheader" class="{}" data-key="{}" data-first="{}" data-kind="{}" aria-sort="{}">'
        '<button type="button" disabled title="{}">{}</button></th>'
    ).format(
        classes,
        column.key,
        column.first,
        "text" if column.first == "ascending" and column.align == "left" else "number",
        column.first if column.is_sorted else "none",
        column.hint,
        column.title,
    )


def _html_row(table: Table, kind: LineKind, row: tuple[Cell, ...], about: Mapping[str, str]) -> Markup:
    # joined as plain strings, every part escaped already: a large report has a hundred thousand of them
    of_row = "".join(f' {name}="{escape(value)}"' for name, value in about.items() if value)
    opening = "<tr" if table.kind in ("plain", "scores") else '<tr role="row"'
    if kind != "cells":
        tag = 'th scope="rowgroup"' if kind == "heading" else "td"
        spanned = f'<{tag} colspan="{len(table.columns)}">{_html_cell(row[0])}</{tag[:2]}>'
        return Markup(f"{opening}{of_row}>{spanned}</tr>")
    cells = []
    named = False
    for column, cell in zip(table.columns, row, strict=True):
        heads_row = not named and column.kind != "rank"
        named = named or heads_row
        tag, scope = ("th", ' scope="row"') if heads_row else ("td", "")
        text = cell if isinstance(cell, Text) else None
        state = "empty" if _is_empty(cell) else "best" if text is not None and text.best else ""
        classes = " ".join(filter(None, (column.align, column.kind, state)))
        sort = "" if text is None or text.sort is None else f' data-v="{escape(text.sort)}"'
        # rows that become cards lose the roles of a table, and their headings, unless they are written out
        role = "rowheader" if heads_row else "cell"
        roles = "" if table.kind in ("plain", "scores") else f' role="{role}" data-label="{escape(column.title)}"'
        cells.append(f'<{tag}{roles}{scope} class="{classes}"{sort}>{_html_cell(cell)}</{tag}>')
    return Markup(f"{opening}{of_row}>{''.join(cells)}</tr>")


def interval_bar(value: float, low: float | None, high: float | None, ends: tuple[float, float]) -> Markup:
    """Draws a score with its interval on a scale with marks at 0 (floor) and 1 (expert).

    Args:
        ends: of the scale, at which values beyond are drawn.
    """
    least, most = ends

    def at(value: float) -> str:
        share = (min(max(value, least), most) - least) / (most - least)
        return f"{_MARGIN + share * (_WIDTH - 2 * _MARGIN):.1f}"

    left, right = (value if low is None else low), (value if high is None else high)
    return Markup(  # numbers only
        f'<svg class="interval" width="{_WIDTH}" height="16" viewBox="0 0 {_WIDTH} 16" aria-hidden="true">'
        f'<path class="scale" d="M{at(0)} 2v12M{at(1)} 2v12M{at(0)} 8H{at(1)}"/>'
        f'<path class="range" d="M{at(left)} 8H{at(right)}"/><circle cx="{at(value)}" cy="8" r="3.6"/></svg>'
    )


def _is_empty(cell: Cell) -> bool:
    if isinstance(cell, Chips):
        return not cell.chips
    if isinstance(cell, Text):
        return cell.text == MISSING and not cell.warning
    return cell.value is None


def _html_cell(cell: Cell) -> str:
    if isinstance(cell, Text):
        return _html_text(cell)
    if isinstance(cell, Chips):
        drawn = Markup('<li class="chip {}" title="{}">{}</li>')
        return Markup("<ul>{}</ul>").format(
            Markup("").join(drawn.format(chip.state, chip.hint, chip.text) for chip in cell.chips)
        )
    return Markup('<span class="cell">{}</span>').format(_html_quantity(cell))


def _html_text(cell: Text) -> str:
    text = '<span class="none">–</span>' if cell.text == MISSING else _escaped(cell.text)
    if cell.code:
        text = f"<code>{text}</code>"
    if cell.href is not None:
        text = f'<a href="{escape(safe_link(cell.href))}">{text}</a>'
    if cell.state is not None:
        text = f'<span class="state {escape(cell.state)}"><span class="dot" aria-hidden="true"></span>{text}</span>'
    if cell.mark:
        text = f'<abbr title="{escape(cell.hint)}">{escape(cell.mark)}</abbr> {text}'
    elif cell.hint:
        text = f'<span title="{escape(cell.hint)}">{text}</span>'
    if cell.unit:
        text += f' <i class="unit">{escape(cell.unit)}</i>'
    if isinstance(cell.sort, float):
        text = f'<span class="number">{text}</span>'
    if cell.best:
        text += '<span class="hidden"> (may be the best)</span>'
    if cell.drawing:
        text += f" {cell.drawing}"
    for opening, lines in (("<small>", cell.detail), ('<small class="reason">', cell.warning)):
        for line in lines.split("; ") if lines else ():
            text += f"{opening}{_escaped(line)}</small>"
    return f'<span class="cell">{text}</span>'


def _escaped(text: str) -> str:
    return str(escape(html_text(text)))  # a string of markup would escape what is added to it


def _html_quantity(quantity: Quantity) -> Markup:
    if quantity.value is None:
        note = Markup("") if quantity.note is None else Markup("<small>{}</small>").format(quantity.note)
        return Markup('<span class="none">–</span>{}').format(note)
    number, (mark, _) = rounded(quantity.value, quantity.unit, quantity.spread), marks_of(quantity.provenance)
    lower = ("" if quantity.n is None else f"n = {quantity.n}", quantity.provenance if mark else "", quantity.note)
    smaller = filter(None, (quantity.beside, " · ".join(filter(None, lower))))
    return Markup('<span class="number">{}{}{}</span>{}').format(
        Markup('<span aria-hidden="true">{} </span>').format(mark) if mark else "",
        number.text(),
        Markup(' <i class="unit">{}</i>').format(number.unit) if number.unit else "",
        Markup("").join(Markup("<small>{}</small>").format(line) for line in smaller),
    )


def _cell_text(cell: Cell) -> str:
    """Returns a cell on one line, without the detail of a text."""
    if isinstance(cell, Text):
        return cell.line()
    if isinstance(cell, Chips):
        return ", ".join(chip.text for chip in cell.chips)
    return " / ".join(filter(None, (quantity_text(cell), cell.beside)))


def _markdown_cell(cell: Cell) -> str:
    if not isinstance(cell, Text):
        return markdown_text(_cell_text(cell))
    text = cell.text if isinstance(cell.sort, float) else markdown_text(cell.text)  # digits need no escapes
    number = f"**{text}**" if cell.best else text
    line = " ".join(part for part in (cell.mark, number, cell.unit and markdown_text(cell.unit)) if part)
    return "<br>".join((line, *(markdown_text(below) for below in (cell.detail, cell.warning) if below)))
