"""Writes the files of a comparison beside each other, under the names that earlier tools gave them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from a2perf.plain_text import markdown_text
from a2perf.report.drawing import pictures
from a2perf.rlops.compare import figures
from a2perf.rlops.compare.aggregate_figures import AggregateStyle, aggregate_figures
from a2perf.rlops.compare.comparison import Comparison
from a2perf.rlops.compare.figures import Style
from a2perf.rlops.compare.page import to_page
from a2perf.rlops.compare.record import compare_record
from a2perf.rlops.compare.tables import energy_grid, runtime_grid, score_grid, to_csv, to_markdown, verdict_grid
from a2perf.rlops.compare.words import comment
from a2perf.storage import write_atomic, write_record

_KINDS = (".png", ".pdf", ".svg", ".html", ".md", ".csv", ".json")


def output_stem(given: str) -> Path:
    """Returns what file names begin with; an ending that names a format is cut off, ``compare.png`` is ``compare``."""
    path = Path(given).expanduser()
    return path.with_suffix("") if path.suffix.lower() in _KINDS else path


def write(
    comparison: Comparison,
    stem: Path,
    style: Style,
    *,
    aggregate_style: AggregateStyle | None = None,
    with_figures: bool = True,
    with_page: bool = True,
) -> list[Path]:
    """Writes a comparison and returns the files, the record first.

    Args:
        comparison: what is compared.
        stem: what file names begin with.
        style: how curves are drawn.
        aggregate_style: how aggregates are drawn; None leaves them out.
        with_figures: draw curves and aggregates.
        with_page: write the HTML report.

    Raises:
        UserError: ``max_steps`` is before the first value.
    """
    files: dict[str, bytes | str] = {}
    steps = figures.lines_of(comparison, style) if with_figures else []
    times = figures.lines_of(comparison, style, time=True) if with_figures else []
    for suffix, lines, in_time in (("", steps, False), ("-time", times, True)):
        if lines:
            drawn = pictures(partial(figures.grid, comparison, lines, style, time=in_time))
            files |= {f"{suffix}.{kind}": content for kind, content in drawn.items()}
    over_all = []
    if aggregate_style is not None and with_figures:
        over_all = aggregate_figures(comparison, aggregate_style, style.time_unit)
    for figure in over_all:
        drawn = pictures(figure.build, ("png", "pdf"))
        files |= {f"_{figure.name}.{kind}": content for kind, content in drawn.items()}
    scores = score_grid(comparison)
    verdicts = [verdict_grid(comparison, candidate) for candidate in comparison.candidates]
    energy = energy_grid(comparison)
    grids = [*verdicts, scores, *([energy] if energy is not None else [])]
    parts = [f"## {markdown_text(table.title)}\n\n{to_markdown(table)}" for table in grids]
    files[".md"] = "\n".join(parts)
    files[".csv"] = to_csv(scores)
    runtimes = runtime_grid(comparison)
    files["_runtimes.md"], files["_runtimes.csv"] = to_markdown(runtimes), to_csv(runtimes)
    files["_comment.md"] = comment(comparison)
    if with_page:
        files[".html"] = to_page(comparison, steps, times, style, over_all)
    record = stem.with_name(f"{stem.name}.json")
    write_record(record, compare_record(comparison))
    written = [record]
    for suffix, content in files.items():
        path = stem.with_name(f"{stem.name}{suffix}")
        write_atomic(path, content)
        written.append(path)
    return written
