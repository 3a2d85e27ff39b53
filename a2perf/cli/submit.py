"""``a2perf submit``: runs a whole protocol for one submission, into one folder with a score and a citation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from a2perf.api.submitting import read_submitted, submit
from a2perf.cli.launch_options import LaunchOptions, launch_options
from a2perf.cli.shared_options import PARTICIPANT_ARGS
from a2perf.errors import RunFailed
from a2perf.experiments.protocol_plan import RUN_OPTIONS
from a2perf.metrics import protocol as protocols
from a2perf.metrics.protocol import Track
from a2perf.submission.options import normalised, parse_participant_args
from a2perf.submission.run_options import RunOptions, run_options


@click.command(name="submit", context_settings=normalised())
@click.argument("submission", type=click.Path(path_type=Path), metavar="SUBMISSION")
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Output folder: bundles, protocol.json and summary.md.",
)
@click.option("--protocol", default=protocols.LATEST, show_default=True, help="Version of the protocol.")
@click.option("--task", "tasks", multiple=True, metavar="T", help="Only this task; repeatable.")
@click.option("--domain", metavar="NAME", help="Only the core tasks of this domain.")
@click.option(
    "--track",
    type=click.Choice(get_args(Track)),
    default="open",
    show_default=True,
    help="Training budget: environment steps, energy, or none.",
)
@click.option("--quick", is_flag=True, help="Run a reduced protocol for a first try; the result is not rankable.")
@click.option(
    "--generalization/--no-generalization",
    default=True,
    show_default=True,
    help="Run the generalization tasks of the protocol too.",
)
@PARTICIPANT_ARGS
@click.option(
    "--gin-bindings",
    "bindings",
    multiple=True,
    metavar="BINDING",
    help="Binding for every run; the result is not rankable. Repeatable.",
)
@run_options(
    *RUN_OPTIONS,
    public_seeds={
        "help": "Evaluate on the published seeds of the protocol, which a submission can know; recorded in the result."
    },
)
@launch_options(
    "launcher",
    "workers",
    "retry",
    retry={
        "type": click.Choice(("infrastructure",)),
        "help": "Run again if the infrastructure failed after the participant had started; recorded in the run.",
    },
    workers={"help": "Number of runs at the same time; several runs disturb each other's times and energy."},
)
@click.option("--json", "as_json", is_flag=True, help="Print protocol.json.")
def submit_command(submission: Path, folder: Path, as_json: bool, **given: Any) -> int:
    """Run a whole protocol: train and evaluate every task and seed, and score them against the stored references.

    \b
    Examples:
      a2perf submit my_agent -o runs/official --quick
      a2perf submit my_agent -o runs/official --domain web_navigation

    Default: all core tasks. Run the same command again to resume it, or with further tasks to add them. A failed run
    stays failed and counts.

    Exit status: 0 all runs finished, 1 the submission failed one, 2 usage or configuration, 3 infrastructure,
    130 interrupted.
    """  # noqa: D301
    launch = LaunchOptions.taken_from(given)
    options = RunOptions.taken_from(given)
    given["participant_args"] = parse_participant_args(given["participant_args"])
    given |= {**launch.for_many(), **options.given, "progress": "lines" if as_json else None}
    try:
        result = submit(submission, folder, **given)
    except RunFailed as error:
        if error.bundle is None:
            raise
        result = read_submitted(folder, error.exit_code)
    click.echo(msgspec.json.format(msgspec.json.encode(result.record), indent=2).decode() if as_json else result)
    return result.exit_code
