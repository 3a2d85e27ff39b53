"""Boxes of the listed elements: a block layout simple enough to be the same in every browser.

Blocks of the flow stack downwards; everything else is placed at stated offsets in its parent. Widths of texts come from
the one font of all pages: DejaVu Sans as shipped with matplotlib, checked by its hash. The browser loads the same file
without hinting and kerning: a text has the same width in both backends. There are no margins and borders, and nothing
scrolls.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Container
from pathlib import Path
from typing import NamedTuple

from a2perf.domains.web_navigation.page.nodes import PAGE_WIDTH, PageNode
from a2perf.domains.web_navigation.sites.website import Site
from a2perf.errors import MissingDependency

FONT_SHA256 = "3fdf69cabf06049ea70a00b5919340e2ce1e6d02b0cc3c4b44fb6801bd1e0d22"
_UNITS_PER_EM = 2048
_CARRIED = Path(__file__).parents[1] / "data" / "DejaVuSans.ttf"
"""A copy where matplotlib is not: in a participant's own environment."""


class Box(NamedTuple):
    """A border box, px, from the top left corner of the page."""

    left: float
    top: float
    width: float
    height: float


def listed_boxes(site: Site, page: int, open_menus: Container[int]) -> list[tuple[PageNode, Box]]:
    """Lays a page out.

    Returns:
        The elements with a box of some size, in document order, with their boxes.
    """
    placed: dict[int, Box] = {}
    shown = site.page_nodes[page]

    def is_hidden(node: PageNode) -> bool:
        return node.hidden and node.index not in open_menus

    def place(node: PageNode, left: float, top: float, width: float) -> float:
        """Places a node and what is in it; returns its height."""
        if node.w is not None:
            width = node.w
        elif not node.flow:
            width = text_width(node.text, node.font) + 2 * node.pad
        height = 0.0
        for child in node.children:
            if is_hidden(child) if child.index not in site.page_nodes else child.index != shown:
                continue
            if child.flow:
                height += place(child, left + node.pad, top + height, width - 2 * node.pad)
            else:
                place(child, left + child.x, top + child.y, 0.0)
        if node.h is not None:
            height = node.h
        height = max(height, node.min_h)
        placed[node.index] = Box(left, top, width, height)
        return height

    place(site.root, 0.0, 0.0, PAGE_WIDTH)
    listed: list[tuple[PageNode, Box]] = []

    def collect(node: PageNode) -> None:
        box = placed.get(node.index)
        # page.js skips what is in an element without a size as well; both lists must agree.
        if box is None or box.width <= 0.0 or box.height <= 0.0:
            return
        listed.append((node, box))
        for child in node.children:
            collect(child)

    collect(site.root)
    return listed


@functools.cache
def font_file() -> Path:
    """Returns the font file.

    Raises:
        MissingDependency: matplotlib is not installed, or its font is another one, and no copy was brought along.
    """
    spec = importlib.util.find_spec("matplotlib")  # found, not imported: it is large
    folders = [] if spec is None or spec.submodule_search_locations is None else spec.submodule_search_locations
    for path in (_CARRIED, *(Path(folder) / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf" for folder in folders)):
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == FONT_SHA256:
            return path
    raise MissingDependency(
        "web pages need the font DejaVuSans.ttf of matplotlib, and it is missing or another one",
        hint="pip install --force-reinstall matplotlib",
    )


@functools.cache
def _advance(character: str) -> float:
    from PIL import ImageFont

    # at one px per font unit the advance is exact
    font = ImageFont.truetype(str(font_file()), _UNITS_PER_EM, layout_engine=ImageFont.Layout.BASIC)
    return float(font.getlength(character))


@functools.cache
def text_width(text: str, size: float) -> float:
    """Width of a text in one line, px."""
    return sum(_advance(character) for character in text) * size / _UNITS_PER_EM
