"""``a2perf check``: finds every problem of a submission folder before a run wastes time on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a2perf.api.checking import check as check_folder
from a2perf.cli.shared_options import PARTICIPANT_ARGS
from a2perf.domains.registry import find_environment
from a2perf.submission.options import normalised, parse_participant_args
from a2perf.submission.run_options import RunOptions, run_options


@click.command(context_settings=normalised())
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--env-id", metavar="ID", help="Environment of the trial. Default: the one in the gin files.")
@click.option("--steps", default=20, show_default=True, type=click.IntRange(min=1), help="Environment steps to run.")
@click.option("--train-limit", default=30.0, show_default=True, type=click.FloatRange(min=0, min_open=True),
              metavar="SECONDS", help="Wall-clock limit of the trial training run.")  # fmt: skip
@click.option("--artifacts", type=click.Path(path_type=Path), metavar="DIR",
              help="Load these artifacts instead of training.")  # fmt: skip
@PARTICIPANT_ARGS
@run_options(without=("public_seeds", "seeds_from"))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(
    folder: Path, env_id: str | None, steps: int, train_limit: float, artifacts: Path | None, participant_args: str,
    as_json: bool, **chosen: Any,
) -> int:  # fmt: skip
    """Check the submission in DIR and list every problem at once.

    \b
    Examples:
      a2perf check my_agent
      a2perf check my_agent --steps 100 --train-limit 60

    The check reads the files, runs train() briefly and then the policy for a few steps, in the same sandboxed
    process as a real run. Exit status: 0 no problem, 1 problems, 2 usage.
    """  # noqa: D301
    report = check_folder(
        folder,
        task=env_id and find_environment(env_id)[1].id,
        steps=steps,
        train_limit_s=train_limit,
        artifacts=artifacts,
        participant_args=parse_participant_args(participant_args),
        **RunOptions.taken_from(chosen).given,
    )
    click.echo(json.dumps(report.as_json(), indent=2) if as_json else report)
    return 0 if report else 1
