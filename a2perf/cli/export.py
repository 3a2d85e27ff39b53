"""``a2perf export``: recorded runs in the formats of other tools. A subcommand is imported when it is used."""

from __future__ import annotations

import importlib

import click

from a2perf.cli.extensible import ExtensibleGroup
from a2perf.submission.options import normalised

_COMMANDS = {
    "mlflow": "a2perf.cli.export_trackers:mlflow",
    "wandb": "a2perf.cli.export_trackers:wandb",
    "tensorboard": "a2perf.cli.export_trackers:tensorboard",
    "huggingface": "a2perf.cli.export_huggingface:huggingface",
    "croissant": "a2perf.cli.export_croissant:croissant",
}


class _ExportGroup(ExtensibleGroup):
    """The commands above."""

    prefix = "export."

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=_ExportGroup, context_settings=normalised())
def export() -> None:
    """Export recorded runs to the formats of other tools.

    \b
    Examples:
      a2perf export mlflow runs/my_agent --tracking-uri mlruns
      a2perf export wandb runs/my_agent -o exported
      a2perf export tensorboard runs/my_agent -o logs

    Trackers skip a run that they already have, so the same command can be repeated while runs are added.
    """  # noqa: D301
