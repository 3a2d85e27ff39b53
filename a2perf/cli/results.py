"""``a2perf score``, ``report`` and ``leaderboard``: what recorded runs show, from their files alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2perf.cli.shared_options import PROFILE_OPTION, TRUSTED_KEYS
from a2perf.submission.options import normalised
from a2perf.system import usable_processors

if TYPE_CHECKING:
    from a2perf.metrics import Profile


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN_OR_FOLDER...")
@click.option(
    "-o",
    "--output",
    "out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for scores.json. Default: the folder of the runs.",
)
@PROFILE_OPTION
@click.option("--all", "every", is_flag=True, help="Print all metrics instead of the main ones.")
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
def score(runs: tuple[Path, ...], out: Path | None, profile: Profile, every: bool, as_json: bool) -> int:
    """Score recorded runs.

    RUN_OR_FOLDER is a bundle, a folder of the earlier platform, logs of Stable-Baselines3 (progress.csv, monitor.csv),
    event files, a CSV file with columns for steps and returns, or a folder with any of these. Only recorded files are
    read: no environment or code of a submission is loaded. The same input gives the same bytes.
    """
    from a2perf.api.scoring import folder_of_scores
    from a2perf.api.scoring import score as score_given

    scores = score_given(runs, profile=profile, processes=usable_processors())
    target = scores.write(out if out is not None else folder_of_scores(runs))
    if as_json:
        click.echo(target.read_text(encoding="utf-8"), nl=False)
        return 0
    click.echo(scores.text(every=every, further=str(target)))
    click.echo(f"Written: {target}")
    if not every and len(scores):
        click.echo("All metrics: add --all")
    return 0


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN_OR_FOLDER...")
@click.option(
    "-o",
    "--output",
    "out",
    default="report",
    show_default=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the report; an earlier report there is replaced.",
)
@click.option("--title", help="Heading of the report. Default: the names of the submissions.")
@PROFILE_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the numbers of the report as JSON.")
def report(runs: tuple[Path, ...], out: Path, title: str | None, profile: Profile, as_json: bool) -> int:
    """Write a report of recorded runs: one page, Markdown, LaTeX, CSV, JSON and figures.

    RUN_OR_FOLDER is the same as for `a2perf score`: a bundle, a folder of runs, a folder of the earlier platform, logs
    of Stable-Baselines3, event files or a CSV file. Failed and damaged runs are part of the report.
    """
    from a2perf.api.pages import write_report

    return _print_written(write_report(runs, out, title=title, profile=profile), out / "report.json", as_json)


@click.command(context_settings=normalised())
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="FOLDER")
@click.option(
    "-o", "--output", "out", type=click.Path(path_type=Path), metavar="DIR", help="Folder to write. Required."
)
@click.option("--title", default="Leaderboard", show_default=True, help="Heading of the site.")
@click.option("--reports/--no-reports", default=True, show_default=True, help="Write the report of each submission.")
@TRUSTED_KEYS
@click.option(
    "--reproductions",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder with your verdicts, of `a2perf reproduce -o`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the entries as JSON.")
def leaderboard(folder: Path, out: Path, as_json: bool, **given: Any) -> int:
    """Build a leaderboard from the bundles in FOLDER as a static site.

    The first page shows the newest protocol with one table per domain; each task and each submission has its own page.
    Entries are ranked by the interquartile mean of the normalised score. Entries of different environments, protocols,
    tracks or kinds of energy measurement are never ranked together. Invalid bundles are listed with the reason.
    """
    from a2perf.api.pages import write_leaderboard

    written = write_leaderboard(folder, out, processes=usable_processors(), **given)
    return _print_written(written, out / "leaderboard.json", as_json)


def _print_written(written: object, document: Path, as_json: bool) -> int:
    click.echo(document.read_text(encoding="utf-8") if as_json else str(written), nl=not as_json)
    return 0
