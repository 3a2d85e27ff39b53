"""Event files made byte by byte for the tests; independent of the reader under test (checksums one byte at a time)."""

from __future__ import annotations

import struct
from collections.abc import Iterable


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _table()


def checksum(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = checksum(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def message(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def simple(tag: str, value: float) -> bytes:
    return message(1, message(1, tag.encode()) + b"\x15" + struct.pack("<f", value))


def tensor(tag: str, value: float) -> bytes:
    content = b"\x08\x01" + message(2, b"") + message(4, struct.pack("<f", value))
    return message(1, message(1, tag.encode()) + message(8, content))


def event(step: int, values: bytes, wall_time: float = 1.6e9) -> bytes:
    head = b"\x09" + struct.pack("<d", wall_time)
    if step:
        head += b"\x10" + varint(step)
    return head + message(5, values)


def version(wall_time: float = 1.6e9) -> bytes:
    return record(b"\x09" + struct.pack("<d", wall_time) + message(3, b"brain.Event:2"))


def curve(tag: str, values: Iterable[float], spacing: int = 100) -> bytes:
    return b"".join(
        record(event(index * spacing, simple(tag, value), 1.6e9 + index)) for index, value in enumerate(values)
    )
