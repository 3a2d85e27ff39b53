"""Pictures of a placement: macros at their true boxes, ports, and on request nets, congestion and density.

The canvas lies in the picture with y upwards. Hard macros are purple and numbered in the order of placing, soft ones
grey. Overlays shade cells from transparent to red by their share of the fullest one (at least of 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.netlists.netlist import KIND_PORT, KIND_STDCELL

OVERLAYS = ("nets", "congestion", "density")
WIDTH, HEIGHT = 800, 600  # px
BORDER = 37  # px
_GRID = (173, 216, 255, 255)
_HARD = (128, 0, 128, 128)
_SOFT = (90, 90, 90, 70)
_CELL = (40, 90, 160, 120)
_PORT = (0, 110, 60, 255)
_NET = (30, 60, 200, 26)
_BLACK = (0, 0, 0, 255)
_MOST_NETS = 4000


class PlacementPicture:
    """Draws placements."""

    def __init__(self, overlays: Sequence[str] = (), size: tuple[int, int] = (WIDTH, HEIGHT)) -> None:
        self._overlays, self._size = tuple(overlays), size
        self._font = ImageFont.load_default(size=11)

    def draw(self, plc: PlacementCost, order: Sequence[int] = ()) -> NDArray[np.uint8]:
        """Returns a picture, RGB, uint8, shape (height, width, 3).

        Args:
            order: hard macros in the order of placing; they are numbered "k / n".
        """
        frame = _Frame(plc, self._size)
        image = Image.new("RGB", self._size, "white")
        draw = ImageDraw.Draw(image, "RGBA")
        _draw_grid(draw, frame)
        if "density" in self._overlays:
            _shade(image, frame, plc.get_grid_cells_density(), plc.get_grid_num_columns_rows())
        if "congestion" in self._overlays:
            both = (
                np.asarray(plc.get_horizontal_routing_congestion()),
                np.asarray(plc.get_vertical_routing_congestion()),
            )
            _shade(image, frame, np.maximum(*both), plc.get_congestion_grid_num_columns_rows())
        if "nets" in self._overlays:
            _draw_nets(draw, frame)
        draw = ImageDraw.Draw(image, "RGBA")
        _draw_small_nodes(draw, frame)
        for node in _placed(plc, plc.soft_macro_indices):
            draw.rectangle(frame.box(int(node)), fill=_SOFT)
        numbers = {node: k for k, node in enumerate(order, start=1)}
        for node in _placed(plc, plc.hard_macro_indices):
            box = frame.box(int(node))
            draw.rectangle(box, fill=_HARD, outline=_BLACK)
            label = f"{numbers[int(node)]} / {len(order)}" if int(node) in numbers else ""
            if label and draw.textlength(label, font=self._font) < box[2] - box[0]:
                middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
                draw.text(middle, label, fill=_BLACK, font=self._font, anchor="mm")
        return np.asarray(image, dtype=np.uint8).copy()


class _Frame:
    """From um on the canvas to pixels."""

    def __init__(self, plc: PlacementCost, size: tuple[int, int]) -> None:
        self.plc = plc
        self.width, self.height = plc.get_canvas_width_height()
        self.scale = min((size[0] - 2 * BORDER) / self.width, (size[1] - 2 * BORDER) / self.height)
        self.left = (size[0] - self.scale * self.width) / 2
        self.bottom = (size[1] + self.scale * self.height) / 2

    def point(self, x: float, y: float) -> tuple[float, float]:
        return self.left + x * self.scale, self.bottom - y * self.scale

    def area(self, lx: float, ly: float, ux: float, uy: float) -> tuple[float, float, float, float]:
        return (*self.point(lx, uy), *self.point(ux, ly))

    def box(self, node: int) -> tuple[float, float, float, float]:
        lx, ly, ux, uy = self.plc.node_boxes([node])[0]
        return self.area(lx, ly, ux, uy)


def _placed(plc: PlacementCost, nodes: NDArray[Any]) -> NDArray[Any]:
    chosen: NDArray[Any] = nodes[plc.state.placed[nodes] != 0]
    return chosen


def _draw_grid(draw: ImageDraw.ImageDraw, frame: _Frame) -> None:
    columns, rows = frame.plc.get_grid_num_columns_rows()
    for k in range(columns + 1):
        x = frame.width * k / columns
        draw.line((*frame.point(x, 0.0), *frame.point(x, frame.height)), fill=_GRID)
    for k in range(rows + 1):
        y = frame.height * k / rows
        draw.line((*frame.point(0.0, y), *frame.point(frame.width, y)), fill=_GRID)
    draw.rectangle(frame.area(0.0, 0.0, frame.width, frame.height), outline=_BLACK)


def _shade(image: Image.Image, frame: _Frame, values: Any, grid: tuple[int, int]) -> None:
    columns, rows = grid
    shares = np.asarray(values, dtype=np.float64).reshape(rows, columns)[::-1]
    shares = shares / max(1.0, float(shares.max(initial=0.0)))
    left, top, right, bottom = frame.area(0.0, 0.0, frame.width, frame.height)
    size = (max(1, round(right - left)), max(1, round(bottom - top)))
    alpha = Image.fromarray((200.0 * shares).astype(np.uint8)).resize(size, Image.Resampling.NEAREST)
    image.paste(Image.new("RGB", size, (220, 30, 20)), (round(left), round(top)), alpha)


def _draw_nets(draw: ImageDraw.ImageDraw, frame: _Frame) -> None:
    """Lines from drivers to sinks; of very many nets an even sample."""
    plc = frame.plc
    netlist, state = plc.netlist, plc.state
    owner = np.where(netlist.owner >= 0, netlist.owner, np.arange(netlist.num_nodes))
    step = max(1, netlist.num_nets // _MOST_NETS)
    for net in range(0, netlist.num_nets, step):
        pins = owner[netlist.net_pins[netlist.net_start[net] : netlist.net_start[net + 1]]]
        if state.placed[pins].all():
            at = [frame.point(float(state.x[pin]), float(state.y[pin])) for pin in pins]
            for end in at[1:]:
                draw.line((*at[0], *end), fill=_NET)


def _draw_small_nodes(draw: ImageDraw.ImageDraw, frame: _Frame) -> None:
    plc = frame.plc
    for node in _placed(plc, np.flatnonzero(plc.netlist.kind == KIND_STDCELL)):
        draw.rectangle(frame.box(int(node)), fill=_CELL)
    for node in _placed(plc, np.flatnonzero(plc.netlist.kind == KIND_PORT)):
        x, y = frame.point(float(plc.state.x[node]), float(plc.state.y[node]))
        draw.rectangle((x - 1.5, y - 1.5, x + 1.5, y + 1.5), fill=_PORT)
