"""``a2perf benchmark``: one command or submission over environments and seeds, into the experiment store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from a2perf.cli.launch_options import LaunchOptions, launch_options
from a2perf.cli.word_lists import Words, WordsCommand
from a2perf.errors import UserError
from a2perf.submission.options import normalised

_ENABLED = "autotag feature is enabled"


@click.command(cls=WordsCommand, context_settings=normalised())
@click.option(
    "--env-ids", cls=Words, required=True, metavar="ENV...", help="Environment ids, or task names with --submission."
)
@click.option("--command", metavar="TEXT", help="Command line; --env-id and --seed are appended.")
@click.option("--submission", metavar="DIR", help="Folder of a submission, instead of --command.")
@click.option("--gin-config", "gin_configs", multiple=True, metavar="FILE",
              help="Gin file of the submission. Repeatable; every run executes them in order.")  # fmt: skip
@click.option("--num-seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Number of seeds.")
@click.option("--start-seed", type=int, default=1, show_default=True, help="First seed.")
@launch_options(
    "workers", "launcher", "launcher_option", "cpus", "gpus", "time_limit",
    workers={"type": click.IntRange(min=0), "default": 0, "help": "Runs at the same time; 0 only prints the commands."},
)  # fmt: skip
@click.option(
    "--auto-tag/--no-auto-tag", default=True, show_default=True, help="Tag runs with the version of the code."
)
@click.option("--look-up-pull-request", is_flag=True, help="Look up the pull request of the commit at the code host.")
@click.option("--pull-request-api", metavar="URL", help="Address of the code host's API, if it is not the usual one.")
@click.option(
    "--look-up-timeout",
    type=float,
    default=5.0,
    show_default=True,
    metavar="S",
    help="Time limit of that request, in seconds.",
)
@click.option("--dry-run", is_flag=True, help="Print the commands and the tags, and run nothing.")
@click.option("--store", metavar="DIR", help="Experiment store. Default: $A2PERF_STORE or ./runs.")
@click.option("--exp-name", metavar="NAME", help="Name of the experiment. Default: name of the script or submission.")
@click.option("--slurm-template-path", type=click.Path(path_type=Path), metavar="FILE",
              help="Fill in this job template and submit it.")  # fmt: skip
@click.option("--slurm-gpus-per-task", type=int, metavar="N", help="GPUs per task, for the job template.")
@click.option("--slurm-total-cpus", type=int, metavar="N", help="Processors of the job, for the job template.")
@click.option("--slurm-ntasks", type=int, metavar="N", help="Tasks of the job, for the job template.")
@click.option("--slurm-nodes", type=int, metavar="N", help="Nodes of the job, for the job template.")
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
    from a2perf.launch import State
    from a2perf.runs.store import store_folder

    launch = LaunchOptions(options)
    store = store_folder(options["store"])
    matrix = _planned(store, options)
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
    if options["slurm_template_path"] is not None:
        return _on_slurm(matrix, options)
    if options["dry_run"]:
        say("--dry-run: nothing was run")
        return 0
    if options["workers"] == 0:
        say("workers is set to 0: nothing was run; give --workers N to run the commands")
        return 0

    def kept(runs: Any) -> None:
        if runs:
            say(f"{len(runs)} of {len(matrix.runs)} runs are already finished")

    with launch.conductor() as conductor:
        result = run_matrix(matrix, conductor, resources=launch.resources(), on_kept=kept)
    # counts come from the queue, which also knows the runs of other processes on the same matrix
    counts = result.summary.counts if result.summary is not None else {}
    done = sum(len(run.commands) for run in result.kept) + counts.get(State.FINISHED, 0)
    failed = counts.get(State.FAILED, 0)
    left = len(lines) - done - failed
    say(f"{done} of {len(lines)} runs finished, {failed} failed" + (f", {left} left" if left else ""))
    say(f"store {store}, tags {', '.join(matrix.plan.tags) or 'none'}")
    if left:
        say("run the same command again to resume them")
    return result.exit_code


def _planned(store: Path, options: dict[str, Any]) -> Any:
    from a2perf.experiments.benchmark_matrix import command_matrix, submission_matrix, tagger

    if (options["command"] is None) == (options["submission"] is None):
        raise UserError("give either --command or --submission", hint='write --command "python train.py"')
    if options["command"] is not None and (options["gin_configs"] or options["evaluator_flags"]):
        raise UserError("--gin-config and flags after -- belong to --submission", hint="leave them out with --command")
    if options["submission"] is not None and not options["gin_configs"]:
        raise UserError("--submission needs --gin-config", hint="give --gin-config FILE")
    tag = None
    if options["auto_tag"]:
        tag = tagger(
            store,
            look_up=options["look_up_pull_request"],
            api=options["pull_request_api"],
            timeout_s=options["look_up_timeout"],
        )
    seeds = range(options["start_seed"], options["start_seed"] + options["num_seeds"])
    common: dict[str, Any] = {"tag": tag, "experiment": options["exp_name"], "environment": os.environ}
    if options["command"] is not None:
        alone = options["workers"] == 1 and options["launcher"] == "local" and options["slurm_template_path"] is None
        return command_matrix(store, options["command"], options["env_ids"], seeds, alone=alone, **common)
    return submission_matrix(
        store, Path(options["submission"]), options["gin_configs"], options["env_ids"], seeds,
        flags=options["evaluator_flags"], **common,
    )  # fmt: skip


def _on_slurm(matrix: Any, options: dict[str, Any]) -> int:
    from a2perf.experiments.slurm_template import SlurmShape, fill_in, submit

    if matrix.plan.source != "command":
        raise UserError("--slurm-template-path takes a --command", hint="use --launcher slurm for a submission")
    shape = SlurmShape(
        options["slurm_gpus_per_task"], options["slurm_total_cpus"], options["slurm_ntasks"], options["slurm_nodes"]
    )
    text = fill_in(options["slurm_template_path"], matrix, shape, options["workers"], options["env_ids"])
    if options["dry_run"]:
        click.echo(text, nl=False)
        return 0
    path, job = submit(text, matrix, Path("slurm"), really=options["workers"] > 0)
    click.echo(f"job file: {path}")
    click.echo(f"job id: {job}" if job is not None else "workers is set to 0: the job was not submitted")
    return 0
