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

from a2perf.report.numbers_text import Written
from a2perf.report.score_tables import ScoreCell, ScoreTable

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


def latex_text(text: str) -> str:
    """Returns text that LaTeX prints unchanged; characters missing from Latin fonts become ``?``."""
    plain = unicodedata.normalize("NFC", " ".join(text.split()))
    parts = re.split(f"([{_RAISED}]+)", plain)
    raised = [f"$^{{{part.translate(_LOWERED)}}}$" for part in parts[1::2]]
    plain_parts = ["".join(_latex_character(sign) for sign in part) for part in parts[::2]]
    return "".join(part for pair in itertools.zip_longest(plain_parts, raised, fillvalue="") for part in pair)


def latex_document(tables: Sequence[ScoreTable], title: str) -> str:
    """Returns a complete document with all tables."""
    parts = [score_table_latex(table) for table in tables]
    return f"{PREAMBLE}\\section*{{{latex_text(title)}}}\n\n" + "\n\n".join(parts) + "\n\\end{document}\n"


def score_table_latex(table: ScoreTable) -> str:
    """Renders a table as a ``table`` environment; wide tables are scaled down to the line width."""
    columns = "@{}>{\\raggedright\\arraybackslash\\hangindent=1em}p{5cm}" + "r" * len(table.algorithms) + "@{}"
    heads = " & ".join(["Metric", *(f"\\textbf{{{latex_text(name)}}}" for name in table.heads())])
    details = " & ".join(["", *(f"{{\\footnotesize {latex_text(detail)}}}" for detail in table.details)])
    cells = [cell for row in table.rows() for cell in row.cells]
    legend = ["$\\approx$ estimated by a model"] if any(cell.mark for cell in cells) else []
    legend += ["* measured on a noisy host"] if any(cell.doubtful for cell in cells) else []
    legend.append("$\\uparrow$ higher is better, $\\downarrow$ lower is better")
    lines = [
        "% needs \\usepackage{array,booktabs,graphicx}",
        "\\begin{table}[htbp]",
        "\\centering",
        "\\setlength{\\belowcaptionskip}{6pt}",
        "\\setlength{\\tabcolsep}{5pt}",
        f"\\caption{{{latex_text(table.caption)} {'; '.join(legend)}.}}",
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
        for row in section.valued():
            texts = [_cell(cell, head) for cell, head in zip(row.cells, table.details, strict=True)]
            arrow = {"max": "~$\\uparrow$", "min": "~$\\downarrow$"}.get(row.direction, "")
            unit = f" ({latex_text(row.unit)})" if row.unit else ""
            lines.append(f"{latex_text(row.label)}{unit}{arrow} & {' & '.join(texts)} \\\\")
        lines += [
            f"\\multicolumn{{{len(table.algorithms) + 1}}}{{@{{}}p{{\\linewidth}}}}"
            f"{{\\footnotesize {latex_text(missing)}}} \\\\"
            for missing in section.missing()
        ]
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


def _cell(cell: ScoreCell, head: str) -> str:
    """Returns a cell; it states ``n`` only if that differs from the number of runs in the heading."""
    if cell.written is None:
        if not cell.condition():
            return "--"
        # short lines do not widen the column
        lines = "\\\\".join(latex_text(line) for line in textwrap.wrap(cell.condition(), 20))
        return f"{{\\scriptsize\\begin{{tabular}}[t]{{@{{}}r@{{}}}}{lines}\\end{{tabular}}}}"
    first = number_latex(cell.written, bold=cell.best)
    first = f"$\\approx$\\,{first}" if cell.mark else first
    first += "\\textsuperscript{*}" if cell.doubtful else ""
    assert cell.value is not None
    low, high, exponent = cell.written.low, cell.written.high, cell.written.exponent
    times = "" if exponent is None else f" \\times 10^{{{exponent}}}"
    below = [f"$[{_digits(low)},\\,{_digits(high)}]{times}$"] if low else []
    below += [] if head in (f"{cell.value.n} run", f"{cell.value.n} runs") else [f"$n={cell.value.n}$"]
    if not below:
        return first
    second = f"{{\\scriptsize {' '.join(below)}}}"
    return f"\\begin{{tabular}}[t]{{@{{}}r@{{}}}}{first}\\\\[-2pt]{second}\\end{{tabular}}"


def _digits(text: str) -> str:
    if text[-1:].isalpha():
        return f"\\mbox{{{latex_text(text)}}}"
    return text.replace("−", "-").replace("\u202f", "\\,").replace("∞", "\\infty")


def _latex_character(sign: str) -> str:
    if sign in _SPECIAL:
        return _SPECIAL[sign]
    if " " <= sign <= "~":
        return sign
    parts = unicodedata.normalize("NFD", sign)
    if len(parts) == 2 and parts[1] in _ACCENTS and re.fullmatch("[A-Za-z]", parts[0]):
        return f"\\{_ACCENTS[parts[1]]}{{{parts[0]}}}"
    return "?"
