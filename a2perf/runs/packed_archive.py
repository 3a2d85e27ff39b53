"""The file format of packed runs: a ZIP archive in one canonical form, read by whoever received it from a stranger.

``a2perf pack`` writes this form and nothing else is accepted, so two readers cannot see two different contents: members
lie without gaps in the order of their names, headers hold no comments, extra fields or times, names are plain relative
paths, and the directory ends the file. ``docs/reference/packed_runs.md`` states the format and its limits.
"""

from __future__ import annotations

import io
import os
import stat
import struct
import threading
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from a2perf.errors import UserError
from a2perf.stranger_files import Kind, Unreadable, printable

SUFFIX = ".zip"
MARKER, MARKER_CONTENT = "a2perf-packed-runs", b"1\n"
"""Name and content of the first member, which tells a packed run from other archives; the content is the version."""

MAX_MEMBERS = 65_534
MAX_FILE_BYTES = MAX_MEMBER_BYTES = 0xFFFF_FFFE
"""Of the packed file and of one member: the bounds of ZIP without its 64-bit extension."""
MAX_CONTENT_BYTES = 64 << 30
MAX_DIRECTORY_BYTES = 64 << 20
MAX_RATIO, RATIO_FREE_BYTES = 250, 1 << 20
"""A member of more than ``RATIO_FREE_BYTES`` may not be larger than ``MAX_RATIO`` times its deflated bytes."""
MAX_DEPTH = 100
MAX_NAME_BYTES, MAX_PART_BYTES = 2048, 255

STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4sBB5H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_ENCRYPTED, _UTF8 = 0x1, 0x800
_VERSION, _UNIX, _DATE, _FOLDER_FLAG = 20, 3, (1 << 5) | 1, 0x10  # the date is 1 January 1980, the first there is
_PERMISSIONS = 0o777
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


@dataclass(frozen=True, slots=True)
class Member:
    """One file or folder of a packed file.

    Attributes:
        name: path below the top, with ``/`` between names and none at the end.
        kind: ``Kind.FILE`` or ``Kind.FOLDER``.
        mode: permission bits.
        method: ``STORED`` or ``DEFLATED``.
        crc: CRC-32 of the content.
        packed_size: bytes in the packed file.
        size: bytes of the content.
        offset: of the member's header in the packed file.
    """

    name: str
    kind: Kind
    mode: int
    method: int = STORED
    crc: int = 0
    packed_size: int = 0
    size: int = 0
    offset: int = 0

    @property
    def full_name(self) -> str:
        """The name in the archive: that of a folder ends in ``/``."""
        return f"{self.name}/" if self.kind is Kind.FOLDER else self.name

    def local_header(self) -> bytes:
        """Returns the header in front of the content, in its one canonical form."""
        name = self.full_name.encode()
        numbers = (_flags(name), self.method, 0, _DATE, self.crc, self.packed_size, self.size, len(name), 0)
        return _LOCAL.pack(b"PK\x03\x04", _VERSION, *numbers) + name

    def directory_entry(self) -> bytes:
        """Returns the entry in the directory, in its one canonical form."""
        name = self.full_name.encode()
        numbers = (_flags(name), self.method, 0, _DATE, self.crc, self.packed_size, self.size, len(name))
        folder = self.kind is Kind.FOLDER
        attributes = ((stat.S_IFDIR if folder else stat.S_IFREG) | self.mode) << 16 | (_FOLDER_FLAG if folder else 0)
        rest = (0, 0, 0, 0, attributes, self.offset)
        return _CENTRAL.pack(b"PK\x01\x02", _VERSION, _UNIX, _VERSION, *numbers, *rest) + name

    @property
    def end(self) -> int:
        """Where the next member begins."""
        return self.offset + _LOCAL.size + len(self.full_name.encode()) + self.packed_size


def _flags(name: bytes) -> int:
    return 0 if name.isascii() else _UTF8


_MARKER = Member(MARKER, Kind.FILE, 0o644, STORED, zlib.crc32(MARKER_CONTENT), *[len(MARKER_CONTENT)] * 2)
_MAGIC = _MARKER.local_header() + MARKER_CONTENT


