"""The file format of packed runs: a ZIP archive in canonical form.

``a2perf pack`` writes this form and readers accept nothing else. Otherwise two programs could read different contents
from one file. Members are contiguous and sorted, headers have no comments, extra fields or times, names are plain
relative paths, and the directory ends the file. ``docs/reference/packed_runs.md`` documents the format and its limits.
"""

from __future__ import annotations

import json
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from a2perf.stranger_files import Kind, printable

SUFFIX = ".zip"
FORMAT = 1
MARKER = "a2perf-packed-runs.json"
"""Name of the first member, which identifies packed runs; it holds the version and the symbolic links.

Links are data of this member and not members of the archive, so other programs cannot create them while unpacking.
"""

MAX_MEMBERS = 65_533  # with the marker one below 0xFFFF, which announces the 64-bit extension of ZIP
MAX_FILE_BYTES = MAX_MEMBER_BYTES = 0xFFFF_FFFE
"""Limit on the packed file and on one member: that of ZIP without its 64-bit extension."""
MAX_CONTENT_BYTES = 64 << 30
MAX_DIRECTORY_BYTES = MAX_MARKER_BYTES = 64 << 20
MAX_RATIO, RATIO_FREE_BYTES = 250, 1 << 20
"""A member of more than ``RATIO_FREE_BYTES`` may not be larger than ``MAX_RATIO`` times its deflated bytes."""
MAX_DEPTH = 100
MAX_NAME_BYTES, MAX_PART_BYTES, MAX_TARGET_BYTES = 2048, 255, 4096

STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4sBB5H3L5H2L")
END_RECORD = struct.Struct("<4s4H2LH")
ENCRYPTED, _UTF8 = 0x1, 0x800  # flags of a member
# ZIP 2.0 is the first version with folders and deflate; 0x10 is the DOS attribute of a folder.
_VERSION, _UNIX, _DATE, _FOLDER_FLAG = 20, 3, (1 << 5) | 1, 0x10  # the date is 1 January 1980, the earliest of ZIP
PERMISSIONS = 0o777


@dataclass(frozen=True, slots=True)
class Member:
    """One file, folder or link of a packed file.

    Attributes:
        name: path below the top, with ``/`` between names and none at the end.
        kind: ``Kind.FILE``, ``Kind.FOLDER`` or ``Kind.LINK``.
        mode: permission bits.
        method: ``STORED`` or ``DEFLATED``.
        crc: CRC-32 of the content.
        packed_size: bytes in the packed file.
        size: bytes of the content.
        offset: of the member's header in the packed file.
        target: text of a link.
    """

    name: str
    kind: Kind
    mode: int
    method: int = STORED
    crc: int = 0
    packed_size: int = 0
    size: int = 0
    offset: int = 0
    target: str = ""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.kind is Kind.FOLDER

    @property
    def full_name(self) -> str:
        """The name in the archive; a folder's name ends in ``/``."""
        return f"{self.name}/" if self.kind is Kind.FOLDER else self.name

    def local_header(self) -> bytes:
        """Returns the header in front of the content, in canonical form."""
        name = self.full_name.encode()
        numbers = (_flags(name), self.method, 0, _DATE, self.crc, self.packed_size, self.size, len(name), 0)
        return LOCAL_HEADER.pack(b"PK\x03\x04", _VERSION, *numbers) + name

    def directory_entry(self) -> bytes:
        """Returns the entry in the directory, in canonical form."""
        name = self.full_name.encode()
        numbers = (_flags(name), self.method, 0, _DATE, self.crc, self.packed_size, self.size, len(name))
        folder = self.kind is Kind.FOLDER
        attributes = ((stat.S_IFDIR if folder else stat.S_IFREG) | self.mode) << 16 | (_FOLDER_FLAG if folder else 0)
        rest = (0, 0, 0, 0, attributes, self.offset)
        return _CENTRAL.pack(b"PK\x01\x02", _VERSION, _UNIX, _VERSION, *numbers, *rest) + name

    @property
    def end(self) -> int:
        """Offset of the next member."""
        return self.offset + LOCAL_HEADER.size + len(self.full_name.encode()) + self.packed_size


def _flags(name: bytes) -> int:
    return 0 if name.isascii() else _UTF8


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


def marker(links: Mapping[str, str]) -> tuple[Member, bytes]:
    """Returns the first member and its content.

    Args:
        links: target of each link by name.
    """
    record = {"format": FORMAT, "links": links}
    content = json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    member = Member(MARKER, Kind.FILE, 0o644, STORED, zlib.crc32(content), len(content), len(content))
    return member, content


def end_of_archive(members: Sequence[Member], offset: int) -> bytes:
    """Returns the directory and the record that end an archive.

    Args:
        members: the marker, then all members except links, in the order of the archive.
        offset: offset of the directory.
    """
    directory = b"".join(member.directory_entry() for member in members)
    return directory + END_RECORD.pack(b"PK\x05\x06", 0, 0, len(members), len(members), len(directory), offset, 0)


def order(member: Member) -> bytes:
    """Returns the sort key: each folder before its content, sorted by the bytes of the names."""
    # A null byte sorts before every character of a name: `a/b` stays behind `a` and before `a-b`.
    return member.name.encode().replace(b"/", b"\0")
