"""Compares the structure of a packed file with the only accepted form before any content is read.

``packed_format`` defines the form.
"""

from __future__ import annotations

import io
import json
import os
import stat
import struct
import zipfile
from pathlib import Path

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
    Member,
    end_of_archive,
    link_problem,
    marker,
    name_problem,
    names_problem,
    order,
)
from a2perf.stranger_files import Kind, printable

_HINT = "ask for a file made by `a2perf pack`"


class PackedFileError(UserError):
    """The file is damaged, hostile, or not a packed run.

    Args:
        path: of the packed file.
        message: the problem.
    """

    def __init__(self, path: Path | str | PackedFileError, message: str = "") -> None:
        super().__init__(
            path if isinstance(path, PackedFileError) else f"{printable(str(path))}: {message}", hint=_HINT
        )


class PositionedFile(io.RawIOBase):
    """A stream over a descriptor with a separate position, because forked processes share the descriptor's."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self._at = descriptor, 0

    def close(self) -> None:
        """Closes the descriptor."""
        if not self.closed:
            os.close(self.descriptor)
        super().close()

    def readable(self) -> bool:
        """Returns true: it can be read."""
        return True

    def seekable(self) -> bool:
        """Returns true: it can be sought in."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves the position of this reader."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        self._at = offset + (os.fstat(self.descriptor).st_size if base is None else base)
        return self._at

    def tell(self) -> int:
        """Returns the position of this reader."""
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Reads from the position of this reader."""
        count = os.preadv(self.descriptor, [buffer], self._at)
        self._at += count
        return count


def checked_archive(path: Path, source: PositionedFile) -> tuple[zipfile.ZipFile, dict[str, Member]]:
    """Opens an archive and compares its structure with that of a file written by ``a2perf pack``."""
    descriptor = source.descriptor
    size = os.fstat(descriptor).st_size
    if not is_marked(os.pread(descriptor, LOCAL_HEADER.size + len(MARKER), 0)):
        raise PackedFileError(path, "it is not a packed run")
    if size > MAX_FILE_BYTES:
        raise PackedFileError(path, f"it is larger than {MAX_FILE_BYTES} bytes")
    # At the very end and not searched for: ZIP readers would also find it before a comment.
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
    # Not info.filename, which zipfile cuts at a null byte.
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


def is_marked(beginning: bytes) -> bool:
    """Returns whether a file that starts with these bytes claims to be a packed run."""
    return beginning.startswith(b"PK\x03\x04") and beginning[LOCAL_HEADER.size :] == MARKER.encode()
