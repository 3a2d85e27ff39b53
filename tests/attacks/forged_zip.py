"""Writes ZIP archives byte by byte, so that a test can make each of them wrong in one way."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path

MARKER = b"a2perf-packed-runs.json"
FILE, FOLDER = 0o100644, 0o040755


@dataclass(frozen=True)
class Forged:
    """One member; what is None is what it should be.

    Attributes:
        local: fields of the local header that differ from the directory's.
        before: bytes between the member before and this one.
    """

    name: bytes
    data: bytes = b""
    mode: int = FILE
    method: int = 0
    flags: int = 0
    crc: int | None = None
    packed_size: int | None = None
    size: int | None = None
    offset: int | None = None
    time: int = 0
    extra: bytes = b""
    comment: bytes = b""
    system: int = 3
    stored: bytes | None = None
    before: bytes = b""
    local: dict[str, int | bytes] = field(default_factory=dict)

    def content(self) -> bytes:
        if self.stored is not None:
            return self.stored
        if self.method == 0:
            return self.data
        coder = zlib.compressobj(9, zlib.DEFLATED, -15)
        return coder.compress(self.data) + coder.flush()


def folder(name: bytes, **more: object) -> Forged:
    return replace(Forged(name + b"/", mode=FOLDER), **more)  # type: ignore[arg-type]


def marker(content: bytes | None = None, links: dict[str, str] | None = None) -> Forged:
    if content is None:
        record = {"format": 1, "links": links or {}}
        content = json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    return Forged(MARKER, content)


def write(
    path: Path,
    members: list[Forged],
    *,
    first: Forged | None = None,
    prepended: bytes = b"",
    between: bytes = b"",
    appended: bytes = b"",
    comment: bytes = b"",
    **end: int,
) -> Path:
    """Writes the marker and the members; ``end`` replaces fields of the last record."""
    out, directory = prepended, b""
    everything = [marker() if first is None else first, *members]
    for member in everything:
        out += member.before
        at, content = len(out), member.content()
        crc = zlib.crc32(member.data) if member.crc is None else member.crc
        packed = len(content) if member.packed_size is None else member.packed_size
        size = len(member.data) if member.size is None else member.size
        local = {
            "name": member.name,
            "crc": crc,
            "packed": packed,
            "size": size,
            "flags": member.flags,
            "method": member.method,
            "extra": b"",
            **member.local,
        }
        name, extra = local["name"], local["extra"]
        assert isinstance(name, bytes)
        assert isinstance(extra, bytes)
        out += (
            struct.pack(
                "<4s5H3L2H",
                b"PK\x03\x04",
                20,
                local["flags"],
                local["method"],
                member.time,
                33,
                local["crc"],
                local["packed"],
                local["size"],
                len(name),
                len(extra),
            )
            + name
            + extra
            + content
        )
        attributes = member.mode << 16 | (0x10 if member.mode & 0o170000 == 0o040000 else 0)
        directory += (
            struct.pack(
                "<4sBB5H3L5H2L",
                b"PK\x01\x02",
                20,
                member.system,
                20,
                member.flags,
                member.method,
                member.time,
                33,
                crc,
                packed,
                size,
                len(member.name),
                len(member.extra),
                len(member.comment),
                0,
                0,
                attributes,
                at if member.offset is None else member.offset,
            )
            + member.name
            + member.extra
            + member.comment
        )
    out += between
    found = {
        "disk": 0,
        "first_disk": 0,
        "here": len(everything),
        "count": len(everything),
        "length": len(directory),
        "offset": len(out),
        **end,
    }
    out += directory + struct.pack("<4s4H2LH", b"PK\x05\x06", *found.values(), len(comment)) + comment + appended
    path.write_bytes(out)
    return path
