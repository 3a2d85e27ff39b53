"""Shared memory for large observations: the evaluator writes it, the participant process reads it.

It is an anonymous memory file mapped by both processes. Seals prevent the participant from writing to it and from
truncating it, which would kill the evaluator with SIGBUS. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterable

CAPACITY_BYTES = 64 * 1024 * 1024
"""Address space only: a page takes memory once it has been written."""

_F_SEAL_FUTURE_WRITE = 0x10  # linux/fcntl.h; Python has no constant for it


class SharedRegion:
    """The evaluator's end.

    Attributes:
        descriptor: inherited by the participant process; the caller closes it after the start.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("a2perf-observations", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, CAPACITY_BYTES)
            # Before the seals: they refuse every later writable mapping, but keep this one.
            self._map = mmap.mmap(self.descriptor, CAPACITY_BYTES)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            # Before Linux 5.1 this seal does not exist. A participant can then corrupt its own observations, and the
            # hashes of them.
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _F_SEAL_FUTURE_WRITE)
        except BaseException:
            os.close(self.descriptor)
            raise

    def write(self, parts: Iterable[bytes | memoryview]) -> None:
        """Writes the parts one after the other, from the start."""
        position = 0
        for part in parts:
            self._map[position : position + len(part)] = part
            position += len(part)

    @property
    def view(self) -> mmap.mmap:
        """The memory."""
        return self._map

    def close(self) -> None:
        """Releases the memory; while views of it exist, it is released with the last of them."""
        with contextlib.suppress(BufferError):
            self._map.close()


class SharedView:
    """The participant's end.

    Args:
        descriptor: the inherited descriptor; it is closed here.
    """

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, CAPACITY_BYTES, prot=mmap.PROT_READ)
        os.close(descriptor)

    def read(self, size: int) -> bytearray:
        """Returns a copy of the first ``size`` bytes, because the next observation overwrites the region."""
        return bytearray(memoryview(self._map)[:size])
