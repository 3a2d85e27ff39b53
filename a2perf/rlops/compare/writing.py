"""Writes the files of a comparison beside each other, under the names that earlier tools gave them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from a2perf.errors import UserError
from a2perf.report.drawing import pictures
from a2perf.report.tables import markdown_text, to_csv, to_markdown
from a2perf.rlops.compare import figures
from a2perf.rlops.compare.comparison import ComparedGroups
from a2perf.rlops.compare.page import to_page
from a2perf.rlops.compare.record import compare_record
from a2perf.rlops.compare.sentences import comment
from a2perf.rlops.compare.tables import energy_table, runtime_table, score_table, verdict_table
from a2perf.storage import write_atomic, write_record

_KINDS = (".png", ".pdf", ".svg", ".html", ".md", ".csv", ".json")


def output_stem(given: str) -> Path:
    """Returns what file names begin with; an ending that names a format is cut off, ``compare.png`` is ``compare``.

    Raises:
        UserError: it is empty.
    """
    path = Path(given).expanduser()
    stem = path.with_suffix("") if path.suffix.lower() in _KINDS else path
    if not stem.name:
        raise UserError(f"--output-filename {given!r} is not a file name", hint="--output-filename compare")
    return stem


def write(comparison: ComparedGroups, stem: Path, *, with_figures: bool = True, with_page: bool = True) -> list[Path]:
    """Writes a comparison and returns the files, the record first.

    Raises:
        UserError: a file cannot be written.
    """
    files: dict[str, bytes | str] = {}  # by what follows the stem in its name
    steps = figures.curves_of(comparison) if with_figures else []
    times = figures.curves_of(comparison, time=True) if with_figures else []
    for suffix, curves in (("", steps), ("-time", times)):
        if curves:
            drawn = pictures(partial(figures.grid, curves))
            files |= {f"{suffix}.{kind}": picture for kind, picture in drawn.items()}
    scores, energy, runtimes = score_table(comparison), energy_table(comparison), runtime_table(comparison)
    verdicts = [verdict_table(comparison, candidate) for candidate in comparison.candidates]
    tables = [*verdicts, scores, *([energy] if energy is not None else [])]
    files[".md"] = "\n".join(f"## {markdown_text(table.caption)}\n\n{to_markdown(table)}" for table in tables)
    files[".csv"] = to_csv(scores)
    files["_runtimes.md"], files["_runtimes.csv"] = to_markdown(runtimes), to_csv(runtimes)
    files["_comment.md"] = comment(comparison)
    if with_page:
        files[".html"] = to_page(comparison, steps, times)
    record = stem.with_name(f"{stem.name}.json")
    written = [record]
    try:
        write_record(record, compare_record(comparison))
        for suffix, content in files.items():
            path = stem.with_name(f"{stem.name}{suffix}")
            write_atomic(path, content)
            written.append(path)
    except OSError as error:
        raise UserError(f"{stem} cannot be written: {error.strerror}", hint="give --output-filename") from error
    return written
