"""Errors of click in the form of ours: ``a2perf: what is wrong``, then ``  Hint: how to fix it``."""

from __future__ import annotations

import re

import click

from a2perf.errors import did_you_mean, with_hint
from a2perf.submission.run_services import moved

_SUGGESTION = re.compile(r"\.? \(?(Did you mean|Possible options:) (.*?)[?)]?$", re.DOTALL)
_OTHER_NAMES = re.compile(r"('--[\w-]+')(?: / '--[\w-]+')+")
_EXTRA = re.compile(r"got unexpected extra arguments? \((\S+)")


def usage_text(error: click.ClickException, name: str) -> str:
    """Returns the lines of an error that click found in a command line.

    Args:
        error: what click raised.
        name: the program, for errors that name no command.
    """
    message = " ".join(error.format_message().split())
    message = message[:1].lower() + message[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    if found := _SUGGESTION.search(message):
        near = found[2].removeprefix("one of: ")
        message = f"{message[: found.start()]}; did you mean {near}?"
    if isinstance(error, click.NoSuchOption):
        if instead := moved(error.option_name.lstrip("-").replace("-", "_"), error.option_name):
            return f"{name}: {instead}"
        options = () if context is None else context.command.params
        flags = [name for option in options if not getattr(option, "hidden", False) for name in option.opts]
        message = f"no such option {error.option_name!r}{did_you_mean(error.option_name, flags)}"
    message = message.removesuffix(".")
    command = name if context is None else context.command_path
    if extra := _EXTRA.match(message):
        message = f"{command} does not take {extra[1].strip(')')!r}"
    message = _OTHER_NAMES.sub(r"\1", message)
    return with_hint(f"{name}: {message}", f"{command} --help")
