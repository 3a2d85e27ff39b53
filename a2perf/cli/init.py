"""``a2perf init``: a new submission folder from a template."""

from __future__ import annotations

from pathlib import Path

import click

from a2perf.submission.options import normalised
from a2perf.submission.templates import TEMPLATES, create_submission


@click.command(context_settings=normalised())
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--template",
    type=click.Choice(list(TEMPLATES)),
    default="numpy",
    show_default=True,
    help="numpy trains a linear policy; minimal acts at random; placer places a chip design with one function.",
)
def init(folder: Path, template: str) -> int:
    """Create a submission in DIR: a complete repository to start from.

    DIR is created; it must not exist or be empty.
    """
    create_submission(folder, template)
    gin = "inference.gin" if template == "placer" else "training.gin inference.gin"
    runs = f"runs/{folder.resolve().name}"
    click.echo(f"Created {folder}; {folder / 'README.md'} explains its files.")
    click.echo(
        "\nNext steps:\n"
        f"  a2perf check {folder}\n"
        f"  a2perf run --submission {folder} --root-dir {runs} \\\n"
        f"      --gin-config {gin}\n"
        f"  a2perf report {runs} -o {runs}/report"
    )
    return 0
