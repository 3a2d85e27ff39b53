"""Solves a website from the observation alone: reads labels, fills what they name, presses the buttons.

It knows the catalogue (which label or placeholder stands for which profile key), and nothing of the episode but its
observations. Rows that were acted on carry the class ``visited``, pressed buttons the click mark.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from a2perf.domains.web_navigation.page.nodes import NodeRole, PageNode
from a2perf.domains.web_navigation.page.primitives import CATALOGUE
from a2perf.domains.web_navigation.page.vocabulary import UnlockedVocabulary, tokenize

TAG, VALUE, TEXT, PLACEHOLDER, CLASS = range(5)
TAMPERED = 1
_CONTROLS = (NodeRole.TEXT, NodeRole.CHECK, NodeRole.SELECT, NodeRole.RADIO)


class Reader:
    """Chooses actions for observations."""

    def __init__(self) -> None:
        words = UnlockedVocabulary().save()
        self._words = {number: word for word, number in words.items()}
        self._signatures = {entry.concept: _signature(entry.build(0)) for entry in CATALOGUE.values() if entry.core}

    def choose(self, observation) -> int:
        """Returns the action: the next empty field of the page, else the next button."""
        elements = len(observation["dom_elements_mask"])
        listed = int(np.sum(observation["dom_elements_mask"]))
        page = [self._row(observation, row) for row in range(listed)]
        for field, key in enumerate(self._keys(observation)):
            row = _find(page, self._signatures.get(key))
            if row is not None and "visited" not in page[row][CLASS]:
                return field * elements + row
        clicked = np.asarray(observation["dom_features"])[:, TAMPERED]
        buttons = [row for row in range(listed) if page[row][TAG] == ["button"] and "primary" in page[row][CLASS]]
        return next((row for row in buttons if not clicked[row]), buttons[-1])

    def _row(self, observation, row: int) -> list[list[str]]:
        ids, mask = observation["dom_elements"][row], observation["dom_attribute_mask"][row]
        return [self._text(ids[attribute], mask[attribute]) for attribute in range(len(ids))]

    def _keys(self, observation) -> Iterator[str]:
        for ids, mask in zip(observation["profile_key"], observation["profile_key_mask"], strict=True):
            yield "".join(self._text(ids, mask))

    def _text(self, ids, mask) -> list[str]:
        # int() since an observation may be of NumPy or of another kind of array
        return [self._words.get(int(number), "") for number, real in zip(ids, mask, strict=True) if real]


def _signature(root: PageNode) -> tuple[str, list[str], list[str]]:
    """Tag, placeholder and label of a control, as tokens; a radio group is known by the label of its first button."""
    nodes = list(_walk(root))
    control = next(node for node in nodes if node.role in _CONTROLS)
    label = next((node.text for node in nodes if node.tag == "label"), "")
    return control.listed_tag, tokenize(control.placeholder), tokenize(label)


def _walk(node: PageNode) -> Iterator[PageNode]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _find(page: list[list[list[str]]], signature: tuple[str, list[str], list[str]] | None) -> int | None:
    """Returns the row of the control with that tag, placeholder, and label directly before or after it."""
    if signature is None:
        return None
    tag, placeholder, label = signature
    for row, attributes in enumerate(page):
        if attributes[TAG] != [tag] or attributes[PLACEHOLDER] != placeholder:
            continue
        beside = [page[near][TEXT] for near in (row - 1, row + 1) if 0 <= near < len(page)]
        labels = [page[near][TAG] == ["label"] for near in (row - 1, row + 1) if 0 <= near < len(page)]
        if not label or any(is_label and text == label for is_label, text in zip(labels, beside, strict=True)):
            return row
    return None
