"""Results as text: the lines of ``a2perf score`` for one run, and a short list of many."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from a2perf.api.recorded import LazyRun
from a2perf.api.run_tables import run_table
from a2perf.api.score_text import group_lines, text_line, wrapped
from a2perf.api.table_text import shown_rows, table_text
from a2perf.plain_text import plain_text, terminal_line, terminal_text
from a2perf.report.numbers_text import Scale, counted, written
from a2perf.report.provenance import noise

_ENDS = 5
_MOST_CONDITIONS = 10
_RETURN = text_line("Return", "").rstrip()
_LISTED = ("algorithm", "task", "mode", "seed", "state", "return", "success_rate", "energy_gross", "energy_provenance")


def result_text(result: LazyRun, interval: tuple[float, float] | None) -> str:
    """Returns what ``a2perf score`` prints for one run, the interval over its episodes, and its folder.

    Args:
        result: the run.
        interval: of the mean return over episodes; None without one.
    """
    lines: list[str] = []
    for group in result.groups:
        block = group_lines(group)
        at = next((place for place, line in enumerate(block) if line.startswith(_RETURN)), None)
        if interval is not None and at is not None and group["mode"] == result.main_mode:
            block.insert(at + 1, text_line("Interval", interval_text(interval), "95 %, of the mean over episodes"))
        lines += block
    if not lines:
        lines.append(f"{result.run.algorithm or result.folder.label}: no data")
    if result.run.manifest is not None and (failure := result.run.manifest.failure) is not None:
        lines.insert(1, wrapped(f"failed in {failure.where} ({failure.kind.value}): {plain_text(failure.message)}"))
    conditions = list(result.run.conditions)
    if noisy := noise(result.run):
        conditions.append(f"Timings unreliable, noisy host: {'; '.join(noisy)}.")
    lines += [wrapped(plain_text(condition)) for condition in conditions[:_MOST_CONDITIONS]]
    if len(conditions) > _MOST_CONDITIONS:
        lines.append(f"  {len(conditions) - _MOST_CONDITIONS} more in .conditions")
    return terminal_text("\n".join([*lines, f"  Bundle     {shown_path(result.folder.path)}"]))


def runs_text(results: Sequence[LazyRun]) -> str:
    """Returns the number of runs and a line for each of the first and last ones."""
    if not results:
        return "no runs"
    count = len(results)
    positions = shown_rows(count, _ENDS)
    table = run_table([results[at] for at in positions]).select(*_LISTED)
    return "\n".join([counted(count, "run"), *table_text(table, _ENDS, count - len(positions)).splitlines()[1:]])


def interval_text(interval: tuple[float, float]) -> str:
    """Returns ``[1.10, 1.30]``, rounded to the second digit of its half width."""
    low, high = interval
    return written((low + high) / 2, Scale(1.0, ""), (high - low) / 2, interval).interval()


def shown_path(path: Path) -> str:
    """Returns a path on one line, relative if it is below the working directory."""
    here = Path.cwd()
    return terminal_line(os.fspath(path.relative_to(here) if path.is_relative_to(here) else path))
