"""The programs ``a2perf`` and ``a2perf-launch``. A subcommand is imported when it is used."""

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
from a2perf.cli.extensible import BROUGHT_BY, ExtensibleGroup, distributions, instead_of
from a2perf.cli.given_once import given_once
from a2perf.constants import ExitCode
from a2perf.errors import UserError, did_you_mean, with_hint
from a2perf.submission.options import normalised
from a2perf.submission.run_services import brought_by
from a2perf.terminal import guarded

_LINE_BREAK = re.compile(r"\n(?=\S)")
_SUGGESTION = re.compile(r"\.? \(?(Did you mean|Possible options:) (.*?)[?)]?$", re.DOTALL)
_OTHER_NAMES = re.compile(r"('--[\w-]+')(?: / '--[\w-]+')+")
_EXTRA = re.compile(r"got unexpected extra arguments? \((\S+)")
_SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "demo": ("a2perf.cli.demo:demo", "See everything at work: evaluate, train, report."),
        "run": ("a2perf.cli.run:run", "Run a submission, or an experiment of many runs."),
        "status": ("a2perf.cli.experiment:status", "Show the progress of an experiment."),
        "submit": ("a2perf.cli.submit:submit_command", "Run a whole protocol into one scored bundle."),
        "wrap": ("a2perf.cli.wrap:wrap", "Run a plain script with main(env=...) and record it."),
        "benchmark": ("a2perf.cli.benchmark:benchmark", "Run a command over environments and seeds."),
        "smoketest": ("a2perf.cli.smoketest:smoketest", "Smoke-test every algorithm on every environment."),
        "perftest": ("a2perf.cli.perftest:perftest", "Test whether k of n training runs reach a value."),
        "experiment": ("a2perf.cli.experiment:experiment", "Run a kind of experiment from a package."),
    },
    "Look": {
        "report": ("a2perf.cli.results:report", "Write the report of recorded runs."),
        "score": ("a2perf.cli.results:score", "Score recorded runs."),
        "envs": ("a2perf.cli.data:envs", "List environments and tasks."),
        "protocol": ("a2perf.cli.protocol:protocol", "Show the tasks and reference scores of a protocol."),
    },
    "Compare": {
        "leaderboard": ("a2perf.cli.results:leaderboard", "Build a leaderboard from recorded runs."),
        "compare": ("a2perf.cli.compare:compare", "Compare recorded runs: which is better?"),
        "rlops": ("a2perf.cli.rlops:rlops", "Compare groups of runs and find regressions."),
    },
    "Publish": {
        "validate": ("a2perf.cli.bundles:validate", "Check the files and signatures of recorded runs."),
        "reproduce": ("a2perf.cli.reproduce:reproduce", "Repeat recorded runs and compare the results."),
        "sign": ("a2perf.cli.bundles:sign", "Sign recorded runs."),
        "export": ("a2perf.cli.export:export", "Export recorded runs to the formats of other tools."),
        "pack": ("a2perf.cli.bundles:pack", "Pack finished runs into one file."),
        "unpack": ("a2perf.cli.bundles:unpack", "Unpack a file of packed runs."),
    },
    "Set up": {
        "doctor": ("a2perf.cli.doctor:doctor", "Show what this machine supports and what is missing."),
        "init": ("a2perf.cli.submission_folder:init", "Create a submission folder from a template."),
        "check": ("a2perf.cli.submission_folder:check", "Check a submission folder; list every problem."),
        "data": ("a2perf.cli.data:data", "Fetch and list the data files of environments."),
        "python-env": ("a2perf.cli.python_env:python_env", "List and remove environments of submissions."),
    },
}
SECTIONS = {
    heading: {name: summary for name, (_, summary) in commands.items()} for heading, commands in _SECTIONS.items()
}
"""Summaries of commands by section of the help, the most used first."""
_COMMANDS = {name: command for section in _SECTIONS.values() for name, command in section.items()}
_ALIASES = {
    "rlops-tags": "a2perf.cli.rlops:rlops_tags",
    "rlops-import": "a2perf.cli.rlops:import_command",
}
"""Earlier names; they still work and are not listed."""


