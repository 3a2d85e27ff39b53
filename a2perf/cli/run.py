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

from a2perf.errors import ConfigError
from a2perf.launch.interface import LAUNCHERS, Resources, RunCommand, get_launcher
from a2perf.submission.options import normalised, parse_participant_args
from a2perf.submission.participant_settings import TRUST_FLAG

_PASSED_ON = (
    "sandbox",
    "python_env",
    "participant_python",
    "datasets_path",
    "seeds_from",
    "verbosity",
)
_RETRIES = ("retry_failed", "retry_infrastructure")
_ONLY_OF_ONE_RUN = ("metric_values_dir", "run_offline_metrics_only")
_LISTS = ("--tasks", "--seeds", "--submission", "--gin-config")
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class _ListsCommand(click.Command):
    """Lets ``--tasks a b c`` stand for ``--tasks a --tasks b --tasks c``; there are no positional arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread: list[str] = []
        repeating: str | None = None
        since = 0
        for word in args:
            if word.startswith("-") and not re.fullmatch(r"-\d+", word):
                name, equals, _ = word.partition("=")
                name = name.replace("_", "-")
                repeating, since = (name if name in _LISTS else None), len(equals)
            elif repeating is not None:
                since += 1
                if since > 1:
                    spread.append(repeating)
            spread.append(word)
        return super().parse_args(ctx, spread)


@click.command(cls=_ListsCommand, context_settings=normalised())
@click.option(
    "--submission", "--participant-module-path", "submissions", required=True, multiple=True, metavar="DIR...",
    help="The submission's folder; several make an experiment.",
)  # fmt: skip
@click.option(
    "--gin-config", "--submission-gin-config-path", "gin_configs", required=True, multiple=True, metavar="FILE...",
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
@click.option("--tasks", multiple=True, metavar="NAME...", help="Tasks of an experiment.")
@click.option("--seed", type=click.IntRange(min=0), help="Root seed of the run; with --num-seeds the first of them.")
@click.option("--seeds", multiple=True, metavar="N...", help="Root seeds of an experiment: 0 1 2, or 0-9.")
@click.option(
    "--public-seeds", is_flag=True,
    help="Derive every seed from the root seed alone, as the submission can, too; for comparisons and teaching.",
)  # fmt: skip
@click.option("--seeds-from", metavar="BUNDLE", help="Repeat with the seeds that a bundle of another host recorded.")
@click.option("--num-seeds", type=click.IntRange(min=1), metavar="N", help="How many seeds, from --seed or 0 on.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Runs at the same time; 1 by default.")
@click.option("--cpus", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Processors of one run.")
@click.option("--memory", metavar="SIZE", help="Memory of a run's participant: 4G, 512M.")
@click.option("--gpus", type=click.IntRange(min=0), default=0, metavar="N", help="Graphics processors of one run.")
@click.option("--time-limit", metavar="TIME", help="Wall time of one run: 90m, 2h, or seconds.")
@click.option(
    "--sandbox", metavar="LEVEL",
    help="How the participant process is confined: none, process, bubblewrap or docker; by default the better one of "
    "process and bubblewrap that this host offers.",
)  # fmt: skip
@click.option(
    "--allow-weaker", is_flag=True, help="Run although the sandbox or a limit cannot be had here; it is recorded."
)
@click.option(
    "--python-env", metavar="KIND",
    help="Packages of the participant process: shared (a2perf's own) or isolated (made of its requirements.txt).",
)  # fmt: skip
@click.option(
    "--python-env-find-links", multiple=True, metavar="DIR", help="Folder of wheels for an isolated environment."
)
@click.option("--participant-python", metavar="FILE", help="Interpreter of the participant process.")
@click.option(
    "--trust-submission-config", is_flag=True,
    help="Evaluate gin files in the submission's folder in full, which runs what they import; for your own code.",
)  # fmt: skip
@click.option("--metric-values-dir", metavar="DIR", help="Where the classic result files go; ROOT/metrics by default.")
@click.option(
    "--run-offline-metrics-only", type=bool, is_flag=False, flag_value=True, default=None,
    help="Recompute the metrics of a recorded run and run nothing.",
)  # fmt: skip
@click.option("--datasets-path", metavar="DIR", help="Folder of datasets.")
@click.option(
    "--launcher", default="local", show_default=True, metavar="NAME",
    help=f"Where runs execute: {', '.join(LAUNCHERS)}.",
)  # fmt: skip
@click.option("--launcher-option", multiple=True, metavar="K=V", help="Option of the launcher, repeatable.")
@click.option("--force", is_flag=True, help="Put existing runs aside and start anew.")
@click.option("--retry-failed", is_flag=True, help="Run an experiment's failed runs again, whatever their failure.")
@click.option(
    "--retry-infrastructure", is_flag=True,
    help="Start runs again that the infrastructure failed after the participant had started; recorded in the run.",
)  # fmt: skip
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
    resources = Resources(
        cpus=options["cpus"],
        memory_bytes=_quantity(options["memory"], _UNITS, "--memory", "4G or 512M"),
        gpus=options["gpus"],
        wall_s=_quantity(options["time_limit"], _SECONDS, "--time-limit", "90m, 2h or seconds"),
    )
    many = len(options["submissions"]) > 1 or len(options["gin_configs"]) > 1
    if many or any(options[name] for name in ("tasks", "seeds", "num_seeds", "workers", *_RETRIES)):
        return _experiment(options, resources)
    return _one_run(options, resources)


def _one_run(options: dict[str, Any], resources: Resources) -> int:
    folder = Path(options["submissions"][0]).expanduser()
    root = options["root_dir"] or str(Path("runs") / folder.resolve().name)
    flags = [
        "--participant-module-path", str(folder),
        "--submission-gin-config-path", options["gin_configs"][0],
        "--root-dir", root,
    ]  # fmt: skip
    for name in ("participant_args", "domain", "task", "seed", "metric_values_dir"):
        if options[name] not in (None, ""):
            flags += [_flag(name), str(options[name])]
    flags += _shared_flags(options)
    if resources.memory_bytes is not None:
        flags += ["--memory-limit-bytes", str(resources.memory_bytes)]
    for binding in options["gin_bindings"]:
        flags += ["--extra-gin-bindings", binding]
    if options["run_offline_metrics_only"] is not None:
        flags.append(f"--run-offline-metrics-only={options['run_offline_metrics_only']}")
    for name, flag in (("force", "--force"), ("as_json", "--json")):
        if options[name]:
            flags.append(flag)
    command = RunCommand.evaluator(
        flags,
        name=folder.resolve().name,
        resources=resources,
        domain=options["domain"],
        readable=(folder.resolve(), *_files(options)),
        writable=tuple(Path(path).expanduser().absolute() for path in (root, options["metric_values_dir"]) if path),
    )
    return get_launcher(options["launcher"], **_launcher_options(options)).run(command)


def _experiment(options: dict[str, Any], resources: Resources) -> int:
    from a2perf.cli.experiment import run_experiment
    from a2perf.experiments.plan import Experiment

    for name in _ONLY_OF_ONE_RUN:
        if options[name] is not None:
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
        flags=tuple(_shared_flags(options)),
        participant_args=options["participant_args"],
        resources=resources,
    )
    return run_experiment(
        experiment,
        get_launcher(options["launcher"], **_launcher_options(options)),
        options["workers"] or 1,
        force=options["force"],
        retry_failed=options["retry_failed"],
        retry_infrastructure=options["retry_infrastructure"],
        json_output=options["as_json"],
    )


def _check_folder(given: str) -> None:
    folder = Path(given).expanduser()
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "does not exist"
        raise ConfigError(
            f"the submission folder {given} {kind}",
            hint="give the folder that holds train.py and inference.py (a subcommand? `a2perf --help` lists them)",
        )


def _shared_flags(options: dict[str, Any]) -> list[str]:
    flags: list[str] = []
    for name in _PASSED_ON:
        if options[name] not in (None, ""):
            flags += [_flag(name), str(options[name])]
    for folder_of_wheels in options["python_env_find_links"]:
        flags += ["--python-env-find-links", folder_of_wheels]
    if options["allow_weaker"]:
        flags.append("--allow-weaker")
    if options["public_seeds"]:
        flags.append("--public-seeds")
    if options["trust_submission_config"]:
        flags.append(TRUST_FLAG)
    return flags


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _files(options: dict[str, Any]) -> list[Path]:
    given = [*options["gin_configs"], options["datasets_path"]]
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
        raise ConfigError(f"--seeds: {word!r} is no seed", hint="write whole numbers, or a span such as 0-9")
    return range(int(found[1]), int(found[2] or found[1]) + 1)


def _quantity(given: str | None, units: dict[str, int], flag: str, example: str) -> int | None:
    if given is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]?)(?:i?b)?", given.strip().lower())
    if found is None or found[2] not in units or float(found[1]) == 0:
        raise ConfigError(f"{flag}: {given!r} is not valid", hint=f"write {example}")
    return int(float(found[1]) * units[found[2]])


def _launcher_options(options: dict[str, Any]) -> dict[str, str]:
    return parse_participant_args(",".join(options["launcher_option"]))
