"""The page without a browser: the effects of actions, and the observation arrays, row by row.

A step must not cost more than the rows that it changes: an observation has 250 rows, an action changes one or two.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.web_navigation.browsers.backend import ActionOutcome, End, PageRow, Value
from a2perf.domains.web_navigation.observation import CLASS, FOCUSED, NEW, TAMPERED, TEXT, VALUE, Encoder, Frame
from a2perf.domains.web_navigation.page.layout import Box
from a2perf.domains.web_navigation.page.nodes import NodeRole, PageNode
from a2perf.domains.web_navigation.sites.site_tables import (
    PageView,
    SiteTables,
    observed_classes,
    observed_placeholder,
    observed_text,
    observed_value,
    tables_of,
)
from a2perf.domains.web_navigation.sites.website import Site

# bound once: looking up a member of an enumeration takes longer than most actions
_NONE, _CLICK, _TEXT, _SELECT = NodeRole.NONE, NodeRole.CLICK, NodeRole.TEXT, NodeRole.SELECT
_CHECK, _RADIO, _LABEL, _TOGGLE, _SUBMIT, _END = (
    NodeRole.CHECK,
    NodeRole.RADIO,
    NodeRole.LABEL,
    NodeRole.TOGGLE,
    NodeRole.SUBMIT,
    NodeRole.END,
)
_NUMBER = re.compile(r"-?(\d+(\.\d+)?|\.\d+)([eE][-+]?\d+)?\Z", re.ASCII)


@functools.cache
def _running(changed: bool, matched: int) -> ActionOutcome:
    return ActionOutcome(changed, matched, End.RUNNING)


class PageModel:
    """The state of a page without a browser."""

    def __init__(self, elements: int = 250, *, conceptual: bool = False) -> None:
        self._elements = elements
        self._conceptual = conceptual
        self._tables: SiteTables
        self.focus = -1
        self.dirty: dict[int, None] = {}  # an ordered set: nodes in the order of their changes

    def reset(self, site: Site, profile: Mapping[str, str | bool], texts: Mapping[str, str]) -> None:
        """Shows the first page of a site with untouched controls."""
        self._tables = tables = tables_of(site, self._elements)
        self.site = site
        self.texts = texts
        self.gold = [profile[key] for key in site.fields]
        # Copied because all environments of the process share the tables.
        self.values: list[Value] = tables.initial[:]
        self.visited = bytearray(len(site.nodes))
        self.tampered = bytearray(len(site.nodes))
        # The tables hold empty slots; listed here, their texts are written with every page.
        self.touched: dict[int, None] = dict.fromkeys(site.slots.values())
        self.matches = [False] * len(site.fields)
        self.matched = 0
        self.focus = -1
        self.dirty.clear()
        self.open_menus: tuple[int, ...] = ()
        self.view = tables.view(0, ())

    def act(self, row: int, value: Value) -> ActionOutcome:
        """Acts on a row of the current page; afterwards ``dirty`` has the nodes of changed rows."""
        tables = self._tables
        view = self.view
        node = view.nodes[row]
        dirty = self.dirty
        dirty.clear()
        role = tables.roles[node]
        if role is _NONE:
            return _running(False, self.matched)
        changed = not self.visited[node]
        if changed:
            self.visited[node] = 1
            self.touched[node] = dirty[node] = None
        if role is _TEXT or role is _SELECT:
            changed |= self._fill(node, role, value)
        elif role is _CHECK:
            if value is True or value == "1":
                changed |= self._flip(node)
            self._match(tables.field_of[node])
        elif role is _RADIO:
            changed |= self._choose(node, value)
        else:
            # The page in the browser does not count clicks on links either, because links leave the page.
            if not tables.is_link[node]:
                changed |= self._tamper(node)
            if role is _LABEL:
                changed |= self._click_label(tables.control_of[node])
            elif role is _TOGGLE:
                self.open_menus = tuple(sorted({*self.open_menus} ^ {tables.targets[node]}))
                self.view = tables.view(view.key[0], self.open_menus)
                changed = True
            elif role is _END:
                return ActionOutcome(changed, self.matched, End.LINK)
            elif role is not _CLICK and tables.targets[node] >= 0 and self._allowed(node):
                if role is _SUBMIT:
                    # Every field must have its gold value, touched or not.
                    solved = all(self._field_matches(field, touched=False) for field in range(len(self.gold)))
                    return ActionOutcome(changed, self.matched, End.SOLVED if solved else End.WRONG)
                self.view = tables.view(tables.targets[node], self.open_menus)
                changed = True
        return _running(changed, self.matched)

    def _touch(self, node: int) -> None:
        self.dirty[node] = self.touched[node] = None

    def _tamper(self, node: int) -> bool:
        if self.tampered[node]:
            return False
        self.tampered[node] = 1
        self._touch(node)
        return True

    def _fill(self, node: int, role: NodeRole, value: Value) -> bool:
        """Sets the value of an input or a select; returns whether the change is observable."""
        site = self.site
        described = site.nodes[node]
        if role is _SELECT:
            # A select in a browser becomes empty if it is set to something that it does not offer.
            text = value if isinstance(value, str) and value in described.options else ""
        else:
            # Lower case, as JavaScript writes booleans.
            text = "" if value is None else value if isinstance(value, str) else str(value).lower()
            # A browser empties an input of this type if the text is not a valid number.
            if described.type == "number" and not (_NUMBER.match(text) and math.isfinite(float(text))):
                text = ""
        differs = self.values[node] != text
        if differs:
            self.values[node] = text
            self.dirty[node] = None
        self._match(self._tables.field_of[node])
        return differs and not (role is _SELECT and site.compat)  # the earlier page did not show the selected option

    def _flip(self, node: int) -> bool:
        self.values[node] = not self.values[node]
        self.tampered[node] = 1
        self._touch(node)
        return True

    def _choose(self, node: int, value: Value) -> bool:
        changed = False
        nodes = self.site.nodes
        group = self._tables.group_of[node]
        for button in group:
            if not self.visited[button]:
                self.visited[button] = 1
                self._touch(button)
                changed = True
        chosen = next((button for button in group if nodes[button].choice == value), -1)
        if chosen >= 0:
            changed |= self._tamper(chosen)
            if not self.values[chosen]:
                for button in group:
                    self.values[button] = button == chosen
                    self.dirty[button] = None
                changed = True
        self._match(self._tables.field_of[node])
        return changed

    def _click_label(self, control: int) -> bool:
        if control < 0:
            return False
        changed = self._tamper(control)
        if self.focus != control:
            if self.focus >= 0:
                self.dirty[self.focus] = None
            self.focus = control
            self._touch(control)
        if isinstance(self.values[control], bool):
            changed |= self._flip(control)
            self._match(self._tables.field_of[control])
        return changed

    def _allowed(self, node: int) -> bool:
        """Returns whether all preconditions of a button were visited."""
        if not self._tables.has_preconditions[node]:
            return True
        nodes = self.site.nodes
        seen = {other.id for other in nodes if self.visited[other.index]}
        return all(wanted in seen for wanted in nodes[node].preconditions)

    def _match(self, field: int) -> None:
        """Updates the number of matching fields; the potential of the reward needs it at every step."""
        if field < 0:
            return
        now = self._field_matches(field, touched=True)
        if now != self.matches[field]:
            self.matches[field] = now
            self.matched += 1 if now else -1

    def _field_matches(self, field: int, *, touched: bool) -> bool:
        nodes, values, visited = self.site.nodes, self.values, self.visited
        if self._conceptual:
            return any(visited[node] for group in self.site.controls[field] for node in group)
        gold = self.gold[field]
        for group in self.site.controls[field]:
            if touched and not any(visited[node] for node in group):
                continue
            if len(group) == 1 and nodes[group[0]].type != "radio":
                if values[group[0]] == gold:
                    return True
            elif any(values[node] and nodes[node].choice == gold for node in group):
                return True
        return False

    # --- The observation

    def rows(self) -> list[PageRow]:
        """Returns the listed elements in document order."""
        nodes = self.site.nodes
        return [self._row(nodes[node], box) for node, box in zip(self.view.nodes, self.view.boxes, strict=True)]

    def _row(self, node: PageNode, box: Box) -> PageRow:
        index = node.index
        return PageRow(
            node=index,
            tag=node.listed_tag,
            value=observed_value(self.site, node, self.values[index]),
            text=observed_text(node, self.texts),
            placeholder=observed_placeholder(self.site, node),
            classes=observed_classes(node, visited=bool(self.visited[index])),
            html_id=node.id,
            focused=self.focus == index,
            tampered=bool(self.tampered[index]),
            left=box.left,
            top=box.top,
            width=box.width,
            height=box.height,
        )

    def write_page(self, frame: Frame, encoder: Encoder, previous: PageView | None) -> None:
        """Writes every row; ``previous`` is the view of the observation before, None at a reset."""
        view = self.view
        count = view.count
        frame.set_listed(count, encoder.padding)
        ids, mask = self._tables.tokens(encoder)
        # With the default mode, NumPy would buffer `out`.
        np.take(ids, view.order, axis=0, out=frame.tokens[:count], mode="clip")
        np.take(mask, view.order, axis=0, out=frame.token_mask[:count], mode="clip")
        frame.features[:count] = view.features
        if previous is not None:
            frame.features[:count, NEW] = view.new_since(previous)
        self.write_rows(frame, encoder, self.touched)

    def write_rows(self, frame: Frame, encoder: Encoder, nodes: Iterable[int]) -> None:
        """Writes the changeable parts of the rows of some nodes, if they are listed."""
        tables = self._tables
        row_of = self.view.row_of
        tokens, mask, features = frame.tokens, frame.token_mask, frame.features
        for node in nodes:
            row = row_of.get(node)
            if row is None:
                continue
            value = self.values[node]
            if value is not None:
                tokens[row, VALUE], mask[row, VALUE] = encoder(None if node in tables.unobserved else value)
            elif tables.slot_of[node]:
                tokens[row, TEXT], mask[row, TEXT] = encoder(self.texts.get(tables.slot_of[node], ""))
            if self.visited[node]:
                tokens[row, CLASS], mask[row, CLASS] = encoder(tables.visited_classes[node])
            features[row, FOCUSED] = self.focus == node
            features[row, TAMPERED] = self.tampered[node]

    def picture(self) -> NDArray[np.uint8]:
        """Returns a picture of the page, RGB, shape (height, width, 3)."""
        from a2perf.domains.web_navigation.page.drawing import draw

        return draw(self.rows(), self.site)

    def close(self) -> None:
        """Does nothing: there is only memory to free."""
