"""Options that take several words, ``--env-ids A B C``, as in the command lines of earlier tools.

All words up to the next option belong to the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from a2perf.errors import UserError

_JOINT = "\x1f"


class Words(click.Option):
    """An option that takes words; its value is one tuple of all."""

    def __init__(self, *arguments: Any, **attributes: Any) -> None:
        super().__init__(*arguments, **{"metavar": "WORD...", **attributes, "multiple": True})

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Splits the values that ``WordsCommand`` joined."""
        return tuple(word for text in super().type_cast_value(ctx, value) for word in text.split(_JOINT))


class WordsCommand(click.Command):
    """A command with options of class ``Words``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Joins the words of each list into one value before click reads the line."""
        names = {name for option in self.params if isinstance(option, Words) for name in option.opts}
        normalise = ctx.token_normalize_func or (lambda name: name)
        return super().parse_args(ctx, _joined(args, names, normalise))


def removing_command(removed: Mapping[str, str]) -> type[WordsCommand]:
    """Returns a class of commands that refuse options of earlier versions, by their prefix, with the replacement."""

    class Removing(WordsCommand):
        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            for word in args[: args.index("--")] if "--" in args else args:
                for prefix, instead in removed.items():
                    if word.replace("_", "-").startswith(prefix):
                        raise UserError(f"the option {word.partition('=')[0]} was removed", hint=instead)
            return super().parse_args(ctx, args)

    return Removing


def _joined(args: Sequence[str], names: set[str], normalise: Any) -> list[str]:
    result: list[str] = []
    position = 0
    while position < len(args):
        word = args[position]
        name, equals, first = word.partition("=")
        position += 1
        if word == "--":
            return [*result, *args[position - 1 :]]
        if normalise(name) not in names:
            result.append(word)
            continue
        words = [first] if equals else []
        while position < len(args) and not args[position].startswith("--"):
            words.append(args[position])
            position += 1
        if not words:
            raise click.UsageError(f"{name} takes at least one word")
        result += [name, _JOINT.join(words)]
    return result
