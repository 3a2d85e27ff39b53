"""``a2perf rlops``: compare versions, tag runs, import logs. Without a verb the words are those of ``compare``."""

from __future__ import annotations

import click

from a2perf.cli.rlops_compare import compare_command
from a2perf.cli.rlops_import import import_command
from a2perf.cli.rlops_tags import tags
from a2perf.submission.options import normalised


class _CompareByDefault(click.Group):
    """A group that runs ``compare`` if the command line begins with an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [str(compare_command.name), *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_CompareByDefault,
    commands=[compare_command, tags, import_command],
    context_settings=normalised(),
)
def rlops() -> None:
    """Compare groups of runs and judge a change, tag runs, import logs of other tools.

    `a2perf rlops OPTIONS` is short for `a2perf rlops compare OPTIONS`.
    """
