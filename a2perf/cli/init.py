"""``a2perf init``: a new submission folder from a template."""

from __future__ import annotations

from pathlib import Path

import click

from a2perf.errors import command_line
from a2perf.submission.options import normalised
from a2perf.submission.templates import TEMPLATES, create_submission


@click.command(context_settings=normalised())
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--template",
    type=click.Choice(list(TEMPLATES)),
    default="numpy",
    show_default=True,
    help="numpy learns any task but place_*; minimal acts at random; placer places a chip design with one function.",
)
def init(folder: Path, template: str) -> int:
    """Create a submission in DIR: a complete repository to start from.

    DIR is created; it must not exist or be empty.
    """
    create_submission(folder, template)
    gin = ["inference.gin"] if template == "placer" else ["training.gin", "inference.gin"]
    runs = Path("runs", folder.resolve().name)
    launch = ("a2perf-launch", "--submission", folder, "--gin_config", *gin, "--root_dir", runs)
    click.echo(f"Created {folder}; {folder / 'README.md'} explains its files.\n\nNext steps:")
    for words in (("a2perf", "check", folder), launch, ("a2perf", "report", runs, "-o", runs / "report")):
        click.echo(f"  {command_line(*words)}")
    return 0
