"""Reads the files of a bundle one by one. A damaged file does not affect the others; no link is followed."""

from __future__ import annotations

import functools
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from a2perf.errors import UserError
from a2perf.records import FURTHER_EPISODE, SCORED_EPISODE, Episode, Manifest, Record, RolloutResults, RunState
from a2perf.runs.bundles import inventory, layout
from a2perf.runs.bundles.files import BundleFiles, FileStatus
from a2perf.runs.tracking_record import TrackingReport, read_tracking
from a2perf.storage import (
    MAX_JOURNAL_BYTES,
    MAX_JSON_BYTES,
    MAX_RECORD_BYTES,
    MAX_VALUES,
    journal_entries,
    parse_json,
    parse_record,
)
from a2perf.stranger_files import Kind, StrangerFileError

_MAX_CHANGES = 10
_EPISODE_VALUES = 8  # an episode costs as much memory as so many values
_MAX_ARRAY_BYTES = 256 << 20  # of the arrays in a compressed file, after decompression
_DAMAGE = (
    UserError,
    OSError,
    ValueError,
    TypeError,
    EOFError,
    KeyError,
    OverflowError,
    RecursionError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
    msgspec.MsgspecError,
)
T = TypeVar("T")
R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class RecordedEpisodes:
    """The recorded episodes of one task.

    Attributes:
        name: the file that holds them; ``journal`` for a run that was killed before it wrote another.
        results: None for such a run.
    """

    name: str
    folder: str
    journal: str
    episodes: list[Episode]
    further: list[Episode]
    results: RolloutResults | None


class BundleReader:
    """Reads the files of a bundle one by one and collects the problems, a sentence each, in ``conditions``.

    Of an ended run it reads only the files that the manifest lists. The manifest is None if it cannot be read.
    """

    def __init__(self, files: BundleFiles, manifest: Manifest | None) -> None:
        self.files = files
        self.manifest = manifest
        self.conditions: list[str] = []

    @property
    def is_ended(self) -> bool:
        """Whether the run has ended, so its files are complete."""
        return self.manifest is not None and self.manifest.state in (RunState.FINISHED, RunState.FAILED)

    @functools.cached_property
    def evaluations(self) -> dict[str, RecordedEpisodes]:
        """The recorded episodes by task; those of a killed run come from its journal."""
        folders = {"": layout.METRICS}
        for name in self.below(layout.TASKS, (layout.ROLLOUTS_FILE, layout.JOURNAL)):
            folder = name.rpartition("/")[0]
            folders[folder.removeprefix(f"{layout.TASKS}/")] = folder
        found = {}
        for task, folder in sorted(folders.items()):
            name = f"{folder}/{layout.ROLLOUTS_FILE}"
            journal = f"{folder}/{layout.JOURNAL}" if task else layout.JOURNAL
            task = task or (self.manifest.task if self.manifest is not None else "task")
            results = self.record(name, RolloutResults)
            if results is not None:
                found[task] = RecordedEpisodes(name, folder, journal, results.episodes, results.further, results)
                continue
            journalled = self.journalled(journal)
            if journalled and any(journalled):
                self.conditions.append(f"{name} is not there; {len(journalled[0])} episode(s) of the journal")
                found[task] = RecordedEpisodes(journal, folder, journal, *journalled, None)
        return found

    def journalled(self, name: str) -> tuple[list[Episode], list[Episode]] | None:
        """Returns the scored and the further episodes of a journal; None if it is missing or damaged."""
        return self.tolerant(name, lambda name: _journalled(self.files, name))

    @classmethod
    def of(cls, files: BundleFiles) -> BundleReader:
        """Reads the manifest of a bundle and returns a reader of the other files."""
        reader = cls(files, None)
        if files.status(layout.MANIFEST) is None:
            reader.conditions.append(f"{layout.MANIFEST} is missing")
            return reader
        try:
            reader.manifest = inventory.manifest_in(files)
        except UserError as error:
            words = error.message.replace(str(files.path / layout.MANIFEST), layout.MANIFEST)
            reader.conditions.append(f"{layout.MANIFEST} could not be read: {words}")
        return reader

    def listed(self, name: str) -> FileStatus | None:
        """Returns the status of a regular file that may be read; None if it is missing, a link, or not listed."""
        status = self.files.status(name)
        if status is None or status.path != name or status.kind is not Kind.FILE:
            return None
        return status if inventory.is_listed(self.manifest, name) else None

    def below(self, folder: str, endings: tuple[str, ...]) -> list[str]:
        """Returns the listed regular files at any depth below a folder that have one of the given suffixes."""
        found = []
        try:
            for entry in self.files.entries(folder, on_error=lambda error: self.conditions.append(error.message)):
                status = entry.status
                wanted = status.kind is Kind.FILE and status.name.endswith(endings)
                if wanted and inventory.is_listed(self.manifest, status.path):
                    found.append(status.path)
        except StrangerFileError as error:
            self.conditions.append(error.message)
        return found

    def is_there(self, name: str) -> bool:
        """Returns whether a file may be read; a link or special file in its place becomes a condition."""
        status = self.files.status(name)
        if status is None:
            return False
        if status.kind is Kind.LINK:
            self.conditions.append(f"{status.path}: symbolic link, not followed")
            return False
        if status.path != name:
            return False
        if status.kind is not Kind.FILE:
            self.conditions.append(f"{name}: not a regular file, not read")
            return False
        return inventory.is_listed(self.manifest, name)

    def tolerant(self, name: str, read: Callable[[str], T]) -> T | None:
        """Returns the result of ``read`` for a file; None if the file is missing or damaged, with a condition."""
        if not self.is_there(name):
            return None
        try:
            return read(name)
        except _DAMAGE as error:
            words = error.message if isinstance(error, UserError) else str(error)
            self.conditions.append(f"{name} could not be read: {words}")
            return None

    def record(self, name: str, kind: type[R]) -> R | None:
        """Returns a record; None if it is missing or damaged, with a condition."""
        return self.tolerant(name, lambda name: parse_record(self.files.read(name, MAX_RECORD_BYTES), kind, name))

    def tracking(self, name: str) -> TrackingReport | None:
        """Returns a tracking report; None if it is missing, empty or damaged, with a condition."""
        content = self.tolerant(name, self.json_object)
        if not content:
            return None
        problems: list[str] = []
        report = read_tracking(content, problems)
        self.conditions += [f"{name}: {words}; left out" for words in problems[:_MAX_CHANGES]]
        return report

    def json_object(self, name: str) -> dict[str, Any]:
        """Returns the content of a JSON file; raises ``UserError`` or ``ValueError`` if it is not an object."""
        value = parse_json(self.files.read(name, MAX_JSON_BYTES), name)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        return value


