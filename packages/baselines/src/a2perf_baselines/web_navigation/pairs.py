"""Compact candidates: pairs of a profile key and a control, and texts to press, with eight features and three numbers.

The tables of ``candidates`` have 236 columns, most of them one-hot. A learner that embeds words needs only their
numbers, and a page costs a few kilobytes. Everything except the state of the controls is computed once per page and
profile. ``batch`` writes the same tables for many episodes at once.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.web_navigation.observation import CLASS, PLACEHOLDER, TAG, TAMPERED, TEXT, VALUE
from a2perf.domains.web_navigation.page.vocabulary import DUMMY_KEY, NO_CLASS, VISITED, UnlockedVocabulary
from a2perf_baselines.web_navigation.candidates import resemblance

FEATURES = (
    "resemblance of the key",
    "best control of the key",
    "best key of the control",
    "without a value",
    "resemblance of the value",
    "visited",
    "shows the value",
    "clicked",
)
FIXED = 4
"""The first features, which do not change during an episode on a page."""
PAGE_FEATURES = ("time", "controls", "unvisited controls", "profile keys")
NUMBERS = ("key", "caption", "kind")
BUCKETS = (256, 1024, 256)
"""Buckets that the texts of ``NUMBERS`` are hashed into; no two keys and no two captions of the catalogue share one."""
_SALTS = (4, 0, 0)
_PER_PAGE = 0.1  # scale of counts
_LARGEST_CACHE = 2048

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class ElementTexts(NamedTuple):
    """What an element shows before anybody acts on it, in words without spaces.

    Attributes:
        classes: without the mark of a visited element.
    """

    tag: str
    classes: str
    text: str
    placeholder: str

    @property
    def is_control(self) -> bool:
        """Whether it takes a value."""
        return self.tag.startswith("input") or self.tag == "select"


class PagePairs:
    """The pairs of a page and the keys of a profile, as far as they do not change.

    Args:
        keys: words of the profile rows without spaces, the first row is the one without a value.
        elements: the listed elements in order.

    Attributes:
        profile_rows: int64, shape (n,). First come the texts to press with row 0, then each key with every control.
        elements: rows of the elements, int64, shape (n,).
        fixed: first columns of ``FEATURES``, float32, shape (n, 4).
        numbers: ``NUMBERS``, int16, shape (n, 3).
        controls: rows of the controls, int64, shape (m,).
        texts: texts that the value of a key is compared with, for each control.
    """

    def __init__(self, keys: Sequence[str], elements: Sequence[ElementTexts]) -> None:
        labels = [element.text if element.tag == "label" else "" for element in elements]
        before, after = ["", *labels[:-1]], [*labels[1:], ""]
        controls = [row for row, element in enumerate(elements) if element.is_control]
        # Prices differ in each episode and are never pressed, so only texts with a letter count.
        pressed = [
            row
            for row, element in enumerate(elements)
            if not element.is_control and any(letter.isalpha() for letter in element.text)
        ]
        self.texts = [
            tuple(text for text in (elements[row].text, before[row], elements[row].placeholder, after[row]) if text)
            for row in controls
        ]
        alike = np.zeros((len(keys) - 1, len(controls)), np.float32)
        for number, key in enumerate(keys[1:]):
            for place, texts in enumerate(self.texts):
                alike[number, place] = max((_resemblance(key, text) for text in texts), default=0.0)
        best_control, best_key = np.zeros_like(alike), np.zeros_like(alike)
        if alike.size:
            best_control[np.arange(len(alike)), alike.argmax(axis=1)] = 1.0
            best_key[alike.argmax(axis=0), np.arange(len(controls))] = 1.0
        likes = alike > 0.0
        count, pairs = len(pressed), alike.size
        self.controls = np.array(controls, np.int64)
        self.profile_rows: Ints = np.concatenate(
            [np.zeros(count, np.int64), np.repeat(np.arange(1, len(keys)), len(controls))]
        )
        self.elements: Ints = np.concatenate([np.array(pressed, np.int64), np.tile(self.controls, len(keys) - 1)])
        self.fixed: Floats = np.zeros((count + pairs, FIXED), np.float32)
        self.fixed[count:, 0] = alike.reshape(-1)
        self.fixed[count:, 1] = (best_control * likes).reshape(-1)
        self.fixed[count:, 2] = (best_key * likes).reshape(-1)
        self.fixed[:count, 3] = 1.0
        captions = [_hash(elements[row].text, 1) for row in pressed]
        captions += [_hash(texts[0] if texts else "", 1) for texts in self.texts] * (len(keys) - 1)
        hashed_keys = np.array([_hash(key, 0) for key in keys], np.int64)
        kinds = np.array([_hash(f"{element.tag} {element.classes}", 2) for element in elements] or [0], np.int64)
        self.numbers = np.stack(
            [hashed_keys[self.profile_rows], np.array(captions, np.int64), kinds[self.elements]], axis=1
        ).astype(np.int16)

    def __len__(self) -> int:
        return len(self.elements)

    def resemblance_of_value(self, control: int, value: str) -> float:
        """Returns the largest resemblance of a value to the texts at a control.

        Args:
            control: position in ``controls``.
            value: words without spaces.
        """
        return max((_resemblance(value, text) for text in self.texts[control]), default=0.0)


class PageTable(NamedTuple):
    """The candidates of an observation.

    Attributes:
        features: ``FEATURES``, float32, shape (n, 8).
        numbers: ``NUMBERS``, int16, shape (n, 3).
        page: ``PAGE_FEATURES``, float32, shape (4,).
        actions: action of each candidate, int64, shape (n,).
    """

    features: Floats
    numbers: NDArray[np.int16]
    page: Floats
    actions: Ints


class PairReader:
    """Reads observations of a web environment; pages and profiles of any size are read whole."""

    def __init__(self) -> None:
        self._words = {number: word for word, number in UnlockedVocabulary().save().items()}
        numbers = {word: number for number, word in self._words.items()}
        self._visited, self._no_class = numbers[VISITED], numbers[NO_CLASS.lower()]
        self._pages: dict[bytes, PagePairs] = {}

    def table(self, observation: Any) -> PageTable:
        """Returns the candidates of an observation of one environment."""
        joint = np.asarray(observation["dom_profile_joint_mask"])
        listed, fields = int(joint[0].sum()), int(joint[:, 0].sum())
        tokens = np.asarray(observation["dom_elements"])[:listed]
        keys = np.asarray(observation["profile_key"])[:fields]
        values = np.asarray(observation["profile_value"])[:fields]
        visited = (tokens[:, CLASS] == self._visited).any(axis=1)
        pairs = self._pairs(keys, tokens)
        features = np.zeros((len(pairs), len(FEATURES)), np.float32)
        row, element = pairs.profile_rows, pairs.elements
        features[:, :FIXED] = pairs.fixed
        controls = pairs.controls
        if len(controls):
            words = [self._joined(value) for value in values]
            alike = [
                pairs.resemblance_of_value(number, value) for value in words[1:] for number in range(len(controls))
            ]
            features[row > 0, 4] = alike
        features[:, 5] = visited[element]
        features[:, 6] = (row > 0) & (tokens[element, VALUE] == values[row]).all(axis=1)  # both are padded alike
        features[:, 7] = np.asarray(observation["dom_features"])[element, TAMPERED]
        page = np.array(
            [
                float(np.asarray(observation["time_step"]).item()),
                _PER_PAGE * len(controls),
                _PER_PAGE * float((~visited[controls]).sum()),
                _PER_PAGE * (fields - 1),
            ],
            np.float32,
        )
        return PageTable(features, pairs.numbers, page, row * joint.shape[1] + element)

    def _pairs(self, keys: Any, tokens: Any) -> PagePairs:
        fixed = tokens[:, [TAG, TEXT, PLACEHOLDER, CLASS]]
        fixed[:, 3][(fixed[:, 3] == self._visited) | (fixed[:, 3] == self._no_class)] = 0
        name = keys.tobytes() + fixed.tobytes()
        found = self._pages.get(name)
        if found is None:
            if len(self._pages) > _LARGEST_CACHE:
                self._pages.clear()
            elements = [
                ElementTexts(self._joined(tag), self._joined(classes), self._joined(text), self._joined(placeholder))
                for tag, text, placeholder, classes in fixed
            ]
            found = self._pages[name] = PagePairs([self._joined(key) for key in keys], elements)
        return found

    def _joined(self, tokens: Any) -> str:
        return "".join(self._words.get(number, "") for number in tokens.tolist() if number != 0)


@functools.lru_cache(maxsize=65536)
def _resemblance(one: str, other: str) -> float:
    return resemblance(one, other)


def _hash(text: str, column: int) -> int:
    """Returns the bucket of a text; the empty text has bucket 0 alone."""
    # Not hash(), which gives other values in every process.
    return 1 + zlib.crc32(text.encode(), _SALTS[column]) % (BUCKETS[column] - 1) if text and text != DUMMY_KEY else 0
