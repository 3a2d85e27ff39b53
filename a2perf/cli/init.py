"""``a2perf init``: a new submission folder from a template."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from a2perf.errors import ConfigError, UserError
from a2perf.submission.options import normalised

# the variants hold only the files in which they differ from the complete repository of the first
TEMPLATES = {"numpy": None, "minimal": "minimal"}


@click.command(context_settings=normalised())
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--template",
    type=click.Choice(list(TEMPLATES)),
    default="numpy",
    show_default=True,
    help="numpy trains a linear policy; minimal acts at random.",
)
def init(folder: Path, template: str) -> int:
    """Make a new submission in DIR, a complete repository to start from.

    DIR is made; a folder that holds anything already is left alone.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(
            f"{folder} exists and is not an empty folder", hint="name a folder that does not exist yet, or an empty one"
        )
    source = templates_folder()
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    try:
        shutil.copytree(source / "submission", folder, dirs_exist_ok=True, ignore=ignored)
        variant = TEMPLATES[template]
        if variant is not None:
            shutil.copytree(source / "variants" / variant, folder, dirs_exist_ok=True, ignore=ignored)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written: {error.strerror}", hint="name a folder you may write"
        ) from error
    names = sorted(path.name + ("/" if path.is_dir() else "") for path in folder.iterdir())
    click.echo(f"{folder}: {' '.join(names)}")
    click.echo(f"next: a2perf check {folder}")
    click.echo(
        f"then: a2perf-launch --submission {folder} --gin_config training.gin --root_dir runs/{folder.resolve().name}"
    )
    return 0


def templates_folder() -> Path:
    """Returns the folder of the templates: inside an installed package, beside it in a checkout.

    Raises:
        UserError: neither is there.
    """
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "templates", package.parent / "templates"):
        if (candidate / "submission" / "train.py").is_file():
            return candidate
    raise UserError("the templates are missing from this installation", hint="install a2perf again")