class PackedArchive:
    """An open packed file whose directory has been checked; contents are read, and checked, on demand.

    Reading never moves the descriptor's position, so that threads and forked processes can share one archive.

    Args:
        path: of the packed file.
        descriptor: of the same, open for reading; the archive closes it.

    Attributes:
        members: every file and folder by name, in the order of the archive, without the marker.

    Raises:
        PackedFileError: it is not in the form that ``a2perf pack`` writes, or exceeds a limit.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._lock = threading.Lock()
        source = _Positioned(descriptor)  # closes the descriptor when the last open member is closed too
        self._archive, self.members = _checked(path, source)

    def tops(self) -> list[str]:
        """Returns the names at the top."""
        return [name for name in self.members if "/" not in name]

    def open(self, name: str) -> io.BufferedReader:
        """Opens a file for reading, from its beginning; it can be sought in, at the cost of reading.

        Reading raises ``OSError`` where the content is damaged.

        Raises:
            Unreadable: there is no such file.
        """
        member = self.members.get(name)
        if member is None:
            raise Unreadable(name, "does not exist")
        if member.kind is not Kind.FILE:
            raise Unreadable(name, "is a folder, not a regular file")
        with self._lock:
            stream = self._archive.open(name)
        return io.BufferedReader(_MemberStream(stream, name))


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


def is_packed(path: Path) -> bool:
    """Returns whether a regular file begins as a packed run; whether it is a sound one is not checked."""
    try:
        if path.suffix != SUFFIX or not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
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
            file = Path(text[:end])
            if is_packed(file):
                return file, text[end:].strip("/")
            if not file.is_dir():
                return None
        at = text.find(SUFFIX, end)
    return None


def unpacked_path(path: Path) -> Path:
    """Returns where something in a packed file would lie if the file was unpacked beside itself."""
    place = packed_place(path)
    return path if place is None else place[0].parent / place[1]


def name_problem(name: str) -> str | None:
    """Returns what keeps a relative path out of packed files, or None."""
    parts = name.split("/")
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return "is not UTF-8"
    if "\\" in name:
        return "has a backslash"
    if not name.replace("/", "").isprintable():
        return "has a character that cannot be printed"
    if name.startswith("/") or (len(parts[0]) > 1 and parts[0][1] == ":" and parts[0][0].isalpha()):
        return "is an absolute path"
    if any(part in ("", ".", "..") for part in parts):
        return "has a part that is empty, `.` or `..`"
    if len(parts) > MAX_DEPTH:
        return f"is deeper than {MAX_DEPTH} folders"
    if len(encoded) > MAX_NAME_BYTES or any(len(part.encode()) > MAX_PART_BYTES for part in parts):
        return f"is longer than {MAX_NAME_BYTES} bytes, or than {MAX_PART_BYTES} in one part"
    return None


def names_problem(names: Iterable[str]) -> str | None:
    """Returns why names cannot lie in one packed file, or None: some file systems take two of them for the same."""
    seen: dict[str, str] = {}
    for name in names:
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
        if folded in seen:
            same = seen[folded] == name
            other = "twice" if same else f"and {printable(seen[folded])}, which is the same name on some file systems"
            return f"it holds {printable(name)} {other}"
        seen[folded] = name
    return None


def end_of_archive(members: Iterable[Member], offset: int) -> bytes:
    """Returns the directory and the record that end an archive.

    Args:
        members: all but the marker, in the order of the archive.
        offset: where the directory begins.
    """
    entries = [_MARKER.directory_entry(), *(member.directory_entry() for member in members)]
    directory = b"".join(entries)
    return directory + _END.pack(b"PK\x05\x06", 0, 0, len(entries), len(entries), len(directory), offset, 0)


def beginning_of_archive() -> bytes:
    """Returns the bytes with which every packed run begins."""
    return _MAGIC


def order(name: str) -> bytes:
    """Sorts full names of members: by their bytes."""
    return name.encode()


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

    def __init__(self, stream: zipfile.ZipExtFile, name: str) -> None:
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


def _checked(path: Path, source: _Positioned) -> tuple[zipfile.ZipFile, dict[str, Member]]:
    """Opens an archive and compares its whole structure with what ``a2perf pack`` would have written."""
    descriptor = source.descriptor
    size = os.fstat(descriptor).st_size
    if os.pread(descriptor, len(_MAGIC), 0) != _MAGIC:
        raise PackedFileError(path, "it is not a packed run")
    if size > MAX_FILE_BYTES:
        raise PackedFileError(path, f"it is larger than {MAX_FILE_BYTES} bytes")
    end = os.pread(descriptor, _END.size, max(0, size - _END.size))
    if len(end) != _END.size or not end.startswith(b"PK\x05\x06"):
        raise PackedFileError(path, "it was cut off, or something was appended to it")
    _, disk, first_disk, here, count, length, offset, comment = _END.unpack(end)
    if 0xFFFF in (disk, first_disk, here, count) or 0xFFFFFFFF in (length, offset):
        raise PackedFileError(path, "it uses the 64-bit extension of ZIP")
    if disk or first_disk or here != count or comment or offset + length + _END.size != size:
        raise PackedFileError(path, "its end does not fit its content")
    if count > MAX_MEMBERS + 1:
        raise PackedFileError(path, f"it holds more than {MAX_MEMBERS} members")
    if length > MAX_DIRECTORY_BYTES:
        raise PackedFileError(path, f"its directory is larger than {MAX_DIRECTORY_BYTES >> 20} MiB")
    try:
        archive = zipfile.ZipFile(source)  # type: ignore[arg-type]
        infos = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, RuntimeError, struct.error) as error:
        raise PackedFileError(path, f"it is not a ZIP archive: {error}") from error
    if len(infos) != count:
        raise PackedFileError(path, f"its directory holds {len(infos)} members and its end says {count}")
    members = [_member(path, info) for info in infos[1:]]
    _check_together(path, members)
    directory = os.pread(descriptor, length + _END.size, offset)
    if directory != end_of_archive(members, offset):
        raise PackedFileError(path, "its directory is not in the form that `a2perf pack` writes")
    at = len(_MAGIC)
    for member in members:
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
    shown = printable(name)
    if info.flag_bits & _ENCRYPTED:
        raise PackedFileError(path, f"{shown} is encrypted")
    if info.compress_type not in (STORED, DEFLATED):
        raise PackedFileError(path, f"{shown} is neither stored nor deflated")
    if (problem := name_problem(name)) is not None:
        raise PackedFileError(path, f"the name {shown} {problem}")
    if Kind.of(full_mode) is not kind:
        what = Kind.of(full_mode) if stat.S_IFMT(full_mode) else "member of no kind"
        raise PackedFileError(path, f"{shown} is a {what}; only regular files and folders are accepted")
    if stat.S_IMODE(full_mode) & ~_PERMISSIONS:
        raise PackedFileError(path, f"{shown} has a set-id or sticky bit")
    if info.compress_type == STORED and info.compress_size != info.file_size:
        raise PackedFileError(path, f"{shown} is stored with two different sizes")
    if kind is Kind.FOLDER and (info.file_size or info.compress_size):
        raise PackedFileError(path, f"{shown} is a folder with content")
    if info.file_size > RATIO_FREE_BYTES and info.file_size > MAX_RATIO * info.compress_size:
        raise PackedFileError(path, f"{shown} unpacks to more than {MAX_RATIO} times its size")
    return Member(
        name, kind, stat.S_IMODE(full_mode), info.compress_type, info.CRC, info.compress_size, info.file_size,
        info.header_offset,
    )  # fmt: skip


def _check_together(path: Path, members: list[Member]) -> None:
    if (problem := names_problem([MARKER, *(member.name for member in members)])) is not None:
        raise PackedFileError(path, problem)
    if sum(member.size for member in members) > MAX_CONTENT_BYTES:
        raise PackedFileError(path, f"it unpacks to more than {MAX_CONTENT_BYTES >> 30} GiB")
    names = [member.full_name for member in members]
    if names != sorted(names, key=order):
        raise PackedFileError(path, "its members are not in the order of their names")
    folders = {member.name for member in members if member.kind is Kind.FOLDER}
    for member in members:
        above, _, _ = member.name.rpartition("/")
        if not above and member.kind is Kind.FILE:
            raise PackedFileError(path, f"{printable(member.name)} lies outside of every run")
        if above and above not in folders:
            raise PackedFileError(path, f"{printable(member.name)} lies in a folder that is not a member")


def _rebuild(message: str) -> PackedFileError:
    error = PackedFileError("", "")
    error.args, error.message = (message,), message
    return error
