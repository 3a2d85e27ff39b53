"""What is the same in every episode on a site: boxes per page and open menu, tokens per node.

It is computed once and shared by all environments of a process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.web_navigation.browsers.backend import Value
from a2perf.domains.web_navigation.observation import ATTRIBUTES, BOX, FEATURES, IS_DIV, Encoder, FloatArray, IntArray
from a2perf.domains.web_navigation.page.layout import Box, listed_boxes
from a2perf.domains.web_navigation.page.nodes import NodeRole, PageNode
from a2perf.domains.web_navigation.page.vocabulary import NO_CLASS, SHOWN, VISITED
from a2perf.domains.web_navigation.sites.website import Site

_ViewKey = tuple[int, tuple[int, ...]]


class PageView:
    """The listed elements of a page with certain menus open."""

    __slots__ = ("_new", "boxes", "count", "features", "key", "known", "nodes", "order", "row_of")

    def __init__(self, key: _ViewKey, listed: Sequence[tuple[PageNode, Box]], elements: int) -> None:
        self.key = key
        self.boxes = [box for _, box in listed]
        self.nodes = [node.index for node, _ in listed]
        self.known = frozenset(self.nodes)
        self.count = min(len(listed), elements)
        self.order: NDArray[np.intp] = np.array(self.nodes[: self.count], np.intp)
        self.row_of = {node: row for row, node in enumerate(self.nodes[: self.count])}
        # Divided in double precision and rounded once, to equal what `encode` writes for a browser.
        boxes = np.array(self.boxes, np.float64)
        features = np.zeros((len(listed), len(FEATURES)))
        features[:, IS_DIV] = [node.tag == "div" for node, _ in listed]
        largest = boxes[:, 2:].max(axis=0)
        features[:, BOX] = boxes / np.concatenate([largest, largest])
        self.features: FloatArray = features[: self.count].astype(np.float32)
        self._new: dict[_ViewKey, FloatArray] = {}

    def new_since(self, previous: PageView) -> FloatArray:
        """1 for each row that the previous view does not have, shape (count,)."""
        new = self._new.get(previous.key)
        if new is None:
            new = np.array([node not in previous.known for node in self.nodes[: self.count]], np.float32)
            self._new[previous.key] = new
        return new


class SiteTables:
    """What is the same in every episode on a site."""

    def __init__(self, site: Site, elements: int) -> None:
        self.site = site
        self.elements = elements
        nodes = site.nodes
        self.roles: list[NodeRole] = [node.role for node in nodes]
        self.is_link = [node.tag == "a" for node in nodes]
        self.targets = [node.target for node in nodes]
        self.initial: list[Value] = [_initial_value(node) for node in nodes]
        self.field_of = [site.fields.index(node.field) if node.field in site.fields else -1 for node in nodes]
        self.group_of: dict[int, tuple[int, ...]] = {
            node: group for groups in site.controls for group in groups for node in group
        }
        # Reversed: the first of several elements with one id must stay, as in the browser.
        by_id = {(node.page, node.id): node.index for node in reversed(nodes) if node.id}
        self.control_of = [by_id.get((node.page, node.control), -1) if node.control else -1 for node in nodes]
        self.slot_of = [node.slot for node in nodes]
        self.visited_classes = [observed_classes(node, visited=True) for node in nodes]
        self.unobserved = {node.index for node in nodes if node.tag == "select" and site.compat}
        self.has_preconditions = [bool(node.preconditions) for node in nodes]
        self._views: dict[_ViewKey, PageView] = {}
        self._tokens: dict[tuple[int, ...], tuple[IntArray, FloatArray]] = {}

    def view(self, page: int, open_menus: tuple[int, ...]) -> PageView:
        """The listed elements of a page."""
        key = (page, open_menus)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = PageView(key, listed_boxes(self.site, page, open_menus), self.elements)
        return view

    def tokens(self, encoder: Encoder) -> tuple[IntArray, FloatArray]:
        """Token numbers and masks of every node before anybody touched it, shape (nodes, 5, words)."""
        known = self._tokens.get(encoder.key)
        if known is not None:
            return known
        site = self.site
        ids = np.empty((len(site.nodes), len(ATTRIBUTES), encoder.words), np.int32)
        mask = np.empty(ids.shape, np.float32)
        for node in site.nodes:
            for attribute, text in enumerate(
                (
                    node.listed_tag,
                    observed_value(site, node, self.initial[node.index]),
                    observed_text(node, {}),
                    observed_placeholder(site, node),
                    observed_classes(node, visited=False) or NO_CLASS,
                )
            ):
                ids[node.index, attribute], mask[node.index, attribute] = encoder(text)
        self._tokens[encoder.key] = (ids, mask)
        return ids, mask


def _initial_value(node: PageNode) -> Value:
    if node.type in ("checkbox", "radio"):
        return False
    if node.tag == "select":
        return node.options[0]
    return "" if node.tag == "input" else None


def observed_value(site: Site, node: PageNode, value: Value) -> Value:
    """The value as observed; the older rules hide that of a select."""
    return None if node.tag == "select" and site.compat else value


def observed_placeholder(site: Site, node: PageNode) -> str | None:
    """The placeholder as observed; the older rules hide it."""
    return None if site.compat or not node.placeholder else node.placeholder


def observed_text(node: PageNode, texts: Mapping[str, str]) -> str | None:
    """Returns the text of a leaf; None if it contains elements."""
    if node.children or node.options:
        return None
    return texts.get(node.slot, "") if node.slot else node.text


def observed_classes(node: PageNode, *, visited: bool) -> str:
    """The class attribute of a listed node."""
    # what is hidden at first and listed now was opened by its toggler; pages are shown another way
    words = [node.classes, SHOWN if node.hidden and not node.classes.startswith("core ") else ""]
    return " ".join(word for word in (*words, VISITED if visited else "") if word)


def tables_of(site: Site, elements: int) -> SiteTables:
    """Returns the tables of a site, which keeps those for one number of elements."""
    tables = site.tables
    if not isinstance(tables, SiteTables) or tables.elements != elements:
        tables = site.tables = SiteTables(site, elements)
    return tables


def preload(sites: Sequence[Site], encoder: Encoder, elements: int) -> None:
    """Computes what the first episodes on these sites would compute."""
    for site in sites:
        tables = tables_of(site, elements)
        tables.tokens(encoder)
        for page in range(site.pages):
            tables.view(page, ())
