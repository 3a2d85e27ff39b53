"""Templates of submissions: a complete repository to start from."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from a2perf.errors import ConfigError, UserError, command_line, did_you_mean

# a variant contains only the files that differ from the complete repository of the first template
TEMPLATES = {"numpy": None, "minimal": "minimal", "placer": "placer"}
_COMPLETE = ("placer",)
"""Variants of another form of submissions, which share no file with the first template."""


def create_submission(folder: str | os.PathLike[str], template: str = "numpy") -> Path:
    """Creates a submission folder from a template.

    Args:
        folder: the folder; it must not exist or be empty.
        template: ``"numpy"`` trains a linear policy on any task with one action per step, ``"minimal"`` acts at
            random, ``"placer"`` has one function that places a design.

    Returns:
        The folder.

    Raises:
        ConfigError: no such template, or the folder is not empty or cannot be written.
        UserError: the templates are missing from this installation.
    """
    folder = Path(folder)
    if template not in TEMPLATES:
        raise ConfigError(
            f"there is no template {template!r}{did_you_mean(template, TEMPLATES)}",
            hint=f"choose one of: {', '.join(TEMPLATES)}",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        another = command_line("a2perf", "init", f"{folder}_2")
        raise ConfigError(f"{folder} exists and is not an empty folder", hint=f"choose another folder: {another}")
    source = templates_folder()
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    try:
        if template not in _COMPLETE:
            shutil.copytree(source / "submission", folder, dirs_exist_ok=True, ignore=ignored)
        variant = TEMPLATES[template]
        if variant is not None:
            shutil.copytree(source / "variants" / variant, folder, dirs_exist_ok=True, ignore=ignored)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written: {error.strerror}", hint="choose a folder with write permission"
        ) from error
    return folder


def templates_folder() -> Path:
    """Returns the folder of the templates: inside an installed package, next to the package in a checkout.

    Raises:
        UserError: the folder is missing.
    """
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "templates", package.parent / "templates"):
        if (candidate / "submission" / "train.py").is_file():
            return candidate
    raise UserError("the templates are missing from this installation", hint="install a2perf again")
