"""Reads packed runs, which may be a stranger's: the whole structure is checked before anything is read.

``packed_format`` states the one form that is accepted. Contents are streamed, never extracted.
"""

from __future__ import annotations

import bisect
import io
import json
import os
import stat
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, BinaryIO

from a2perf.errors import UserError
from a2perf.runs.packed_format import (
    DEFLATED,
    ENCRYPTED,
    END_RECORD,
    FORMAT,
    LOCAL_HEADER,
    MARKER,
    MAX_CONTENT_BYTES,
    MAX_DIRECTORY_BYTES,
    MAX_FILE_BYTES,
    MAX_MARKER_BYTES,
    MAX_MEMBERS,
    MAX_RATIO,
    PERMISSIONS,
    RATIO_FREE_BYTES,
    STORED,
    SUFFIX,
    Member,
    end_of_archive,
    link_problem,
    marker,
    name_problem,
    names_problem,
    order,
)
from a2perf.stranger_files import BoundExceeded, Kind, NotRegular, Unreadable, printable

_IN_MEMORY_BYTES = 8 << 20  # files of at most this size are inflated once, since readers of arrays seek in them
_HINT = "ask for a file that `a2perf pack` made"


class PackedFileError(UserError):
    """A packed file is damaged, hostile, or not a packed run.

    Args:
        path: of the packed file.
        message: what is wrong with it.
    """

    def __init__(self, path: Path | str, message: str) -> None:
        super().__init__(f"{printable(str(path))}: {message}", hint=_HINT)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.message,))


