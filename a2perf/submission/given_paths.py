"""Resolves paths that an organizer gives, once, before anything is created, read or shown to a participant.

A path may go through the organizer's links. It may not go through a link inside the submission: the participant would
then choose the file.
"""

from __future__ import annotations

import os
from pathlib import Path

from a2perf.errors import ConfigError

_MOST_LINKS = 40


def settled(given: str | Path, submission: Path | None, what: str) -> Path:
    """Returns ``given`` as an absolute path without links; its last parts need not exist.

    Args:
        given: relative to the working directory; ``~`` is the home.
        submission: the submission's folder, or ``None``.

    Raises:
        ConfigError: the path goes through a link inside the submission, or its links form a loop.
    """
    stranger = None if submission is None else os.path.realpath(submission)
    waiting = str(Path(given).expanduser().absolute()).split("/")[::-1]
    current, followed = "/", 0
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if part == "..":
            current = os.path.dirname(current)
            continue
        place = os.path.join(current, part)
        if not os.path.islink(place):
            current = place
            continue
        if stranger is not None and (current == stranger or current.startswith(stranger + "/")):
            raise ConfigError(
                f"{what} {given} goes through {place}, a link inside the submission",
                hint="give a path without links inside the submission",
            )
        followed += 1
        if followed > _MOST_LINKS:
            raise ConfigError(f"{what} {given}: its links form a loop", hint="give the path of a real file or folder")
        target = os.readlink(place)
        current = "/" if target.startswith("/") else current
        waiting += target.split("/")[::-1]
    return Path(current)


def submission_folder(
    given: str | os.PathLike[str], hint: str = "give the folder that holds train.py and inference.py"
) -> Path:
    """Returns the path of a submission's folder with the home for ``~``.

    Raises:
        ConfigError: it does not exist, or is a file.
    """
    folder = Path(given).expanduser()
    if not folder.is_dir():
        kind = "is a file" if folder.exists() else "does not exist"
        raise ConfigError(f"the submission folder {given} {kind}", hint=hint)
    return folder
