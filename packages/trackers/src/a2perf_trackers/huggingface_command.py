"""``a2perf export huggingface``: cards for the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from a2perf.cli.shared_options import PROFILE_OPTION
from a2perf.errors import ConfigError
from a2perf.plain_text import terminal_text
from a2perf.storage import write_atomic
from a2perf.submission.options import normalised

if TYPE_CHECKING:
    from a2perf.metrics.values import Profile


@click.command(context_settings=normalised())
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN_OR_FOLDER...")
@click.option("--algorithm", metavar="NAME", help="Submission of the card, if the runs have several.")
@click.option("--license", metavar="NAME", help="License as the hub names it, e.g. apache-2.0.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="File of the card. Default: print it."
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
@PROFILE_OPTION
def huggingface(
    runs: tuple[Path, ...],
    algorithm: str | None,
    license: str | None,
    output: Path | None,
    force: bool,
    profile: Profile,
) -> int:
    """Write a model card for the Hugging Face hub.

    \b
    Examples:
      a2perf export huggingface runs/my_agent -o README.md

    `hf upload ORG/NAME README.md` publishes a card. Needs the package huggingface_hub.
    """  # noqa: D301
    from a2perf_trackers.huggingface import model_card

    if output is not None and output.exists() and not force:
        raise ConfigError(f"{output} exists already", hint="choose another file, or add --force to replace it")
    card = model_card(runs, algorithm=algorithm, profile=profile, license=license)
    if output is not None:
        write_atomic(output, str(card))
        click.echo(str(output))
    else:
        click.echo(terminal_text(str(card)))
    return 0
