"""An option that does not repeat, given twice, is an error of every command, also of those that distributions add."""

from __future__ import annotations

from typing import Any

import click


def given_once(command: click.Command) -> click.Command:
    """Makes a command, and those below it, refuse an option twice of which click would silently keep the last value."""
    if "make_parser" in vars(command):
        return command
    make_parser = command.make_parser

    def strict_parser(ctx: click.Context) -> Any:
        parser = make_parser(ctx)
        parse_args = parser.parse_args

        def parse_once(args: list[str]) -> tuple[dict[str, Any], list[str], list[click.Parameter]]:
            values, rest, order = parse_args(args)
            for option in {id(param): param for param in order}.values():
                repeats = not isinstance(option, click.Option) or option.multiple or option.count
                if not repeats and order.count(option) > 1 and not ctx.resilient_parsing:
                    name = max(option.opts, key=len)
                    raise click.UsageError(f"{name} is given {order.count(option)} times and takes one value", ctx)
            return values, rest, order

        setattr(parser, "parse_args", parse_once)  # noqa: B010
        return parser

    setattr(command, "make_parser", strict_parser)  # noqa: B010
    if isinstance(command, click.Group):
        find = command.get_command

        def strict_command(ctx: click.Context, name: str) -> click.Command | None:
            found = find(ctx, name)
            return None if found is None else given_once(found)

        setattr(command, "get_command", strict_command)  # noqa: B010
    return command
