"""Appends scalars to a TensorBoard event file without buffering; a reader sees every value at once.

The layout is that of ``tf.summary`` files: records of a length, its masked CRC-32C, an ``Event`` message and its masked
CRC-32C. A killed writer leaves at most one incomplete record at the end, which readers ignore.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from types import TracebackType

import numpy as np

from a2perf.runs.events.event_checksums import crc32c, masked

_VERSION = b"brain.Event:2"


class EventWriter:
    """One event file.

    Args:
        folder: folder of the file; each of several writers in one folder creates its own file.
    """

    def __init__(self, folder: Path, suffix: str = "a2perf") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"events.out.tfevents.{time.time_ns()}.{os.getpid()}.{suffix}"
        self._stream = self.path.open("ab", buffering=0)  # unbuffered: what was written survives SIGKILL
        # Event files begin with a record of their version.
        self._stream.write(_record(_time(time.time()) + _field(3, _VERSION)))

    def scalar(self, tag: str, value: float, step: int, wall_time: float | None = None) -> None:
        """Appends one value, stored as float32.

        Args:
            step: position in the training, an integer of at most 63 bits.
            wall_time: seconds since the epoch; now unless given.
        """
        # 0x15 is the key of field 2 as a 32-bit number; 0x09 and 0x10 below are those of wall time and step.
        content = _field(1, tag.encode()) + b"\x15" + np.float32(value).tobytes()
        head = _time(time.time() if wall_time is None else wall_time)
        # Protocol buffers leave out a field with its default value, 0.
        if step:
            head += b"\x10" + _varint(step & (1 << 64) - 1)
        self._stream.write(_record(head + _field(5, _field(1, content))))

    def event(self, content: bytes) -> None:
        """Appends an ``Event`` message that another library has serialized."""
        self._stream.write(_record(content))

    def close(self) -> None:
        """Closes the file; calling it again changes nothing."""
        self._stream.close()

    def __enter__(self) -> EventWriter:
        """Returns the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the file."""
        self.close()


def _record(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + _checksum(length) + payload + _checksum(payload)


def _checksum(data: bytes) -> bytes:
    return masked(np.array([crc32c(data)], np.uint32)).astype("<u4").tobytes()


def _time(seconds: float) -> bytes:
    return b"\x09" + struct.pack("<d", seconds)


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
