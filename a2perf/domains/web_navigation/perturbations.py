"""Perturbations of websites: other wording, another order, another layout. The profile of the episode stays the same.

Every change keeps all controls and buttons, so the page stays solvable. A change that moves a control beyond the
observed rows is drawn again. New texts consist of words of the built-in vocabulary, because a policy sees numbers of
words and could not read others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np

from a2perf.domains.perturbation import SeededWrapper
from a2perf.domains.web_navigation.environment import WebNavigationEnv
from a2perf.domains.web_navigation.page.nodes import CONTROL_HEIGHT, FORM_WIDTH, NodeRole, PageNode
from a2perf.domains.web_navigation.page.primitives import GOLD
from a2perf.domains.web_navigation.sites.website import Site, assembled_site
from a2perf.domains.web_navigation.solver import solve
from a2perf.errors import ConfigError

Change = Callable[[Sequence[PageNode], np.random.Generator], None]
"""Changes the roots of pages in place."""

WORDINGS: dict[str, tuple[str, ...]] = {
    "Email or user name": ("User name or email", "Your email"),
    "Password": ("Your password", "Enter password"),
    "Enter Captcha": ("Captcha code", "Captcha text"),
    "First Name": ("Your first name", "Name (first)"),
    "Last Name": ("Your last name", "Name (last)"),
    "Full Name": ("Your full name", "First and last name"),
    "Address": ("Your address", "Shipping address"),
    "Apt #": ("Apt number", "Number of apt"),
    "City": ("Your city", "City of address"),
    "ZIP Code": ("ZIP number", "Your ZIP"),
    "Credit card number": ("Card number", "Number of your card"),
    "Expiration date": ("Card expiration", "Date of expiration"),
    "CVV": ("CVV code", "Code of your card"),
    "From": ("From airport", "Depart from"),
    "To": ("To airport",),
    "Depart": ("Depart date",),
    "Return": ("Return date",),
    "Number of passengers": ("Passengers", "Passengers (number)"),
    "Remember me": ("Remember my account", "Remember my name"),
    "Stay logged in": ("Stay in my account", "Stay in"),
    "Payment": ("Payment card",),
    "Cabin": ("Your cabin", "Select cabin"),
    "Click": ("Enter", "Select"),
    "Login": ("Enter your account",),
    "Login and Checkout": ("Enter and checkout",),
    "Checkout": ("To checkout",),
    "Place Order": ("Submit order", "Submit your order"),
}
"""Texts of labels, headings, placeholders and buttons, each with texts that say the same."""

MOST_EXTRA_SPACE = 24.0  # px, below a group of the form
LEAST_WIDTH = 0.5  # of the width of the form
_ATTEMPTS = 8


class ChangedPages(SeededWrapper):
    """Shows websites that are drawn by a change of their pages."""

    def __init__(self, env: gymnasium.Env[Any, Any], name: str, change: Change) -> None:
        super().__init__(env, name)
        self._change = change
        web = env.unwrapped
        assert isinstance(web, WebNavigationEnv)
        self._sizes = web.sizes
        web.change_site = self._changed

    def _changed(self, site: Site) -> Site:
        for _ in range(_ATTEMPTS):
            found = assembled_site(site.design, site.compat, lambda pages: self._change(pages, self.random))
            try:
                solve(found, {key: GOLD[key][0] for key in found.fields}, self._sizes)
            except ConfigError:
                continue
            return found
        return site


def reword(pages: Sequence[PageNode], random: np.random.Generator) -> None:
    """Changes the texts of all pages."""
    chosen = {text: others[int(random.integers(len(others)))] for text, others in WORDINGS.items()}
    for page in pages:
        for node in _walk(page):
            # Links keep their texts, which name where they lead. So do labels of radio buttons, which are values.
            if node.tag in ("label", "h6", "button") and (node.tag != "label" or node.control):
                node.text = chosen.get(node.text, node.text)
            node.placeholder = chosen.get(node.placeholder, node.placeholder)


def reorder(pages: Sequence[PageNode], random: np.random.Generator) -> None:
    """Changes the order of all pages."""
    for page in pages:
        page.children[:-1] = _shuffled(page.children[:-1], random)
        form = _form(page)
        buttons = (NodeRole.NEXT, NodeRole.SUBMIT)
        places = [
            number for number, group in enumerate(form.children) if not any(n.role in buttons for n in _walk(group))
        ]
        moved = _shuffled([form.children[place] for place in places], random)
        for place, group in zip(places, moved, strict=True):
            form.children[place] = group


def lay_out(pages: Sequence[PageNode], random: np.random.Generator) -> None:
    """Changes the layout of all pages."""
    width = FORM_WIDTH * float(random.uniform(LEAST_WIDTH, 1.0))
    indent = float(random.uniform(0.0, FORM_WIDTH - width))
    swapped = bool(random.integers(2))
    for page in pages:
        if random.integers(2):  # the form comes first
            page.children.insert(0, page.children.pop())
            form = _form(page, place=0)
        else:
            form = _form(page)
        for group in form.children:
            if group.h is None:  # radio buttons, which have their own spacing
                continue
            group.h += float(random.uniform(0.0, MOST_EXTRA_SPACE))
            if swapped:
                _swap_label(group)
            for node in group.children:
                node.x += indent
                if node.w == FORM_WIDTH:
                    node.w = width


def _swap_label(group: PageNode) -> None:
    """Puts the label of a text field below it, and that of a checkbox before it."""
    if len(group.children) != 2 or not any(node.role is NodeRole.LABEL for node in group.children):
        return
    first, second = group.children
    group.children = [second, first]
    if first.role is NodeRole.LABEL:
        second.y, first.y = 0.0, CONTROL_HEIGHT
    else:
        second.x, first.x = 0.0, FORM_WIDTH * LEAST_WIDTH


def _form(page: PageNode, place: int = -1) -> PageNode:
    """Returns the form of a page; it stands in the last part of the page, or at ``place``."""
    return next(node for node in _walk(page.children[place]) if node.id == "mainform")


def _shuffled(items: Sequence[PageNode], random: np.random.Generator) -> list[PageNode]:
    return [items[number] for number in random.permutation(len(items))]


def _walk(node: PageNode) -> Iterator[PageNode]:
    yield node
    for child in node.children:
        yield from _walk(child)


other_wording = functools.partial(ChangedPages, name="wording", change=reword)
"""Replaces texts by others of ``WORDINGS``; one text is replaced by the same one everywhere."""
other_order = functools.partial(ChangedPages, name="order", change=reorder)
"""Shuffles the groups of each form, where buttons keep their places, and the parts above it."""
other_layout = functools.partial(ChangedPages, name="layout", change=lay_out)
"""Draws widths, indents, distances, and whether labels stand below controls and other parts below the form."""
