"""``a2perf smoketest``: a brief test of every algorithm on every environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from a2perf.cli.launch_options import LaunchOptions, launch_options
from a2perf.cli.shared_options import Words, WordsCommand, annotate
from a2perf.errors import UserError
from a2perf.submission.options import normalised
from a2perf.terminal import console

_TIME_LIMIT_S = 300.0


@click.command(cls=WordsCommand, context_settings=normalised())
@click.option("--algorithms", cls=Words, metavar="NAME...", help="Algorithms of Stable-Baselines3: sac ppo dqn ...")
@click.option("--submissions", cls=Words, metavar="DIR...", help="Folders of submissions.")
@click.option("--env-ids", cls=Words, required=True, metavar="ENV...", help="Environments, or tasks of submissions.")
@click.option(
    "--steps", type=click.IntRange(min=1), default=200, show_default=True, help="Environment steps per training run."
)
@click.option(
    "--n-jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Number of pairs at the same time."
)
@launch_options(
    "run_time_limit_s",
    run_time_limit_s={"default": f"{_TIME_LIMIT_S:g}", "show_default": True, "help": "Wall-time limit per pair."},
)
@click.option("--fail-fast", is_flag=True, help="Stop after the first failure.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    default=Path("runs", "smoke_test"),
    show_default=True,
    metavar="DIR",
    help="Folder of models, videos, logs and results.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def smoketest(**options: Any) -> int:
    """Construct, train, record, save and reload every algorithm or submission on every environment.

    Pairs with incompatible spaces are excluded and listed. A failure does not stop the other pairs. Exit status: 0 no
    failure, 1 a pair failed, 2 usage, 130 interrupted.
    """
    from rich.table import Table

    from a2perf.experiments.needs import require_training
    from a2perf.experiments.runners.smoke import PHASES
    from a2perf.experiments.smoke_test import plan, suite_of, try_pairs, write_results
    from a2perf.launch import Conductor, get_launcher

    time_limit_s = LaunchOptions(options).resources().wall_s or _TIME_LIMIT_S
    algorithms = [word.lower() for word in options["algorithms"] or ()]
    submissions = [Path(word) for word in options["submissions"] or ()]
    if not algorithms and not submissions:
        raise UserError("nothing to try", hint="add --algorithms NAME... or --submissions DIR...")
    if algorithms:
        require_training(options["env_ids"])
    pairs = plan(algorithms, submissions, options["env_ids"])
    tried = [pair for pair in pairs if not pair.excluded]
    click.echo(f"Smoke-testing {len(tried)} pairs ({len(pairs) - len(tried)} excluded) ...", err=True)
    with Conductor(get_launcher("local"), options["n_jobs"]) as conductor:
        try_pairs(
            pairs,
            options["report"],
            conductor,
            steps=options["steps"],
            time_limit_s=time_limit_s,
            fail_fast=options["fail_fast"],
            say=lambda line: click.echo(line, err=True),
        )
    write_results(options["report"], pairs)
    annotate(suite_of(pairs), to_errors=options["as_json"])
    if options["as_json"]:
        click.echo((options["report"] / "smoke_test.json").read_text(encoding="utf-8"), nl=False)
    else:
        table = Table("", "environment", *PHASES)
        for pair in pairs:
            cells = [phase.result for phase in pair.phases.values()] or [f"excluded: {pair.excluded}"]
            table.add_row(pair.what, pair.env, *cells)
        console().print(table)
    failed = sum(pair.has_failed for pair in pairs)
    if conductor.interrupted:
        return 130
    if not failed:
        click.echo("All smoke tests passed successfully.", err=True)
        return 0
    click.echo(f"{failed} of {len(tried)} pairs failed; logs: {options['report']}", err=True)
    return 1
