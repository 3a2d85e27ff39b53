"""``a2perf init``: a new submission folder from a template."""

from __future__ import annotations

from pathlib import Path

import click

from a2perf.errors import command_line
from a2perf.submission.options import normalised
from a2perf.submission.templates import create_submission, templates


@click.command(context_settings=normalised())
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--template", default="numpy", show_default=True, metavar=f"[{'|'.join(templates())}]",
              help="numpy learns any task with one action per step; minimal acts at random.")  # fmt: skip
def init(folder: Path, template: str) -> int:
    """Create a submission in DIR: a complete repository to start from.

    DIR is created; it must not exist or be empty.
    """
    create_submission(folder, template)
    gin = [name for name in ("training.gin", "inference.gin") if (folder / name).exists()]
    runs = Path("runs", folder.resolve().name)
    launch = ("a2perf-launch", "--submission", folder, "--gin_config", *gin, "--root_dir", runs)
    click.echo(f"Created {folder}; {folder / 'README.md'} explains its files.\n\nNext steps:")
    for words in (("a2perf", "check", folder), launch, ("a2perf", "report", runs, "-o", runs / "report")):
        click.echo(f"  {command_line(*words)}")
    return 0
