"""``a2perf score``: scores recorded runs from their files alone."""

from __future__ import annotations

import os
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
    "-o", "--output", "out", type=click.Path(path_type=Path), metavar="DIR",
    help="Folder for scores.json. Default: the folder of the runs.",
)  # fmt: skip
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

    scores = score_given(runs, profile=profile, processes=len(os.sched_getaffinity(0)))
    target = scores.write(out if out is not None else folder_of_scores(runs))
    if as_json:
        click.echo(target.read_text(encoding="utf-8"), nl=False)
        return 0
    click.echo(scores.text(every=every, further=str(target)))
    click.echo(f"Written: {target}")
    if not every and len(scores):
        click.echo("All metrics: add --all")
    return 0
