"""CRC-32C (Castagnoli, RFC 3720 appendix B.4) of many byte strings at once, in NumPy.

A CRC is linear over GF(2): the checksum of a message is the exclusive or of one contribution per byte, and that
contribution depends only on the byte's value and its distance from the end. The checksums of a matrix of messages
therefore take one table look-up per byte and one exclusive-or reduction. If two messages of equal length differ in a
few columns, their checksums differ by the look-ups of these columns alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
MASK_DELTA = 0xA282EAD8  # of record files: stored = rotate_right(crc, 15) + MASK_DELTA
BLOCK_BYTES = 4096  # longest message that is looked up in one piece; the table then takes 4 MiB
_GATHER_BYTES = 1 << 21  # bytes looked up at a time; this much stays in the processor's cache

Bytes = NDArray[np.uint8]
Checksums = NDArray[np.uint32]


def _byte_table() -> Checksums:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


_BYTE = _byte_table()
_BYTE_LIST: list[int] = _BYTE.tolist()
_contributions: Checksums = _BYTE[None, :]


def contributions(length: int) -> Checksums:
    """Returns the table of contributions: row ``d`` has that of each byte value if ``d`` bytes follow it.

    Args:
        length: number of rows needed, at most ``BLOCK_BYTES``.

    Returns:
        At least ``length`` rows of 256 checksums, without the initial and the final inversion.
    """
    global _contributions
    if len(_contributions) < length:
        rows = min(BLOCK_BYTES, max(length, 2 * len(_contributions)))
        table = np.empty((rows, 256), np.uint32)
        table[: len(_contributions)] = _contributions
        for row in range(len(_contributions), rows):
            table[row] = _BYTE[table[row - 1] & 0xFF] ^ (table[row - 1] >> 8)
        _contributions = table
    return _contributions


def crc32c(data: bytes | Bytes) -> int:
    """Returns the CRC-32C of one message of any length."""
    message = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
    state = 0xFFFFFFFF
    start, size = 0, len(message)
    while size - start >= 4:
        block = message[start : start + BLOCK_BYTES].copy()
        # shifting the state through the block is the same as adding it to the block's first four bytes
        block[:4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
        state = int(_linear(block[None, :])[0])
        start += len(block)
    for byte in message[start:].tolist():
        state = _BYTE_LIST[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def crc32c_rows(rows: Bytes) -> Checksums:
    """Returns the CRC-32C of every row of a matrix of equally long messages, shape ``(n,)``."""
    if not 4 <= rows.shape[1] <= BLOCK_BYTES:
        return np.array([crc32c(row) for row in rows], np.uint32)
    start = rows.copy()
    # The initial state of all ones, added to the first four bytes as in `crc32c`.
    start[:, :4] ^= 0xFF
    return _linear(start) ^ np.uint32(0xFFFFFFFF)


def crc32c_like(first: Bytes, rows: Bytes, columns: NDArray[np.intp]) -> Checksums:
    """Returns the CRC-32C of every row of messages that agree with ``first`` except in ``columns``.

    Args:
        first: a message of at most ``BLOCK_BYTES`` bytes.
        rows: messages of the same length, shape ``(n, length)``.
        columns: the columns in which a row may differ from ``first``.
    """
    found = np.full(len(rows), crc32c(first), np.uint32)
    table = contributions(len(first))
    for column in columns.tolist():
        found ^= table[len(first) - 1 - column][rows[:, column] ^ first[column]]
    return found


def masked(checksums: Checksums) -> Checksums:
    """Returns checksums as record files store them."""
    # The definition of the mask needs the overflow: 32-bit arithmetic wraps.
    return ((checksums >> np.uint32(15)) | (checksums << np.uint32(17))) + np.uint32(MASK_DELTA)


def _linear(rows: Bytes) -> Checksums:
    length = rows.shape[1]
    table = contributions(length).reshape(-1)
    offsets = (np.arange(length - 1, -1, -1, dtype=np.int32) * 256)[None, :]
    found = np.empty(len(rows), np.uint32)
    step = max(1, _GATHER_BYTES // max(length, 1))
    for start in range(0, len(rows), step):
        piece = rows[start : start + step]
        found[start : start + step] = np.bitwise_xor.reduce(table[offsets + piece], axis=1)
    return found
