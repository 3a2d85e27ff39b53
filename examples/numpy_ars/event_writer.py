"""Scalars for TensorBoard without TensorFlow.

An event file is a sequence of records, each: length (8 bytes, little endian), masked CRC-32C of these 8 bytes, the
payload, masked CRC-32C of the payload. A payload is an ``Event`` protocol buffer; the few fields used here are encoded
by hand: 1 wall time (double), 2 step (varint), 3 file version (string), 5 summary; in a summary 1 value; in a value
1 tag (string), 2 simple value (float).
"""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path

CASTAGNOLI = 0x82F63B78  # the CRC-32C polynomial, bits reversed
MASK_DELTA = 0xA282EAD8


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (CASTAGNOLI if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (RFC 3720, appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    """The checksum as record files store it: rotated right by 15 bits, plus a constant."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited field (wire type 2)."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


class EventWriter:
    """Appends scalars to a new event file in a folder; every call reaches the file before it returns."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._stream = (folder / name).open("wb")
        self._event(_field(3, b"brain.Event:2"))

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Writes one value of ``tag`` at ``step`` (>= 0)."""
        point = _field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
        self._event(b"\x10" + _varint(step) + _field(5, _field(1, point)))

    def close(self) -> None:
        self._stream.close()

    def _event(self, fields: bytes) -> None:
        payload = b"\x09" + struct.pack("<d", time.time()) + fields
        length = struct.pack("<Q", len(payload))
        self._stream.write(length + struct.pack("<I", masked_crc32c(length)))
        self._stream.write(payload + struct.pack("<I", masked_crc32c(payload)))
        self._stream.flush()
