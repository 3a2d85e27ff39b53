"""``a2perf wrap``: run a plain script with ``main(env=...)`` and record what it does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from a2perf.cli.launch_options import LaunchOptions, launch_options
from a2perf.cli.shared_options import STORE
from a2perf.errors import ConfigError
from a2perf.submission.options import normalised
from a2perf.submission.run_options import run_options


@click.command(context_settings={**normalised(), "ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT] [-- SCRIPT_ARGUMENTS]")
@click.option(
    "--env", required=True, envvar="BENCH_ENV", show_envvar=True, metavar="NAME", help="Environment that main() gets."
)
@click.option("--seed", type=int, required=True, envvar="BENCH_SEED", show_envvar=True, help="Seed of the run.")
@click.option("--root-dir", metavar="DIR", help="Folder of the run. Default: a new folder of the store.")
@STORE
@run_options("sandbox", sandbox={"default": "process", "show_default": True, "help": "How the script is confined."})
@click.option(
    "--test-episodes",
    type=click.IntRange(0),
    default=25,
    show_default=True,
    metavar="N",
    help="Number of test episodes after training.",
)
@click.option(
    "--videos",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    metavar="N",
    help="Number of test episodes that are filmed.",
)
@launch_options("run_time_limit_s", "force")
@click.option(
    "--wandb-project-name",
    "mirror",
    default="",
    metavar="[ENTITY/]NAME",
    help="Project of Weights & Biases that receives a copy of the values.",
)
@click.option("--wandb-entity", "mirror_entity", default="", hidden=True)
def wrap(words: tuple[str, ...], env: str, seed: int, root_dir: str | None, store: str | None, **given: Any) -> int:
    """Run an unmodified SCRIPT that has a function `main(env='Name')`, and record it.

    \b
    Example:
      a2perf wrap ppo.py --env Hopper-v4 --seed 1 -- --learning-rate 3e-4

    a2perf records the values that the script logs and saves its weights. If the script returns a policy, it is
    evaluated on test episodes, and some of them are filmed. The variables BENCH_SCRIPT, BENCH_ENV and BENCH_SEED
    replace SCRIPT, --env and --seed; all other arguments then belong to the script.
    """  # noqa: D301
    from a2perf.experiments.script_wrapper.order import ScriptOrder
    from a2perf.experiments.script_wrapper.run import new_run_folder, run
    from a2perf.submission.evaluator.progress import RunProgress

    script = os.environ.get("BENCH_SCRIPT")
    if script is None:
        if not words:
            raise ConfigError("no script was given", hint="a2perf wrap SCRIPT --env NAME --seed N, or set BENCH_SCRIPT")
        script, words = words[0], words[1:]
    launch = LaunchOptions.taken_from(given)
    entity, _, given["mirror"] = given["mirror"].rpartition("/")
    given["mirror_entity"] = given["mirror_entity"] or entity
    wanted = ScriptOrder(
        script=str(Path(script).expanduser()),
        env=env,
        seed=seed,
        arguments=list(words),
        time_limit_s=launch.resources().wall_s,
        **given,
    )
    root = Path(root_dir).expanduser().absolute() if root_dir else new_run_folder(wanted, store)
    progress = RunProgress()
    progress.say(f"wrapping {wanted.script} on {wanted.env}, seed {wanted.seed}, into {root}")
    return run(wanted, root, progress, force=launch.restart().force)
