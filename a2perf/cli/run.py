"""``a2perf run``, ``a2perf-launch`` and the earlier form ``a2perf FOLDER``: one run, or an experiment of many.

One submission, one gin file and at most one ``--task`` and ``--seed`` are one run, which executes in the foreground and
passes its exit status on. More of any of them are an experiment with a queue, workers and a summary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from a2perf.cli.launch_options import WITH_RESOURCES, LaunchOptions, launch_options
from a2perf.cli.shared_options import PARTICIPANT_ARGS, Words, WordsCommand
from a2perf.errors import ConfigError, command_line
from a2perf.experiments.planning import PlannedRun, domain_of, plan_runs
from a2perf.launch.local import LocalLauncher
from a2perf.runs.bundles.attempts import REASON_VARIABLE
from a2perf.submission.given_paths import submission_folder
from a2perf.submission.options import normalised, parse_participant_args
from a2perf.submission.participant_gin import environment_bindings
from a2perf.submission.run_options import OPTIONS, RunOptions, run_options
from a2perf.system import LINUX

_FOLDER_HINT = "give the folder that holds train.py and inference.py (a subcommand? `a2perf --help` lists them)"
_TRUE, _FALSE = ("true", "1", "t", "yes", "y"), ("false", "0", "f", "no", "n")


class _RunCommand(WordsCommand):
    """The command, with a hint for a folder that was given without its option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = _plain_words(self, ctx, args)
        if args and not args[0].startswith("-"):
            raise ConfigError(
                f"{ctx.command_path} does not take {args[0]!r}",
                hint=command_line(*ctx.command_path.split(), "--submission", args[0], "--gin-config", "FILE"),
            )
        return super().parse_args(ctx, args)


