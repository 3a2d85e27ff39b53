"""``a2perf run``, ``a2perf-launch`` and the classic ``a2perf FOLDER``: one run, or an experiment of many.

One submission, one gin file, at most one ``--task`` and ``--seed`` is one run, executed in the foreground with its own
exit status. More of any of them is an experiment with a queue, workers and a summary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from a2perf.cli.launch_options import LaunchOptions, launch_options
from a2perf.cli.word_lists import Words, WordsCommand
from a2perf.errors import ConfigError
from a2perf.launch.run_spec import RunCommand
from a2perf.submission.options import normalised, parse_participant_args
from a2perf.submission.run_options import OPTIONS, RunOptions, run_options

_RETRIES = ("retry_failed", "retry_infrastructure")


@click.command(cls=WordsCommand, context_settings=normalised())
@click.option(
    "--submission", "--participant-module-path", "submissions", cls=Words, required=True, metavar="DIR...",
    help="The submission's folder; several make an experiment.",
)  # fmt: skip
@click.option(
    "--gin-config", "--submission-gin-config-path", "gin_configs", cls=Words, required=True, metavar="FILE...",
    help="Looked up here, in the submission's folder (then it may set a few things only), then among the packaged "
    "files of --domain. Several files of different modes run one after the other for every seed.",
)  # fmt: skip
@click.option(
    "--root-dir", metavar="DIR",
    help="Folder of the run, `runs/<submission>` by default; of an experiment, `runs` by default, with its runs in "
    "<submission>/<task>/seed_<n>.",
)  # fmt: skip
@click.option("--gin-bindings", "--extra-gin-bindings", multiple=True, metavar="BINDING", help="Overrides, repeatable.")
@click.option(
    "--participant-args", default="", metavar="K=V,...", help="Passed to train() and load_policy() as strings."
)
@click.option("--domain", metavar="NAME", help="Name of a domain.")
@click.option("--task", metavar="NAME", help="Name of a task; sets the environment.")
@click.option("--tasks", cls=Words, metavar="NAME...", help="Tasks of an experiment.")
@click.option("--seed", type=click.IntRange(min=0), help="Root seed of the run; with --num-seeds the first of them.")
@click.option("--seeds", cls=Words, metavar="N...", help="Root seeds of an experiment: 0 1 2, or 0-9.")
@click.option("--num-seeds", type=click.IntRange(min=1), metavar="N", help="How many seeds, from --seed or 0 on.")
@run_options(one_run=True, without=("memory_limit_bytes",))
@launch_options(workers={"default": None, "help": "Runs at the same time; 1 by default.", "show_default": False})
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--verbosity", metavar="LEVEL", help="Log level of the evaluator.")
def run(**options: Any) -> int:
    """Run a submission under a gin configuration, or an experiment of many runs.

    Several submissions, gin files, --tasks or --seeds make an experiment: the same command again finishes what is
    unfinished. Exit status of a run: 0 success, 1 the participant failed, 2 usage or configuration, 3 infrastructure,
    130 interrupted; of an experiment: 0 all runs finished, 1 some failed, 3 the infrastructure failed one.
    """
    for given in options["submissions"]:
        _check_folder(given)
    parse_participant_args(options["participant_args"])
    chosen = RunOptions.taken_from(options)
    launch = LaunchOptions(options)
    many = len(options["submissions"]) > 1 or len(options["gin_configs"]) > 1
    if many or any(options[name] for name in ("tasks", "seeds", "num_seeds", "workers", *_RETRIES)):
        return _experiment(options, chosen, launch)
    return _one_run(options, chosen, launch)


def _one_run(options: dict[str, Any], chosen: RunOptions, launch: LaunchOptions) -> int:
    resources = launch.resources()
    folder = Path(options["submissions"][0]).expanduser()
    root = options["root_dir"] or str(Path("runs") / folder.resolve().name)
    flags = [
        "--participant-module-path", str(folder),
        "--submission-gin-config-path", options["gin_configs"][0],
        "--root-dir", root,
    ]  # fmt: skip
    for name in ("participant_args", "domain", "task", "seed", "verbosity"):
        flags += _given(name, options)
    flags += chosen.with_(memory_limit_bytes=resources.memory_bytes).words()
    for binding in options["gin_bindings"]:
        flags += ["--extra-gin-bindings", binding]
    for name, flag in (("force", "--force"), ("as_json", "--json")):
        if options[name]:
            flags.append(flag)
    command = RunCommand.evaluator(
        flags,
        name=folder.resolve().name,
        resources=resources,
        domain=options["domain"],
        readable=(folder.resolve(), *_files(options["gin_configs"], chosen)),
        writable=tuple(Path(path).expanduser().absolute() for path in (root, chosen.get("metric_values_dir")) if path),
    )
    return launch.launcher().run(command)


def _experiment(options: dict[str, Any], chosen: RunOptions, launch: LaunchOptions) -> int:
    from a2perf.cli.experiment import run_experiment
    from a2perf.experiments.experiment import Experiment

    for name in chosen.given:
        if OPTIONS[name].one_run:
            raise ConfigError(f"{_flag(name)} is for one run, this is an experiment", hint=f"leave {_flag(name)} out")
    if options["task"] is not None and options["tasks"]:
        raise ConfigError("both --task and --tasks were given", hint="name every task with --tasks")
    tasks = [name for given in options["tasks"] for name in given.split(",") if name]
    experiment = Experiment(
        root=Path(options["root_dir"] or "runs").expanduser().absolute(),
        submissions=tuple(Path(given).expanduser() for given in options["submissions"]),
        gin_configs=tuple(options["gin_configs"]),
        tasks=tuple(tasks) or ((options["task"],) if options["task"] else ()),
        seeds=_seeds(options),
        domain=options["domain"],
        bindings=tuple(options["gin_bindings"]),
        flags=(*chosen.words(), *_given("verbosity", options)),
        participant_args=options["participant_args"],
        resources=launch.resources(),
    )
    return run_experiment(experiment, launch, json_output=options["as_json"])


def _check_folder(given: str) -> None:
    folder = Path(given).expanduser()
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "does not exist"
        raise ConfigError(
            f"the submission folder {given} {kind}",
            hint="give the folder that holds train.py and inference.py (a subcommand? `a2perf --help` lists them)",
        )


def _given(name: str, options: dict[str, Any]) -> list[str]:
    return [] if options[name] in (None, "") else [_flag(name), str(options[name])]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _files(gin_configs: Sequence[str], chosen: RunOptions) -> list[Path]:
    given = [*gin_configs, chosen.get("datasets_path")]
    return [Path(path).expanduser().absolute() for path in given if path and Path(path).expanduser().exists()]


def _seeds(options: dict[str, Any]) -> tuple[int, ...]:
    if options["seeds"]:
        if options["seed"] is not None or options["num_seeds"] is not None:
            raise ConfigError("--seeds was given with --seed or --num-seeds", hint="name the seeds in one way")
        return tuple(seed for given in options["seeds"] for word in given.split(",") for seed in _span(word))
    first = options["seed"] or 0
    return tuple(range(first, first + (options["num_seeds"] or 1)))


def _span(word: str) -> Sequence[int]:
    """Returns the seeds of ``"3"`` or ``"0-9"``."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
    if found is None or (found[2] and int(found[2]) < int(found[1])):
        raise ConfigError(f"--seeds: {word!r} is not a seed", hint="write whole numbers, or a span such as 0-9")
    return range(int(found[1]), int(found[2] or found[1]) + 1)
