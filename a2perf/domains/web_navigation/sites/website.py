"""Websites: designs as data, and the tree of nodes that a design stands for.

A design lists primitives and the pages on which they stand; pages form a chain, linked by next buttons, and the last
one has a submit button.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from a2perf.domains.arguments import refuse_unknown
from a2perf.domains.web_navigation.page.nodes import PAGE_MIN_HEIGHT, PAGE_WIDTH, NodeRole, PageNode
from a2perf.domains.web_navigation.page.primitives import (
    CATALOGUE,
    GOLD,
    NO_PRIMITIVE,
    default_button,
    fields_of,
    primitive,
)
from a2perf.errors import ConfigError, did_you_mean

MAX_PRICE = 50  # dollars, of a thing in the cart
_KEYS = {
    "number_of_pages": ("number_of_pages", "number_of_nodes"),
    "action": ("action", "primitive_assignments"),
    "action_page": ("action_page", "node_assignments"),
    "preconditions": ("preconditions",),
}
Profile = dict[str, str | bool]


class WebsiteDesign(NamedTuple):
    """A checked design.

    Attributes:
        parts: pairs of primitive and page, each once, in order.
        preconditions: per page the profile keys that must be touched before its button works.
    """

    pages: int
    parts: tuple[tuple[str, int], ...]
    preconditions: tuple[tuple[int, tuple[str, ...]], ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """Profile keys, sorted."""
        return fields_of([name for name, _ in self.parts])

    def as_record(self) -> dict[str, Any]:
        """Returns the design in the format of design files."""
        record: dict[str, Any] = {
            "number_of_pages": self.pages,
            "action": [name for name, _ in self.parts],
            "action_page": [page for _, page in self.parts],
        }
        if self.preconditions:
            record["preconditions"] = {str(page): list(keys) for page, keys in self.preconditions}
        return record


def checked_design(given: Any) -> WebsiteDesign:
    """Checks a design: a mapping with ``number_of_pages``, ``action`` and ``action_page`` (or the older names).

    Primitives are names or positions in the sorted names; ``#none#`` and repetitions are dropped; ``number_of_pages``
    only bounds the pages, there are as many as are used.

    Raises:
        ConfigError: a key is missing or unknown, a primitive does not exist, or a page is out of range.
    """
    if isinstance(given, WebsiteDesign):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"a design must be a mapping, got {type(given).__name__}", hint=f"keys: {', '.join(_KEYS)}")
    known = {alias: key for key, aliases in _KEYS.items() for alias in aliases}
    refuse_unknown(given, tuple(known), "a key of a design")
    values: dict[str, Any] = {known[key]: value for key, value in given.items()}
    for key in ("action", "action_page"):
        if not isinstance(values.get(key), Sequence) or isinstance(values.get(key), str):
            raise ConfigError(f"{key} of a design is {values.get(key)!r}", hint="give a list")
    names, pages = values["action"], values["action_page"]
    if len(names) != len(pages):
        raise ConfigError(f"a design has {len(names)} primitives and {len(pages)} pages", hint="lists of equal length")
    bound = values.get("number_of_pages")
    if bound is not None and (not _is_integer(bound) or bound < 0):
        raise ConfigError(f"number_of_pages of a design is {bound!r}", hint="give a number")
    parts: dict[tuple[str, int], None] = {}
    for name, page in zip(names, pages, strict=True):
        if not _is_integer(page) or page < 0 or (bound is not None and page >= bound):
            pages_allowed = "0 and up" if bound is None else f"0 to {bound - 1}"
            raise ConfigError(
                f"page {page!r} of {name!r} is out of range", hint=f"pages of this design: {pages_allowed}"
            )
        entry = primitive(int(name) if _is_integer(name) else name)
        if entry.name != NO_PRIMITIVE:
            parts[(entry.name, int(page))] = None
    count = max((page for _, page in parts), default=0) + 1
    return WebsiteDesign(count, tuple(parts), _checked_preconditions(values.get("preconditions"), count, tuple(parts)))


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _checked_preconditions(
    given: Any, pages: int, parts: Sequence[tuple[str, int]]
) -> tuple[tuple[int, tuple[str, ...]], ...]:
    checked = []
    for page, keys in (given or {}).items():
        if not str(page).isdigit() or int(page) >= pages:
            raise ConfigError(f"preconditions of page {page!r}", hint=f"pages of this design: 0 to {pages - 1}")
        valid = fields_of([name for name, place in parts if place <= int(page)])
        for key in keys:
            if key not in valid:
                raise ConfigError(
                    f"precondition {key!r} of page {page} cannot be met{did_you_mean(str(key), valid)}",
                    hint=f"profile keys up to this page: {', '.join(valid) or 'none'}",
                )
        checked.append((int(page), tuple(sorted(keys))))
    return tuple(sorted(checked))


@dataclass(eq=False)
class Site:
    """The tree of a design, numbered in document order.

    Attributes:
        page_nodes: index of the root of each page.
        controls: for each field the indices of its controls: inputs and selects alone, radio buttons by group.
        slots: index of the node of each text that is drawn per episode.
        compat: built by the older rules; selected options and placeholders are not observed.
        tables: what the page model computed once; belongs to it.
    """

    design: WebsiteDesign
    root: PageNode
    nodes: tuple[PageNode, ...]
    page_nodes: tuple[int, ...]
    fields: tuple[str, ...]
    controls: tuple[tuple[tuple[int, ...], ...], ...]
    slots: dict[str, int]
    compat: bool = False
    tables: object = None

    @property
    def pages(self) -> int:
        """Number of pages."""
        return len(self.page_nodes)

    def draw_profile(self, random: np.random.Generator) -> Profile:
        """Draws a gold value for each field."""
        return draw_gold(self.fields, random)

    def draw_texts(self, random: np.random.Generator) -> dict[str, str]:
        """Draws the texts of the slots: prices in whole dollars, and their sum."""
        texts: dict[str, str] = {}
        total = 0
        for slot in self.slots:
            if slot.endswith(".total"):
                texts[slot], total = f"${total}", 0
            else:
                price = int(random.integers(1, MAX_PRICE + 1))
                texts[slot] = f"${price}"
                total += price
        return texts


def draw_gold(keys: Sequence[str], random: np.random.Generator) -> Profile:
    """Draws a gold value for each profile key, in the order of the keys."""
    return {key: gold[0] if len(gold := GOLD[key]) == 1 else gold[random.integers(len(gold))] for key in keys}


def assembled_site(
    design: WebsiteDesign, compat: bool = False, change: Callable[[list[PageNode]], None] | None = None
) -> Site:
    """Builds the tree of a design without keeping it.

    Args:
        compat: the earlier rules: of several elements with one id only the first works, and a radio group with an
            underscore in its key cannot be chosen.
        change: called with the roots of the pages before their nodes are numbered; it may change texts and boxes and
            reorder children, and must keep every control and button.
    """
    pages = [_page(design, number) for number in range(design.pages)]
    if change is not None:
        change(pages)
    area = PageNode("div", "area", children=pages)
    wrap = PageNode("div", "wrap", min_h=PAGE_MIN_HEIGHT, children=[area])
    root = PageNode("body", w=PAGE_WIDTH, children=[wrap])
    nodes: list[PageNode] = []
    _number(root, -1, -1, nodes)
    for node in nodes:
        if node.role is NodeRole.TOGGLE:
            node.target = next(other.index for other in nodes[node.index :] if other.hidden and other.page == node.page)
        elif node.role is NodeRole.NEXT:
            node.target = node.page + 1 if node.page + 1 < design.pages else -1
        elif node.role is NodeRole.SUBMIT:
            node.target = 0 if node.page + 1 == design.pages else -1
    if compat:
        _weaken(nodes)
    _set_preconditions(design, nodes)
    fields = design.fields
    return Site(
        design=design,
        root=root,
        nodes=tuple(nodes),
        page_nodes=tuple(page.index for page in pages),
        fields=fields,
        controls=tuple(_controls(nodes, key) for key in fields),
        slots={node.slot: node.index for node in nodes if node.slot},
        compat=compat,
    )


build_site = functools.lru_cache(maxsize=512)(assembled_site)
"""As ``assembled_site``; the tree is kept, and shared by its users."""


def _page(design: WebsiteDesign, number: int) -> PageNode:
    above: list[PageNode] = []
    form: list[PageNode] = []
    names = [name for name, page in design.parts if page == number]
    for name in names:
        entry = CATALOGUE[name]
        (form if entry.in_form else above).append(entry.build(number))
    last = number == design.pages - 1
    if not any(CATALOGUE[name].concept == ("submit" if last else "next") for name in names):
        form.append(default_button(number, last=last))
    main = PageNode("form", "mainform", "needs-validation", children=form)
    column = PageNode("div", classes="col-md-12 order-md-1", children=[main])
    row = PageNode("div", classes="row", children=[column])
    container = PageNode("div", classes="container", pad=15.0, children=[row])
    classes = "core connected submit-page" if last else "core connected"
    return PageNode("div", f"page{number}", classes, hidden=number > 0, children=[*above, container])


def _number(node: PageNode, parent: int, page: int, nodes: list[PageNode]) -> None:
    if node.classes.startswith("core "):
        page = int(node.id.removeprefix("page"))
    node.index, node.parent, node.page = len(nodes), parent, page
    nodes.append(node)
    for child in node.children:
        _number(child, node.index, page, nodes)


def _weaken(nodes: Sequence[PageNode]) -> None:
    """Takes from the nodes of a site what never worked.

    Of several elements with one id only the first can be acted on, and a radio group is found by the part of its key
    before the first underscore, so ``credit_card_type`` never is.
    """
    seen: set[str] = set()
    for node in nodes:
        if node.id in seen and node.role is not NodeRole.NONE:
            node.role = NodeRole.NONE
        elif node.role is NodeRole.RADIO and "_" in node.field:
            node.role = NodeRole.CLICK
        seen.add(node.id)


def _set_preconditions(design: WebsiteDesign, nodes: Sequence[PageNode]) -> None:
    for page, keys in design.preconditions:
        ids = tuple(
            next(
                node.id for node in nodes if node.field == key and node.page <= page and node.role is not NodeRole.NONE
            )
            for key in keys
        )
        for node in nodes:
            if node.page == page and node.role in (NodeRole.NEXT, NodeRole.SUBMIT):
                node.preconditions = ids


def _controls(nodes: Sequence[PageNode], key: str) -> tuple[tuple[int, ...], ...]:
    groups: dict[int, list[int]] = {}
    single: list[tuple[int, ...]] = []
    for node in nodes:
        if node.field != key:
            continue
        if node.type == "radio":
            groups.setdefault(node.page, []).append(node.index)
        else:
            single.append((node.index,))
    return (*single, *(tuple(group) for group in groups.values()))
