"""Access to the files of one recorded run, in a folder or in a packed file.

Every reader of a run uses ``BundleFiles``. Names are POSIX paths relative to the run's folder. No implementation
follows a link, blocks on a fifo or reads more than the given bound.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from a2perf.runs.bundles.layout import CONFIG, EARLIER_CONFIG
from a2perf.runs.packed.packed_archive import is_packed, on_disk
from a2perf.runs.packed.packed_format import SUFFIX
from a2perf.stranger_files import (
    DEFAULT_BOUNDS,
    Bounds,
    FolderEntry,
    Kind,
    StrangerFileError,
    folders,
    open_regular,
    read_regular_file,
    walk,
)
from a2perf.system import permissions

RUN_BOUNDS = Bounds(entries=2_000_000)
"""Bound on the names in one run."""

OnError = Callable[[StrangerFileError], None]


@dataclass(frozen=True, slots=True)
class FileStatus:
    """The status of a name.

    Attributes:
        path: the name; if one of its parents is a link or not a folder, that parent.
        size: bytes of a regular file; ``stored`` on disk, which is less for a sparse file.
        stamp: changes with the content of a regular file, in practice; empty if unknown.
    """

    path: str
    kind: Kind
    mode: int
    size: int
    stored: int
    target: str = ""
    stamp: str = ""

    @property
    def name(self) -> str:
        """The last part of ``path``."""
        return self.path.rpartition("/")[2]


class BundleFile(NamedTuple):
    """One result of ``BundleFiles.entries``.

    Attributes:
        open: opens a regular file for reading; valid until the next result. Raises ``StrangerFileError`` if it is not a
            regular file, cannot be opened, or was replaced since it was listed.
    """

    status: FileStatus
    open: Callable[[], BinaryIO]


class BundleFiles:
    """The files of one run.

    Args:
        path: the run's folder, which may be in a packed file; its own last part may be a link.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._real = Path(os.path.realpath(on_disk(path)))

    def status(self, name: str) -> FileStatus | None:
        """Returns the status of a name; None if it does not exist."""
        parts = name.split("/")
        # For a null byte lstat raises ValueError, which the handler below would miss.
        if name.startswith("/") or ".." in parts or "\0" in name:
            return None
        # lstat follows links in every part of a path but the last, so each part is examined by itself.
        for count in range(1, len(parts) + 1):
            part = "/".join(parts[:count])
            place = os.path.join(self._real, part)
            try:
                found = os.lstat(place)
            except OSError:
                return None
            kind = Kind.of(found.st_mode)
            if count == len(parts) or kind is not Kind.FOLDER:
                return _status(part, kind, found, os.readlink(place) if kind is Kind.LINK else "")
        return None

    def entries(
        self, below: str = "", bounds: Bounds = DEFAULT_BOUNDS, on_error: OnError | None = None
    ) -> Iterator[BundleFile]:
        """Yields all entries below a folder as ``stranger_files.walk`` does; nothing if ``below`` is not a folder."""
        if below:
            found = self.status(below)
            if found is None or found.kind is not Kind.FOLDER or found.path != below:
                return
        prefix = f"{below}/" if below else ""
        for entry in walk(self._real / below, bounds, on_error=on_error):
            target = entry.target() if entry.kind is Kind.LINK else ""
            status = _status(prefix + entry.path, entry.kind, entry.status, target)
            yield BundleFile(status, functools.partial(_opened, entry))

    def open(self, name: str) -> BinaryIO:
        """Opens a regular file for reading; the stream can seek.

        Raises:
            StrangerFileError: it does not exist, is not a regular file, or one of its parents is a link.
        """
        return os.fdopen(open_regular(self._real, name), "rb")

    def read(self, name: str, limit: int) -> bytes:
        """Returns the content of a regular file.

        Raises:
            BoundExceeded: it is larger than ``limit`` bytes; at most that much is read.
            StrangerFileError: as ``open``.
        """
        return read_regular_file(self._real, name, max_bytes=limit)

    def fingerprint(self, without: tuple[str, ...] = (), *, folders: bool = True) -> str:
        """Returns a hash over names, sizes and times; contents are not read."""
        digest = hashlib.sha256()
        try:
            # an error counts as content: the hash changes when the folder becomes readable
            for entry in walk(
                self._real, RUN_BOUNDS, on_error=lambda error: digest.update(error.message.encode("utf-8", "replace"))
            ):
                status = entry.status
                if entry.kind is Kind.FOLDER:
                    if folders:  # an empty folder is a change too
                        digest.update(f"{entry.path}\0{status.st_mode}\0".encode("utf-8", "surrogateescape"))
                elif entry.name not in without:
                    # ctime too: unlike mtime, a program cannot set it back
                    stamps = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_mode}"
                    digest.update(f"{entry.path}\0{stamps}\0".encode("utf-8", "surrogateescape"))
        except StrangerFileError as error:
            digest.update(error.message.encode("utf-8", "replace"))
        return digest.hexdigest()


def files_of(path: Path) -> BundleFiles:
    """Returns the files of the run at a path, which may lead into a packed file."""
    return BundleFiles(path)


def configuration_name(files: BundleFiles) -> str:
    """Returns the name of the file with the configuration of a bundle, which earlier versions named differently."""
    earlier = files.status(CONFIG) is None and files.status(EARLIER_CONFIG) is not None
    return EARLIER_CONFIG if earlier else CONFIG


def kind_at(path: Path) -> Kind | None:
    """Returns the kind of a path, which may lead into a packed file; None if it does not exist."""
    try:
        return Kind.of(os.lstat(on_disk(path)).st_mode)
    except (OSError, ValueError):  # ValueError: a null byte
        return None


def names_at(folder: Path) -> list[str]:
    """Returns the sorted names in a folder, which may be in a packed file; an empty list if it is not a folder."""
    place = on_disk(folder)
    return sorted(os.listdir(place)) if place.is_dir() else []


def folders_of(top: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields folders from the top down as ``stranger_files.folders`` does, with the folders in packed files.

    The folders in a packed file are yielded after the folder that holds the file, with paths that ``files_of`` takes.
    The caller removes names from either list to skip them.

    Raises:
        BoundExceeded, PackedFileError: there are more names than ``RUN_BOUNDS`` allows; a packed file is damaged.
    """
    real = on_disk(top)
    for folder, names, others in folders(real, RUN_BOUNDS):
        yield (folder if real == top else str(top / Path(folder).relative_to(real))), names, others
        for name in sorted(others) if real == top else ():
            place = Path(folder, name)
            if name.endswith(SUFFIX) and not place.is_symlink() and is_packed(place):
                yield from folders_of(place)


def _opened(entry: FolderEntry) -> BinaryIO:
    return os.fdopen(entry.open(), "rb")


def _status(path: str, kind: Kind, found: os.stat_result, target: str) -> FileStatus:
    size = found.st_size if kind is Kind.FILE else 0
    stamp = f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
    # st_blocks counts units of 512 bytes, whatever the block size of the file system.
    stored = found.st_blocks * 512 if hasattr(found, "st_blocks") else size
    return FileStatus(path, kind, permissions(found), size, stored, target, stamp)