class PackedArchive:
    """An open packed file whose directory has been checked; contents are read, and checked, on demand.

    Reading never moves the descriptor's position, so that threads and forked processes can share one archive.

    Args:
        path: of the packed file.
        descriptor: of the same, open for reading; the archive closes it.

    Attributes:
        members: every file, folder and link by name, in the order of a walk, without the marker.
        stamp: text that changes when the packed file does.

    Raises:
        PackedFileError: it is not in the form that ``a2perf pack`` writes, or exceeds a limit.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._lock = threading.Lock()
        source = _Positioned(descriptor)  # closes the descriptor when the last open member is closed too
        self._archive, self.members = _checked(path, source)
        self._keys = [order(member) for member in self.members.values()]
        self._ordered = list(self.members.values())
        status = os.fstat(descriptor)
        self.stamp = f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"

    def tops(self) -> list[str]:
        """Returns the names at the top."""
        return [name for name in self.members if "/" not in name]

    def below(self, folder: str) -> Iterator[Member]:
        """Yields everything below a folder, ``""`` for all, each folder before its content; nothing for other names."""
        prefix = folder.encode().replace(b"/", b"\0") + b"\0" if folder else b""
        for index in range(bisect.bisect_left(self._keys, prefix), len(self._keys)):
            if not self._keys[index].startswith(prefix):
                return
            yield self._ordered[index]

    def open(self, name: str) -> BinaryIO:
        """Opens a file for reading, from its beginning; it can be sought in, if it is large at the cost of reading.

        Reading raises ``OSError`` where the content is damaged.

        Raises:
            NotRegular: it is a folder or a link.
            OSError: the content of a small file is damaged.
            Unreadable: there is no such file.
        """
        member = self.members.get(name)
        if member is None:
            raise Unreadable(name, "does not exist")
        if member.kind is not Kind.FILE:
            raise NotRegular(name, f"is a {member.kind}, not a regular file")
        try:
            with self._lock:
                stream = self._archive.open(name)
        except (zipfile.BadZipFile, OSError, ValueError) as error:  # it was changed since it was checked
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
            Unreadable: there is no such file, or its content is damaged.
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
    """Returns a packed file, opened and checked once for as long as it does not change.

    Raises:
        PackedFileError: it is not a packed run, or a damaged or hostile one.
        Unreadable: it cannot be opened.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        raise Unreadable(str(path), f"cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise PackedFileError(path, "it is not a regular file")
    return _opened(
        path.absolute(), (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    )


def is_packed(path: Path | str) -> bool:
    """Returns whether a regular file begins as a packed run; whether it is a sound one is not checked."""
    text = os.fspath(path)
    try:
        if not text.endswith(SUFFIX) or not stat.S_ISREG((status := os.stat(text)).st_mode):
            return False
        stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return _begins_marked(text, stamp)
    except (OSError, ValueError):
        return False


def packed_place(path: Path) -> tuple[Path, str] | None:
    """Splits a path that leads into a packed file.

    Returns:
        The packed file and the name inside of it, ``""`` for the packed file itself; None for any other path.
    """
    if SUFFIX not in (text := os.fspath(path)):
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
    """Returns what a path stands for: the one folder at the top of a packed file, or the path itself.

    Raises:
        PackedFileError: it is a damaged or hostile packed file.
    """
    place = packed_place(path)
    if place is None or place[1]:
        return path
    tops = opened_archive(place[0]).tops()
    return path / tops[0] if len(tops) == 1 else path


def unpacked_path(path: Path) -> Path:
    """Returns where something in a packed file would lie if the file was unpacked beside itself."""
    place = packed_place(path)
    return path if place is None else place[0].parent / place[1]


class _Positioned(io.RawIOBase):
    """Reads a descriptor at a position of its own, since the descriptor's is shared by forked processes."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self._at = descriptor, 0

    def close(self) -> None:
        if not self.closed:
            os.close(self.descriptor)
        super().close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        self._at = offset + (os.fstat(self.descriptor).st_size if base is None else base)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        count = os.preadv(self.descriptor, [buffer], self._at)
        self._at += count
        return count


class _MemberStream(io.RawIOBase):
    """A member's content; damage is an ``OSError``, as on a disk."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name = stream, name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        try:
            return self._stream.seek(offset, whence)
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise OSError(f"{printable(self._name)} is damaged in the packed file: {error}") from error

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        try:
            data = self._stream.read(len(buffer))
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise OSError(f"{printable(self._name)} is damaged in the packed file: {error}") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


@lru_cache(maxsize=64)
def _opened(path: Path, status: tuple[int, ...]) -> PackedArchive:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise Unreadable(str(path), f"cannot be read: {error.strerror}") from error
    found = os.fstat(descriptor)
    if (found.st_dev, found.st_ino) != status[:2]:
        os.close(descriptor)
        raise Unreadable(str(path), "was replaced while it was read")
    return PackedArchive(path, descriptor)


@lru_cache(maxsize=1024)
def _begins_marked(path: str, stamp: tuple[int, ...]) -> bool:
    del stamp
    with open(path, "rb") as stream:
        return _is_marked(stream.read(LOCAL_HEADER.size + len(MARKER)))


def _checked(path: Path, source: _Positioned) -> tuple[zipfile.ZipFile, dict[str, Member]]:
    """Opens an archive and compares its whole structure with what ``a2perf pack`` would have written."""
    descriptor = source.descriptor
    size = os.fstat(descriptor).st_size
    if not _is_marked(os.pread(descriptor, LOCAL_HEADER.size + len(MARKER), 0)):
        raise PackedFileError(path, "it is not a packed run")
    if size > MAX_FILE_BYTES:
        raise PackedFileError(path, f"it is larger than {MAX_FILE_BYTES} bytes")
    end = os.pread(descriptor, END_RECORD.size, max(0, size - END_RECORD.size))
    if len(end) != END_RECORD.size or not end.startswith(b"PK\x05\x06"):
        raise PackedFileError(path, "it was cut off, or something was appended to it")
    _, disk, first_disk, here, count, length, offset, comment = END_RECORD.unpack(end)
    if 0xFFFF in (disk, first_disk, here, count) or 0xFFFFFFFF in (length, offset):
        raise PackedFileError(path, "it uses the 64-bit extension of ZIP")
    if disk or first_disk or here != count or comment or offset + length + END_RECORD.size != size:
        raise PackedFileError(path, "its end does not fit its content")
    if count > MAX_MEMBERS + 1:
        raise PackedFileError(path, f"it holds more than {MAX_MEMBERS} members")
    if length > MAX_DIRECTORY_BYTES:
        raise PackedFileError(path, f"its directory is larger than {MAX_DIRECTORY_BYTES >> 20} MiB")
    try:
        archive = zipfile.ZipFile(source)
        infos = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, RuntimeError, struct.error) as error:
        raise PackedFileError(path, f"it is not a ZIP archive: {error}") from error
    if len(infos) != count:
        raise PackedFileError(path, f"its directory holds {len(infos)} members and its end says {count}")
    if not infos or infos[0].orig_filename != MARKER:
        raise PackedFileError(path, "its directory does not begin with the first member")
    links = _links(
        path, os.pread(descriptor, min(infos[0].file_size, MAX_MARKER_BYTES), LOCAL_HEADER.size + len(MARKER))
    )
    stored = [_member(path, info) for info in infos]
    members = sorted([*stored[1:], *links], key=order)
    _check_together(path, members)
    if stored[0] != marker({link.name: link.target for link in links})[0]:
        raise PackedFileError(path, f"{MARKER} is not in the form that `a2perf pack` writes")
    if stored[1:] != [member for member in members if member.kind is not Kind.LINK]:
        raise PackedFileError(path, "its members are not in the order of their names")
    directory = os.pread(descriptor, length + END_RECORD.size, offset)
    if directory != end_of_archive(stored, offset):
        raise PackedFileError(path, "its directory is not in the form that `a2perf pack` writes")
    at = 0
    for member in stored:
        if member.offset != at:
            raise PackedFileError(path, f"{printable(member.name)} overlaps another member, or leaves a gap")
        header = member.local_header()
        if os.pread(descriptor, len(header), at) != header:
            raise PackedFileError(path, f"the header of {printable(member.name)} contradicts the directory")
        at = member.end
    if at != offset:
        raise PackedFileError(path, "there is something between its members and its directory")
    return archive, {member.name: member for member in members}


def _member(path: Path, info: zipfile.ZipInfo) -> Member:
    name, full_mode = info.orig_filename, info.external_attr >> 16
    kind = Kind.FOLDER if name.endswith("/") else Kind.FILE
    name = name.removesuffix("/")
    if info.flag_bits & ENCRYPTED:
        raise PackedFileError(path, f"{printable(name)} is encrypted")
    if info.compress_type not in (STORED, DEFLATED):
        raise PackedFileError(path, f"{printable(name)} is neither stored nor deflated")
    if (problem := name_problem(name)) is not None:
        raise PackedFileError(path, f"the name {printable(name)} {problem}")
    if Kind.of(full_mode) is not kind:
        what = Kind.of(full_mode) if stat.S_IFMT(full_mode) else "member of no kind"
        raise PackedFileError(path, f"{printable(name)} is a {what}; only regular files and folders are accepted")
    if stat.S_IMODE(full_mode) & ~PERMISSIONS:
        raise PackedFileError(path, f"{printable(name)} has a set-id or sticky bit")
    if info.compress_type == STORED and info.compress_size != info.file_size:
        raise PackedFileError(path, f"{printable(name)} is stored with two different sizes")
    if kind is Kind.FOLDER and (info.file_size or info.compress_size):
        raise PackedFileError(path, f"{printable(name)} is a folder with content")
    if info.file_size > RATIO_FREE_BYTES and info.file_size > MAX_RATIO * info.compress_size:
        raise PackedFileError(path, f"{printable(name)} unpacks to more than {MAX_RATIO} times its size")
    return Member(
        name, kind, stat.S_IMODE(full_mode), info.compress_type, info.CRC, info.compress_size, info.file_size,
        info.header_offset,
    )  # fmt: skip


def _links(path: Path, content: bytes) -> list[Member]:
    try:
        record = json.loads(content)
        version, links = record["format"], record["links"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise PackedFileError(path, f"{MARKER} is not what `a2perf pack` writes") from error
    if version != FORMAT:
        raise PackedFileError(path, f"it has the format {version!r:.20}; this a2perf reads {FORMAT}")
    if not isinstance(links, dict) or not all(isinstance(target, str) for target in links.values()):
        raise PackedFileError(path, f"{MARKER} is not what `a2perf pack` writes")
    for name, target in links.items():
        if (problem := name_problem(name) or link_problem(name, target)) is not None:
            raise PackedFileError(path, f"the name {printable(name)} {problem}")
    return [Member(name, Kind.LINK, 0o777, target=target) for name, target in links.items()]


def _check_together(path: Path, members: list[Member]) -> None:
    if (problem := names_problem([MARKER, *(member.name for member in members)])) is not None:
        raise PackedFileError(path, problem)
    if len(members) > MAX_MEMBERS:
        raise PackedFileError(path, f"it holds more than {MAX_MEMBERS} members")
    if sum(member.size for member in members) > MAX_CONTENT_BYTES:
        raise PackedFileError(path, f"it unpacks to more than {MAX_CONTENT_BYTES >> 30} GiB")
    folders = {member.name for member in members if member.kind is Kind.FOLDER}
    for member in members:
        above, _, _ = member.name.rpartition("/")
        if not above and member.kind is not Kind.FOLDER:
            raise PackedFileError(path, f"{printable(member.name)} lies outside of every run")
        if above and above not in folders:
            raise PackedFileError(path, f"{printable(member.name)} lies in a folder that is not a member")


def _is_marked(beginning: bytes) -> bool:
    return beginning.startswith(b"PK\x03\x04") and beginning[LOCAL_HEADER.size :] == MARKER.encode()


def _rebuild(message: str) -> PackedFileError:
    error = PackedFileError("", "")
    error.args, error.message = (message,), message
    return error
