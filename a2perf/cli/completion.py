"""``a2perf completion``: the script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from a2perf.submission.options import normalised

VARIABLE = "_A2PERF_COMPLETE"
"""A shell sets this variable to ask for completions; click derives its name from the program's."""


@click.command(context_settings=normalised())
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the script that completes a2perf commands in SHELL.

    \b
    Examples:
      echo 'eval "$(a2perf completion bash)"' >> ~/.bashrc
      echo 'eval "$(a2perf completion zsh)"' >> ~/.zshrc
      a2perf completion fish > ~/.config/fish/completions/a2perf.fish
    """  # noqa: D301
    from a2perf.cli import cli

    script = get_completion_class(shell)
    assert script is not None  # click has all three
    click.echo(script(cli, {}, "a2perf", VARIABLE).source())
    return 0
