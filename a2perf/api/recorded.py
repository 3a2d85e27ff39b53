"""Recorded runs that are read on first use, and the arguments of functions that take runs."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, Union

from a2perf.errors import ConfigError
from a2perf.metrics.scores import score_modes
from a2perf.runs.bundles.files import kind_at
from a2perf.runs.bundles.layout import MODES
from a2perf.runs.reading import read_run as read_folder
from a2perf.runs.run import BUNDLE, Run, RunFolder
from a2perf.runs.stores.finding import find_runs, fingerprint_of, named_uniquely

AnyRuns: TypeAlias = Union["LazyRun", str, "os.PathLike[str]", Iterable[Union["LazyRun", str, "os.PathLike[str]"]]]
"""What functions of the API accept as runs."""
_EVALUATED_FIRST = ("inference", "generalization", "train")


class LazyRun:
    """A recorded run. Its files are read on first use of ``run``, once."""

    def __init__(self, folder: RunFolder) -> None:
        # An absolute path: a run that is read later must not depend on the working directory.
        path = Path(os.path.abspath(folder.path))
        self.__dict__["_folder"] = dataclasses.replace(folder, path=path)

    @property
    def folder(self) -> RunFolder:
        """Where the run is, and in which layout."""
        folder: RunFolder = self.__dict__["_folder"]
        return folder

    @functools.cached_property
    def run(self) -> Run:
        """The content of the run as ``a2perf.runs.Run``: identity, episodes, curve, costs, manifest."""
        # Before reading: a file that changes during it makes the stamp old.
        self.__dict__["_stamp"] = _stamp(self.folder)
        return read_folder(self.folder)

    def is_there(self) -> bool:
        """Returns whether the folder of the run still exists."""
        return kind_at(self.folder.path) is not None

    def current(self) -> Run:
        """Returns the run as its files are now: read again if they changed, as it was read if they are gone."""
        unread = "run" not in self.__dict__
        if unread or not self.is_there() or self.__dict__["_stamp"] == _stamp(self.folder):
            return self.run
        return read_folder(self.folder)

    @functools.cached_property
    def groups(self) -> list[dict[str, Any]]:
        """The groups of ``scores.json`` for this run alone, one per mode, by the corrected profile."""
        return score_modes(self.folder, self.run)

    @property
    def main_mode(self) -> str:
        """The mode of a result; of several modes the evaluation, and ``""`` if the run holds no data."""
        held = self.run.modes()
        return next((mode for mode in _EVALUATED_FIRST if mode in held), "")

    @property
    def main_group(self) -> dict[str, Any] | None:
        """The group of the main mode."""
        return next((group for group in self.groups if group["mode"] == self.main_mode), None)


def recorded_runs(given: AnyRuns) -> list[LazyRun]:
    """Returns runs in the order of the commands: by root, then by mode, each once.

    Raises:
        UserError: a path does not exist, or holds no run.
        ConfigError: something else was given, or nothing.
    """
    if not isinstance(given, Iterable | LazyRun | os.PathLike):
        raise _not_runs(given)
    parts: Iterable[object] = [given] if isinstance(given, LazyRun | str | os.PathLike) else given
    known: list[LazyRun] = []
    paths: list[Path] = []
    for part in parts:
        if isinstance(part, LazyRun):
            known.append(part)
        elif isinstance(part, str | os.PathLike):
            paths.append(Path(part).expanduser())
        elif isinstance(part, Iterable):
            known += recorded_runs(part)
        else:
            raise _not_runs(part)
    if not known and not paths:
        raise ConfigError("no runs were given", hint="give a bundle, or a folder that holds runs")
    by_path = {str(run.folder.path): run for run in reversed(known)}
    found = find_runs(paths) if paths else []
    order = {mode: place for place, mode in enumerate(MODES)}
    others = [folder for folder in found if os.path.abspath(folder.path) not in by_path]
    folders = named_uniquely([*(run.folder for run in by_path.values()), *others])
    folders.sort(key=lambda folder: (folder.root, order.get(folder.path.name if folder.layout == BUNDLE else "", -1)))
    return [by_path.get(os.path.abspath(folder.path)) or LazyRun(folder) for folder in folders]


def run_items(given: AnyRuns | Run | Iterable[Run]) -> list[LazyRun | Run]:
    """Returns runs: those in memory in their order, then all others as ``recorded_runs`` does, with its errors."""
    if isinstance(given, Run):
        return [given]
    if not isinstance(given, Iterable) or isinstance(given, str | LazyRun):
        return list(recorded_runs(given))
    parts = list(given)
    in_memory = [part for part in parts if isinstance(part, Run)]
    others = [part for part in parts if not isinstance(part, Run)]
    return [*in_memory, *(recorded_runs(others) if others or not in_memory else [])]


def content_of(item: LazyRun | Run) -> Run:
    """Returns the content of a run; it is read on first use."""
    return item if isinstance(item, Run) else item.run


def unique_folders(runs: Sequence[LazyRun]) -> dict[str, tuple[RunFolder, LazyRun]]:
    """Returns each run once by path, with a label that is unique among these runs."""
    by_path = {str(run.folder.path): run for run in runs}
    folders = named_uniquely([run.folder for run in by_path.values()])
    return {str(folder.path): (folder, by_path[str(folder.path)]) for folder in folders}


def _stamp(folder: RunFolder) -> str:
    try:
        return fingerprint_of(folder)
    except OSError:
        return ""


def _not_runs(given: object) -> ConfigError:
    hint = "give a path, a Result, Runs, or a sequence of them"
    return ConfigError(f"{type(given).__name__} is not a recorded run", hint=hint)
