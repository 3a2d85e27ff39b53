"""The command lines ``a2perf`` and ``a2perf-launch``: parse, call, print.

Subcommands are imported when they are used.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import sys
import traceback
from collections.abc import Sequence

import click

from a2perf._version import __version__
from a2perf.constants import ExitCode
from a2perf.errors import UserError
from a2perf.submission.options import normalised
from a2perf.terminal import guarded

_LINE_BREAK = re.compile(r"\n(?=\S)")
_COMMANDS = {
    "run": ("a2perf.cli.run:run", "Run a submission under a gin configuration, or an experiment of many runs."),
    "status": ("a2perf.cli.status:status", "Say how the runs of an experiment stand."),
    "submit": ("a2perf.cli.submit:submit_command", "Run a whole protocol for a submission, into one scored bundle."),
    "protocol": ("a2perf.cli.protocol:protocol", "Show what a protocol asks, and its reference scores."),
    "init": ("a2perf.cli.init:init", "Make a new submission folder from a template."),
    "check": ("a2perf.cli.check:check", "Check a submission folder and list every problem at once."),
    "envs": ("a2perf.cli.envs:envs", "List the environments."),
    "data": ("a2perf.cli.data:data", "Fetch, list and show data."),
    "datasets": ("a2perf.cli.datasets:datasets", "Make, combine, inspect and validate offline datasets."),
    "report": ("a2perf.cli.report:report", "Write the report of runs."),
    "score": ("a2perf.cli.score:score", "Score recorded runs from their files alone."),
    "leaderboard": ("a2perf.cli.leaderboard:leaderboard", "Build a leaderboard from recorded runs."),
    "validate": ("a2perf.cli.validate:validate", "Check recorded runs without running anything."),
    "sign": ("a2perf.cli.sign:sign", "Sign recorded runs."),
    "verify": ("a2perf.cli.sign:verify", "Check recorded runs, their signatures and whose they are."),
    "pack": ("a2perf.cli.pack:pack", "Pack finished runs into one file."),
    "unpack": ("a2perf.cli.pack:unpack", "Unpack a file of packed runs."),
    "competition": ("a2perf.cli.competition:competition", "Create a competition, run entrants, publish the results."),
    "python-env": ("a2perf.cli.python_env:python_env", "List and prune the environments made for submissions."),
    "images": ("a2perf.cli.images:images", "List, build and remove the images of the docker launcher."),
    "wrap": ("a2perf.cli.wrap:wrap", "Run a plain script with main(env=...) and record it."),
    "perftest": ("a2perf.cli.perftest:perftest", "Test whether k of n trainings reach a value."),
    "smoketest": ("a2perf.cli.smoketest:smoketest", "Try everything with everything else, shortly."),
    "doctor": ("a2perf.cli.doctor:doctor", "Say what this host can do and what it lacks."),
    "benchmark": ("a2perf.cli.benchmark:benchmark", "Run a command or submission over environments and seeds."),
    "rlops": ("a2perf.cli.rlops:rlops", "Compare groups of runs and judge a change; tag runs; import logs."),
    "demo": ("a2perf.cli.demo:demo", "Run the demonstration and write its report."),
}
_ALIASES = {
    "rlops-tags": "a2perf.cli.rlops_tags:rlops_tags",
    "rlops-import": "a2perf.cli.rlops_import:import_command",
}
"""Earlier names; they work and are not listed."""


class _LazyGroup(click.Group):
    """A group whose commands are imported on use; a first word that is no command is a submission's folder."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _COMMANDS[cmd_name][0] if cmd_name in _COMMANDS else _ALIASES.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in {**_COMMANDS, **_ALIASES} and (os.sep in args[0] or os.path.exists(args[0])):
            return "run", self.get_command(ctx, "run"), ["--submission", *args]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings=normalised())
@click.version_option(__version__, prog_name="a2perf")
def cli() -> None:
    """Run, measure and score reinforcement-learning submissions.

    The classic form `a2perf FOLDER --root-dir=DIR --submission-gin-config-path=FILE` runs the submission in FOLDER; a
    folder named like a command is given as `./name`.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``a2perf``."""
    _run(cli, arguments)


def launch_main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``a2perf-launch``."""
    from a2perf.cli.run import run

    _run(run, arguments, name="a2perf-launch")


def _run(command: click.Command, arguments: Sequence[str] | None, name: str = "a2perf") -> None:
    with guarded():
        sys.exit(_status(command, arguments, name))


def _status(command: click.Command, arguments: Sequence[str] | None, name: str) -> int:
    """Runs a command; every end but a bug's is shown without a traceback."""
    try:
        result = command.main(
            list(sys.argv[1:] if arguments is None else arguments), prog_name=name, standalone_mode=False
        )
        return result if isinstance(result, int) else 0
    except UserError as error:
        # further lines are indented, which tells them from lines of ours
        shown = _LINE_BREAK.sub("\n    ", str(error))
        click.echo(f"{name}: {shown}", err=True)
        return int(error.exit_code)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            traceback.print_exc()
            return 1
        where = "" if error.filename is None else f" to write {error.filename}"
        click.echo(f"{name}: no space left{where}\n  hint: free some space, then give the same command again", err=True)
        return int(ExitCode.INFRASTRUCTURE)
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Exception:  # a bug; the guard is still there, since a message may hold a stranger's words
        traceback.print_exc()
        return 1
