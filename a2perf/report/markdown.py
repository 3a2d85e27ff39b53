"""The report as Markdown: the same tables and texts, and charts as links to their files."""

from __future__ import annotations

from a2perf.plain_text import markdown_block
from a2perf.report.content import Report, shared
from a2perf.report.figures.drawing import Chart
from a2perf.report.numbers_text import counted
from a2perf.report.run_sections import RunSection
from a2perf.report.tables import markdown_text, to_markdown

FIGURES = "figures"
LEGEND = (
    "Mean over runs ± standard deviation, below it the 95 % interval of the mean. **Bold**: may be the best of its row "
    "(no interval lies above); never with one run, across provenances or for costs on a noisy host. ≈: estimated by a "
    "model. ⚠: measured on a noisy host. ↑: higher is better; ↓: lower is better."
)


def to_markdown_report(report: Report) -> str:
    """Renders a report as GitHub-flavoured Markdown."""
    parts = [f"# {markdown_text(report.title)}", markdown_text(report.summary.sentence), markdown_text(report.overview)]
    if report.summary.failed:
        failed = [
            f"- **{markdown_text(run.title)}, {markdown_text(run.state)}**: {markdown_text(run.reason)}"
            for run in report.summary.failed
        ]
        parts.append(f"{counted(len(failed), 'run')} failed:\n\n" + "\n".join(failed))
    if report.settings:
        parts += [to_markdown(report.summary.table), "Score: 0 is the floor, 1 the expert."]
    for section in report.settings:
        parts.append(f"## {markdown_text(section.table.title)}")
        parts.append(to_markdown(section.every_metric.table()))
        parts += [_figure(chart) for chart in section.charts]
    if report.settings:
        parts.append(LEGEND)
    for across in report.across:
        parts += [f"## {markdown_text(across.domain_title)}: all tasks", to_markdown(across.table)]
        parts += [_figure(across.chart)] if across.chart is not None else []
    for added in report.added:
        parts += [f"## {markdown_text(added.title)}", markdown_text(added.text)]
        parts += [to_markdown(table) for table in added.tables]
        parts += [_figure(chart) for chart in added.charts]
    parts += ["## Runs", to_markdown(report.run_table)]
    parts.append("≈: estimated by a model; all other numbers were measured or recorded. ±: standard deviation.")
    parts.append("## Conditions")
    listed = []
    for remark, where in shared(report.conditions).items():
        text, places = markdown_text(remark), [markdown_text(place) for place, _ in where]
        several = f"- {text} ({len(places)}: {', '.join(places)})"
        listed.append(f"- {places[0]}: {text}" if len(places) == 1 else several)
    parts.append("\n".join(listed) if listed else "None: all files could be read completely.")
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


def _run(run: RunSection) -> list[str]:
    parts = [f"### {markdown_text(run.title)}: {markdown_text(run.state_text)}"]
    if run.conditions:
        parts.append("\n".join(f"- {markdown_text(text)}" for text in run.conditions))
    if run.failure_lines:
        parts.append("\n".join(f"- {name}: {markdown_text(text)}" for name, text in run.failure_lines))
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
