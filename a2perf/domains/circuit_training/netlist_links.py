"""Kernels that turn the names of a scanned netlist into indices: owners of pins, nets and their distinct sinks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.compilation import compiled_part, compiled_without_allocation

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

_HASH_MASK = (1 << 46) - 1  # keeps 31 * hash + byte within 64 bits


@compiled_part
def _hash(blob: Bytes, start: int, length: int) -> int:
    value = np.int64(length)
    for i in range(start, start + length):
        value = (value * 31 + np.int64(blob[i])) & _HASH_MASK
    # The table takes only the low bits; this lets the high ones count.
    return int(value ^ (value >> 17))


@compiled_without_allocation
def resolve(blob: Bytes, names: Ints, wanted: Ints, table: NDArray[np.int32], found: NDArray[np.int32]) -> int:
    """Finds the node of each wanted name.

    Args:
        names: offset and length of each node's name, shape (nodes, 2).
        wanted: offset and length of each name to find, shape (n, 2); a negative length stands for no name.
        table: hash table, a power of two above twice the nodes, filled with -1.
        found: result, shape (n,): node or -1.

    Returns:
        -1, or the first node with a name that an earlier node has already.
    """
    mask = table.size - 1
    nodes = names.shape[0]
    for i in range(nodes + wanted.shape[0]):
        start, length = (names[i, 0], names[i, 1]) if i < nodes else (wanted[i - nodes, 0], wanted[i - nodes, 1])
        node = -1
        if length >= 0:
            slot = _hash(blob, start, length) & mask
            while table[slot] >= 0:
                node = table[slot]
                same = names[node, 1] == length
                for j in range(length if same else 0):
                    same = same and blob[names[node, 0] + j] == blob[start + j]
                if same:
                    break
                node = -1
                slot = (slot + 1) & mask
            if i < nodes:
                if node >= 0:
                    return i
                table[slot] = i
        if i >= nodes:
            found[i - nodes] = node
    return -1


@compiled_without_allocation
def build_nets(
    kind: NDArray[np.int8],
    sinks: NDArray[np.int32],
    sink_owner: Ints,
    seen: NDArray[np.int32],
    net_start: Ints,
    net_pins: NDArray[np.int32],
) -> tuple[int, int]:
    """Collects the nets: driver first, then its distinct sinks; macros neither drive nor are driven.

    Args:
        kind: kind of each node; 0 is a macro.
        sinks: the node that each input names, in the order of the file.
        seen: scratch, shape (nodes,), filled with -1.
        net_start: result, shape (nets + 1,) or longer.
        net_pins: result, shape (inputs + nets,) or longer.

    Returns:
        Number of nets, number of pins in them.
    """
    nets, pins, i = 0, 0, 0
    net_start[0] = 0
    while i < sinks.size:
        driver = sink_owner[i]
        is_net = kind[driver] != 0
        if is_net:
            net_pins[pins] = driver
            pins += 1
        while i < sinks.size and sink_owner[i] == driver:
            sink = sinks[i]
            # Marked with the driver: the scratch then needs no clearing between nets.
            if is_net and kind[sink] != 0 and seen[sink] != driver:
                seen[sink] = driver
                net_pins[pins] = sink
                pins += 1
            i += 1
        if is_net:
            nets += 1
            net_start[nets] = pins
    return nets, pins
