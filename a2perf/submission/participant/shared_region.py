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
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
_SMALL_BYTES = 1 << 12  # to hash all of it takes about as long as a comparison
_COMPARED_BYTES = 1 << 17  # larger arrays are rows of a batch, or change at every step
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


class PackedArrays(NamedTuple):
    """The arrays of a request in memory, each from a multiple of ``ALIGNMENT`` bytes on.

    Attributes:
        structure: name, dtype and shape of each array, in their order.
        words: the memory as 64-bit words; bytes between two arrays are 0.
        parts: the words of each array; empty if there is little to gain from ``states``.
        states: of each array from the first on, what a reader has computed from it and those before it. A write removes
            those of the first array that it changes and of all after it.
    """

    structure: tuple[tuple[str, str, tuple[int, ...]], ...]
    words: np.ndarray[Any, np.dtype[np.uint64]]
    parts: tuple[np.ndarray[Any, np.dtype[np.uint64]], ...]
    states: list[Any]


class Layout:
    """The places of the arrays of a request ``(word, arrays)`` in memory."""

    def __init__(self, word: str, names: tuple[str, ...] | None, arrays: list[np.ndarray[Any, Any]]) -> None:
        sizes = (array.nbytes + -array.nbytes % ALIGNMENT for array in arrays)
        *offsets, self.size = itertools.accumulate(sizes, initial=0)
        self.packed: PackedArrays | None = None
        self._word, self._names = word, names
        self._places = [(array.shape, array.dtype, offset) for array, offset in zip(arrays, offsets, strict=True)]
        self._targets: list[np.ndarray[Any, Any]] = []
        self._written: list[bytes] = []

    @classmethod
    def of(cls, value: Any) -> Layout | None:
        """Returns the layout of a request; None if it contains anything but arrays."""
        numpy = sys.modules.get("numpy")
        if numpy is None or type(value) is not tuple or len(value) != 2:
            return None
        named = type(value[1]) is dict
        arrays = list(value[1].values()) if named else [value[1]]
        if not arrays or not all(type(array) is numpy.ndarray and array.size for array in arrays):
            return None
        if not all(array.dtype.isnative and array.dtype.str in DTYPES for array in arrays):
            return None
        return cls(value[0], tuple(value[1]) if named else None, arrays)

    def open(self, memory: mmap.mmap | bytearray) -> None:
        """Prepares ``write`` to this memory, and clears it."""
        import numpy

        self._targets = [numpy.ndarray(shape, dtype, memory, offset) for shape, dtype, offset in self._places]
        words = numpy.frombuffer(memory, numpy.uint64, self.size // 8)
        words[:] = 0
        self._written = [b""] * len(self._targets)
        pairs = zip(self._names or ("",), self._places, strict=True)
        structure = tuple((name, dtype.str, shape) for name, (shape, dtype, _) in pairs)
        ends = [*(offset // 8 for _, _, offset in self._places[1:]), len(words)]
        parts = tuple(words[start:end] for start, end in itertools.pairwise([0, *ends]))
        self.packed = PackedArrays(structure, words, parts if self.size > _SMALL_BYTES else (), [])

    def write(self, value: tuple[Any, Any]) -> bool:
        """Copies the arrays of a request that changed to their places; returns False if it has another layout."""
        word, content = value
        if word != self._word or (tuple(content) if type(content) is dict else None) != self._names:
            return False
        assert self.packed is not None
        most = _COMPARED_BYTES if self.packed.parts else 0
        arrays = (content,) if self._names is None else content.values()
        for number, (array, target) in enumerate(zip(arrays, self._targets, strict=True)):
            if type(array) is not type(target) or array.dtype != target.dtype or array.shape != target.shape:
                return False
            written = array.tobytes() if array.nbytes <= most else b""
            if not written or written != self._written[number]:
                target[...] = array
                self._written[number] = written
                del self.packed.states[number:]
        return True

    def read(self, data: bytearray) -> tuple[str, Any]:
        """Returns the request with the arrays in this copy of the memory."""
        import numpy

        arrays = [numpy.ndarray(shape, dtype, data, offset) for shape, dtype, offset in self._places]
        return self._word, arrays[0] if self._names is None else dict(zip(self._names, arrays, strict=True))
