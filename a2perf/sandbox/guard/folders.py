"""Counts the content of folders. The walk is relative to open folders, so no path is too long for it.

Links are not followed, and only folders are opened. If a folder's mode locks out its owner, the mode is changed first.
"""
# ruff: noqa: SIM105

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_DEPTH = 128
"""Nested folders; each open one costs the guard two descriptors."""

BLOCK_BYTES = 512
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Walk:
    """One walk; it stops as soon as a bound is exceeded.

    A file counts with its length or its disk space, whichever is larger, once per name; an empty one as a block.
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
        """Returns the name of an exceeded bound and the value that exceeds it, or ``None``."""
        if self.bytes > self._most_bytes:
            return "artifact_bytes", self.bytes
        if self.entries > self._most_entries:
            return "artifact_entries", self.entries
        if self.depth > MOST_DEPTH:
            return "artifact_depth", self.depth
        return None

    def _below(self, top: int) -> None:
        """Walks below an open folder and closes it."""
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
            return False  # deleted in the meantime
        size = found.st_size if stat.S_ISREG(found.st_mode) else 0
        self.bytes += max(BLOCK_BYTES, found.st_blocks * BLOCK_BYTES, size)
        return stat.S_ISDIR(found.st_mode)

    def _enter(self, folder: int, name: str) -> int:
        """Opens a subfolder; returns -1 if it is gone or cannot be opened."""
        try:
            return os.open(name, _FOLDER, dir_fd=folder)
        except PermissionError:
            pass
        except (FileNotFoundError, NotADirectoryError):
            return -1
        except OSError as error:
            self.unreadable += error.errno != 40  # ELOOP: a link has replaced it
            return -1
        try:
            # O_PATH needs no permission on the folder itself, and keeps it in hand while its mode changes.
            place = os.open(name, _PLACE, dir_fd=folder)
        except OSError:
            return -1
        try:
            _open_up(place)
            # That path is itself a link, which O_NOFOLLOW would refuse.
            return os.open(f"/proc/self/fd/{place}", _FOLDER & ~os.O_NOFOLLOW)
        except OSError:
            self.unreadable += 1
            return -1
        finally:
            os.close(place)


def _open_up(place: int) -> None:
    """Gives the owner access to an open folder, by descriptor: its name may refer to something else by now."""
    try:
        os.chmod(f"/proc/self/fd/{place}", stat.S_IMODE(os.fstat(place).st_mode) | stat.S_IRWXU)
    except OSError:
        pass
