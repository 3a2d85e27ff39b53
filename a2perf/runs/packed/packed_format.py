"""The file format of packed runs, and the check of a file that may come from another person.

``docs/reference/packed_runs.md`` documents the format. ``zipfile`` parses and writes it. What ``zipfile`` tolerates is
refused, because two programs could otherwise read different contents from one file: every header must have the bytes
that ``a2perf pack`` writes, and members follow without gaps.
"""

from __future__ import annotations

import io
import json
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from typing import IO, NamedTuple

from a2perf.stranger_files import Kind, printable
from a2perf.system import files as os

SUFFIX = ".zip"
FORMAT = 1
MARKER = "a2perf-packed-runs.json"
"""Name of the first member, which identifies packed runs; it holds the version and the symbolic links.

Links are data of this member and not members of the archive, so other programs cannot create them while unpacking.
"""

MAX_MEMBERS = 65_533  # with the marker one below 0xFFFF, which announces the 64-bit extension of ZIP
MAX_FILE_BYTES = 0xFFFF_FFFE
"""Limit on a file that is read: that of ZIP without its 64-bit extension."""
MAX_WRITTEN_BYTES = 0x7FFF_FFFF
"""Limit on a file that is written, and on each member: ``zipfile`` uses the 64-bit extension beyond it."""
MAX_CONTENT_BYTES = 64 << 30
MAX_DIRECTORY_BYTES = MAX_MARKER_BYTES = 64 << 20
MAX_RATIO, RATIO_FREE_BYTES = 250, 1 << 20
"""A member of more than ``RATIO_FREE_BYTES`` may not be larger than ``MAX_RATIO`` times its deflated bytes."""
MAX_DEPTH = 100
MAX_NAME_BYTES, MAX_PART_BYTES, MAX_TARGET_BYTES = 2048, 255, 4096

_HEADER_BYTES = 30
BEGINNING_BYTES = _HEADER_BYTES + len(MARKER)
_END = struct.Struct("<4s4H2LH")
_OTHER_FORM = "is not in the form that `a2perf pack` writes"
# ZIP 2.0, made on Unix (3), on 1 January 1980; 0x800 is the flag of UTF-8 names, 0x10 the DOS attribute of folders.
_VERSION, _UNIX, _DATE, _UTF8, _FOLDER_FLAG = 20, 3, 33, 0x800, 0x10


class Member(NamedTuple):
    """One file, folder or link of a packed file.

    Attributes:
        name: path below the top, with ``/`` between names and none at the end.
        size: bytes of the content.
    """

    name: str
    kind: Kind
    mode: int
    size: int = 0
    target: str = ""


class Refused(Exception):
    """Why a packed file is refused, as a sentence."""


def order(member: Member) -> bytes:
    """Returns the sort key: each folder before its content, sorted by the bytes of the names."""
    # A null byte sorts before every character of a name: `a/b` stays behind `a` and before `a-b`.
    return member.name.encode().replace(b"/", b"\0")


def is_bomb(size: int, packed_size: int) -> bool:
    """Returns whether content is so much larger than its deflated bytes that readers refuse it."""
    return size > RATIO_FREE_BYTES and size > MAX_RATIO * packed_size


def marker(links: Mapping[str, str]) -> bytes:
    """Returns the content of the first member; ``links`` holds the target of each link by name."""
    record = {"format": FORMAT, "links": links}
    return json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def name_problem(name: str) -> str | None:
    """Returns why a relative path cannot be packed; None if it can."""
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
    """Returns why names cannot be in one packed file, or None: some file systems treat two names as equal."""
    seen: dict[str, str] = {}
    for name in names:
        # Case folding can undo the normalisation, so it is applied again.
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
        if folded in seen:
            same = seen[folded] == name
            other = "twice" if same else f"and {printable(seen[folded])}, which is the same name on some file systems"
            return f"it holds {printable(name)} {other}"
        seen[folded] = name
    return None


