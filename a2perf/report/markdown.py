"""The report as Markdown: the same tables and words, the charts as links to their files."""

from __future__ import annotations

from a2perf.plain_text import markdown_block
from a2perf.report.content import Report
from a2perf.report.drawing import Chart
from a2perf.report.run_sections import RunSection
from a2perf.report.score_tables import ScoreCell, ScoreRow, ScoreTable
from a2perf.report.tables import markdown_text, to_markdown

FIGURES = "figures"
LEGEND = (
    "m: measured; e: estimated by a model; r: recorded by the environment or the participant. **Bold**: best of a row; "
    "values of different provenance are never ranked against each other. ↑: higher is better; ↓: lower is better."
)


def to_markdown_report(report: Report) -> str:
    """Renders a report as GitHub-flavoured Markdown."""
    parts = [f"# {markdown_text(report.title)}", markdown_text(report.lede)]
    for section in report.settings:
        parts.append(f"## {markdown_text(section.table.title)}")
        parts.append(score_table_markdown(section.every_metric))
        parts += [_figure(chart) for chart in section.charts]
    if report.settings:
        parts.append(LEGEND)
    for across in report.across:
        parts += [f"## {markdown_text(across.domain)} across tasks", to_markdown(across.table)]
        parts += [_figure(across.chart)] if across.chart is not None else []
    parts += ["## Runs", to_markdown(report.summary)]
    parts.append("≈ marks what a model estimated; everything else was measured or recorded. ± is a standard deviation.")
    parts.append("## Conditions")
    told = [f"- {markdown_text(c.where)}: {markdown_text(c.words)}" for c in report.conditions]
    parts.append("\n".join(told) if told else "None: every file could be read whole.")
    parts += [
        "## Provenance",
        f"Formulas: profile {report.profile}, rules {report.rules}.",
        to_markdown(report.sources),
    ]
    for root in report.roots:
        parts += [f"## {markdown_text(root.title)}", markdown_text(root.subtitle)]
        for run in root.runs:
            parts += _run(run)
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def score_table_markdown(table: ScoreTable) -> str:
    """Renders a table of scores as GitHub-flavoured Markdown; categories are rows of their own."""
    heads = [f"{markdown_text(n)} ({markdown_text(d)})" for n, d in zip(table.algorithms, table.details, strict=True)]
    lines = [f"| Metric | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for section in table.sections:
        lines.append(f"| **{markdown_text(section.title)}** |{'  |' * len(heads)}")
        for row in section.rows:
            lines.append(f"| {_row_head(row)} | {' | '.join(_cell(cell) for cell in row.cells)} |")
    return "\n".join(lines) + "\n"


def _row_head(row: ScoreRow) -> str:
    arrow = {"max": " ↑", "min": " ↓"}.get(row.direction, "")
    remark = f" ({markdown_text(row.remark)})" if row.remark else ""
    return markdown_text(row.label + (f", {row.unit}" if row.unit else "")) + arrow + remark


def _cell(cell: ScoreCell) -> str:
    if cell.written is None or cell.value is None:
        return markdown_text(cell.condition()) or "–"
    number = f"**{cell.written.text()}**" if cell.best else cell.written.text()
    below = [cell.written.interval().replace("[", "\\[").replace("]", "\\]"), f"n={cell.value.n}"]
    return f"{number} {cell.mark}<br>{' '.join(part for part in below if part)}"


def _run(run: RunSection) -> list[str]:
    parts = [f"### {markdown_text(run.title)}: {markdown_text(run.state_words)}"]
    if run.conditions:
        parts.append("\n".join(f"- {markdown_text(words)}" for words in run.conditions))
    if run.failure_lines:
        parts.append("\n".join(f"- {name}: {markdown_text(words)}" for name, words in run.failure_lines))
    if run.failure_text:
        parts.append(markdown_block(run.failure_text))
    parts += [_figure(chart) for chart in run.charts]
    if run.numbers.rows:
        parts.append(to_markdown(run.numbers))
    parts += [markdown_text(line) for line in run.endings]
    if run.phases is not None:
        parts.append(to_markdown(run.phases))
    if run.record.rows:
        parts.append(to_markdown(run.record))
    return parts


def _figure(chart: Chart) -> str:
    alt = markdown_text(f"{chart.title}. {chart.description}")
    return f"![{alt}]({FIGURES}/{chart.name}.svg)\n\n*{markdown_text(chart.title)}.* {markdown_text(chart.caption)}"
