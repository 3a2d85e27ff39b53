"""Turns what a tree leaves in its folders into plain files of the evaluator, once all its processes have ended.

No link is followed, and only folders are opened for reading. Each entry is held by a descriptor (``O_PATH``) while it
is inspected and changed: its name could be replaced between the two steps.
"""

from __future__ import annotations

import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_DEPTH = 160
"""Nested folders; deeper ones are deleted. More than ``folders`` allows a running tree."""

BEAT_S = 1.0
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SPECIAL_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_REACHES_OTHERS = ("system.", "security.", "trusted.")


class Collection:
    """Collects folders and counts what it did.

    Args:
        beat: called about once per second of work, as a sign of life.

    Attributes:
        removed: entries that were neither file, folder nor link (devices, pipes, sockets), or nested too deep.
        changed: files and folders that lost set-ID or sticky bits, access lists, or a mode that locked out the owner.
        failed: entries that could not be changed.
    """

    def __init__(self, uid: int, gid: int, beat: Callable[[], None] = lambda: None) -> None:
        self.removed = 0
        self.changed = 0
        self.failed = 0
        self._uid = uid
        self._gid = gid
        self._beat = beat
        self._next_beat = time.monotonic() + BEAT_S

    def collect(self, folders: Iterable[str]) -> None:
        """Walks the folders; paths that are not folders are skipped."""
        for path in folders:
            try:
                top = os.open(path, _PLACE | os.O_DIRECTORY)
            except OSError:
                continue
            self._settle(top, os.fstat(top))
            self._below(top)

    def _below(self, top: int) -> None:
        """Settles everything below an open folder and closes it. Without recursion: the tree chose the depth."""
        way = [(top, self._names(top))]
        while way:
            folder, names = way[-1]
            if not names:
                os.close(folder)
                way.pop()
                continue
            if time.monotonic() > self._next_beat:
                self._next_beat = time.monotonic() + BEAT_S
                self._beat()
            below = self._one(folder, names.pop(), too_deep=len(way) > MOST_DEPTH)
            if below >= 0:
                way.append((below, self._names(below)))

    def _names(self, folder: int) -> list[str]:
        try:
            # The path itself is a link, which O_NOFOLLOW would refuse; it leads to the held folder.
            readable = os.open(f"/proc/self/fd/{folder}", _FOLDER & ~os.O_NOFOLLOW)
        except OSError:
            self.failed += 1
            return []
        try:
            return os.listdir(readable)
        finally:
            os.close(readable)

    def _one(self, folder: int, name: str, *, too_deep: bool) -> int:
        """Settles one entry; returns an open descriptor if it is a folder to enter, else -1."""
        try:
            place = os.open(name, _PLACE, dir_fd=folder)
        except OSError:
            self.failed += 1
            return -1
        kept = False
        try:
            found = os.fstat(place)
            kind = stat.S_IFMT(found.st_mode)
            if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                os.unlink(name, dir_fd=folder)
                self.removed += 1
            elif kind == stat.S_IFDIR and too_deep:
                self._remove_folder(folder, name)
            elif kind == stat.S_IFLNK:
                if (found.st_uid, found.st_gid) != (self._uid, self._gid):
                    os.chown(name, self._uid, self._gid, dir_fd=folder, follow_symlinks=False)
            else:
                self._settle(place, found)
                kept = kind == stat.S_IFDIR
        except OSError:
            self.failed += 1
        finally:
            if not kept:
                os.close(place)
        return place if kept else -1

    def _settle(self, place: int, found: os.stat_result) -> None:
        """Resets mode, owner and attributes of an open file or folder; counts a failure."""
        path = f"/proc/self/fd/{place}"  # an O_PATH descriptor refuses fchmod, but its link in /proc can be changed
        mode = stat.S_IMODE(found.st_mode)
        wanted = mode & ~_SPECIAL_BITS | (stat.S_IRWXU if stat.S_ISDIR(found.st_mode) else stat.S_IRUSR | stat.S_IWUSR)
        changed = False
        try:
            for name in os.listxattr(path):
                if name.startswith(_REACHES_OTHERS):
                    os.removexattr(path, name)
                    changed = True
        except OSError:
            pass  # the file system has no extended attributes
        try:
            if (found.st_uid, found.st_gid) != (self._uid, self._gid):
                os.chown(path, self._uid, self._gid)
            if wanted != mode:
                os.chmod(path, wanted)
                changed = True
        except OSError:
            self.failed += 1
        self.changed += changed

    def _remove_folder(self, parent: int, name: str) -> None:
        """Deletes a folder of any depth: moves each subfolder up beside it until all are empty."""
        number = 0
        waiting = [name]
        while waiting:
            current = waiting.pop()
            place = os.open(current, _PLACE | os.O_DIRECTORY, dir_fd=parent)
            try:
                # Its mode may lock out the owner: the walk has not settled folders of this depth.
                os.chmod(f"/proc/self/fd/{place}", 0o700)
                for inner in self._names(place):
                    if stat.S_ISDIR(os.stat(inner, dir_fd=place, follow_symlinks=False).st_mode):
                        number += 1
                        os.rename(inner, f".a2perf-deep-{number}", src_dir_fd=place, dst_dir_fd=parent)
                        waiting.append(f".a2perf-deep-{number}")
                    else:
                        os.unlink(inner, dir_fd=place)
            finally:
                os.close(place)
            os.rmdir(current, dir_fd=parent)
        self.removed += 1
