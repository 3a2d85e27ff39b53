"""One text, three forms: Markdown for the documentation, one HTML page, LaTeX for a PDF.

The template gives Markdown in which a line ``[[name]]`` stands for a table or a figure; everything else is prose of
headings, paragraphs, lists, code, emphasis and links, which is all that the LaTeX side knows.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import jinja2
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from a2perf.report.drawing import Chart
from a2perf.report.latex import latex_text
from a2perf.report.page import render

HERE = Path(__file__).resolve().parent
_PLACE = re.compile(r"^\[\[([a-z0-9_-]+)\]\]$", re.MULTILINE)
_SEE = re.compile(r"@@([a-z0-9_-]+)@@")
_WIDE = 8
"""Tables of more columns are set in small type in LaTeX."""
_DOTS_AN_INCH = 100
"""Lowest resolution of printed pictures."""
_MANY = 6
"""More charts than this are printed smaller to fit one page."""
_RIGHT = "right"


@dataclass(frozen=True)
class Grid:
    r"""A table of finished text.

    Attributes:
        columns: headings; ``align`` has one entry each.
        rows: one cell per column; a row of one cell is a heading within the table. ``\n`` breaks a cell.
        notes: below the table.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    align: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: str = ""


@dataclass(frozen=True)
class Plot:
    """Charts under one number.

    Attributes:
        charts: drawn side by side if they fit.
    """

    name: str
    caption: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class Picture:
    """A raster picture.

    Attributes:
        description: for readers who cannot see it.
        png: its bytes.
        width: in pixels.
    """

    name: str
    caption: str
    description: str
    png: bytes
    width: int


Placed: TypeAlias = Grid | Plot | Picture


@dataclass(frozen=True)
class Document:
    """The report, independent of the format.

    Attributes:
        parts: Markdown text, tables and figures, in order.
        numbers: how the text refers to tables and figures, ``"Table 2"``.
    """

    title: str
    overview: str
    parts: list[str | Placed]
    numbers: dict[str, str] = field(default_factory=dict)

    def placed(self) -> list[Placed]:
        """Returns tables and figures in order."""
        return [part for part in self.parts if not isinstance(part, str)]


def compose(title: str, overview: str, text: str, available: Mapping[str, Placed | None]) -> Document:
    """Puts tables and figures where the text asks for them, and numbers them.

    Args:
        title: of the report.
        overview: one sentence below it.
        text: Markdown with ``[[name]]`` lines and ``@@name@@`` references.
        available: tables and figures; None without recorded data, which is left out.

    Raises:
        KeyError: the text asks for something that does not exist.
    """
    pieces = _PLACE.split(text)
    parts: list[str | Placed] = []
    numbers: dict[str, str] = {}
    counted = {"Table": 0, "Figure": 0}
    for position, piece in enumerate(pieces):
        if position % 2 == 0:
            parts.append(piece)
            continue
        item = available[piece]
        if item is None:
            continue
        kind = "Table" if isinstance(item, Grid) else "Figure"
        counted[kind] += 1
        numbers[piece] = f"{kind} {counted[kind]}"
        parts.append(item)
    resolved = [
        _SEE.sub(lambda match: numbers.get(match[1], "nothing recorded yet"), part) if isinstance(part, str) else part
        for part in parts
    ]
    return Document(title, overview, resolved, numbers)


# --- Markdown ---------------------------------------------------------------------------------------------------------


