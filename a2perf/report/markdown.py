"""The report as Markdown: the same tables and words, the charts as links to their files."""

from __future__ import annotations

import re

from a2perf.report.content import Report, RunSection
from a2perf.report.drawing import Chart
from a2perf.report.tables import markdown_text, to_markdown

FIGURES = "figures"


def to_markdown_report(report: Report) -> str:
    """Renders a report as GitHub-flavoured Markdown."""
    parts = [f"# {markdown_text(report.title)}", report.lede, to_markdown(report.summary)]
    parts.append("≈ marks what a model estimated; everything else was measured. ± is a standard deviation.")
    if report.comparisons:
        parts.append("## Side by side")
        parts += [_figure(chart) for chart in report.comparisons]
    for root in report.roots:
        parts += [f"## {markdown_text(root.title)}", markdown_text(root.subtitle)]
        for run in root.runs:
            parts += _run(run)
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _run(run: RunSection) -> list[str]:
    parts = [f"### {run.title}: {run.state_words}"]
    if run.notes:
        parts.append("\n".join(f"- {markdown_text(note)}" for note in run.notes))
    if run.failure_lines:
        parts.append("\n".join(f"- {name}: {markdown_text(words)}" for name, words in run.failure_lines))
    if run.failure_text:
        parts.append(_fenced(run.failure_text))
    parts += [_figure(chart) for chart in run.charts]
    if run.numbers.rows:
        parts.append(to_markdown(run.numbers))
    parts += [markdown_text(line) for line in run.endings]
    if run.phases is not None:
        parts.append(to_markdown(run.phases))
    if run.record.rows:
        parts.append(to_markdown(run.record))
    return parts


def _fenced(text: str) -> str:
    """Returns a code block whose fence is longer than any run of backticks inside."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def _figure(chart: Chart) -> str:
    alt = markdown_text(f"{chart.title}. {chart.description}")
    return f"![{alt}]({FIGURES}/{chart.name}.svg)\n\n*{markdown_text(chart.title)}.* {markdown_text(chart.caption)}"
