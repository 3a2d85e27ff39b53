"""A flat netlist with a known clustering: soft macros are expanded into standard cells.

The flat netlist behind a published clustering is often not published. This makes one with the same nets between groups,
which a partitioner can be compared with: every net between groups starts at a separate cell, pooled nets are taken
apart again, and all other cells drive nets inside their group that follow Rent's rule.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.netlists.connectivity import rent_nets
from a2perf.domains.circuit_training.netlists.netlist import KIND_STDCELL, Names, Netlist, NetlistError
from a2perf_placement.netlists.flat_design import FlatDesign, Floats

Ints = NDArray[np.int64]

_ROW_HEIGHT = 1.4  # um
_MEAN_FAN_OUT = 2.2  # of the nets inside a group
_RENT_EXPONENT = 0.65  # inside a group


def expand_soft_macros(
    netlist: Netlist,
    locations: Floats,
    canvas: tuple[float, float],
    cells: int,
    seed: int = 0,
    utilization: float = 0.5,
) -> tuple[FlatDesign, Ints]:
    """Returns a flat design and the group of each of its nodes.

    Args:
        netlist: a clustered netlist.
        locations: centre of each node, um, shape (nodes, 2); cells lie in the square of their group's area.
        canvas: width and height, um.
        cells: number of standard cells; groups get shares by area, at least one more than the nets that they drive.
        seed: of the random choices.
        utilization: share of a soft macro's area that its cells cover.

    Returns:
        The design, and the group of each node, -1 for nodes that are not cells, int64.

    Raises:
        NetlistError: there is no soft macro, or more cells are needed.
    """
    generator = np.random.default_rng(seed)
    soft = np.flatnonzero(netlist.soft)
    drivers = netlist.net_pins[netlist.net_start[:-1]]
    end_of = np.where(netlist.owner >= 0, netlist.owner, np.arange(netlist.num_nodes))
    group_of = np.full(netlist.num_nodes, -1, np.int64)
    group_of[soft] = np.arange(len(soft))
    driving, weights = group_of[end_of[drivers]], np.maximum(np.round(netlist.weight[drivers]), 1).astype(np.int64)
    needed = np.bincount(driving[driving >= 0], weights[driving >= 0], minlength=len(soft)).astype(np.int64) + 1
    if len(soft) == 0 or needed.sum() > cells:
        raise NetlistError(
            f"{netlist.source}: {cells} cells cannot drive its nets", hint=f"give {needed.sum()} or more"
        )
    areas = (netlist.width * netlist.height)[soft]
    sizes = _shares(areas, needed, cells)
    first = np.concatenate(([0], np.cumsum(sizes)))

    # Nodes that stay keep their order, cells come behind them.
    stays = np.flatnonzero((netlist.soft == 0) & (group_of[end_of] < 0))
    new = np.full(netlist.num_nodes, -1, np.int64)
    new[stays] = np.arange(len(stays))
    starts, pins, next_driver = [0], [], first[:-1].copy()
    for net in range(netlist.num_nets):
        ends = netlist.net_pins[netlist.net_start[net] : netlist.net_start[net + 1]].tolist()
        for _ in range(int(weights[net])):
            for position, end in enumerate(ends):
                group = int(group_of[end_of[end]])
                if group < 0:
                    pins.append(int(new[end]))
                elif position == 0:
                    pins.append(len(stays) + int(next_driver[group]))
                    next_driver[group] += 1
                else:
                    pins.append(len(stays) + int(generator.integers(first[group], first[group + 1])))
            starts.append(len(pins))
    for group, size in enumerate(sizes.tolist()):
        own = np.arange(next_driver[group] - first[group], size)
        if size < 2:
            continue
        fan_outs = np.minimum(generator.geometric(1.0 / _MEAN_FAN_OUT, len(own)), size - 1)
        base = len(stays) + int(first[group])
        for driver, sinks in zip(own, rent_nets(generator, size, own, fan_outs, _RENT_EXPONENT), strict=True):
            pins += [base + int(driver), *(base + sink for sink in sinks)]
            starts.append(len(pins))

    planted = np.concatenate((np.full(len(stays), -1), np.repeat(np.arange(len(soft)), sizes)))
    half = (np.sqrt(areas) / 2.0)[planted[len(stays) :]][:, None]
    at = locations[soft][planted[len(stays) :]] + generator.uniform(-1.0, 1.0, (cells, 2)) * half
    at = np.clip(at, 0.0, np.array(canvas))
    widths = (areas * utilization / sizes)[planted[len(stays) :]] / _ROW_HEIGHT
    flat = _with_cells(netlist, stays, new, locations, at, widths, np.array(starts), np.array(pins, dtype=np.int32))
    fixed = np.zeros(flat.num_nodes, np.uint8)
    return FlatDesign(flat, "expanded", canvas, (0.0, 0.0), fixed, np.zeros((0, 5)), {}), planted


def _shares(areas: Floats, needed: Ints, cells: int) -> Ints:
    """Returns numbers of cells by area that add up to ``cells``, each at least ``needed``."""
    sizes: Ints = np.maximum(np.floor(areas / areas.sum() * cells).astype(np.int64), needed)
    while (excess := int(sizes.sum()) - cells) != 0:
        slack = sizes - needed
        if excess > 0:
            largest = int(np.argmax(slack))
            sizes[largest] -= min(excess, max(1, int(slack[largest]) // 8))
        else:
            sizes[np.argsort(-areas, kind="stable")[:-excess]] += 1
    return sizes


def _with_cells(
    netlist: Netlist,
    stays: Ints,
    new: Ints,
    locations: Floats,
    at: Floats,
    widths: Floats,
    starts: Ints,
    pins: NDArray[np.int32],
) -> Netlist:
    cells = len(at)
    none, no_side = np.zeros(cells), np.zeros(cells, np.int8)
    owner = netlist.owner[stays]
    return Netlist(
        source=netlist.source,
        names=_names_of([*(netlist.names[node] for node in stays.tolist()), *(f"cell_{k}" for k in range(cells))]),
        kind=np.concatenate((netlist.kind[stays], np.full(cells, KIND_STDCELL, np.int8))),
        soft=np.zeros(len(stays) + cells, np.uint8),
        owner=np.concatenate((np.where(owner >= 0, new[owner], -1), np.full(cells, -1))).astype(np.int32),
        width=np.concatenate((netlist.width[stays], widths)),
        height=np.concatenate((netlist.height[stays], np.full(cells, _ROW_HEIGHT))),
        x=np.concatenate((locations[stays, 0], at[:, 0])),
        y=np.concatenate((locations[stays, 1], at[:, 1])),
        x_offset=np.concatenate((netlist.x_offset[stays], none)),
        y_offset=np.concatenate((netlist.y_offset[stays], none)),
        weight=np.ones(len(stays) + cells),
        has_location=np.ones(len(stays) + cells, np.uint8),
        side=np.concatenate((netlist.side[stays], no_side)),
        orientation=np.concatenate((netlist.orientation[stays], no_side)),
        net_start=starts.astype(np.int64),
        net_pins=pins,
    )


def _names_of(names):
    encoded = [name.encode() for name in names]
    lengths = np.array([len(name) for name in encoded], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    return Names(np.frombuffer(b"".join(encoded), dtype=np.uint8), np.stack((starts, lengths), axis=1))
