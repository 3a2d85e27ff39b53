"""``a2perf leaderboard``: builds a static site from recorded runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from a2perf.cli.shared_options import TRUSTED_KEYS, removing_command
from a2perf.submission.options import normalised

_INSTEAD = "a2perf.time_to_result({submission: {workload: seconds}}) in Python; see docs/explanation/time_to_result.md"
_REMOVED = dict.fromkeys(("--score", "--times", "--target", "--held-out", "--count-held-out", "--exact"), _INSTEAD)


@click.command(cls=removing_command(_REMOVED), context_settings=normalised())
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="FOLDER")
@click.option(
    "-o", "--output", "out", type=click.Path(path_type=Path), metavar="DIR", help="Folder to write. Required."
)
@click.option("--title", default="Leaderboard", show_default=True, help="Heading of the site.")
@click.option("--reports/--no-reports", default=True, show_default=True, help="Write the report of each submission.")
@TRUSTED_KEYS
@click.option(
    "--reproductions", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="Folder with verdicts of `a2perf reproduce -o`; those beside the bundles always count.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the entries as JSON.")
def leaderboard(folder: Path, out: Path, as_json: bool, **given: Any) -> int:
    """Build a leaderboard from the bundles in FOLDER as a static site.

    The first page shows the newest protocol with one table per domain; each task and each submission has its own page.
    Entries are ranked by the interquartile mean of the normalised score. Entries of different environments, protocols,
    tracks or kinds of energy measurement are never ranked together. Invalid bundles are listed with the reason.
    """
    from a2perf.api.pages import write_leaderboard

    written = write_leaderboard(folder, out, processes=len(os.sched_getaffinity(0)), **given)
    if as_json:
        click.echo((out / "leaderboard.json").read_text(encoding="utf-8"), nl=False)
    else:
        click.echo(str(written))
    return 0
