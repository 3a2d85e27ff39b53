"""The sum of the largest values of a map of integers, kept up to date while single values change.

Values near the smallest one that counts are sorted into bins with linked lists; of larger values only the number and
the sum are kept, and smaller values are not looked at. A sum of integers does not depend on the order of additions, so
the result is that of sorting the whole map.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.compilation import compiled_part

BINS = 256
_ABOVE = BINS + 1  # the bin of values beyond the band; bin 0 holds the values below it


class TopSum(NamedTuple):
    """A map and what is known of its largest values.

    Attributes:
        values: the map, shape (cells,); never negative except for rounding.
        following, preceding: neighbours in the list of a cell's bin, -1 at its ends, shape (cells,).
        head: first cell of the list of each bin, -1 if empty, shape (bins + 2,).
        sizes, sums: number and sum of the values in each bin but bin 0, shape (bins + 2,).
        band: the lowest value of the band, and the binary logarithm of the width of a bin.
        scratch: shape (cells,).
    """

    values: NDArray[np.int64]
    following: NDArray[np.int32]
    preceding: NDArray[np.int32]
    head: NDArray[np.int32]
    sizes: NDArray[np.int64]
    sums: NDArray[np.int64]
    band: NDArray[np.int64]
    scratch: NDArray[np.int64]


def new_top_sum(cells: int) -> TopSum:
    """Returns the structure of a map of zeros; `rebuild` must run before it is used."""
    return TopSum(
        np.zeros(cells, np.int64),
        np.full(cells, -1, np.int32),
        np.full(cells, -1, np.int32),
        np.full(BINS + 2, -1, np.int32),
        np.zeros(BINS + 2, np.int64),
        np.zeros(BINS + 2, np.int64),
        np.zeros(2, np.int64),
        np.zeros(cells, np.int64),
    )


@compiled_part
def _bin_of(value: int, low: int, shift: int) -> int:
    if value < low:
        return 0
    return min(((value - low) >> shift) + 1, _ABOVE)


@compiled_part
def _insert(top: TopSum, cell: int, value: int) -> None:
    low = top.band[0]
    at = _bin_of(value, low, top.band[1])
    if at == 0:
        return
    top.sizes[at] += 1
    top.sums[at] += value
    # Cells that hold exactly the lowest value may be most of an empty map. They need no list: all are alike.
    if at != _ABOVE and value != low:
        first = top.head[at]
        top.following[cell] = first
        top.preceding[cell] = -1
        if first >= 0:
            top.preceding[first] = cell
        top.head[at] = cell


@compiled_part
def _remove(top: TopSum, cell: int, value: int) -> None:
    low = top.band[0]
    at = _bin_of(value, low, top.band[1])
    if at == 0:
        return
    top.sizes[at] -= 1
    top.sums[at] -= value
    if at != _ABOVE and value != low:
        before, after = top.preceding[cell], top.following[cell]
        if before >= 0:
            top.following[before] = after
        else:
            top.head[at] = after
        if after >= 0:
            top.preceding[after] = before


@compiled_part
def add_to(top: TopSum, cell: int, change: int) -> None:
    """Adds to the value of a cell."""
    before = top.values[cell]
    after = before + change
    top.values[cell] = after
    if before < top.band[0] and after < top.band[0]:
        return  # most cells, most of the time
    _remove(top, cell, before)
    _insert(top, cell, after)


@compiled_part
def _largest_first(values: NDArray[np.int64], size: int, count: int) -> None:
    """Reorders the first ``size`` values until the ``count`` largest come first (quickselect)."""
    low, high = 0, size - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if count - 1 <= j:
            high = j
        elif count - 1 >= i:
            low = i
        else:
            return


@compiled_part
def rebuild(top: TopSum, wanted: int) -> None:
    """Centres the band on the ``wanted``-th largest value and sorts all cells into the bins."""
    cells = top.values.size
    for i in range(cells):
        top.scratch[i] = top.values[i]
    wide, narrow = min(2 * wanted, cells), max(wanted // 2, 1)
    _largest_first(top.scratch, cells, wide)
    low = top.scratch[wide - 1]
    # The second selection stays inside the first part; its smallest value is at the end.
    _largest_first(top.scratch, wide, narrow)
    high = top.scratch[narrow - 1]
    shift = 0
    while ((high - low) >> shift) >= BINS:
        shift += 1
    top.band[0], top.band[1] = low, shift
    for at in range(BINS + 2):
        top.head[at] = -1
        top.sizes[at] = top.sums[at] = 0
    for cell in range(cells):
        _insert(top, cell, top.values[cell])


@compiled_part
def _sum_in_bin(top: TopSum, at: int, wanted: int) -> int:
    """Returns the sum of the ``wanted`` largest values of a bin."""
    size = 0
    total = 0
    cell = top.head[at]
    while cell >= 0:
        value = top.values[cell]
        top.scratch[size] = value
        total += value
        size += 1
        cell = top.following[cell]
    if wanted >= size:  # only in the lowest bin: the rest are the cells without a list
        return int(total + (wanted - size) * top.band[0])
    _largest_first(top.scratch, size, wanted)
    total = 0
    for i in range(wanted):
        total += top.scratch[i]
    return int(total)


@compiled_part
def sum_of_largest(top: TopSum, wanted: int) -> int:
    """Returns the sum of the ``wanted`` largest values; moves the band if the smallest of them left it."""
    for _ in range(2):
        found, total = top.sizes[_ABOVE], top.sums[_ABOVE]
        at = BINS
        while found < wanted and at > 0:
            if found + top.sizes[at] > wanted:
                return int(total + _sum_in_bin(top, at, wanted - found))
            found += top.sizes[at]
            total += top.sums[at]
            at -= 1
        if found == wanted:
            return int(total)
        rebuild(top, wanted)
    return int(total)  # not reached: a band that was just centred holds the value
