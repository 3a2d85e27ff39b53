"""Pictures of a page of the page model: boxes with their texts, in plain colours."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from a2perf.domains.web_navigation.browsers.backend import PageRow
from a2perf.domains.web_navigation.page.layout import font_file
from a2perf.domains.web_navigation.page.nodes import PAGE_MIN_HEIGHT, PAGE_WIDTH, PageNode
from a2perf.domains.web_navigation.sites.website import Site

WINDOW = (int(PAGE_WIDTH), int(PAGE_MIN_HEIGHT))
# class or tag, fill, outline, text; the first that fits is taken
_LOOKS = (
    ("btn-primary", "#0b63c5", None, "white"),
    ("btn-secondary", "#5f6b76", None, "white"),
    ("bg-dark", "#2f3a44", None, "white"),
    ("navbar-brand", None, None, "white"),
    ("nav-link", None, None, "#cfd6dc"),
    ("navbar-toggler", None, "#8a949d", "white"),
    ("navbar-toggler-icon", "#8a949d", None, "white"),
    ("badge", "#5f6b76", None, "white"),
    ("list-group-item", None, "#d5dadf", "black"),
    ("card", None, "#d5dadf", "black"),
    ("card-footer", "#eef1f3", None, "black"),
    ("carousel-indicators", None, None, "black"),
    ("active", "white", None, "black"),
    ("input_", "white", "#9aa4ad", "black"),
    ("select", "white", "#9aa4ad", "black"),
    ("img", "#a9b8c6", None, "black"),
    ("a", None, None, "#0b63c5"),
)


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(font_file()), size)


def _look(row: PageRow) -> tuple[str | None, str | None, str]:
    names = row.classes.split()
    for key, fill, outline, text in _LOOKS:
        if key in names or row.tag == key or (key == "input_" and row.tag.startswith(key)):
            return fill, outline, text
    return None, None, "black"


def draw(rows: Sequence[PageRow], site: Site, height: int = WINDOW[1]) -> NDArray[np.uint8]:
    """Draws the listed elements.

    Returns:
        RGB, shape (height, 375, 3).
    """
    picture = Image.new("RGB", (WINDOW[0], height), "#ffffff")
    brush = ImageDraw.Draw(picture)
    for row in rows:
        fill, outline, colour = _look(row)
        if row.top >= height:
            continue
        if "visited" in row.classes and row.tag.startswith(("input", "select")):
            outline = "#2e7d32"
        corner = (row.left, row.top, row.left + row.width - 1, row.top + row.height - 1)
        if row.width > 1 and row.height > 1 and (fill or outline):
            brush.rectangle(corner, fill=fill, outline=outline)
        _write(brush, row, site.nodes[row.node], colour)
    return np.asarray(picture)


def _write(brush: ImageDraw.ImageDraw, row: PageRow, node: PageNode, colour: str) -> None:
    if isinstance(row.value, bool):
        if row.value:
            inner = (row.left + 3, row.top + 3, row.left + row.width - 4, row.top + row.height - 4)
            brush.rectangle(inner, fill="#0b63c5")
        return
    text = row.value or row.text or ""
    if not text and row.placeholder:
        text, colour = row.placeholder, "#8a949d"
    if text and row.tag == "input_password" and row.value:
        text = "•" * len(text)
    if text:
        left = row.left + (row.width / 2 if row.tag == "button" else node.pad)
        anchor = "mm" if row.tag == "button" else "lm"
        brush.text((left, row.top + row.height / 2), text, colour, _font(int(node.font or 14)), anchor=anchor)
