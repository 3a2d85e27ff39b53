"""``a2perf init`` and ``a2perf check``: a new submission folder, and every problem of a folder before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from a2perf.api.checking import check as check_folder
from a2perf.api.environments import find_task
from a2perf.cli.shared_options import PARTICIPANT_ARGS
from a2perf.domains.registry import ANY
from a2perf.errors import command_line
from a2perf.submission.options import normalised, parse_participant_args
from a2perf.submission.run_options import RunOptions, run_options, service_options
from a2perf.submission.templates import choose_task, create_submission, templates


@click.command(context_settings=normalised())
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--template",
    metavar=f"[{'|'.join(templates())}]",
    help="numpy (default) learns any task of a2perf with one action per step; minimal (default for other "
    "environments) acts at random.",
)
@click.option("--task", "--env-id", "task", metavar="NAME", help="Task, or id of an environment, of the gin files.")
def init(folder: Path, template: str | None, task: str | None) -> int:
    """Create a submission in DIR: a complete repository to start from.

    DIR is created; it must not exist or be empty.
    """
    chosen = None if task is None else find_task(task)
    create_submission(folder, template or ("minimal" if chosen is not None and chosen.domain == ANY else "numpy"))
    if chosen is not None:
        choose_task(folder, chosen.domain, chosen.env_id, chosen.kwargs)
    gin = [name for name in ("training.gin", "inference.gin") if (folder / name).exists()]
    runs = Path("runs", folder.resolve().name)
    launch = ("a2perf", "run", "--submission", folder, "--gin_config", *gin, "--root_dir", runs)
    if chosen is not None and ":" in chosen.name:  # a submission's gin file names no package
        launch += ("--env_id", chosen.name)
    click.echo(f"Created {folder}; {folder / 'README.md'} explains its files.\n\nNext steps:")
    for words in (("a2perf", "check", folder), launch, ("a2perf", "report", runs, "-o", runs / "report")):
        click.echo(f"  {command_line(*words)}")
    return 0


@click.command(context_settings=normalised())
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--env-id", "task", metavar="ID", help="Environment of the trial. Default: the one in the gin files.")
@click.option("--steps", default=20, show_default=True, type=click.IntRange(min=1), help="Environment steps to run.")
@click.option(
    "--train-time-limit-s",
    "--train-limit",
    "train_limit_s",
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Wall-clock limit of the trial training run.",
)
@click.option(
    "--artifacts", type=click.Path(path_type=Path), metavar="DIR", help="Load these artifacts instead of training."
)
@PARTICIPANT_ARGS
@run_options(
    "sandbox",
    "allow_weaker",
    "python_env",
    "participant_python",
    "datasets_path",
    "trust_submission_config",
    *(option.name for option in service_options()),
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(folder: Path, as_json: bool, **given: Any) -> int:
    """Check the submission in DIR and list every problem at once.

    \b
    Examples:
      a2perf check my_agent
      a2perf check my_agent --steps 100 --train-time-limit-s 60

    The check reads the gin files, runs train() briefly and then the policy for a few steps, in the same sandboxed
    process as a real run. Exit status: 0 no problem, 1 problems, 2 usage.
    """  # noqa: D301
    from a2perf.sandbox import STRONGEST, get_sandbox, level_text  # imported here: help does not need it

    options = RunOptions.taken_from(given).given
    given["participant_args"] = parse_participant_args(given["participant_args"])
    asked = str(options.get("sandbox") or STRONGEST)
    level = get_sandbox(asked).level
    if folder.is_dir() and not as_json:  # the report has it, but this comes before any code of the submission runs
        click.echo(level_text(level, asked), err=True)
    report = check_folder(folder, **given, **options)
    click.echo(json.dumps(report.as_json(), indent=2) if as_json else report)
    return 0 if report else 1
