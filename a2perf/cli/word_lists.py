"""Options that take several words, ``--env-ids A B C``, as in the command lines of earlier tools.

All words up to the next option belong to the list. A repeated option, ``--filters a b --filters c``, has two groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

_JOINT = "\x1f"


class Words(click.Option):
    """An option that takes words; its value is one tuple of all, or with ``grouped`` one tuple per occurrence."""

    def __init__(self, *arguments: Any, grouped: bool = False, **attributes: Any) -> None:
        attributes = {"metavar": "WORD...", **attributes, "multiple": True}
        super().__init__(*arguments, **attributes)
        self.grouped = grouped

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Splits the values that ``WordsCommand`` joined."""
        groups = tuple(tuple(text.split(_JOINT)) for text in super().type_cast_value(ctx, value))
        return groups if self.grouped else tuple(word for group in groups for word in group)


class WordsCommand(click.Command):
    """A command with options of class ``Words``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Joins the words of each list into one value before click reads the line."""
        names = {name for option in self.params if isinstance(option, Words) for name in option.opts}
        normalise = ctx.token_normalize_func or (lambda name: name)
        return super().parse_args(ctx, _joined(args, names, normalise))


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
