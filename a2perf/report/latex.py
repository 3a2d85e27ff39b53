r"""Tables for papers: LaTeX with ``booktabs`` and ``graphicx``, which every basic installation has.

Every number is in math mode, every text of a submission is escaped. ``tables/NAME.tex`` is one ``table`` to ``\input``;
``report.tex`` is a document of all of them.
"""

from __future__ import annotations

import itertools
import re
import textwrap
import unicodedata
from collections.abc import Sequence

from a2perf.report.tables import MISSING, Table, Text, lines_of

_SPECIAL = {
    "\\": r"$\backslash$",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    '"': "''",
    "'": "'{}",
    "`": r"\`{}",
    "-": "{-}",
    "[": "{[}",
    "]": "{]}",
    "±": r"$\pm$",
    "–": "--",
    "—": "---",
    "−": "$-$",
    "×": r"$\times$",
    "µ": r"$\mu$",
    "…": r"\ldots{}",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "≈": r"$\approx$",
    "₂": "$_2$",
    "·": r"$\cdot$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "\u202f": r"\,",
    "\u00a0": "~",
    "ß": r"\ss{}",
}
_ACCENTS = {"\u0301": "'", "\u0300": "`", "\u0302": "^", "\u0308": '"', "\u0303": "~", "\u030c": "v", "\u0327": "c"}
_MATH = {"−": "-", "\u202f": "\\,", "±": "\\pm", "×": "\\times", "∞": "\\infty", ", ": ",\\,", " n=": "\\ n="}
_RAISED = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
_LOWERED = str.maketrans(_RAISED, "-0123456789")
PREAMBLE = r"""\documentclass[10pt]{article}
\usepackage[margin=2cm]{geometry}
\usepackage{array}
\usepackage{booktabs}
\usepackage{graphicx}
\begin{document}
"""


def latex_text(text: str) -> str:
    """Returns text that LaTeX prints unchanged; characters missing from Latin fonts become ``?``."""
    plain = unicodedata.normalize("NFC", " ".join(text.split()))
    parts = re.split(f"([{_RAISED}]+)", plain)
    raised = [f"$^{{{part.translate(_LOWERED)}}}$" for part in parts[1::2]]
    plain_parts = ["".join(_latex_character(sign) for sign in part) for part in parts[::2]]
    return "".join(part for pair in itertools.zip_longest(plain_parts, raised, fillvalue="") for part in pair)


def latex_document(tables: Sequence[Table], title: str) -> str:
    """Returns a complete document with all tables."""
    parts = [to_latex(table) for table in tables]
    return f"{PREAMBLE}\\section*{{{latex_text(title)}}}\n\n" + "\n\n".join(parts) + "\n\\end{document}\n"


def to_latex(table: Table) -> str:
    """Renders a table of scores as a ``table`` environment; wide tables are scaled down to the line width."""
    width = len(table.columns)
    columns = "@{}>{\\raggedright\\arraybackslash\\hangindent=1em}p{5cm}" + "r" * (width - 1) + "@{}"
    first, *others = table.columns
    heads = " & ".join([first.title, *(f"\\textbf{{{latex_text(column.title)}}}" for column in others)])
    details = " & ".join(["", *(f"{{\\footnotesize {latex_text(column.detail)}}}" for column in others)])
    marks = "".join(cell.mark for row in table.rows for cell in row if isinstance(cell, Text))
    legend = ["$\\approx$ estimated by a model"] if "≈" in marks else []
    legend += ["* measured on a noisy host"] if "⚠" in marks else []
    if table.kind == "scores":
        legend.append("$\\uparrow$ higher is better, $\\downarrow$ lower is better")
    lines = [
        "% needs \\usepackage{array,booktabs,graphicx}",
        "\\begin{table}[htbp]",
        "\\centering",
        "\\setlength{\\belowcaptionskip}{6pt}",
        "\\setlength{\\tabcolsep}{5pt}",
        f"\\caption{{{' '.join(filter(None, (latex_text(table.caption), '; '.join(legend))))}.}}",
        f"\\label{{tab:{table.name}}}",
        "\\small",
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        f"{heads} \\\\",
        f"{details} \\\\",
    ]
    for kind, row, _ in lines_of(table):
        head, *cells = (cell for cell in row if isinstance(cell, Text))
        text = latex_text(head.text)
        if kind == "heading":
            lines += ["\\midrule", f"\\multicolumn{{{width}}}{{@{{}}l}}{{\\emph{{{text}}}}} \\\\"]
        elif kind == "remark":
            lines.append(f"\\multicolumn{{{width}}}{{@{{}}p{{\\linewidth}}}}{{\\footnotesize {text}}} \\\\")
        else:
            unit = f" ({latex_text(head.unit)})" if head.unit else ""
            lines.append(f"{text}{unit} & {' & '.join(map(_cell, cells))} \\\\")
    lines += ["\\bottomrule", "\\end{tabular}}", "\\end{table}"]
    return "\n".join(lines) + "\n"


def number_latex(text: str, *, bold: bool = False) -> str:
    """Returns a printed number with its spread, interval and power of ten in math mode."""
    if text[:1].isalpha() and "=" not in text:
        return latex_text(text)  # not a number
    for sign, command in _MATH.items():
        text = text.replace(sign, command)
    text = re.sub(f"[{_RAISED}]+", lambda found: f"^{{{found[0].translate(_LOWERED)}}}", text)
    if bold:
        text = re.sub(r"[-\d.,\\]*\d", lambda found: f"\\mathbf{{{found[0]}}}", text, count=1)
    return f"${text}$"


def _cell(cell: Text) -> str:
    if cell.sort is None and cell.detail is None and cell.text != MISSING:
        return latex_text(cell.text)
    if cell.sort is None:
        # short lines do not widen the column
        lines = "\\\\".join(latex_text(line) for line in textwrap.wrap(cell.detail or "", 20))
        return f"{{\\scriptsize\\begin{{tabular}}[t]{{@{{}}r@{{}}}}{lines}\\end{{tabular}}}}" if lines else "--"
    first = number_latex(cell.text, bold=cell.best)
    first = f"$\\approx$\\,{first}" if "≈" in cell.mark else first
    first += "\\textsuperscript{*}" if "⚠" in cell.mark else ""
    if not cell.detail:
        return first
    second = f"{{\\scriptsize {number_latex(cell.detail)}}}"
    return f"\\begin{{tabular}}[t]{{@{{}}r@{{}}}}{first}\\\\[-2pt]{second}\\end{{tabular}}"


def _latex_character(sign: str) -> str:
    if sign in _SPECIAL:
        return _SPECIAL[sign]
    if " " <= sign <= "~":
        return sign
    parts = unicodedata.normalize("NFD", sign)
    if len(parts) == 2 and parts[1] in _ACCENTS and re.fullmatch("[A-Za-z]", parts[0]):
        return f"\\{_ACCENTS[parts[1]]}{{{parts[0]}}}"
    return "?"
