"""Options that several commands have, and lists of words (``--env-ids A B C``).

All words up to the next option belong to a list.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from a2perf.experiments.junit import VerdictSuite

_JOINT = "\x1f"


_OLD_NAME = "a2perf"


class _Profile(click.Choice):  # type: ignore[type-arg]  # generic from click 8.2 on only
    """The profiles; also accepts the earlier name of ``upstream``."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(super().convert("upstream" if value == _OLD_NAME else value, param, ctx))


PROFILE_OPTION = click.option(
    "--profile",
    type=_Profile(("corrected", "upstream")),
    default="corrected",
    show_default=True,
    help="Formulas of metrics: corrected, or as in the upstream platform.",
)
PARTICIPANT_ARGS = click.option(
    "--participant-args", default="", metavar="K=V,...", help="Arguments of train() and load_policy(), as strings."
)
STORE = click.option("--store", metavar="DIR", help="Experiment store. Default: $A2PERF_STORE, otherwise ./runs.")
TRUSTED_KEYS = click.option(
    "--trusted-keys",
    type=click.Path(exists=True, path_type=Path),
    metavar="DIR_OR_FILE",
    help='Trusted public keys. Signatures by other keys are listed as "unknown key".',
)


def several(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a decorator that adds options in this order."""

    def add(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _say_what_is_read(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value:
        click.echo(
            f"{option.opts[0]} has no effect: runs are read from files; `a2perf rlops import` takes W&B's", err=True
        )


OLD_WANDB_OPTIONS = several(
    click.option("--wandb-project-name", hidden=True, callback=_say_what_is_read),
    click.option("--wandb-entity", hidden=True),
)
"""Accepted for old command lines; a store has no projects or entities."""


def is_given(name: str) -> bool:
    """Returns whether an option of the running command has another source than its default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is not click.core.ParameterSource.DEFAULT


def size_text(size: int) -> str:
    """Returns a number of bytes in the unit that suits it, ``"12.3 MiB"``."""
    from a2perf.report.numbers_text import rounded_text

    return rounded_text(size, "bytes")


def in_workflow() -> bool:
    """Returns whether this process runs in a GitHub workflow."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def annotate(suite: VerdictSuite, *, to_errors: bool = False) -> None:
    """In a GitHub workflow, prints an annotation per failed case and adds all cases to the summary.

    Args:
        to_errors: print to standard error, which GitHub reads too; standard output then holds only JSON.
    """
    from a2perf.report.github import annotations_of, append_to_summary, suite_markdown

    if not in_workflow():
        return
    for line in annotations_of([suite], skipped=False):
        click.echo(line, err=to_errors)
    append_to_summary(suite_markdown(suite))


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
