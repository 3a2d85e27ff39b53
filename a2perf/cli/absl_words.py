"""Command lines in the form of absl-py: ``--flagfile``, ``--noflag``, ``--flag=true``, ``--helpfull``.

absl reads the flag files; the options stay those of click.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from a2perf.errors import ConfigError

_TRUE, _FALSE = ("true", "1", "t", "yes", "y"), ("false", "0", "f", "no", "n")


def plain_words(command: click.Command, ctx: click.Context, words: Sequence[str]) -> list[str]:
    """Returns the words of a command line without the forms that only absl has.

    Args:
        command: the command, its options decide what ``--noNAME`` means.
        ctx: its context.
        words: the words as they were typed.

    Raises:
        ConfigError: a flag file cannot be read.
    """
    normalise = ctx.token_normalize_func or (lambda name: name)
    switches = {
        name.removeprefix("--"): isinstance(option, click.Option) and option.is_flag
        for option in command.params
        if isinstance(option, click.Option) and (option.is_flag or option.type is click.BOOL)
        for name in map(normalise, option.opts)
        if name.startswith("--")
    }
    found: list[str] = []
    given = list(_expanded(words))
    for position, word in enumerate(given):
        if word == "--":
            return [*found, *given[position:]]
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
