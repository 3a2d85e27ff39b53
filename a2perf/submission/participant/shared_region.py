"""A piece of memory that the evaluator writes and the participant process reads: the fast lane for large observations.

It is an anonymous file, mapped by both. Seals keep the participant from writing into it, and from truncating it under
the evaluator's feet. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections.abc import Iterable

CAPACITY_BYTES = 64 * 1024 * 1024
"""Address space only: a page costs memory once something was written there."""

_F_SEAL_FUTURE_WRITE = 0x10  # linux/fcntl.h; not among Python's constants


class SharedRegion:
    """The evaluator's end.

    Attributes:
        descriptor: what the participant process inherits; to be closed once it has started.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("a2perf-observations", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, CAPACITY_BYTES)
            self._map = mmap.mmap(self.descriptor, CAPACITY_BYTES)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            with contextlib.suppress(OSError):  # Linux before 5.1: a participant then harms its own observations only
                fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _F_SEAL_FUTURE_WRITE)
        except BaseException:
            os.close(self.descriptor)
            raise

    def write(self, parts: Iterable[bytes | memoryview]) -> None:
        """Puts the parts one after the other, from the start."""
        position = 0
        for part in parts:
            self._map[position : position + len(part)] = part
            position += len(part)

    def close(self) -> None:
        """Gives the memory back."""
        self._map.close()


class SharedView:
    """The participant's end.

    Args:
        descriptor: as inherited; it is closed here.
    """

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, CAPACITY_BYTES, prot=mmap.PROT_READ)
        os.close(descriptor)

    def read(self, size: int) -> memoryview:
        """Returns a copy of the first ``size`` bytes: the next observation overwrites the region."""
        return memoryview(bytearray(memoryview(self._map)[:size]))
