"""Finds a gin file and determines its origin: organizer, package, or participant.

A file in the submission's folder is the participant's, however its path is written. Links inside the submission are not
followed, because the participant chooses their targets. Any other file is the organizer's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from a2perf.domains.registry import DEFAULT_CONFIGS, domains, find_task, gin_folders, packaged_gin_file
from a2perf.errors import ConfigError
from a2perf.stranger_files import Kind, printable, read_regular_file
from a2perf.submission.given_paths import settled
from a2perf.submission.participant_gin import MAX_BYTES

Origin = Literal["organizer", "packaged", "participant"]


@dataclass(frozen=True)
class GinFile:
    """A gin file that was found."""

    path: Path
    origin: Origin
    submission: Path | None = None

    @property
    def name(self) -> str:
        """Its path for records and messages; safe to print."""
        if self.origin == "packaged":
            if self.path.is_relative_to(DEFAULT_CONFIGS.resolve()):
                return self.path.relative_to(DEFAULT_CONFIGS.resolve()).as_posix()
            domain, folder = next(place for place in _task_folders() if self.path.is_relative_to(place[1]))
            return "/".join((domain, *self.path.relative_to(folder).parts))
        if self.origin == "participant" and self.submission is not None:
            return printable(str(self.path.relative_to(self.submission)))
        return printable(str(self.path))

    def participant_bytes(self) -> bytes:
        """Returns the content of a participant's file, read without following links.

        Raises:
            UserError: it is too large, not a regular file, or cannot be read.
        """
        assert self.submission is not None
        return read_regular_file(self.submission, self.path.relative_to(self.submission), max_bytes=MAX_BYTES)


def locate(
    given: str, *, submission: Path | None, domain: str | None, task: str | None = None, trusted: bool = False
) -> GinFile:
    """Finds a gin file in the working directory, in the submission's folder, or among the domain's packaged files.

    Args:
        task: name of a task: it selects the domain if none is given, and its folder if several packaged files match.

    Raises:
        ConfigError: it does not exist (the message lists every place), several packaged files match, it is not a
            regular file, or its path goes through a link inside the submission.
    """
    path = Path(given).expanduser()
    places = [path if path.is_absolute() else Path.cwd() / path]
    if submission is not None and not path.is_absolute():
        places.append(submission.absolute() / path)
    for place in places:
        if place.is_file():
            return origin_of(place, submission, trusted=trusted)
        if os.path.lexists(place) and not place.is_dir():
            kind = Kind.of(os.lstat(place).st_mode)
            raise ConfigError(f"the gin file {printable(given)} is a {kind}", hint="give a regular file")
    earlier = _at_earlier_place(path)
    if earlier is not None:
        return origin_of(earlier, None)
    if domain is None and task is not None:
        domain = find_task(task)[0].name
    packaged: list[Path] = []
    if domain is not None and not path.is_absolute():
        for name in ([f"{task}/{given}"] if task is not None else []) + [given]:
            if ".." not in path.parts and (exact := packaged_gin_file(domain, name)) is not None:
                return origin_of(exact, None)
        folders = gin_folders(domain)
        packaged = sorted(found for found in folders[1].rglob(path.name) if found.match(str(path)))
        places += folders
    if len(packaged) == 1:
        return origin_of(packaged[0], None)
    if packaged:
        names = ", ".join(str(found.relative_to(gin_folders(str(domain))[1])) for found in packaged)
        raise ConfigError(
            f"{given!r} matches {len(packaged)} packaged files of {domain}: {names}",
            hint="name one with its folder, `--gin-config FOLDER/FILE`, or a task that has one, `--task NAME`",
        )
    raise ConfigError(
        f"the gin file {given!r} does not exist; tried {', '.join(str(place) for place in places)}",
        hint="give an existing file, or add `--domain NAME` for a packaged one",
    )


def _at_earlier_place(path: Path) -> Path | None:
    """Returns a packaged file for the paths that existing commands use.

    These are ``submission/configs/DOMAIN/...`` and ``domains/DOMAIN/configs/...`` below any folder.
    """
    parts = path.parts
    for index in range(len(parts) - 3):
        first, second, third = parts[index : index + 3]
        if (first, second) == ("submission", "configs") and third in domains():
            domain = third
        elif (first, third) == ("domains", "configs") and second in domains():
            domain = second
        else:
            continue
        return None if ".." in parts[index:] else packaged_gin_file(domain, "/".join(parts[index + 3 :]))
    return None


def origin_of(place: Path, submission: Path | None, *, trusted: bool = False) -> GinFile:
    """Returns the gin file at a path together with its origin.

    Raises:
        ConfigError: the path goes through a link inside the submission.
    """
    if submission is None or not submission.is_dir():
        return GinFile(place.resolve(), _origin_outside(place.resolve()))
    folder = submission.resolve()
    resolved = place.resolve() if trusted else settled(place, folder, "the gin file")
    inner = _inside(resolved.parent, folder)
    if inner is None:
        return GinFile(resolved, _origin_outside(resolved), folder)
    # The path below the folder, even if a bind mount shows the folder at a second place.
    return GinFile(folder / resolved.relative_to(inner), "participant", folder)


def _origin_outside(resolved: Path) -> Origin:
    folders = (DEFAULT_CONFIGS.resolve(), *(folder for _, folder in _task_folders()))
    return "packaged" if any(resolved.is_relative_to(folder) for folder in folders) else "organizer"


def _task_folders() -> list[tuple[str, Path]]:
    """Returns the domains with the resolved folders of the gin files of their tasks."""
    return [(name, gin_folders(name)[1].resolve()) for name in domains()]


def is_inside(path: Path, folder: Path) -> bool:
    """Returns whether an existing path is inside a folder or is the folder itself, however either path is written."""
    resolved = path.resolve()
    return _inside(resolved if resolved.is_dir() else resolved.parent, folder.resolve()) is not None


def _inside(resolved: Path, folder: Path) -> Path | None:
    """Returns the parent of a resolved folder, or the folder itself, that is ``folder``, compared by inode."""
    wanted = os.stat(folder)
    for parent in (resolved, *resolved.parents):
        if os.path.samestat(os.stat(parent), wanted):
            return parent
    return None
