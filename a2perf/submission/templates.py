"""Templates of submissions: a complete repository to start from."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from a2perf.domains.registry import domains
from a2perf.errors import ConfigError, UserError, command_line, did_you_mean

# a variant contains only the files that differ from the complete repository of the first template
_VARIANTS = {"numpy": None, "minimal": "minimal"}


def templates() -> list[str]:
    """Returns the names of the templates."""
    return [*_VARIANTS, *_of_forms()]


def _of_forms() -> dict[str, Path]:
    """Returns the templates of other forms of submissions, which share no file with the first template."""
    forms = (form for domain in domains().values() for form in domain.forms)
    return {Path(form.file).stem: form.template for form in forms if form.template is not None}


def create_submission(folder: str | os.PathLike[str], template: str = "numpy") -> Path:
    """Creates a submission folder from a template.

    Args:
        template: ``"numpy"`` trains a linear policy on any task with one action per step, ``"minimal"`` acts at
            random; further ones come with forms of submissions, see `templates`.

    Raises:
        ConfigError: no such template, or the folder is not empty or cannot be written.
        UserError: the templates are missing from this installation.
    """
    folder = Path(folder)
    known = templates()
    if template not in known:
        raise ConfigError(
            f"there is no template {template!r}{did_you_mean(template, known)}",
            hint=f"choose one of: {', '.join(known)}",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        another = command_line("a2perf", "init", f"{folder}_2")
        raise ConfigError(f"{folder} exists and is not an empty folder", hint=f"choose another folder: {another}")
    if template in _VARIANTS:
        source, variant = templates_folder(), _VARIANTS[template]
        parts = [source / "submission", *([source / "variants" / variant] if variant else [])]
    else:
        parts = [_of_forms()[template]]
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    try:
        for part in parts:
            shutil.copytree(part, folder, dirs_exist_ok=True, ignore=ignored)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written: {error.strerror}", hint="choose a folder with write permission"
        ) from error
    return folder


def choose_task(folder: Path, domain: str, env_id: str, env_kwargs: Mapping[str, Any]) -> None:
    """Writes another task into the gin files of a new submission."""
    task = [f"create_domain.env_name = {env_id!r}"]
    task += [f"create_domain.{name} = {value!r}" for name, value in env_kwargs.items()]
    for file in folder.glob("*.gin"):
        text = re.sub(r"Submission\.domain = .*", f"Submission.domain = {domain!r}", file.read_text(encoding="utf-8"))
        text = re.sub(r"(create_domain\..*\n)+", lambda found: "\n".join([*task, ""]), text)
        file.write_text(text, encoding="utf-8")


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
