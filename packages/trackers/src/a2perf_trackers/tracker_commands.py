"""``a2perf export mlflow|wandb|tensorboard``: recorded runs in experiment trackers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from a2perf.cli.shared_options import PROFILE_OPTION
from a2perf.errors import command_line
from a2perf.plain_text import terminal_line
from a2perf.submission.options import normalised

if TYPE_CHECKING:
    from a2perf.metrics.values import Profile
    from a2perf_trackers.exporting import ExportedRun

_RUNS = click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN_OR_FOLDER...")
_TRACE = click.option(
    "--trace/--no-trace", default=True, show_default=True, help="Export the samples of the trackers: power, memory."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the exported runs as JSON.")


@click.command(context_settings=normalised())
@_RUNS
@click.option(
    "--tracking-uri",
    metavar="URI",
    help="Server, database or folder. Default: MLFLOW_TRACKING_URI, otherwise MLflow's own default.",
)
@click.option(
    "--experiment", metavar="NAME", default="a2perf", show_default=True, help="Experiment; created if missing."
)
@_TRACE
@PROFILE_OPTION
@_JSON
def mlflow(
    runs: tuple[Path, ...], tracking_uri: str | None, experiment: str, trace: bool, profile: Profile, as_json: bool
) -> int:
    """Log recorded runs to MLflow.

    RUN_OR_FOLDER is the same as for `a2perf score`. Each run becomes an MLflow run with parameters, metrics over steps
    and time, tags and a note. Needs the package mlflow-skinny or mlflow.
    """
    from a2perf_trackers.mlflow import log_runs

    exported = log_runs(runs, tracking_uri=tracking_uri, experiment=experiment, trace=trace, profile=profile)
    _print("MLflow", exported, as_json, f"Experiment: {experiment}, {exported[0].place}")
    return 0


@click.command(context_settings=normalised())
@_RUNS
@click.option("--project", metavar="NAME", default="a2perf", show_default=True, help="Project of the runs.")
@click.option("--entity", metavar="NAME", help="Account or team. Default: that of the login.")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the files. Default: WANDB_DIR, otherwise the working directory.",
)
@click.option(
    "--mode",
    type=click.Choice(("offline", "online")),
    help="Write files for `wandb sync`, or upload. Default: WANDB_MODE, otherwise offline.",
)
@_TRACE
@PROFILE_OPTION
@_JSON
def wandb(
    runs: tuple[Path, ...],
    project: str,
    entity: str | None,
    folder: Path | None,
    mode: Literal["offline", "online"] | None,
    trace: bool,
    profile: Profile,
    as_json: bool,
) -> int:
    """Log recorded runs to Weights & Biases, offline by default.

    RUN_OR_FOLDER is the same as for `a2perf score`. Each run becomes a W&B run with configuration, history, summary and
    tags; seeds of the same experiment share a group. Needs the package wandb.
    """
    from a2perf_trackers.wandb import log_runs

    exported = log_runs(runs, project=project, entity=entity, folder=folder, mode=mode, trace=trace, profile=profile)
    is_offline = "://" not in exported[0].place
    upload = f"Upload: wandb sync {Path(exported[0].place).parent}/offline-run-*"
    _print("Weights & Biases", exported, as_json, upload if is_offline else f"Project: {project}")
    return 0


@click.command(context_settings=normalised())
@_RUNS
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Log folder of TensorBoard; each run becomes a folder below it.",
)
@_TRACE
@PROFILE_OPTION
@_JSON
def tensorboard(runs: tuple[Path, ...], folder: Path, trace: bool, profile: Profile, as_json: bool) -> int:
    """Write recorded runs as TensorBoard event files, with HParams.

    RUN_OR_FOLDER is the same as for `a2perf score`. Scalars are float32, as TensorBoard stores them. Needs the package
    tensorboard.
    """
    from a2perf_trackers.tensorboard import log_runs

    exported = log_runs(runs, folder, trace=trace, profile=profile)
    _print("TensorBoard", exported, as_json, f"Show: {command_line('tensorboard', '--logdir', folder)}")
    return 0


def _print(tracker: str, exported: Sequence[ExportedRun], as_json: bool, last: str) -> None:
    if as_json:
        click.echo(json.dumps({"tracker": tracker, "runs": [asdict(run) for run in exported]}, indent=2))
        return
    runs = list(dict.fromkeys(exported))
    new = sum(run.is_new for run in runs)
    known = f", {len(runs) - new} already there" if new < len(runs) else ""
    click.echo(f"{len(runs)} run{'s' if len(runs) != 1 else ''} in {tracker}: {new} exported{known}")
    click.echo(terminal_line(last))
