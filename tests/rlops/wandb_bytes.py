"""Logs of Weights & Biases offline runs made byte by byte, independent of the reader under test."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence

from tests.metrics.event_bytes import message, varint

HEADER = b":W&B" + b"\xe1\xbe\x00"
BLOCK = 32 << 10


def item(key: str, value: object, *, nested: bool = True) -> bytes:
    name = b"".join(message(2, part.encode()) for part in key.split(".")) if nested else message(1, key.encode())
    return name + varint(16 << 3 | 2) + _sized(json.dumps(value).encode())


def history(row: Mapping[str, object], *, nested: bool = True) -> bytes:
    items = b"".join(message(1, item(key, value, nested=nested)) for key, value in row.items())
    step = message(2, b"\x08" + varint(int(str(row["_step"])))) if "_step" in row else b""
    return message(2, items + step)


def run(run_id: str, name: str, config: Mapping[str, object], tags: Sequence[str] = (), entity: str = "team") -> bytes:
    configuration = b"".join(message(1, item(key, value, nested=False)) for key, value in config.items())
    body = message(1, run_id.encode()) + message(2, entity.encode()) + message(3, b"project")
    body += message(4, configuration) + message(8, name.encode())
    body += b"".join(message(10, tag.encode()) for tag in tags)
    body += varint(17 << 3 | 2) + _sized(b"\x08" + varint(1_700_000_000))
    return varint(17 << 3 | 2) + _sized(body)


def exit_record(code: int) -> bytes:
    return varint(18 << 3 | 2) + _sized(b"\x08" + varint(code) if code else b"")


def log(records: Iterable[bytes]) -> bytes:
    """Puts records into the blocks of the log; long ones are cut into first, middle and last chunks."""
    data = bytearray(HEADER)
    for number, record in enumerate(records):
        record = b"\x08" + varint(number + 1) + record
        first = True
        while True:
            left = BLOCK - len(data) % BLOCK
            if left < 7:
                data += b"\x00" * left
                continue
            piece, record = record[: left - 7], record[left - 7 :]
            kind = (1 if not record else 2) if first else (4 if not record else 3)
            data += struct.pack("<IHB", zlib.crc32(bytes([kind]) + piece), len(piece), kind) + piece
            first = False
            if not record:
                break
    return bytes(data)


def _sized(payload: bytes) -> bytes:
    return varint(len(payload)) + payload
