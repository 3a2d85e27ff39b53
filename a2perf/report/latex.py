r"""Tables for papers: LaTeX with ``booktabs`` and nothing else that a basic installation lacks.

Every number is in math mode, every word of a stranger escaped. ``tables/NAME.tex`` is one ``table`` to ``\input``;
``report.tex`` is a document of all of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from a2perf.report.numbers_text import Written
from a2perf.report.score_tables import MARK_WORDS, MARKS, ScoreCell, ScoreRow, ScoreTable

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "'": r"\textquotesingle{}", "`": r"\textasciigrave{}", "-": "{-}",
    "[": "{[}", "]": "{]}", "±": r"$\pm$", "–": "--", "—": "---", "−": "$-$", "×": r"$\times$", "µ": r"\textmu{}",
    "…": r"\ldots{}", "≥": r"$\geq$", "≤": r"$\leq$", "≈": r"$\approx$", "₂": "$_2$", "·": r"$\cdot$",
    "\u202f": r"\,", "\u00a0": "~", "ß": r"\ss{}",
}  # fmt: skip
_ACCENTS = {"\u0301": "'", "\u0300": "`", "\u0302": "^", "\u0308": '"', "\u0303": "~", "\u030c": "v", "\u0327": "c"}
PREAMBLE = r"""\documentclass[10pt]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{textcomp}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs}
\usepackage{graphicx}
\begin{document}
"""


def latex_text(words: str) -> str:
    """Returns words that LaTeX prints as they are; characters that Latin fonts lack become ``?``."""
    return "".join(_latex_character(sign) for sign in unicodedata.normalize("NFC", " ".join(words.split())))


def latex_document(tables: Sequence[ScoreTable], title: str) -> str:
    """Returns a document of all tables that compiles by itself.

    Args:
        tables: one a setting.
        title: heading.
    """
    parts = [score_table_latex(table) for table in tables]
    return f"{PREAMBLE}\\section*{{{latex_text(title)}}}\n\n" + "\n\n".join(parts) + "\n\\end{document}\n"


def score_table_latex(table: ScoreTable) -> str:
    """Renders a table as a ``table`` environment, scaled down to the line where it is wider."""
    columns = "l" + "r" * len(table.algorithms)
    heads = " & ".join(["Metric", *(f"\\textbf{{{latex_text(name)}}}" for name in table.algorithms)])
    details = " & ".join(["", *(f"{{\\footnotesize {latex_text(words)}}}" for words in table.details)])
    lines = [
        "% needs \\usepackage{booktabs,graphicx,textcomp} and T1 fonts",
        "\\begin{table}[htbp]",
        "\\centering",
        f"\\caption{{{latex_text(table.caption)} {_legend(table)}}}",
        f"\\label{{tab:{table.name}}}",
        "\\small",
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        f"{heads} \\\\",
        f"{details} \\\\",
    ]
    for section in table.sections:
        lines.append("\\midrule")
        lines.append(f"\\multicolumn{{{len(table.algorithms) + 1}}}{{l}}{{\\emph{{{latex_text(section.title)}}}}} \\\\")
        lines += [f"{_row_head(row)} & {' & '.join(_cell(cell) for cell in row.cells)} \\\\" for row in section.rows]
    lines += ["\\bottomrule", "\\end{tabular}}", "\\end{table}"]
    return "\n".join(lines) + "\n"


def number_latex(number: Written, *, bold: bool = False) -> str:
    """Returns value, spread and power of ten in math mode."""
    value = _digits(number.value)
    value = f"\\mathbf{{{value}}}" if bold else value
    bare = f"{value} \\pm {_digits(number.spread)}" if number.spread else value
    if number.exponent is not None:
        bare = f"{f'({bare})' if number.spread else bare} \\times 10^{{{number.exponent}}}"
    return f"${bare}$"


def _row_head(row: ScoreRow) -> str:
    arrow = {"max": " $\\uparrow$", "min": " $\\downarrow$"}.get(row.direction, "")
    unit = f" ({latex_text(row.unit)})" if row.unit else ""
    return f"\\quad {latex_text(row.label)}{unit}{arrow}"


def _cell(cell: ScoreCell) -> str:
    if cell.written is None:
        return f"{{\\footnotesize {latex_text(cell.condition())}}}" if cell.condition() else "--"
    first = number_latex(cell.written, bold=cell.best) + f"\\textsuperscript{{{cell.mark}}}"
    assert cell.value is not None
    below = [_interval(cell.written)] if cell.written.low else []
    below.append(f"$n={cell.value.n}$")
    second = f"{{\\footnotesize {' '.join(below)}}}"
    return f"\\begin{{tabular}}[t]{{@{{}}r@{{}}}}{first}\\\\[-2pt]{second}\\end{{tabular}}"


def _interval(number: Written) -> str:
    times = "" if number.exponent is None else f" \\times 10^{{{number.exponent}}}"
    return f"$[{_digits(number.low)},\\,{_digits(number.high)}]{times}$"


def _digits(text: str) -> str:
    if text[-1:].isalpha():
        return f"\\mbox{{{latex_text(text)}}}"
    return text.replace("−", "-").replace("\u202f", "\\,").replace("∞", "\\infty")


def _legend(table: ScoreTable) -> str:
    used = {cell.value.provenance for row in table.rows() for cell in row.cells if cell.value and cell.written}
    words = [f"\\textsuperscript{{{MARKS[kind]}}}\\,{MARK_WORDS[kind]}" for kind in MARKS if kind in used]
    arrows = "$\\uparrow$ higher is better, $\\downarrow$ lower is better"
    return "; ".join([*words, arrows]) + "."


def _latex_character(sign: str) -> str:
    if sign in _SPECIAL:
        return _SPECIAL[sign]
    if " " <= sign <= "~":
        return sign
    parts = unicodedata.normalize("NFD", sign)
    if len(parts) == 2 and parts[1] in _ACCENTS and re.fullmatch("[A-Za-z]", parts[0]):
        return f"\\{_ACCENTS[parts[1]]}{{{parts[0]}}}"
    return "?"
