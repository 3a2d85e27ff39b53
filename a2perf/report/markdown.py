"""The report as Markdown: the same tables and texts, and charts as links to their files."""

from __future__ import annotations

from a2perf.plain_text import markdown_block
from a2perf.report.content import Report, shared
from a2perf.report.figures.drawing import Chart
from a2perf.report.numbers_text import counted
from a2perf.report.run_sections import RunSection
from a2perf.report.score_tables import DOUBTFUL_MARK, ScoreCell, ScoreTable
from a2perf.report.summary import FirstScreen
from a2perf.report.tables import markdown_text, to_markdown

FIGURES = "figures"
LEGEND = (
    "Mean over runs ± standard deviation, below it the 95 % interval of the mean. **Bold**: may be the best of its row "
    "(no interval lies above); never with one run, across provenances or for times on a noisy host. ≈: estimated by a "
    "model. ⚠: measured on a noisy host. ↑: higher is better; ↓: lower is better."
)


def to_markdown_report(report: Report) -> str:
    """Renders a report as GitHub-flavoured Markdown."""
    parts = [f"# {markdown_text(report.title)}", markdown_text(report.summary.sentence), markdown_text(report.overview)]
    parts += _summary(report.summary)
    for section in report.settings:
        parts.append(f"## {markdown_text(section.table.title)}")
        parts.append(score_table_markdown(section.every_metric))
        parts += [_figure(chart) for chart in section.charts]
    if report.settings:
        parts.append(LEGEND)
    for across in report.across:
        parts += [f"## {markdown_text(across.domain_title)}: all tasks", to_markdown(across.table)]
        parts += [_figure(across.chart)] if across.chart is not None else []
    for added in report.added:
        parts += [f"## {markdown_text(added.section.title)}", markdown_text(added.section.text)]
        parts += [to_markdown(table) for table in added.section.tables]
        parts += [_figure(chart) for chart in added.section.charts]
    parts += ["## Runs", to_markdown(report.run_table)]
    parts.append("≈: estimated by a model; all other numbers were measured or recorded. ±: standard deviation.")
    parts.append("## Conditions")
    listed = []
    for condition in shared(report.conditions):
        text, places = markdown_text(condition.text), [markdown_text(where) for where, _ in condition.places]
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


def score_table_markdown(table: ScoreTable) -> str:
    """Renders a table of scores as GitHub-flavoured Markdown, with one row above each category."""
    heads = [f"{markdown_text(n)} ({markdown_text(d)})" for n, d in zip(table.heads(), table.details, strict=True)]
    lines = [f"| Metric | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
    for section in table.sections:
        lines.append(f"| **{markdown_text(section.title)}** |{'  |' * len(heads)}")
        for row in section.valued():
            cells = [_cell(cell, head) for cell, head in zip(row.cells, table.details, strict=True)]
            head = markdown_text(row.label + (f", {row.unit}" if row.unit else ""))
            head += {"max": " ↑", "min": " ↓"}.get(row.direction, "")
            head += f" ({markdown_text(row.remark)})" if row.remark else ""
            lines.append(f"| {head} | {' | '.join(cells)} |")
        lines += [f"| {markdown_text(missing)} |{'  |' * len(heads)}" for missing in section.missing()]
    return "\n".join(lines) + "\n"


def _cell(cell: ScoreCell, head: str) -> str:
    if cell.written is None or cell.value is None:
        return markdown_text(cell.condition()) or "–"
    number = f"**{cell.written.text()}**" if cell.best else cell.written.text()
    below = [cell.written.interval().replace("[", "\\[").replace("]", "\\]")]
    below += [] if head == counted(cell.value.n, "run") else [f"n={cell.value.n}"]
    marks = f"{cell.mark} " if cell.mark else ""
    doubt = f" {DOUBTFUL_MARK}" if cell.doubtful else ""
    detail = " ".join(part for part in below if part)
    return f"{marks}{number}{doubt}" + (f"<br>{detail}" if detail else "")


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


def _summary(summary: FirstScreen) -> list[str]:
    """Returns the first screen: failed runs, then one table with a row per submission and task."""
    failed = [
        f"- **{markdown_text(run.title)}, {markdown_text(run.state)}**: {markdown_text(run.reason)}"
        for run in summary.failed
    ]
    parts = [f"{counted(len(failed), 'run')} failed:\n\n" + "\n".join(failed)] if failed else []
    if not summary.tasks:
        return parts
    energy = f"Energy, {summary.energy_unit}"
    latency = f"Latency, {summary.latency_unit}"
    lines = [
        f"| Task | Submission | Score | Worst 5 % | {energy} | {latency} | Trust |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for task in summary.tasks:
        for row in task.rows:
            kind = f" ({row.label.kind})" if row.label.kind else ""
            cells = []
            for cell in (row.score, row.worst, row.energy, row.latency):
                number = markdown_text(cell.line())
                cells.append(number + (f"<br>{markdown_text(cell.detail)}" if cell.detail else ""))
            chips = ", ".join(chip.text for chip in row.chips)
            name = markdown_text(row.label.title + kind)
            lines.append(f"| {markdown_text(task.title)} | {name} | {' | '.join(cells)} | {markdown_text(chips)} |")
    note = "Score: 0 is the floor, 1 the expert; without reference scores the mean return."
    return [*parts, "\n".join(lines), note]


def _figure(chart: Chart) -> str:
    alt = markdown_text(f"{chart.title}. {chart.description}")
    return f"![{alt}]({FIGURES}/{chart.name}.svg)\n\n*{markdown_text(chart.title)}.* {markdown_text(chart.caption)}"
