r"""Tables for papers: LaTeX with ``booktabs`` and ``graphicx``, and nothing that a basic installation lacks.

Every number is in math mode, every word of a stranger escaped. ``tables/NAME.tex`` is one ``table`` to ``\input``;
``report.tex`` is a document of all of them.
"""

from __future__ import annotations

import itertools
import re
import textwrap
import unicodedata
from collections.abc import Sequence

from a2perf.report.numbers_text import Written
from a2perf.report.score_tables import MARK_WORDS, MARKS, ScoreCell, ScoreRow, ScoreTable

_SPECIAL = {
    "\\": r"$\backslash$", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$",
    "|": "$|$", '"': "''", "'": "'{}", "`": r"\`{}", "-": "{-}",
    "[": "{[}", "]": "{]}", "±": r"$\pm$", "–": "--", "—": "---", "−": "$-$", "×": r"$\times$", "µ": r"$\mu$",
    "…": r"\ldots{}", "≥": r"$\geq$", "≤": r"$\leq$", "≈": r"$\approx$", "₂": "$_2$", "·": r"$\cdot$",
    "\u202f": r"\,", "\u00a0": "~", "ß": r"\ss{}",
}  # fmt: skip
_ACCENTS = {"\u0301": "'", "\u0300": "`", "\u0302": "^", "\u0308": '"', "\u0303": "~", "\u030c": "v", "\u0327": "c"}
_RAISED = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
_LOWERED = str.maketrans(_RAISED, "-0123456789")
PREAMBLE = r"""\documentclass[10pt]{article}
\usepackage[margin=2cm]{geometry}
\usepackage{array}
\usepackage{booktabs}
\usepackage{graphicx}
\begin{document}
"""


def latex_text(words: str) -> str:
    """Returns words that LaTeX prints as they are; characters that Latin fonts lack become ``?``."""
    plain = unicodedata.normalize("NFC", " ".join(words.split()))
    parts = re.split(f"([{_RAISED}]+)", plain)
    raised = [f"$^{{{part.translate(_LOWERED)}}}$" for part in parts[1::2]]
    told = ["".join(_latex_character(sign) for sign in part) for part in parts[::2]]
    return "".join(part for pair in itertools.zip_longest(told, raised, fillvalue="") for part in pair)


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
    columns = "@{}>{\\raggedright\\arraybackslash\\hangindent=1em}p{5cm}" + "r" * len(table.algorithms) + "@{}"
    heads = " & ".join(["Metric", *(f"\\textbf{{{latex_text(name)}}}" for name in table.algorithms)])
    details = " & ".join(["", *(f"{{\\footnotesize {latex_text(words)}}}" for words in table.details)])
    lines = [
        "% needs \\usepackage{array,booktabs,graphicx}",
        "\\begin{table}[htbp]",
        "\\centering",
        "\\setlength{\\belowcaptionskip}{6pt}",
        "\\setlength{\\tabcolsep}{5pt}",
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
        lines.append(
            f"\\multicolumn{{{len(table.algorithms) + 1}}}{{@{{}}l}}{{\\emph{{{latex_text(section.title)}}}}} \\\\"
        )
        lines += [f"{_row_head(row)} & {' & '.join(_cells(row, table))} \\\\" for row in section.rows]
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
    arrow = {"max": "~$\\uparrow$", "min": "~$\\downarrow$"}.get(row.direction, "")
    unit = f" ({latex_text(row.unit)})" if row.unit else ""
    return f"{latex_text(row.label)}{unit}{arrow}"


def _cells(row: ScoreRow, table: ScoreTable) -> list[str]:
    """Returns the cells of a row; ``n`` stands in a cell only where it is not the number of runs in the heading."""
    return [
        _cell(cell, known={f"{cell.value.n} run", f"{cell.value.n} runs"} if cell.value else set(), head=head)
        for cell, head in zip(row.cells, table.details, strict=True)
    ]


def _cell(cell: ScoreCell, known: set[str], head: str) -> str:
    if cell.written is None:
        if not cell.condition():
            return "--"
        return f"{{\\scriptsize\\begin{{tabular}}[t]{{@{{}}r@{{}}}}{_broken(cell.condition())}\\end{{tabular}}}}"
    first = number_latex(cell.written, bold=cell.best) + f"\\textsuperscript{{{cell.mark}}}"
    assert cell.value is not None
    below = [_interval(cell.written)] if cell.written.low else []
    below += [] if head in known else [f"$n={cell.value.n}$"]
    if not below:
        return first
    second = f"{{\\scriptsize {' '.join(below)}}}"
    return f"\\begin{{tabular}}[t]{{@{{}}r@{{}}}}{first}\\\\[-2pt]{second}\\end{{tabular}}"


def _broken(words: str) -> str:
    """Breaks a condition into short lines, so that it does not widen its column."""
    return "\\\\".join(latex_text(line) for line in textwrap.wrap(words, 20))


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
