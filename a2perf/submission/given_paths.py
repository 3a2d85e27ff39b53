"""Paths that an organizer gives, resolved once, before anything is made, read or shown to a participant.

A path may go through links of the organizer's own. A link inside the submission is the participant's and would choose
the file: such a path is refused.
"""

from __future__ import annotations

import os
from pathlib import Path

from a2perf.errors import ConfigError

_MOST_LINKS = 40


def settled(given: str | Path, submission: Path | None, what: str) -> Path:
    """Returns the absolute path without links that ``given`` stands for; its last parts need not exist.

    Args:
        given: relative to the working directory, ``~`` is the home.
        submission: the submission's folder; ``None`` where there is none.
        what: names the setting in the error.

    Raises:
        ConfigError: a link inside the submission is part of the path, or its links are a loop.
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
                hint="give a path that the submission cannot redirect",
            )
        followed += 1
        if followed > _MOST_LINKS:
            raise ConfigError(f"{what} {given} has a loop of links", hint="give the path of a real file or folder")
        target = os.readlink(place)
        current = "/" if target.startswith("/") else current
        waiting += target.split("/")[::-1]
    return Path(current)
