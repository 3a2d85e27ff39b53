"""``write_report`` and ``write_leaderboard``: static pages from recorded runs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from a2perf.errors import ConfigError, UserError
from a2perf.plain_text import terminal_line

if TYPE_CHECKING:
    from a2perf.metrics.values import Profile
    from a2perf.report.leaderboard.writing import WrittenLeaderboard
    from a2perf.report.writing import WrittenReport
    from a2perf.runs.reading import AnyRuns
    from a2perf.runs.run import Run

_TITLE = "Leaderboard"


def write_report(
    runs: AnyRuns,
    folder: str | os.PathLike[str] = "report",
    *,
    title: str | None = None,
    profile: Profile = "corrected",
) -> WrittenReport:
    """Writes a report of recorded runs: one page, Markdown, LaTeX, CSV, JSON and figures.

    The same runs give the same bytes. Failed and damaged runs are part of the report.

    Args:
        runs: ``Runs``, results, paths of runs or folders of runs, or several of these.
        folder: folder to write; an earlier report there is replaced.
        title: heading of the report; None for the names of the submissions.
        profile: set of formulas, ``"corrected"`` or ``"upstream"``.

    Returns:
        The written report, with the result in one sentence.

    Raises:
        UserError: a path holds no run, or the folder cannot be written.
        ConfigError: an unknown profile, or something that is not a run.

    Example:
        >>> runs = a2perf.read_runs("results/recorded/small/greedy_placer.zip")
        >>> report = a2perf.write_report(runs, "report", title="A greedy placer")
        >>> report.overview
        '9 runs of 1 submission on 3 environments: 9 finished. 2026-11-29.'
    """
    from a2perf.metrics.values import profile_named
    from a2perf.report.writing import write_report as write_files
    from a2perf.runs.reading import read_runs

    found = read_runs(runs)
    return write_files(found, Path(folder), title=title, profile=profile_named(profile), verdict=verdict_of_two(found))


def verdict_of_two(runs: Sequence[Run]) -> str:
    """Returns which of two submissions is better; ``""`` for another number of them, or if they share nothing."""
    from a2perf.api.comparing import compare
    from a2perf.rlops.compare.sentences import verdict_sentences

    readable = [run for run in runs if run.state != "unreadable"]
    if len({run.algorithm for run in readable}) != 2:
        return ""
    try:
        return verdict_sentences(compare(readable, by="submission").groups)
    except UserError:
        return ""


def write_leaderboard(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    title: str = _TITLE,
    trusted_keys: str | os.PathLike[str] | None = None,
    reproductions: str | os.PathLike[str] | None = None,
    reports: bool = True,
    processes: int = 1,
    progress: bool | Callable[[str], None] | None = None,
) -> WrittenLeaderboard:
    """Writes a leaderboard of the bundles in a folder as a static site.

    Entries are ranked by the interquartile mean of the normalised score. Entries of different environments, protocols,
    tracks or kinds of energy measurement are never ranked together. Invalid bundles are listed with the reason.

    Args:
        folder: folder of bundles, in any arrangement.
        out: folder to write; pages of an earlier leaderboard there are replaced.
        title: heading of the site.
        trusted_keys: file or folder of public keys; signatures by other keys are listed as "unknown key".
        reproductions: folder with verdicts of `a2perf reproduce -o`; those beside the bundles are their authors' word.
        reports: write the report of each submission too.
        processes: number of processes that share the work. With more than one the caller's main module must be
            importable (``if __name__ == "__main__"``).
        progress: False shows nothing; None or True shows finished steps on standard error, in place on a terminal; a
            function gets one line per finished step.

    Returns:
        The written site.

    Raises:
        UserError: nothing is recorded in the folder, or ``out`` cannot be written or holds something else.
        ConfigError: the folder is not a path, or a key cannot be read.
        MissingDependency: keys are given, but the library that checks signatures is not installed.

    Example:
        >>> folder = "results/recorded/web_navigation"
        >>> site = a2perf.write_leaderboard(folder, "site", reports=False)
        >>> print(site)
        9 entries in 3 table(s), 0 without a rank
        leaderboard: site/index.html
    """
    from a2perf.report.leaderboard.entries import Trust
    from a2perf.report.leaderboard.writing import write_leaderboard as write_site

    if not isinstance(folder, str | os.PathLike):
        raise ConfigError(
            f"a leaderboard needs a folder of bundles, not {type(folder).__name__}",
            hint="give the folder; write_report takes runs",
        )
    say = progress if callable(progress) else (lambda line: None) if progress is False else show_line
    trust = Trust.read(
        None if trusted_keys is None else Path(trusted_keys), None if reproductions is None else Path(reproductions)
    )
    return write_site(
        Path(folder), Path(out), title=title, trust=trust, reports=reports, processes=processes, progress=say
    )


def show_line(line: str) -> None:
    """Shows a line of progress on standard error: in place on a terminal, one line each elsewhere."""
    stream = sys.stderr
    if stream is None:  # a process without a console
        return
    if stream.isatty():
        width = shutil.get_terminal_size().columns - 1
        stream.write(f"\r{terminal_line(line)[:width]:<{width}}\r")
    else:
        stream.write(f"{terminal_line(line)}\n")
    stream.flush()