@click.command(cls=_RunCommand, context_settings=normalised())
@click.option(
    "--submission",
    "--participant-module-path",
    "submissions",
    cls=Words,
    required=True,
    metavar="DIR...",
    help="Folder of the submission. Several make an experiment.",
)
@click.option(
    "--gin-config",
    "--submission-gin-config-path",
    "gin_configs",
    cls=Words,
    metavar="FILE...",
    help="Gin file, with --task by default inference.gin; looked up in the working directory, in the submission's "
    "folder (where it may bind few settings), and among the packaged files of --domain or --task. Several files run "
    "one after the other for every seed.",
)
@click.option(
    "--root-dir",
    metavar="DIR",
    help="Folder of the run; default: runs/<submission>. An experiment writes to <submission>/<task>/seed_<n> below "
    "it; default: runs.",
)
@click.option(
    "--gin-bindings",
    "--extra-gin-bindings",
    cls=Words,
    metavar="BINDING...",
    help="Bindings that override the gin file, e.g. 'Submission.seed = 3'.",
)
@PARTICIPANT_ARGS
@click.option("--domain", metavar="NAME", help="Domain of the packaged gin files; `a2perf envs list` names them.")
@click.option(
    "--task",
    "--tasks",
    "--env-id",
    "tasks",
    cls=Words,
    metavar="NAME...",
    help="Task; sets the environment and selects its packaged gin files. Also the id of any environment of Gymnasium, "
    "with its package if it has to be imported: CartPole-v1, my_envs:Lander-v0. Several make an experiment.",
)
@click.option("--env-kwargs", metavar="JSON", help="Arguments of the environment, as a JSON object.")
@click.option(
    "--seed",
    "--seeds",
    "seeds",
    cls=Words,
    metavar="N...",
    help="Seed of the run. Several, e.g. 0 1 2 or 0-9, make an experiment.",
)
@click.option("--num-seeds", type=click.IntRange(min=1), hidden=True)
@click.option("--cpus", type=float, hidden=True)
@run_options(one_run=True, without=("metric_values_dir",))
@launch_options(
    "workers",
    "launcher",
    "force",
    "retry",
    launcher=WITH_RESOURCES,
    workers={"default": None, "help": "Number of runs at the same time; default: 1.", "show_default": False},
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--verbosity", metavar="LEVEL", help="Messages of the run: debug, info, warning, error or fatal.")
def run(**options: Any) -> int:
    """Run a submission, or an experiment of many runs.

    \b
    Examples:
      a2perf run --submission my_agent --gin-config inference.gin
      a2perf run --submission my_agent --gin-config inference.gin --task dog_pace
      a2perf run --submission a b --gin-config training.gin inference.gin --seeds 0-9 --workers 4

    Several submissions, gin files, tasks or seeds make an experiment. Run the same command again to resume it.

    a2perf-launch is another name of this command. `a2perf DIR --root-dir=DIR --submission-gin-config-path=FILE`, the
    earlier form, still works; write ./NAME for a folder that has the name of a command. Flags in the form of absl-py
    work too: --flagfile=FILE, --noNAME, --NAME=true, --helpfull.

    Exit status of a run: 0 success, 1 the participant failed, 2 usage or configuration, 3 infrastructure, 130
    interrupted. Exit status of an experiment: 0 all runs finished, 1 some failed, 3 infrastructure.
    """  # noqa: D301
    for given in options["submissions"]:
        submission_folder(given, _FOLDER_HINT)
    if not options["gin_configs"]:
        if not options["tasks"]:
            raise ConfigError("neither --gin-config nor --task was given", hint="add --gin-config FILE or --task NAME")
        options["gin_configs"] = ("inference.gin",)
    options["gin_bindings"] = (*_environment_bindings(options["env_kwargs"]), *options["gin_bindings"])
    parse_participant_args(options["participant_args"])
    chosen = RunOptions.taken_from(options)
    if options["cpus"]:  # like --num-seeds a form of earlier command lines, as READMEs of hashed examples have it
        options["launcher"] = options["launcher"]._replace(cpus=options["cpus"])
    launch = LaunchOptions(options)
    options["tasks"] = tuple(name for given in options["tasks"] for name in given.split(",") if name)
    options["seeds"] = _seeds(options["seeds"], options["num_seeds"])
    many = any(len(options[name]) > 1 for name in ("submissions", "gin_configs", "tasks", "seeds"))
    if many or options["num_seeds"] or options["workers"]:
        return _experiment(options, chosen, launch)
    return _one_run(options, chosen, launch)


def _environment_bindings(given: str | None) -> list[str]:
    """Returns the gin bindings of ``--env-kwargs``."""
    try:
        kwargs = json.loads("{}" if given is None else given)
    except ValueError:
        kwargs = given
    return environment_bindings(kwargs, "--env-kwargs", """--env-kwargs '{"gravity": -5.0}'""")


def _one_run(options: dict[str, Any], chosen: RunOptions, launch: LaunchOptions) -> int:
    folder, settings = Path(options["submissions"][0]).expanduser(), _settings(options, chosen, launch)
    settings["flags"] += (*["--force"] * options["force"], *["--json"] * options["as_json"])
    run = PlannedRun(
        submission=folder,
        gin_file=options["gin_configs"][0],
        root=options["root_dir"] or Path("runs") / folder.resolve().name,
        task=next(iter(options["tasks"]), None),
        seed=next(iter(options["seeds"]), None),
        env={REASON_VARIABLE: reason} if (reason := launch.restart().reason) else {},
        **settings,
    )
    launcher = launch.launcher()
    if isinstance(launcher, LocalLauncher):
        launcher.forks = LINUX and bool(click.get_current_context().obj)
        return launcher.run(run.command())
    return launcher.run(run.command(domain=domain_of(run)))  # it may choose an image


def _experiment(options: dict[str, Any], chosen: RunOptions, launch: LaunchOptions) -> int:
    from a2perf.cli.experiment import run_specs

    for name in chosen.given:
        if OPTIONS[name].one_run:
            raise ConfigError(f"{_flag(name)} is for one run, this is an experiment", hint=f"leave {_flag(name)} out")
    root = Path(options["root_dir"] or "runs").expanduser().absolute()
    specs = plan_runs(
        root,
        [Path(given).expanduser() for given in options["submissions"]],
        options["gin_configs"],
        tasks=options["tasks"],
        seeds=options["seeds"] or (0,),
        **_settings(options, chosen, launch),
    )
    return run_specs(specs, root, launch, json_output=options["as_json"])


def _settings(options: dict[str, Any], chosen: RunOptions, launch: LaunchOptions) -> dict[str, Any]:
    """Returns the settings that every run of the command has, as fields of ``PlannedRun``."""
    return {
        "domain": options["domain"],
        "participant_args": options["participant_args"],
        "options": chosen,
        "bindings": tuple(options["gin_bindings"]),
        "flags": ("--verbosity", options["verbosity"]) if options["verbosity"] else (),
        "resources": launch.resources(chosen),
    }


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _seeds(words: Sequence[str], count: int | None) -> tuple[int, ...]:
    found = tuple(seed for given in words for word in given.split(",") for seed in _span(word))
    if count is None:
        return found
    if len(found) > 1:
        raise ConfigError("several seeds were given with --num-seeds", hint="name the seeds in one way")
    first = next(iter(found), 0)
    return tuple(range(first, first + count))


def _span(word: str) -> Sequence[int]:
    """Returns the seeds of ``"3"`` or ``"0-9"``."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
    if found is None or (found[2] and int(found[2]) < int(found[1])):
        raise ConfigError(f"--seed: {word!r} is not a seed", hint="write whole numbers, or a span such as 0-9")
    return range(int(found[1]), int(found[2] or found[1]) + 1)


def _plain_words(command: click.Command, ctx: click.Context, words: Sequence[str]) -> list[str]:
    """Returns the words of a command line without the forms that only absl-py has.

    They are ``--flagfile``, ``--noflag``, ``--flag=true``, ``-flag`` and ``--helpfull``. absl reads the flag files.
    """
    normalise = ctx.token_normalize_func or (lambda name: name)
    switches = {
        name.removeprefix("--"): isinstance(option, click.Option) and option.is_flag
        for option in command.params
        if isinstance(option, click.Option) and (option.is_flag or option.type is click.BOOL)
        for name in map(normalise, option.opts)
        if name.startswith("--")
    }
    long = {normalise(name.removeprefix("--")) for option in command.params for name in option.opts if name[:2] == "--"}
    found: list[str] = []
    given = list(_expanded(words))
    for position, word in enumerate(given):
        if word == "--":
            return [*found, *given[position:]]
        if word.startswith("-") and normalise(word[1:].partition("=")[0]) in long:
            word = f"-{word}"
        name, equals, value = word.partition("=")
        name = normalise(name.lstrip("-")) if word.startswith("--") else ""
        if name in ("helpfull", "helpshort"):
            found.append("--help")
        elif name in switches and switches[name] and equals and value.lower() in (*_TRUE, *_FALSE):
            found = _without(found, name, normalise) + ([f"--{name}"] if value.lower() in _TRUE else [])
        elif name.startswith("no") and not equals and name[2:].lstrip("-") in switches:
            switch = name[2:].lstrip("-")
            found = _without(found, switch, normalise) + ([] if switches[switch] else [f"--{switch}=False"])
        else:
            found.append(word)
    return found


def _without(words: Sequence[str], name: str, normalise: object) -> list[str]:
    assert callable(normalise)
    return [word for word in words if normalise(word.partition("=")[0].removeprefix("--")) != name]


def _expanded(words: Sequence[str]) -> list[str]:
    if not any(word.lstrip("-").startswith("flagfile") for word in words):
        return list(words)
    from absl import flags

    try:
        return list(flags.FlagValues().read_flags_from_files(words))  # type: ignore[no-untyped-call]
    except flags.Error as error:
        raise ConfigError(f"the flag file cannot be read: {error}", hint="give --flagfile=FILE") from error
