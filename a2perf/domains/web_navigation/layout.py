"""Boxes of the listed elements: a block layout simple enough to be the same in every browser.

Blocks of the flow stack downwards; everything else is placed at stated offsets in its parent. Widths of texts come from
the font. There are no margins and borders, and nothing scrolls.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from a2perf.domains.web_navigation.font import text_width
from a2perf.domains.web_navigation.nodes import PAGE_WIDTH, PageNode
from a2perf.domains.web_navigation.website import Site


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
