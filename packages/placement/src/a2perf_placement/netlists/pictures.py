"""Pictures of an imported design: its cells coloured by cluster, and the clustered netlist as the engine draws it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from a2perf.domains.circuit_training.cost_model import create_placement_cost
from a2perf.domains.circuit_training.design import NETLIST_NAME, PLACEMENT_NAME
from a2perf.domains.circuit_training.netlist import KIND_MACRO, KIND_PORT, KIND_STDCELL
from a2perf.domains.circuit_training.rendering import BORDER, HEIGHT, WIDTH, PlacementPicture
from a2perf_placement.netlists.flat_design import TURNED, FlatDesign
from a2perf_placement.netlists.grouping import Grouping

FLAT_PICTURE, CLUSTERED_PICTURE = "flat.png", "clustered.png"
_MACRO, _OUTLINE, _PORT, _BLOCKED = (128, 0, 128), (0, 0, 0), (0, 110, 60), (225, 225, 225)
_GOLDEN = 0.6180339887498949


def draw_flat(flat: FlatDesign, grouping: Grouping, size: tuple[int, int] = (WIDTH, HEIGHT)) -> NDArray[np.uint8]:
    """Returns a picture of a flat design, RGB, uint8, shape (height, width, 3): one colour per group of cells."""
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    scale = min((size[0] - 2 * BORDER) / flat.canvas[0], (size[1] - 2 * BORDER) / flat.canvas[1])
    left, bottom = (size[0] - scale * flat.canvas[0]) / 2.0, (size[1] + scale * flat.canvas[1]) / 2.0

    def box(low_x: float, low_y: float, high_x: float, high_y: float) -> tuple[float, float, float, float]:
        return left + scale * low_x, bottom - scale * high_y, left + scale * high_x, bottom - scale * low_y

    for low_x, low_y, high_x, high_y, _ in flat.blockages.tolist():
        draw.rectangle(box(low_x, low_y, high_x, high_y), fill=_BLOCKED)
    netlist = flat.netlist
    pixels = np.asarray(image).copy()
    cells = np.flatnonzero((netlist.kind == KIND_STDCELL) & (netlist.has_location != 0))
    colours = _colours(grouping.count)[grouping.group[cells]]
    # Squares about as large as the distance of cells in a half-full design, at least one pixel each.
    square = int(np.clip(round(0.8 * scale * np.sqrt(np.prod(flat.canvas) / max(1, len(cells)))), 1, 8))
    for step in range(square * square):
        columns = (left + scale * netlist.x[cells]).astype(int) + step % square - square // 2
        rows = (bottom - scale * netlist.y[cells]).astype(int) + step // square - square // 2
        pixels[np.clip(rows, 0, size[1] - 1), np.clip(columns, 0, size[0] - 1)] = colours
    image = Image.fromarray(pixels)
    draw = ImageDraw.Draw(image)
    for node in np.flatnonzero((netlist.kind == KIND_MACRO) & (netlist.has_location != 0)).tolist():
        half = np.array([netlist.width[node], netlist.height[node]]) / 2.0
        half_x, half_y = half[::-1] if int(netlist.orientation[node]) in TURNED else half
        x, y = netlist.x[node], netlist.y[node]
        draw.rectangle(box(x - half_x, y - half_y, x + half_x, y + half_y), fill=_MACRO, outline=_OUTLINE)
    for node in np.flatnonzero(netlist.kind == KIND_PORT).tolist():
        x, y, _, _ = box(netlist.x[node], netlist.y[node], netlist.x[node], netlist.y[node])
        draw.rectangle((x - 1.5, y - 1.5, x + 1.5, y + 1.5), fill=_PORT)
    draw.rectangle(box(0.0, 0.0, *flat.canvas), outline=_OUTLINE)
    return np.asarray(image, dtype=np.uint8).copy()


def write_pictures(folder: Path, flat: FlatDesign, grouping: Grouping) -> list[Path]:
    """Writes both pictures of an imported design into its folder and returns their paths.

    Args:
        flat: the design before grouping.
    """
    plc = create_placement_cost(folder / NETLIST_NAME, folder / PLACEMENT_NAME)
    pictures = {FLAT_PICTURE: draw_flat(flat, grouping), CLUSTERED_PICTURE: PlacementPicture().draw(plc)}
    for name, pixels in pictures.items():
        Image.fromarray(pixels).quantize(128, dither=Image.Dither.NONE).save(folder / name, optimize=True)
    return [folder / name for name in pictures]


def _colours(count: int) -> NDArray[np.uint8]:
    """Returns colours of equal brightness; hues of neighbours in number lie far apart."""
    hues = (np.arange(max(count, 1)) * _GOLDEN) % 1.0
    wheel = (hues[:, None] + np.array([0.0, 1.0 / 3.0, 2.0 / 3.0])) * 2.0 * np.pi
    colours: NDArray[np.uint8] = (140.0 + 90.0 * np.cos(wheel)).astype(np.uint8)
    return colours
