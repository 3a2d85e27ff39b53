"""Formats of recorded runs that installed packages add.

A package adds a format with an entry point of the group ``a2perf.run_formats`` that names a ``RunFormat``::

    [project.entry-points."a2perf.run_formats"]
    my_format = "my_package.formats:MY_FORMAT"

Every command that reads runs then finds and reads folders of this format. A folder that several formats recognise
belongs to a bundle first, then to the formats of packages in the order of their names, then to the other built-in
layouts.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from a2perf.errors import UserError
from a2perf.plain_text import terminal_line
from a2perf.plugins import RejectedPlugin, load_plugins
from a2perf.runs.run import BUNDLE, EARLIER, LOGS, TABLE, Run, RunFolder

GROUP = "a2perf.run_formats"


def no_run_file(name: str) -> bool:
    """Returns False: no single file is a run."""
    return False


@dataclass(frozen=True)
class RunFormat:
    """A format of recorded runs.

    Attributes:
        name: name for people, ``"Acme trainer"``; reports show it, and runs of different formats are not pooled.
        matches: whether a folder is a run, from the names of the files in it. It is called for every folder below the
            given ones, so it must be fast and must not open files.
        read: reads a run. An exception becomes a condition of the run.
        is_run_file: whether a single file is a run, from its name; it must not open the file. ``RunFolder.path`` is
            then the file.
    """

    name: str
    matches: Callable[[Collection[str]], bool]
    read: Callable[[RunFolder], Run]
    is_run_file: Callable[[str], bool] = no_run_file

    def stamp(self) -> str:
        """Returns a text that changes with the code of the format; scores in the cache depend on it."""
        file = getattr(sys.modules.get(self.read.__module__), "__file__", None)
        try:
            status = os.stat(file) if file else None
        except OSError:
            status = None
        return self.name if status is None else f"{self.name} {status.st_size} {status.st_mtime_ns}"


def run_formats() -> Mapping[str, RunFormat]:
    """Returns the formats by ``RunFormat.name``: those of installed packages, sorted by entry point."""
    return MappingProxyType(_load()[0])


def problems() -> Mapping[str, str]:
    """Returns, by entry point, why a format of an installed package cannot be used."""
    return MappingProxyType(_load()[1])


def reload() -> None:
    """Forgets the formats; the next call looks for installed packages again."""
    _load.cache_clear()


def format_of(names: Collection[str]) -> RunFormat | None:
    """Returns the format of a folder with these file names; None if no package recognises it."""
    return _first(lambda found: found.matches(names))


def format_of_file(name: str) -> RunFormat | None:
    """Returns the format in which a single file of this name is a run; None if there is none."""
    return _first(lambda found: found.is_run_file(name))


def _first(recognises: Callable[[RunFormat], bool]) -> RunFormat | None:
    for found in run_formats().values():
        try:
            if recognises(found):
                return found
        except Exception as error:  # a package's bug: name the package, or it looks like damage of the run
            reason = terminal_line(f"{type(error).__name__}: {error}")
            raise UserError(
                f"the run format {found.name!r} failed on a folder: {reason}",
                hint=f"fix or remove the package that provides {found.matches.__module__}",
            ) from error
    return None


@functools.cache
def _load() -> tuple[dict[str, RunFormat], dict[str, str]]:
    found: dict[str, RunFormat] = {}

    def accept(_: str, loaded: object) -> None:
        if not isinstance(loaded, RunFormat):
            raise RejectedPlugin(f"{loaded!r} is not a RunFormat")
        if loaded.name in (BUNDLE, EARLIER, LOGS, TABLE) or loaded.name in found:
            raise RejectedPlugin(f"the name {loaded.name!r} is taken")
        found[loaded.name] = loaded

    problems = load_plugins(GROUP, accept)
    return found, {name: str(problem) for name, problem in problems.items()}
