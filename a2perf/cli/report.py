"""``a2perf report``: writes the report of recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from a2perf.cli.shared_options import PROFILE_OPTION
from a2perf.submission.options import normalised

if TYPE_CHECKING:
    from a2perf.metrics import Profile


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN_OR_FOLDER...")
@click.option(
    "-o", "--output", "out", default="report", show_default=True, type=click.Path(path_type=Path), metavar="DIR",
    help="Folder of the report; an earlier report there is replaced.",
)  # fmt: skip
@click.option("--title", help="Heading of the report. Default: the names of the submissions.")
@PROFILE_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the numbers of the report as JSON.")
def report(runs: tuple[Path, ...], out: Path, title: str | None, profile: Profile, as_json: bool) -> int:
    """Write a report of recorded runs: one page, Markdown, LaTeX, CSV, JSON and figures.

    RUN_OR_FOLDER is the same as for `a2perf score`: a bundle, a folder of runs, a folder of the earlier platform, logs
    of Stable-Baselines3, event files or a CSV file. Failed and damaged runs are part of the report.
    """
    from a2perf.api.pages import write_report

    written = write_report(runs, out, title=title, profile=profile)
    if as_json:
        click.echo((out / "report.json").read_text(encoding="utf-8"), nl=False)
    else:
        click.echo(str(written))
    return 0