def to_markdown(document: Document, folder: str = "figures") -> str:
    """Returns the report as Markdown with pictures in ``folder``."""
    lines = [f"# {document.title}", "", f"*{document.overview}*", ""]
    for part in document.parts:
        if isinstance(part, str):
            lines += [part.strip(), ""]
        elif isinstance(part, Grid):
            lines += [f"**{document.numbers[part.name]}.** {part.caption}", "", _markdown_table(part), ""]
            lines += [part.notes, ""] if part.notes else []
        elif isinstance(part, Plot):
            lines += [f"![{_plain(chart.title)}]({folder}/{chart.name}.svg)\n" for chart in part.charts]
            lines += [f"**{document.numbers[part.name]}.** {part.caption}", ""]
        else:
            lines += [f"![{_plain(part.description)}]({folder}/{part.name}.png)", ""]
            lines += [f"**{document.numbers[part.name]}.** {part.caption}", ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _markdown_table(grid: Grid) -> str:
    rules = ["---:" if side == _RIGHT else "---" for side in grid.align]
    rows: list[Sequence[str]] = [grid.columns, rules]
    for row in grid.rows:
        rows.append([f"**{row[0]}**", *[""] * (len(grid.columns) - 1)] if len(row) == 1 else list(row))
    lines = []
    for words in rows:
        cells = [_cell(str(cell), side) for cell, side in zip(words, grid.align, strict=True)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(text: str, side: str) -> str:
    if side == _RIGHT:
        text = text.replace(" ", "\u00a0")  # numbers with their units and intervals stay on their line
    return text.replace("|", "\\|").replace("\n", "<br>")


def _plain(text: str) -> str:
    return re.sub(r"[\[\]\n]", " ", text)


# --- HTML -------------------------------------------------------------------------------------------------------------


def to_html(document: Document) -> str:
    """Returns the report as one page that needs no network."""
    reader = MarkdownIt("commonmark", {"html": False})
    parts = [
        {
            "kind": "prose" if isinstance(part, str) else type(part).__name__.lower(),
            # safe: the Markdown reader escapes names from records in this text
            "html": Markup(_with_anchors(reader.render(part))) if isinstance(part, str) else "",
            "item": part,
            "number": "" if isinstance(part, str) else document.numbers[part.name],
            "caption": "" if isinstance(part, str) else Markup(reader.renderInline(part.caption)),
            "notes": Markup(reader.renderInline(part.notes)) if isinstance(part, Grid) and part.notes else "",
            "data": base64.b64encode(part.png).decode() if isinstance(part, Picture) else "",
        }
        for part in document.parts
    ]
    headings = [
        (_slug(match[1]), match[1])
        for part in document.parts
        if isinstance(part, str)
        for match in re.finditer(r"^## (.+)$", part, flags=re.MULTILINE)
    ]
    return render(
        "page.html", loader=jinja2.FileSystemLoader(HERE), title=document.title, overview=document.overview,
        parts=parts, headings=headings, broken=_broken,
    )  # fmt: skip


def _with_anchors(html: str) -> str:
    return re.sub(r"<h2>(.*?)</h2>", lambda match: f'<h2 id="{_slug(match[1])}">{match[1]}</h2>', html)


def _slug(words: str) -> str:
    return re.sub(r"[^a-z]+", "-", words.lower()).strip("-")


def _broken(text: str) -> Markup:
    return Markup("<br>").join(escape(line) for line in text.split("\n"))


# --- LaTeX ------------------------------------------------------------------------------------------------------------

_PREAMBLE = r"""\documentclass[10pt,a4paper]{article}
\usepackage[utf8]{inputenc}
\usepackage[margin=2.2cm]{geometry}
\usepackage{array}
\usepackage{booktabs}
\usepackage{graphicx}
\usepackage[hidelinks]{hyperref}
\usepackage[font=small,labelfont=bf]{caption}
\pdfinfoomitdate=1
\pdftrailerid{}
\setlength{\parindent}{0pt}
\setlength{\parskip}{5pt}
\setlength{\emergencystretch}{3em}
\renewcommand{\topfraction}{0.95}
\renewcommand{\floatpagefraction}{0.75}
"""


def to_latex(document: Document, folder: str = "figures") -> str:
    """Returns the report as a LaTeX document with pictures in ``folder``."""
    lines = [
        _PREAMBLE, f"\\title{{{_tex(document.title)}}}", "\\author{The a2perf authors}",
        f"\\date{{{_tex(document.overview)}}}", "\\begin{document}", "\\maketitle",
    ]  # fmt: skip
    for part in document.parts:
        if isinstance(part, str):
            lines.append(_with_abstract(prose_latex(part)))
        elif isinstance(part, Grid):
            lines.append(_grid_latex(part))
        else:
            lines.append(_figure_latex(part, folder))
    return "\n".join([*lines, "\\end{document}"]) + "\n"


def _with_abstract(latex: str) -> str:
    """Returns LaTeX with its section "Abstract" as an ``abstract`` environment, which has no number."""
    start, head, rest = latex.partition("\n\\section{Abstract}\n")
    if not head:
        return latex
    body, section, after = rest.partition("\n\\section{")
    return f"{start}\n\\begin{{abstract}}\n{body.strip()}\n\\end{{abstract}}\n{section}{after}"


def prose_latex(text: str) -> str:
    """Returns Markdown prose as LaTeX: headings, paragraphs, lists, code, emphasis, links."""
    made: list[str] = []
    for token in MarkdownIt("commonmark", {"html": False}).parse(text):
        if token.type in _BLOCKS:
            made.append(_BLOCKS[token.type])
        elif token.type == "heading_open":
            made.append({"h2": "\n\\section{", "h3": "\n\\subsection{"}.get(token.tag, "\n\\paragraph{"))
        elif token.type == "inline":
            made.append(_inline_latex(token.children or []))
        elif token.type in ("fence", "code_block"):
            made.append(f"\\begin{{verbatim}}\n{token.content.rstrip()}\n\\end{{verbatim}}\n")
    return "".join(made)


_BLOCKS = {
    "heading_close": "}\n", "paragraph_close": "\n\n", "bullet_list_open": "\\begin{itemize}\n",
    "bullet_list_close": "\\end{itemize}\n", "ordered_list_open": "\\begin{enumerate}\n",
    "ordered_list_close": "\\end{enumerate}\n", "list_item_open": "\\item ",
}  # fmt: skip
_INLINE = {
    "strong_open": "\\textbf{", "strong_close": "}", "em_open": "\\emph{", "em_close": "}", "link_close": "}",
    "softbreak": "\n", "hardbreak": "\\\\\n",
}  # fmt: skip


def _inline_latex(tokens: Sequence[Token]) -> str:
    made = []
    for token in tokens:
        if token.type == "text":
            made.append(_tex(token.content))
        elif token.type == "code_inline":
            made.append(f"\\texttt{{{_tex(token.content)}}}")
        elif token.type == "link_open":
            made.append(f"\\href{{{str(token.attrGet('href')).replace('%', chr(92) + '%')}}}{{")
        else:
            made.append(_INLINE.get(token.type, ""))
    return "".join(made)


def _spaced(text: str) -> str:
    """Escapes text and keeps spaces at its ends, since neighbouring parts are joined without one."""
    before = " " if text[:1].isspace() else ""
    after = " " if text[-1:].isspace() and text.strip() else ""
    return before + latex_text(text) + after


def _tex(words: str) -> str:
    """Returns text that LaTeX prints unchanged, including signs of the tables that ``latex_text`` does not know."""
    parts = re.split(f"([{''.join(_SIGNS)}])", words)
    return "".join(_SIGNS[part] if part in _SIGNS else _spaced(part) if part else "" for part in parts)


_SIGNS = {
    "★": r"$\star$", "↑": r"$\uparrow$", "↓": r"$\downarrow$",
}  # fmt: skip


def _grid_latex(grid: Grid) -> str:
    size = "\\scriptsize" if len(grid.columns) > _WIDE else "\\small"
    wrapped = [any(len(line) > 60 for row in grid.rows if len(row) > 1 for line in row[place].split("\n"))
               for place in range(len(grid.columns))]  # fmt: skip
    columns = "".join(
        ">{\\raggedright\\arraybackslash}p{6.5cm}" if long else "r" if side == _RIGHT else "l"
        for side, long in zip(grid.align, wrapped, strict=True)
    )
    lines = [
        "\\begin{table}[htbp]", "\\centering", size, "\\setlength{\\tabcolsep}{4pt}",
        f"\\caption{{{_inline_of(grid.caption)}}}", _FITTED,
        f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}", "\\toprule",
        " & ".join(_cell_latex(word, side) for word, side in zip(grid.columns, grid.align, strict=True)) + " \\\\",
        "\\midrule",
    ]  # fmt: skip
    for position, row in enumerate(grid.rows):
        if len(row) == 1:
            lines += ["\\addlinespace"] if position else []
            lines.append(f"\\multicolumn{{{len(grid.columns)}}}{{@{{}}l}}{{\\textbf{{{_tex(row[0])}}}}} \\\\")
        else:
            lines.append(
                " & ".join(_cell_latex(word, side) for word, side in zip(row, grid.align, strict=True)) + " \\\\"
            )
    lines += ["\\bottomrule", "\\end{tabular}}}"]
    if grid.notes:
        lines.append(
            "\\par\\smallskip\\begin{minipage}{\\linewidth}\\footnotesize "
            f"{_inline_of(grid.notes)}\\end{{minipage}}"
        )
    return "\n".join([*lines, "\\end{table}"]) + "\n"


# neither wider than the line nor higher than a page
_FITTED = (
    "\\resizebox*{!}{\\ifdim\\totalheight>0.84\\textheight 0.84\\textheight\\else\\totalheight\\fi}{%\n"
    "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%"
)


def _cell_latex(text: str, side: str) -> str:
    lines = [_tex(line) for line in text.split("\n")]
    if len(lines) == 1:
        return lines[0]
    column = "r" if side == _RIGHT else "l"
    small = " \\\\[-1pt] ".join(f"\\scriptsize {line}" for line in lines[1:])
    return f"\\begin{{tabular}}[t]{{@{{}}{column}@{{}}}}{lines[0]} \\\\[-1pt] {small}\\end{{tabular}}"


def _inline_of(text: str) -> str:
    return prose_latex(text).strip()


def _figure_latex(item: Plot | Picture, folder: str) -> str:
    lines = ["\\begin{figure}[htbp]", "\\centering"]
    if isinstance(item, Picture):
        inches = min(6.5, item.width / _DOTS_AN_INCH)
        lines.append(f"\\includegraphics[width={inches:.2f}in]{{{folder}/{item.name}.png}}")
    else:
        count = len(item.charts)
        width = "0.66" if count == 1 else "0.49" if count <= _MANY else "0.4"
        for position, chart in enumerate(item.charts):
            end = "\\\\[6pt]" if position % 2 and position + 1 < len(item.charts) else "\\hfill"
            title = f"\\begin{{minipage}}[t]{{{width}\\linewidth}}\\centering\\small {_tex(chart.title)}\\\\"
            lines.append(
                f"{title}\\includegraphics[width=\\linewidth]{{{folder}/{chart.name}.pdf}}\\end{{minipage}}{end}"
            )
    return "\n".join([*lines, f"\\caption{{{_inline_of(item.caption)}}}", "\\end{figure}"]) + "\n"
