"""Shared memory for observations, and the places of arrays in it: the evaluator writes, the participant process reads.

It is an anonymous memory file mapped by both processes. Seals prevent the participant from writing to it and from
truncating it, which would kill the evaluator with SIGBUS. Standard library only; numpy is imported with the first
array.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

CAPACITY_BYTES = 64 * 1024 * 1024
"""Address space only: a page takes memory once it has been written."""

ALIGNMENT: Final = 64
"""Every array begins at a multiple of this number of bytes."""
# Numbers of fixed size only: decoding an object array would interpret bytes as pointers.
DTYPES: Final = frozenset(
    ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16")
)
_F_SEAL_FUTURE_WRITE = 0x10  # linux/fcntl.h; Python has no constant for it


class SharedRegion:
    """The evaluator's end.

    Attributes:
        descriptor: inherited by the participant process; the caller closes it after the start.
        memory: writable here alone.
    """

    def __init__(self) -> None:
        # Where the system has no seals, every sandbox level lets a participant send signals to the evaluator anyway.
        seals = hasattr(os, "memfd_create")
        if seals:
            self.descriptor = os.memfd_create("a2perf-observations", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        else:
            import tempfile

            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())
        try:
            os.ftruncate(self.descriptor, CAPACITY_BYTES)
            # Before the seals: they refuse every later writable mapping, but keep this one.
            self.memory = mmap.mmap(self.descriptor, CAPACITY_BYTES)
            if not seals:
                return
            import fcntl  # not on every system

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
            self.memory[position : position + len(part)] = part
            position += len(part)

    def close(self) -> None:
        """Releases the memory; while views of it exist, it is released with the last of them."""
        with contextlib.suppress(BufferError):
            self.memory.close()


class SharedView:
    """The participant's end."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, CAPACITY_BYTES, prot=mmap.PROT_READ)
        os.close(descriptor)

    def read(self, size: int) -> bytearray:
        """Returns a copy of the first ``size`` bytes, because the next observation overwrites the region."""
        return bytearray(memoryview(self._map)[:size])


def plain_arrays(value: Any) -> dict[str, np.ndarray[Any, Any]] | None:
    """Returns an array under the name "", or the arrays of a dict; None for other values and other dtypes."""
    numpy = sys.modules.get("numpy")
    named = value if type(value) is dict else {"": value}
    for array in named.values():
        if numpy is None or type(array) is not numpy.ndarray or not array.size:
            return None
        if not array.dtype.isnative or array.dtype.str not in DTYPES:
            return None
    return named or None


class Layout:
    """The places of the arrays of a request ``(word, arrays)`` in memory."""

    def __init__(self, word: str, names: tuple[str, ...] | None, arrays: list[np.ndarray[Any, Any]]) -> None:
        sizes = (array.nbytes + -array.nbytes % ALIGNMENT for array in arrays)
        *offsets, self.size = itertools.accumulate(sizes, initial=0)
        self.word, self._names = word, names
        self._places = [(array.shape, array.dtype, offset) for array, offset in zip(arrays, offsets, strict=True)]
        self._targets: list[np.ndarray[Any, Any]] = []

    @classmethod
    def of(cls, value: Any) -> Layout | None:
        """Returns the layout of a request; None if it contains anything but arrays."""
        if type(value) is not tuple or len(value) != 2 or (arrays := plain_arrays(value[1])) is None:
            return None
        return cls(value[0], tuple(arrays) if type(value[1]) is dict else None, list(arrays.values()))

    def open(self, memory: mmap.mmap | bytearray) -> None:
        """Prepares ``write`` to this memory."""
        import numpy

        self._targets = [numpy.ndarray(shape, dtype, memory, offset) for shape, dtype, offset in self._places]

    @property
    def places(self) -> Any:
        """The arrays in memory, as the request has them: one, or a dict of them."""
        return self._targets[0] if self._names is None else dict(zip(self._names, self._targets, strict=True))

    def write(self, value: tuple[Any, Any]) -> bool:
        """Copies the arrays of a request to their places; returns False if it has another layout."""
        word, content = value
        if word != self.word or (tuple(content) if type(content) is dict else None) != self._names:
            return False
        arrays = (content,) if self._names is None else content.values()
        for array, target in zip(arrays, self._targets, strict=True):
            if type(array) is not type(target) or array.dtype != target.dtype or array.shape != target.shape:
                return False
            if array is not target:  # the rows of a batch are stacked there
                target[...] = array
        return True

    def read(self, data: bytearray) -> tuple[str, Any]:
        """Returns the request with the arrays in this copy of the memory."""
        import numpy

        arrays = [numpy.ndarray(shape, dtype, data, offset) for shape, dtype, offset in self._places]
        return self.word, arrays[0] if self._names is None else dict(zip(self._names, arrays, strict=True))
