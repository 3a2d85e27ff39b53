"""The state of a placement: positions, orientations, placed and fixed nodes, and a log of changes.

Pins are in the same arrays as the other nodes and follow their macro; a net is a list of array positions.
Lengths are in um; the origin is the lower left corner of the canvas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.netlists.netlist import (
    KIND_MACRO,
    KIND_MACRO_PIN,
    KIND_PORT,
    KIND_STDCELL,
    ORIENTATIONS,
    Netlist,
)
from a2perf.domains.compilation import compiled_without_allocation
from a2perf.errors import UserError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A pin at (x, y) of a macro in orientation N is at (xx * x + xy * y, yx * x + yy * y) in the orientation of that row.
ROTATION = np.array(
    [
        [1, 0, 0, 1],  # N
        [-1, 0, 0, -1],  # S
        [-1, 0, 0, 1],  # FN
        [1, 0, 0, -1],  # FS
        [0, 1, -1, 0],  # E
        [0, -1, 1, 0],  # W
        [0, -1, -1, 0],  # FE
        [0, 1, 1, 0],  # FW
        [1, 0, 0, 1],  # FD, of which nothing is known but its name
    ],
    dtype=np.float64,
)
EXCHANGES_SIDES = np.array([name in ("E", "W", "FE", "FW") for name in ORIENTATIONS])

_LOG_LIMIT = 512


class PlacementError(UserError, ValueError):
    """The engine refuses: a node, cell or value that does not exist or is not allowed."""


@compiled_without_allocation
def _follow(
    node: int,
    pins_start: NDArray[np.int64],
    pins: NDArray[np.int32],
    offset_x: Floats,
    offset_y: Floats,
    x: Floats,
    y: Floats,
    placed: NDArray[np.uint8],
) -> None:
    for i in range(pins_start[node], pins_start[node + 1]):
        pin = pins[i]
        x[pin] = x[node] + offset_x[pin]
        y[pin] = y[node] + offset_y[pin]
        placed[pin] = placed[node]


@compiled_without_allocation
def follow_all(
    owner: NDArray[np.int32], offset_x: Floats, offset_y: Floats, x: Floats, y: Floats, placed: NDArray[np.uint8]
) -> None:
    """Puts every pin where its macro has it."""
    for pin in range(owner.size):
        node = owner[pin]
        if node >= 0:
            x[pin] = x[node] + offset_x[pin]
            y[pin] = y[node] + offset_y[pin]
            placed[pin] = placed[node]


class Placement:
    """The state of one placement.

    Attributes:
        x, y: centre of each node, float64; pins included; meaningless where not placed.
        placed, fixed: 1 where it holds, uint8.
        orientation: index into ``ORIENTATIONS``, int8; -1 where never given.
        width, height: unrotated sizes, float64.
        box_width, box_height: sizes as the node lies, float64.
        offset_x, offset_y: pin positions relative to the centre as the macro lies, float64.
    """

    def __init__(self, netlist: Netlist) -> None:
        self.netlist = netlist
        kind = netlist.kind
        self.x = netlist.x.copy()
        self.y = netlist.y.copy()
        self.placed = netlist.has_location.copy()
        self.fixed = np.zeros(netlist.num_nodes, dtype=np.uint8)
        self.orientation = netlist.orientation.copy()
        self.width = netlist.width.copy()
        self.height = netlist.height.copy()
        self.box_width = self.width.copy()
        self.box_height = self.height.copy()
        self.offset_x = netlist.x_offset.copy()
        self.offset_y = netlist.y_offset.copy()
        self.macros: Ints = np.flatnonzero(kind == KIND_MACRO)
        self.hard: Ints = self.macros[netlist.soft[self.macros] == 0]
        self.soft: Ints = self.macros[netlist.soft[self.macros] == 1]
        self.standard_cells: Ints = np.flatnonzero(kind == KIND_STDCELL)
        self.ports: Ints = np.flatnonzero(kind == KIND_PORT)
        pins = np.flatnonzero(kind == KIND_MACRO_PIN)
        order = np.argsort(netlist.owner[pins], kind="stable")
        self._pins = pins[order].astype(np.int32)
        counts = np.bincount(netlist.owner[pins], minlength=netlist.num_nodes)
        self._pins_start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self.edges: tuple[tuple[bytes, bytes], Any] | None = None  # of the last run of the force-directed placer
        self._log: list[int] = []
        self._log_start = 0  # number of changes that were dropped from the log
        self._log_valid_from = 0
        for macro in self.macros[netlist.orientation[self.macros] != 0]:
            self._turn(int(macro))
        self.place_all_pins()

    # --- the log of changes, for incremental costs -----------------------------------------------------

    @property
    def version(self) -> int:
        """Number of changes so far."""
        return self._log_start + len(self._log)

    def changed_since(self, version: int) -> list[int] | None:
        """Returns the nodes that changed since a version, or None if any node may have changed."""
        if version < self._log_valid_from:
            return None
        return self._log[version - self._log_start :]

    def _changed(self, node: int) -> None:
        if len(self._log) >= _LOG_LIMIT:
            # Half at once, or the list would be shifted at every change.
            dropped = _LOG_LIMIT // 2
            del self._log[:dropped]
            self._log_start += dropped
            self._log_valid_from = max(self._log_valid_from, self._log_start)
        self._log.append(node)

    def everything_changed(self) -> None:
        """Notes that many nodes, or the canvas, changed."""
        # One more than the log, or a version read just before would still look current.
        self._log_start += len(self._log) + 1
        self._log.clear()
        self._log_valid_from = self._log_start

    # --- changes ---------------------------------------------------------------------------------------------------

    def put(self, node: int, x: float, y: float) -> None:
        """Places a macro, standard cell or port at a position."""
        self.x[node] = x
        self.y[node] = y
        self.placed[node] = 1
        self._follow(node)
        self._changed(node)

    def take(self, node: int) -> None:
        """Takes a macro, standard cell or port off the canvas."""
        self.placed[node] = 0
        self._follow(node)
        self._changed(node)

    def take_all(self) -> None:
        """Takes everything that is not fixed off the canvas."""
        self.placed &= self.fixed
        self.place_all_pins()

    def turn(self, node: int, orientation: int) -> None:
        """Gives a macro an orientation."""
        if self.orientation[node] != orientation:
            self.orientation[node] = orientation
            self._turn(node)
            self._follow(node)
            self._changed(node)

    def resize(self, nodes: NDArray[np.intp], width: Floats, height: Floats) -> None:
        """Gives nodes other sizes."""
        self.width[nodes] = width
        self.height[nodes] = height
        exchanged = EXCHANGES_SIDES[self.orientation[nodes]]
        self.box_width[nodes] = np.where(exchanged, height, width)
        self.box_height[nodes] = np.where(exchanged, width, height)
        self.everything_changed()

    def place_all_pins(self) -> None:
        """Moves every pin with its macro, after positions were written into the arrays."""
        follow_all(self.netlist.owner, self.offset_x, self.offset_y, self.x, self.y, self.placed)
        self.everything_changed()

    def _follow(self, node: int) -> None:
        _follow(node, self._pins_start, self._pins, self.offset_x, self.offset_y, self.x, self.y, self.placed)

    def _turn(self, node: int) -> None:
        orientation = int(self.orientation[node])
        pins = self.pins_of(node)
        xx, xy, yx, yy = ROTATION[orientation]
        x, y = self.netlist.x_offset[pins], self.netlist.y_offset[pins]
        self.offset_x[pins] = xx * x + xy * y
        self.offset_y[pins] = yx * x + yy * y
        exchanged = bool(EXCHANGES_SIDES[orientation])
        self.box_width[node] = self.height[node] if exchanged else self.width[node]
        self.box_height[node] = self.width[node] if exchanged else self.height[node]

    # --- questions -------------------------------------------------------------------------------------------------

    def pins_of(self, node: int) -> NDArray[np.int32]:
        """Returns the pins of a macro."""
        return self._pins[self._pins_start[node] : self._pins_start[node + 1]]

    def pin_lists(self) -> tuple[Ints, NDArray[np.int32]]:
        """Returns where the pins of each node start, shape (nodes + 1,), and the pins."""
        return self._pins_start, self._pins

    def boxes(self, nodes: Sequence[int] | NDArray[np.intp]) -> Floats:
        """Returns left, lower, right and upper edge of nodes as they lie, um, shape (n, 4)."""
        chosen = np.asarray(nodes, dtype=np.intp)
        half_width, half_height = self.box_width[chosen] / 2, self.box_height[chosen] / 2
        x, y = self.x[chosen], self.y[chosen]
        return np.stack((x - half_width, y - half_height, x + half_width, y + half_height), axis=1)