def read_arrays(files: BundleFiles, name: str, keys: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Returns those of the named arrays, or all, that a compressed file holds, flat; nothing in it is unpickled.

    Raises:
        ValueError, OSError, zipfile.BadZipFile: it is not such a file, or its arrays take more than 256 MiB.
    """
    with files.open(name) as stream:
        with zipfile.ZipFile(stream) as archive:
            if sum(item.file_size for item in archive.infolist()) > _MAX_ARRAY_BYTES:
                raise ValueError(f"unpacks to more than {_MAX_ARRAY_BYTES >> 20} MiB")
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as arrays:
            return {key: np.asarray(arrays[key]).ravel() for key in arrays.files if keys is None or key in keys}


def _journalled(files: BundleFiles, name: str) -> tuple[list[Episode], list[Episode]]:
    status = files.status(name)
    if status is None or status.size > MAX_JOURNAL_BYTES:
        raise ValueError(f"not a regular file of at most {MAX_JOURNAL_BYTES >> 30} GiB")
    by_kind: dict[str, dict[int, Episode]] = {SCORED_EPISODE: {}, FURTHER_EPISODE: {}}
    with files.open(name) as stream:
        values = 0
        for entry in journal_entries(stream):
            if (values := values + _EPISODE_VALUES) > MAX_VALUES:
                break
            if entry.get("kind") in by_kind:
                episode = msgspec.convert(entry.get("episode"), Episode)
                by_kind[entry["kind"]][episode.index] = episode
    scored, further = ([found[index] for index in sorted(found)] for found in by_kind.values())
    return scored, further
