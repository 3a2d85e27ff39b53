"""A page as text: a line of state, and one line per element with its number, role, name, value and marks.

The number of an element is its position in the document of the site. It stays the same for the whole visit of the site,
also when a menu opens. Two views exist. The short one resembles the accessibility tree of a browser: it leaves out
containers, and writes the label of a control as its name. The full one lists every element with its tag, classes and
box, and contains all that the arrays show.

The texts of a page are computed once per site and set of open menus. A step only joins lines.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from a2perf.domains.web_navigation.browsers.backend import PageRow, Value
from a2perf.domains.web_navigation.episode import WebEpisode
from a2perf.domains.web_navigation.observation import NEW
from a2perf.domains.web_navigation.page.nodes import NodeRole, PageNode
from a2perf.domains.web_navigation.page.page_model import PageModel
from a2perf.domains.web_navigation.page.vocabulary import VISITED
from a2perf.domains.web_navigation.sites.site_tables import PageView, observed_placeholder, observed_text
from a2perf.domains.web_navigation.sites.website import Site
from a2perf_agents.websites.actions import TextAction, TextActionError, numbers, parse_action, quoted

ROLES = {
    "input_text": "textbox",
    "input_password": "password",
    "input_number": "number",
    "input_checkbox": "checkbox",
    "input_radio": "radio",
    "select": "select",
    "button": "button",
    "a": "link",
    "img": "image",
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "heading"),
}
"""Role of an element by its tag; every other tag is ``"text"``."""

PRIMARY = "primary"
"""Mark of the main buttons of a page, which lead on or submit."""

_PRIMARY_CLASS = "btn-primary"
_json = functools.lru_cache(maxsize=4096)(json.dumps)


class _Line(NamedTuple):
    """The part of a line that does not change, and what follows it."""

    node: int
    start: str
    kind: int
    options: str


_PLAIN, _VALUE, _CHECKED, _SLOT = range(4)
_MARKS = tuple(
    "".join(f" {word}" for bit, word in enumerate(("visited", "clicked", "focused", "new")) if marks >> bit & 1)
    for marks in range(16)
)


class _PageLines:
    """The lines of a page with certain menus open."""

    def __init__(
        self,
        site: Site,
        nodes: Sequence[int],
        text: Callable[[int], str | None],
        placeholder: Callable[[int], str | None],
    ) -> None:
        listed = frozenset(nodes)
        names = {control: label for label in nodes if (control := _labelled(site, label)) in listed}
        folded = frozenset(names.values())
        self.lines: list[_Line] = []
        self.names: dict[int, str] = {}
        for number in nodes:
            node = site.nodes[number]
            if number in folded:
                continue
            label = names.get(number)
            name = (text(number) if label is None else text(label)) or ""
            role = ROLES.get(node.listed_tag, "text")
            in_link = node.tag == "img" and node.parent >= 0 and site.nodes[node.parent].tag == "a"
            if (role in ("text", "heading") and not name and not node.slot) or in_link:
                continue
            if node.role is NodeRole.TOGGLE and not name:
                name = "menu"
            self.names[number] = name
            start = f"{number} {role}"
            if name and not node.slot:
                start += f" {_json(name)}"
            if hint := placeholder(number):
                start += f" hint {_json(hint)}"
            if is_primary(node):
                start += f" {PRIMARY}"
            options = f" of {', '.join(map(_json, node.options))}" if node.options else ""
            self.lines.append(_Line(number, start, _kind(node), options))
        self.shown = frozenset(line.node for line in self.lines)


def _labelled(site: Site, label: int) -> int:
    """Returns the control that a label names, -1 for none: the one it refers to, or the radio button beside it."""
    node = site.nodes[label]
    if node.tag != "label":
        return -1
    beside = site.nodes[node.parent].children
    if node.control:
        return next((other.index for other in beside if other.id == node.control), -1)
    return next((other.index for other in beside if other.type == "radio"), -1)


def is_primary(node: PageNode) -> bool:
    """Returns whether ``submit`` presses a button if it is the first such button of the page."""
    return _PRIMARY_CLASS in node.classes


def _kind(node: PageNode) -> int:
    if node.type in ("checkbox", "radio"):
        return _CHECKED
    if node.tag in ("input", "select"):
        return _VALUE
    return _SLOT if node.slot else _PLAIN


@functools.lru_cache(maxsize=1024)
def _lines_of(site: Site, view: PageView) -> _PageLines:
    """Returns the lines of a page of the page model; slots are filled in later."""
    return _PageLines(
        site,
        view.nodes[: view.count],
        lambda number: observed_text(site.nodes[number], {}),
        lambda number: observed_placeholder(site, site.nodes[number]),
    )


class TextView:
    """The text of an episode, and the meaning of text actions in it.

    Args:
        episode: a started episode, or one that is started before the first use.
    """

    def __init__(self, episode: WebEpisode, *, full: bool = False) -> None:
        self.episode = episode
        self.full = full

    def page(self, error: str | None = None) -> str:
        """Returns the page as text.

        Args:
            error: of the last action; becomes the second line.
        """
        site = self._site
        number, new = self._shown_page()
        head = f"page {number + 1}/{site.pages} step {self.episode.steps}/{self.episode.step_limit}"
        place, websites = self.episode.place
        if websites > 1:
            head = f"site {place + 1}/{websites} {head}"
        lines = [head if new is not True else f"{head} new"]
        if error is not None:
            lines.append(f"error: {error}")
        lines += self._full_lines() if self.full else self._short_lines(new)
        return "\n".join(lines)

    def resolve(self, text: str) -> tuple[int, Value]:
        """Returns the row and the value that ``WebEpisode.act`` takes for a text action.

        Raises:
            TextActionError: the action is invalid on this page.
        """
        action = parse_action(text)
        site = self._site
        nodes = self._nodes()
        if action.verb == "submit":
            for row, number in enumerate(nodes):
                if is_primary(site.nodes[number]):
                    return row, None
            raise TextActionError("submit: this page has no primary button; valid: click N")
        page = self._lines()
        if action.number not in (frozenset(nodes) if self.full else page.shown):
            valid = numbers(nodes if self.full else [line.node for line in page.lines])
            raise TextActionError(f"{_given(action)}: the page has no element {action.number}; valid: {valid}")
        return nodes.index(action.number), self._value(action, page)

    # --- Parts of an action

    def _value(self, action: TextAction, page: _PageLines) -> Value:
        site, (verb, number, value) = self._site, action
        node = site.nodes[number]
        if verb == "click":
            if node.role is NodeRole.TEXT:
                raise TextActionError(f'{_given(action)}: element {number} is a field; valid: fill {number} "TEXT"')
            if node.role is NodeRole.SELECT:
                raise TextActionError(
                    f'{_given(action)}: element {number} is a select; valid: select {number} "OPTION"'
                )
            return True if node.role is NodeRole.CHECK else node.choice if node.role is NodeRole.RADIO else None
        takes = {
            "fill": (NodeRole.TEXT,),
            "select": (NodeRole.SELECT, NodeRole.RADIO),
            "check": (NodeRole.CHECK,),
            "uncheck": (NodeRole.CHECK,),
        }[verb]
        if node.role not in takes:
            role = ROLES.get(node.listed_tag, "text")
            valid = numbers([line.node for line in page.lines if site.nodes[line.node].role in takes])
            raise TextActionError(f"{_given(action)}: element {number} is a {role}; {verb} takes elements: {valid}")
        if verb == "fill":
            return value
        if verb == "select":
            offered = self._offered(node, page)
            if value not in offered:
                valid = ", ".join(map(quoted, offered))
                raise TextActionError(f"{_given(action)}: the option does not exist; valid: {valid}")
            return offered[value]
        # An action with the value True changes a checkbox, any other one only visits it.
        return self._checked(number) is not (verb == "check")

    def _offered(self, node: PageNode, page: _PageLines) -> dict[str, str]:
        """Returns the value of each option by its name."""
        if node.role is NodeRole.SELECT:
            return {option: option for option in node.options}
        site = self._site
        group = next(group for groups in site.controls for group in groups if node.index in group)
        return {page.names.get(button, ""): site.nodes[button].choice for button in group}

    def _checked(self, number: int) -> bool:
        backend = self.episode.backend
        if isinstance(backend, PageModel):
            return bool(backend.values[number])
        return bool(next(row.value for row in backend.rows() if row.node == number))

    # --- Parts of the text

    @property
    def _site(self) -> Site:
        site = self.episode.site
        assert site is not None, "the episode was not started"
        return site

    def _nodes(self) -> list[int]:
        backend = self.episode.backend
        if isinstance(backend, PageModel):
            return backend.view.nodes[: backend.view.count]
        return [row.node for row in self._rows()]

    def _rows(self) -> Sequence[PageRow]:
        return self.episode.backend.rows()[: self.episode.frame.listed]

    def _lines(self) -> _PageLines:
        site, backend = self._site, self.episode.backend
        if isinstance(backend, PageModel):
            return _lines_of(site, backend.view)
        rows = {row.node: row for row in self._rows()}
        return _PageLines(site, list(rows), lambda number: rows[number].text, lambda number: rows[number].placeholder)

    def _shown_page(self) -> tuple[int, bool | frozenset[int]]:
        """Returns the number of the page, and which elements are new: all of the page, or a set."""
        nodes, site = self._nodes(), self._site
        number = site.nodes[nodes[-1]].page
        if not self.episode.has_new:
            return number, frozenset()
        frame = self.episode.frame
        new = [node for node, flag in zip(nodes, frame.features[: frame.listed, NEW].tolist(), strict=True) if flag]
        # The elements around the pages are never new.
        of_page = sum(site.nodes[node].page >= 0 for node in nodes)
        return number, True if len(new) >= of_page else frozenset(new)

    def _short_lines(self, new: bool | frozenset[int]) -> list[str]:
        backend = self.episode.backend
        fresh = new if isinstance(new, frozenset) else frozenset()
        # The rows of a page model would cost more than the text: its state is read directly.
        model = backend if isinstance(backend, PageModel) else None
        rows = {row.node: row for row in self._rows()} if model is None else {}
        found = []
        for number, start, kind, options in self._lines().lines:
            shown: Value
            if model is None:
                row = rows[number]
                marks = (VISITED in row.classes.split()) | row.tampered << 1 | row.focused << 2
                shown = row.text if kind == _SLOT else row.value
            else:
                marks = model.visited[number] | model.tampered[number] << 1 | (number == model.focus) << 2
                shown = model.texts.get(self._site.nodes[number].slot, "") if kind == _SLOT else model.values[number]
            if number in fresh:
                marks |= 8
            stated = "" if kind == _PLAIN else _stated(kind, shown) + options
            found.append(start + stated + _MARKS[marks])
        return found

    def _full_lines(self) -> list[str]:
        frame = self.episode.frame
        new = frame.features[: frame.listed, NEW].tolist()
        return [_full_line(row, bool(flag)) for row, flag in zip(self._rows(), new, strict=True)]


def _stated(kind: int, value: Value) -> str:
    if kind == _VALUE:
        return f" = {_json(value)}"
    if kind == _CHECKED:
        return " on" if value else " off"
    return f" {_json(value)}" if kind == _SLOT else ""


def _given(action: TextAction) -> str:
    value = "" if action.value is None else f" {quoted(action.value)}"
    return f"{action.verb} {action.number}{value}"


def _full_line(row: PageRow, new: bool) -> str:
    parts = [f"{row.node} {row.tag}"]
    if row.text:
        parts.append(_json(row.text))
    if row.placeholder:
        parts.append(f"hint {_json(row.placeholder)}")
    if isinstance(row.value, bool):
        parts.append("on" if row.value else "off")
    elif row.value is not None:
        parts.append(f"= {_json(row.value)}")
    if row.classes:
        parts.append(f"class {_json(row.classes)}")
    parts.append(f"at {' '.join(repr(float(number)).removesuffix('.0') for number in row.box)}")
    return " ".join(parts) + _MARKS[row.tampered << 1 | row.focused << 2 | new << 3]
