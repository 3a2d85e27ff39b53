"""``a2perf benchmark``: one command or submission over environments and seeds, into the experiment store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from a2perf import assets
from a2perf.cli.launch_options import WITH_RESOURCES, LaunchOptions, launch_options
from a2perf.cli.shared_options import STORE, Words, WordsCommand
from a2perf.constants import ExitCode
from a2perf.errors import UserError
from a2perf.submission.options import normalised

_ENABLED = "autotag feature is enabled"


@click.command(cls=WordsCommand, context_settings=normalised())
@click.option(
    "--env-ids", cls=Words, required=True, metavar="ENV...", help="Environment ids, or task names with --submission."
)
@click.option("--command", metavar="TEXT", help="Command line; --env-id and --seed are appended.")
@click.option("--submission", metavar="DIR", help="Folder of a submission, instead of --command.")
@click.option(
    "--gin-config",
    "gin_configs",
    multiple=True,
    metavar="FILE",
    help="Gin file of the submission. Repeatable; every run executes them in order.",
)
@click.option("--num-seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Number of seeds.")
@click.option("--start-seed", type=int, default=1, show_default=True, help="First seed.")
@launch_options(
    "workers",
    "launcher",
    "run_time_limit_s",
    launcher=WITH_RESOURCES,
    workers={"type": click.IntRange(min=0), "default": 0, "help": "Runs at the same time; 0 only prints the commands."},
)
@click.option(
    "--auto-tag/--no-auto-tag",
    default=True,
    show_default=True,
    help="Tag runs with the version of the code and its pull request.",
)
@STORE
@click.option("--exp-name", metavar="NAME", help="Name of the experiment. Default: name of the script or submission.")
@click.argument("evaluator_flags", nargs=-1, metavar="[-- FLAG...]")
def benchmark(**options: Any) -> int:
    """Run a command, or a submission, on every environment with every seed.

    \b
    Example:
      a2perf benchmark --command "python ppo.py" --env-ids Hopper-v4 Walker2d-v4 --num-seeds 3 --workers 2

    Each run is `COMMAND --env-id ENV --seed N`. The experiment store records it as a bundle with the version of the
    code as a tag. Run the same command again to resume. FLAGs after `--` go to the evaluator of a submission. Exit
    status: 0 all finished, 1 a run failed, 2 usage, 3 infrastructure, 130 interrupted.
    """  # noqa: D301
    from a2perf.experiments.benchmark_matrix import run_matrix
    from a2perf.experiments.needs import missing_package
    from a2perf.launch import Queue, State
    from a2perf.runs.stores.store import store_folder

    launch = LaunchOptions(options)
    store = store_folder(options["store"])
    matrix = _planned(store, options, launch.resources())
    say = click.echo
    if options["auto_tag"]:
        record = matrix.plan.autotag
        say(_ENABLED)
        if record is not None:
            say(f"identified git tag: {record.tag}")
            if record.pull_request:
                say(f"identified github pull request: {record.pull_request}")
        say(f"WANDB_TAGS: {matrix.plan.wandb_tags}")
    say("======= commands to run:")
    lines = matrix.command_lines()
    for line in lines:
        say(line)
    if options["workers"] == 0:
        say("workers is set to 0: nothing was run; give --workers N to run the commands")
        return 0
    if matrix.plan.source == "command" and "--track" in matrix.plan.words and "WANDB_MODE" not in os.environ:
        say("W&B: runs log offline (WANDB_MODE=offline); set WANDB_MODE=online to send them")

    def say_kept(queue: Queue) -> None:
        if kept := queue.counts()[State.FINISHED]:
            say(f"{kept} of {len(lines)} runs are already finished")

    with launch.conductor() as conductor:
        result = run_matrix(matrix, conductor, on_ready=say_kept)
    # counts come from the queue, which also knows the runs of other processes on the same matrix
    done, failed = result.counts[State.FINISHED], result.counts[State.FAILED]
    left = len(lines) - done - failed
    say(f"{done} of {len(lines)} runs finished, {failed} failed" + (f", {left} left" if left else ""))
    say(f"store {store}, tags {', '.join(matrix.plan.tags) or 'none'}")
    if left:
        say("run the same command again to resume them")
    missing = next(filter(None, (missing_package(run.folder) for run in matrix.runs)), "") if failed else ""
    if missing:
        say(f"missing package: {missing}. Install it, and run the same command again")
        return int(ExitCode.INFRASTRUCTURE)
    return result.exit_code


def _planned(store: Path, options: dict[str, Any], resources: Any) -> Any:
    from a2perf.experiments.benchmark_matrix import command_matrix, submission_matrix, tagger

    if (options["command"] is None) == (options["submission"] is None):
        raise UserError("give either --command or --submission", hint='write --command "python train.py"')
    if options["command"] is not None and (options["gin_configs"] or options["evaluator_flags"]):
        raise UserError("--gin-config and flags after -- belong to --submission", hint="leave them out with --command")
    if options["submission"] is not None and not options["gin_configs"]:
        raise UserError("--submission needs --gin-config", hint="give --gin-config FILE")
    tag = None
    if options["auto_tag"]:
        tag = tagger(store, look_up=not assets.is_offline(), api=os.environ.get("GITHUB_API_URL"))
    seeds = range(options["start_seed"], options["start_seed"] + options["num_seeds"])
    common: dict[str, Any] = {"tag": tag, "experiment": options["exp_name"], "resources": resources}
    if options["command"] is not None:
        alone = options["workers"] == 1 and options["launcher"].name == "local"
        return command_matrix(store, options["command"], options["env_ids"], seeds, alone=alone, **common)
    return submission_matrix(
        store,
        Path(options["submission"]),
        options["gin_configs"],
        options["env_ids"],
        seeds,
        flags=options["evaluator_flags"],
        **common,
    )
