"""``a2perf report``: writes the report of recorded runs."""

from __future__ import annotations

from pathlib import Path

import click

from a2perf.cli.profile_option import PROFILE_OPTION
from a2perf.submission.options import normalised


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN_OR_FOLDER...")
@click.option(
    "-o", "--output", "out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Folder to write."
)
@click.option("--title", help="Heading of the report; made from the submissions' names when not given.")
@PROFILE_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the report's numbers as JSON.")
def report(runs: tuple[Path, ...], out: Path, title: str | None, profile: str, as_json: bool) -> int:
    """Write the report of recorded runs: one page, Markdown, LaTeX, CSV, JSON and figures.

    RUN_OR_FOLDER is what `a2perf score` takes: a run's root folder, a folder that holds several, a single bundle, a
    folder of the earlier platform, logs of Stable-Baselines3, event files or a CSV file. Failed and damaged runs are
    part of the report.
    """
    from a2perf.report import write_report
    from a2perf.runs import read_runs

    written = write_report(read_runs(runs), out, title=title, profile=profile)  # type: ignore[arg-type]
    if as_json:
        click.echo((out / "report.json").read_text(encoding="utf-8"), nl=False)
    else:
        click.echo(written.lede)
        click.echo(f"report: {written.page}")
    return 0