def link_problem(name: str, target: str) -> str | None:
    """Returns why a link cannot be packed; None for a link that cannot lead out of the run.

    ``..`` is allowed only at the start of a target: the parents of a link are real folders, so these steps stay inside.
    """
    parts = target.split("/")
    up = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    try:
        length = len(target.encode())
    except UnicodeEncodeError:
        return "has a target that is not UTF-8"
    if not target or target.startswith("/") or ".." in parts[up:] or up >= name.count("/"):
        return "is a link that may lead out of its run"
    if "\\" in target or not target.replace("/", "").isprintable() or length > MAX_TARGET_BYTES:
        return "is a link: its target is too long, or has a character that is not accepted"
    return None


def is_marked(beginning: bytes) -> bool:
    """Returns whether a file that starts with these bytes claims to be a packed run."""
    return beginning.startswith(b"PK\x03\x04") and beginning[_HEADER_BYTES:] == MARKER.encode()


def checked_members(source: IO[bytes] | io.RawIOBase, descriptor: int) -> tuple[zipfile.ZipFile, list[Member]]:
    """Opens a packed file, checks its whole structure, and returns its members in the order of a walk."""
    count, length, offset = _end(descriptor)
    try:
        archive = zipfile.ZipFile(source)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, RuntimeError, struct.error) as error:
        raise Refused(f"it is not a ZIP archive: {error}") from error
    infos = archive.infolist()
    if len(infos) != count:
        raise Refused(f"its directory holds {len(infos)} members and its end says {count}")
    if not infos or infos[0].orig_filename != MARKER:
        raise Refused("its directory does not begin with the first member")
    content = os.pread(descriptor, min(infos[0].file_size, MAX_MARKER_BYTES), BEGINNING_BYTES)
    links = _links(content)
    stored = [_member(info) for info in infos]
    members = sorted([*stored[1:], *links], key=order)
    _check_together(members)
    first = Member(MARKER, Kind.FILE, 0o644, len(content))
    whole = stored[0] == first and not infos[0].compress_type and zlib.crc32(content) == infos[0].CRC
    if not whole or content != marker({link.name: link.target for link in links}):
        raise Refused(f"{MARKER} {_OTHER_FORM}")
    if stored[1:] != [member for member in members if member.kind is not Kind.LINK]:
        raise Refused("its members are not in the order of their names")
    at, directory = 0, []
    for info, member in zip(infos, stored, strict=True):
        header, entry = _canonical(info, member)
        directory.append(entry)
        if info.header_offset != at:
            raise Refused(f"{printable(member.name)} overlaps another member, or leaves a gap")
        if os.pread(descriptor, len(header), at) != header:
            raise Refused(f"the header of {printable(member.name)} contradicts the directory, or {_OTHER_FORM}")
        at += len(header) + info.compress_size
    if at != offset:
        raise Refused("there is something between its members and its directory")
    if os.pread(descriptor, length, offset) != b"".join(directory):
        raise Refused(f"its directory {_OTHER_FORM}")
    return archive, members


def _end(descriptor: int) -> tuple[int, int, int]:
    """Returns the number of members, and the bytes and the offset of the directory."""
    size = os.fstat(descriptor).st_size
    if not is_marked(os.pread(descriptor, BEGINNING_BYTES, 0)):
        raise Refused("it is not a packed run")
    if size > MAX_FILE_BYTES:
        raise Refused(f"it is larger than {MAX_FILE_BYTES} bytes")
    # At the very end and not searched for: ZIP readers would also find it before a comment.
    end = os.pread(descriptor, _END.size, max(0, size - _END.size))
    signature, disk, first_disk, here, count, length, offset, comment = _END.unpack(end)
    if signature != b"PK\x05\x06":
        raise Refused("it was cut off, or something was appended to it")
    if disk or first_disk or here != count or comment or offset + length + _END.size != size:
        raise Refused("its end does not fit its content")
    if length > MAX_DIRECTORY_BYTES:
        raise Refused(f"its directory is larger than {MAX_DIRECTORY_BYTES >> 20} MiB")
    return count, length, offset


