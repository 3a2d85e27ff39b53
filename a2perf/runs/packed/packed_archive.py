"""Reads packed runs, which may come from another person: checks the whole structure before it reads any content.

Contents are streamed, never extracted.
"""

from __future__ import annotations

import bisect
import io
import stat
import threading
import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, BinaryIO

from a2perf.errors import UserError
from a2perf.runs.packed.packed_format import BEGINNING_BYTES, SUFFIX, Member, Refused, checked_members, is_marked, order
from a2perf.stranger_files import BoundExceeded, Kind, NotRegular, Unreadable, printable
from a2perf.system import files as os

_IN_MEMORY_BYTES = 8 << 20  # files up to this size are inflated once, because readers of arrays seek in them
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError)


class PackedFileError(UserError):
    """The file is damaged, hostile, or not a packed run."""


class PackedArchive:
    """An open packed file with a checked directory; contents are read and checked on demand.

    Reads use ``pread`` and never move the descriptor's position: threads and forked processes share one archive.

    Args:
        descriptor: the same file, open for reading; the archive closes it.

    Attributes:
        members: every file, folder and link by name, in the order of a walk, without the marker.

    Raises:
        PackedFileError: it is not in the form that ``a2perf pack`` writes, or exceeds a limit.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._lock = threading.Lock()
        source = _PositionedFile(descriptor)  # closes the descriptor when the last open member is closed too
        try:
            self._archive, self._ordered = checked_members(source, descriptor)
        except Refused as error:
            message = f"{printable(str(path))}: {error}"
            raise PackedFileError(message, hint="ask for a file made by `a2perf pack`") from error
        self.members = {member.name: member for member in self._ordered}
        status = os.fstat(descriptor)
        self.stamp = f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"

    def tops(self) -> list[str]:
        """Returns the names at the top."""
        return [name for name in self.members if "/" not in name]

    def below(self, folder: str) -> Iterator[Member]:
        """Yields all entries below a folder (``""``: of the archive), each folder before its content."""
        prefix = folder.encode().replace(b"/", b"\0") + b"\0" if folder else b""
        for index in range(bisect.bisect_left(self._ordered, prefix, key=order), len(self._ordered)):
            if not order(self._ordered[index]).startswith(prefix):
                return
            yield self._ordered[index]

    def open(self, name: str) -> BinaryIO:
        """Opens a file for reading. The stream can seek; in a large file, seeking back inflates it again.

        Reading damaged content raises ``OSError``.

        Raises:
            NotRegular: it is a folder or a link.
            OSError: the content of a small file is damaged.
            Unreadable: the file does not exist.
        """
        member = self.members.get(name)
        if member is None:
            raise Unreadable(name, "does not exist")
        if member.kind is not Kind.FILE:
            raise NotRegular(name, f"is a {member.kind}, not a regular file")
        try:
            # ZipFile counts its open members without a lock, and threads share this archive.
            with self._lock:
                stream = self._archive.open(name)
        except (zipfile.BadZipFile, OSError, ValueError) as error:  # the packed file changed after the check
            raise Unreadable(name, f"is damaged in the packed file: {error}") from error
        reader = io.BufferedReader(_MemberStream(stream, name))
        if member.size > _IN_MEMORY_BYTES:
            return reader
        with reader:
            return io.BytesIO(reader.read())

    def read(self, name: str, limit: int) -> bytes:
        """Returns the content of a file.

        Raises:
            BoundExceeded: it is larger than ``limit`` bytes.
            NotRegular: it is a folder or a link.
            Unreadable: the file does not exist, or its content is damaged.
        """
        member = self.members.get(name)
        if member is not None and member.size > limit:
            raise BoundExceeded("bytes", name, f"is larger than {limit} bytes")
        try:
            with self.open(name) as stream:
                return stream.read()
        except OSError as error:
            raise Unreadable(name, "is damaged in the packed file") from error


def opened_archive(path: Path) -> PackedArchive:
    """Returns an open packed file; it is opened and checked once until it changes.

    Raises:
        PackedFileError: it is not a packed run, or it is damaged or hostile.
        NotRegular: it is not a regular file.
        Unreadable: it cannot be opened.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        raise Unreadable(str(path), f"cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise NotRegular(str(path), "is not a regular file")
    return _opened(path.absolute(), _version(status))


def is_packed(path: Path | str) -> bool:
    """Returns whether a regular file starts like a packed run; its content is not checked."""
    text = os.fspath(path)
    try:
        if not text.endswith(SUFFIX) or not stat.S_ISREG((status := os.stat(text)).st_mode):
            return False
        return _begins_marked(text, _version(status))
    except (OSError, ValueError):
        return False


def packed_place(path: Path) -> tuple[Path, str] | None:
    """Splits a path that leads into a packed file.

    Returns:
        The packed file and the name inside of it, ``""`` for the packed file itself; None for any other path.
    """
    if SUFFIX not in (text := path.as_posix()):
        return None
    at = text.find(SUFFIX)
    while at >= 0:
        end = at + len(SUFFIX)
        if end == len(text) or text[end] == "/":
            if is_packed(text[:end]):
                return Path(text[:end]), text[end:].strip("/")
            if not os.path.isdir(text[:end]):
                return None
        at = text.find(SUFFIX, end)
    return None


def packed_top(path: Path) -> Path:
    """Returns the only folder at the top of a packed file, or the path itself for anything else.

    Raises:
        PackedFileError: the packed file is damaged or hostile.
    """
    place = packed_place(path)
    if place is None or place[1]:
        return path
    tops = opened_archive(place[0]).tops()
    return path / tops[0] if len(tops) == 1 else path


def unpacked_path(path: Path) -> Path:
    """Returns the path that an entry of a packed file would have after unpacking the file beside itself."""
    place = packed_place(path)
    return path if place is None else place[0].parent / place[1]


class _Stream(io.RawIOBase):
    """A stream that can be read and sought in."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


class _PositionedFile(_Stream):
    """A file with a separate position, because forked processes share the position of its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._at = descriptor, 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        self._at = offset + (os.fstat(self._descriptor).st_size if base is None else base)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        count = os.preadv(self._descriptor, [buffer], self._at)
        self._at += count
        return count

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class _MemberStream(_Stream):
    """A member's content; damage raises ``OSError``, as for a file on a broken disk."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name = stream, name

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        try:
            return self._stream.seek(offset, whence)
        except _DAMAGE as error:
            raise OSError(f"{printable(self._name)} is damaged in the packed file: {error}") from error

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        try:
            data = self._stream.read(len(buffer))
        except _DAMAGE as error:
            raise OSError(f"{printable(self._name)} is damaged in the packed file: {error}") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@lru_cache(maxsize=64)
def _opened(path: Path, version: tuple[int, ...]) -> PackedArchive:
    try:
        # O_NONBLOCK: if a pipe has replaced the file since its check, opening it must not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise Unreadable(str(path), f"cannot be read: {error.strerror}") from error
    if _version(os.fstat(descriptor))[:2] != version[:2]:
        os.close(descriptor)
        raise Unreadable(str(path), "was replaced while it was read")
    return PackedArchive(path, descriptor)


@lru_cache(maxsize=1024)
def _begins_marked(path: str, version: tuple[int, ...]) -> bool:
    # Only a part of the cache's key: a changed file is examined again.
    del version
    with open(path, "rb") as stream:
        return is_marked(stream.read(BEGINNING_BYTES))
