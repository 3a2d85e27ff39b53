"""What lies below some folders, for a bound on it: walked relative to open folders, so that no path is too long.

Links are not followed, and nothing but folders is opened. A folder whose mode keeps its owner out is opened up first.
"""
# ruff: noqa: SIM105

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_DEPTH = 128
"""Folders in folders; every open one costs the guard two descriptors."""

BLOCK_BYTES = 512
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Walk:
    """One walk; it ends early where a bound is passed.

    A file counts with its size or with its disk space, whichever is more, once for each of its names; an empty one
    counts for a block.

    Args:
        folders: where to begin.
        most_bytes: bound on the sum.
        most_entries: bound on the number of names.

    Attributes:
        bytes: found so far.
        entries: found so far.
        depth: of the deepest folder.
        unreadable: folders that could not be looked into.
        devices: file systems of what was found.
    """

    def __init__(self, folders: list[str], most_bytes: float, most_entries: float) -> None:
        self.bytes = 0
        self.entries = 0
        self.depth = 0
        self.unreadable = 0
        self.devices: set[int] = set()
        self._most_bytes = most_bytes
        self._most_entries = most_entries
        for path in folders:
            try:
                descriptor = os.open(path, _FOLDER)
            except FileNotFoundError:
                continue
            except OSError:
                self.unreadable += 1
                continue
            self.devices.add(os.fstat(descriptor).st_dev)
            self._below(descriptor)

    def over(self) -> tuple[str, float] | None:
        """Returns the name of the bound that was passed and what passed it, or ``None``."""
        if self.bytes > self._most_bytes:
            return "artifact_bytes", self.bytes
        if self.entries > self._most_entries:
            return "artifact_entries", self.entries
        if self.depth > MOST_DEPTH:
            return "artifact_depth", self.depth
        return None

    def _below(self, top: int) -> None:
        """Walks below an open folder, which it closes."""
        opened: list[tuple[int, Iterator[os.DirEntry[str]]]] = []
        waiting = top
        try:
            while True:
                if waiting >= 0:
                    opened.append((waiting, self._listing(waiting)))
                    waiting = -1
                    self.depth = max(self.depth, len(opened) - 1)
                if not opened or self.over():
                    return
                descriptor, listing = opened[-1]
                entry = next(listing, None)
                if entry is None:
                    os.close(descriptor)
                    opened.pop()
                elif self._count(descriptor, entry):
                    waiting = self._enter(descriptor, entry.name)
        finally:
            for descriptor, _ in opened:
                os.close(descriptor)

    def _listing(self, descriptor: int) -> Iterator[os.DirEntry[str]]:
        try:
            return os.scandir(descriptor)
        except OSError:
            self.unreadable += 1
            return iter(())

    def _count(self, folder: int, entry: os.DirEntry[str]) -> bool:
        """Adds one name; returns whether it is a folder."""
        self.entries += 1
        try:
            found = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
        except PermissionError:  # the folder may be listed but not searched
            _open_up(folder)
            try:
                found = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                self.unreadable += 1
                return False
        except OSError:
            return False  # it was deleted while we looked
        size = found.st_size if stat.S_ISREG(found.st_mode) else 0
        self.bytes += max(BLOCK_BYTES, found.st_blocks * BLOCK_BYTES, size)
        return stat.S_ISDIR(found.st_mode)

    def _enter(self, folder: int, name: str) -> int:
        """Opens a folder in a folder; -1 where it is gone or stays closed."""
        try:
            return os.open(name, _FOLDER, dir_fd=folder)
        except PermissionError:
            pass
        except (FileNotFoundError, NotADirectoryError):
            return -1
        except OSError as error:
            self.unreadable += error.errno != 40  # ELOOP: a link has taken its place
            return -1
        try:
            place = os.open(name, _PLACE, dir_fd=folder)
        except OSError:
            return -1
        try:
            _open_up(place)
            return os.open(f"/proc/self/fd/{place}", _FOLDER & ~os.O_NOFOLLOW)
        except OSError:
            self.unreadable += 1
            return -1
        finally:
            os.close(place)


def _open_up(place: int) -> None:
    """Lets the owner into an open folder, by its descriptor: its name may be another one's by now."""
    try:
        os.chmod(f"/proc/self/fd/{place}", stat.S_IMODE(os.fstat(place).st_mode) | stat.S_IRWXU)
    except OSError:
        pass