def _canonical(info: zipfile.ZipInfo, member: Member) -> tuple[bytes, bytes]:
    """Returns the header and the directory entry of a member: no times, comments, extra fields or flags but UTF-8."""
    name = info.orig_filename.encode()
    flags = 0 if name.isascii() else _UTF8
    sizes = (info.CRC, info.compress_size, info.file_size, len(name), 0)
    common = struct.pack("<5H3L2H", _VERSION, flags, info.compress_type, 0, _DATE, *sizes)
    kind = stat.S_IFDIR if member.kind is Kind.FOLDER else stat.S_IFREG
    attributes = (kind | member.mode) << 16 | (_FOLDER_FLAG if member.kind is Kind.FOLDER else 0)
    rest = struct.pack("<3H2L", 0, 0, 0, attributes, info.header_offset)
    return b"PK\x03\x04" + common + name, b"PK\x01\x02" + bytes((_VERSION, _UNIX)) + common + rest + name


def _member(info: zipfile.ZipInfo) -> Member:
    # Not info.filename, which zipfile cuts at a null byte.
    name, mode = info.orig_filename.removesuffix("/"), info.external_attr >> 16
    kind = Kind.FOLDER if info.orig_filename.endswith("/") else Kind.FILE
    shown = printable(name)
    if (problem := name_problem(name)) is not None:
        raise Refused(f"the name {shown} {problem}")
    what = Kind.of(mode) if stat.S_IFMT(mode) else "member of no kind"
    for wrong, words in (
        (info.flag_bits & 1, "is encrypted"),
        (info.extra or info.comment, _OTHER_FORM),  # an extra field can hold sizes that do not fit a header
        (info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), "is neither stored nor deflated"),
        (Kind.of(mode) is not kind or mode & 0o7000, f"is a {what}, or has a set-id or sticky bit"),
        (not info.compress_type and info.compress_size != info.file_size, "is stored with two different sizes"),
        (kind is Kind.FOLDER and (info.file_size or info.compress_size), "is a folder with content"),
        (is_bomb(info.file_size, info.compress_size), f"unpacks to more than {MAX_RATIO} times its size"),
    ):
        if wrong:
            raise Refused(f"{shown} {words}")
    return Member(name, kind, stat.S_IMODE(mode), info.file_size)


def _links(content: bytes) -> list[Member]:
    try:
        record = json.loads(content)
        version, links = record["format"], record["links"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Refused(f"{MARKER} is not what `a2perf pack` writes") from error
    if version != FORMAT:
        raise Refused(f"it has the format {version!r:.20}; this a2perf reads {FORMAT}")
    if not isinstance(links, dict) or not all(isinstance(target, str) for target in links.values()):
        raise Refused(f"{MARKER} is not what `a2perf pack` writes")
    for name, target in links.items():
        if (problem := name_problem(name) or link_problem(name, target)) is not None:
            raise Refused(f"the name {printable(name)} {problem}")
    return [Member(name, Kind.LINK, 0o777, target=target) for name, target in links.items()]


def _check_together(members: list[Member]) -> None:
    if (problem := names_problem([MARKER, *(member.name for member in members)])) is not None:
        raise Refused(problem)
    if len(members) > MAX_MEMBERS:
        raise Refused(f"it holds more than {MAX_MEMBERS} members")
    if sum(member.size for member in members) > MAX_CONTENT_BYTES:
        raise Refused(f"it unpacks to more than {MAX_CONTENT_BYTES >> 30} GiB")
    folders = {member.name for member in members if member.kind is Kind.FOLDER}
    for member in members:
        above, _, _ = member.name.rpartition("/")
        if not above and member.kind is not Kind.FOLDER:
            raise Refused(f"{printable(member.name)} lies outside of every run")
        if above and above not in folders:
            raise Refused(f"{printable(member.name)} lies in a folder that is not a member")