class _LazyGroup(ExtensibleGroup):
    """A group that imports a command when it is used. A first argument that is a path stands for a submission."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _COMMANDS[cmd_name][0] if cmd_name in _COMMANDS else _ALIASES.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = {*_COMMANDS, *_ALIASES, *BROUGHT_BY}
        is_command = args and (args[0] in known or args[0] in super().list_commands(ctx))
        if args and not is_command and (os.sep in args[0] or os.path.exists(args[0])):
            return "run", self.get_command(ctx, "run"), ["--submission", *args]
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = {**SECTIONS, **distributions()}
        width = max(map(len, _COMMANDS))  # the same for all sections
        for heading, commands in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<{width}}", summary) for name, summary in commands.items()])


@click.group(cls=_LazyGroup, context_settings=normalised())
@click.version_option(__version__, prog_name="a2perf")
def cli() -> None:
    """Run, measure and score reinforcement-learning agents.

    \b
    Examples:
      a2perf demo
      a2perf init my_agent
      a2perf run --submission my_agent --gin-config inference.gin
      a2perf report runs/my_agent -o report
    """  # noqa: D301


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
    """Runs a command and returns its exit status; only a bug shows a traceback."""
    try:
        is_program = arguments is None  # which `obj` tells the command; a caller's process is not forked
        words = list(sys.argv[1:] if arguments is None else arguments)
        result = given_once(command).main(words, prog_name=name, standalone_mode=False, obj=is_program)
        return result if isinstance(result, int) else 0
    except UserError as error:
        # lines of the message are indented, so a message cannot imitate a second error
        shown = _LINE_BREAK.sub("\n    ", error.text)
        click.echo(f"{name}: {shown}", err=True)
        return int(error.exit_code)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            traceback.print_exc()
            return 1
        where = "" if error.filename is None else f" to write {error.filename}"
        click.echo(
            with_hint(f"{name}: no space left{where}", "free some space and run the same command again"), err=True
        )
        return int(ExitCode.INFRASTRUCTURE)
    except click.ClickException as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
        else:
            click.echo(_usage_text(error, name), err=True)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Exception:  # a bug; still guarded, because the message may contain a participant's text
        traceback.print_exc()
        return 1


def _usage_text(error: click.ClickException, name: str) -> str:
    """Returns the lines of an error that click found: what is wrong, then ``  Hint: how to fix it``."""
    message = " ".join(error.format_message().split())
    message = message[:1].lower() + message[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    if found := _SUGGESTION.search(message):
        near = found[2].removeprefix("one of: ")
        message = f"{message[: found.start()]}; did you mean {near}?"
    if isinstance(error, click.NoSuchOption):
        from a2perf.submission.run_options import OPTIONS

        if context is not None and (other := instead_of(context, error.option_name)):
            return f"{name}: {other}"
        option = error.option_name.lstrip("-").replace("-", "_")
        if instead := brought_by(option, error.option_name):
            return f"{name}: {instead}"
        if context is not None and option in OPTIONS:
            hint = f"`a2perf run` takes it, and gin as Submission.{option}"
            if context.command.name == "run":
                hint = f"""add --gin-bindings "Submission.{option} = ...\""""
            return with_hint(f"{name}: {context.command_path} does not take {error.option_name}", hint)
        options = () if context is None else context.command.params
        flags = [name for option in options if not getattr(option, "hidden", False) for name in option.opts]
        message = f"no such option {error.option_name!r}{did_you_mean(error.option_name, flags)}"
    message = message.removesuffix(".")
    command = name if context is None else context.command_path
    if extra := _EXTRA.match(message):
        message = f"{command} does not take {extra[1].strip(')')!r}"
    message = _OTHER_NAMES.sub(r"\1", message)
    return with_hint(f"{name}: {message}", f"{command} --help")
