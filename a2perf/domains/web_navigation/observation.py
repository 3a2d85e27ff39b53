"""The observation: ten arrays, made of the rows of a page and of the profile.

``encode`` writes rows of any backend; the page model writes the same numbers row by row.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from a2perf.domains.web_navigation.browsers.backend import PageRow, Value
from a2perf.domains.web_navigation.page.vocabulary import DUMMY_KEY, NO_CLASS, NULL, DistributedVocabulary, tokenize

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]
ATTRIBUTES = ("tag", "value", "text", "placeholder", "class")
TAG, VALUE, TEXT, PLACEHOLDER, CLASS = range(5)
FEATURES = ("focused", "tampered", "new", "is_div", "left", "top", "width", "height")
FOCUSED, TAMPERED, NEW, IS_DIV = range(4)
BOX = slice(4, 8)


_SERIAL = itertools.count()


class Sizes(NamedTuple):
    """Sizes of the arrays.

    Attributes:
        profile_words: tokens of a profile key or value.
        action_types: factor of the action space; only the first of them does something.
    """

    elements: int = 250
    fields: int = 25
    words: int = 10
    profile_words: int = 10
    action_types: int = 2

    @property
    def actions(self) -> int:
        """Number of actions."""
        return self.elements * self.fields * self.action_types


def array_specs(sizes: Sizes) -> dict[str, tuple[tuple[int, ...], type[Any]]]:
    """Shape and dtype of each array by key, sorted."""
    e, f = sizes.elements, sizes.fields
    tokens, profile = (e, len(ATTRIBUTES), sizes.words), (f, sizes.profile_words)
    return {
        "dom_attribute_mask": (tokens, np.float32),
        "dom_elements": (tokens, np.int32),
        "dom_elements_mask": ((e,), np.float32),
        "dom_features": ((e, len(FEATURES)), np.float32),
        "dom_profile_joint_mask": ((f, e), np.float32),
        "profile_key": (profile, np.int32),
        "profile_key_mask": (profile, np.float32),
        "profile_value": (profile, np.int32),
        "profile_value_mask": (profile, np.float32),
        "time_step": ((1,), np.float32),
    }


def observation_space(sizes: Sizes, vocabulary_size: int, step_limit: int) -> gymnasium.spaces.Dict:
    """The space of observations."""
    spaces: dict[str, gymnasium.Space[Any]] = {}
    for key, (shape, dtype) in array_specs(sizes).items():
        high = vocabulary_size - 1 if dtype is np.int32 else step_limit if key == "time_step" else 1
        spaces[key] = gymnasium.spaces.Box(0, high, shape, dtype)
    return gymnasium.spaces.Dict(spaces)


class Encoder:
    """Texts to padded token numbers and masks, each computed once."""

    def __init__(self, vocabulary: DistributedVocabulary, words: int) -> None:
        self.vocabulary = vocabulary
        self.words = words
        self.padding = vocabulary[NULL]
        # sites keep the tokens of their nodes under this key; tables other than the built-in one share nothing
        self.key: tuple[int, ...] = (words,) if vocabulary.is_built_in else (words, next(_SERIAL))
        self._known: dict[Any, tuple[IntArray, FloatArray]] = {}

    def __call__(self, given: Value) -> tuple[IntArray, FloatArray]:
        """Returns the token numbers (int32) and the mask (float32), both of shape (words,)."""
        key = (given, type(given) is bool)  # 1 == True would share an entry
        known = self._known.get(key)
        if known is None:
            tokens = tokenize(given)[: self.words]
            ids = np.full(self.words, self.padding, np.int32)
            mask = np.zeros(self.words, np.float32)
            ids[: len(tokens)] = [self.vocabulary.lookup(token) for token in tokens]
            mask[: len(tokens)] = 1.0
            if len(self._known) > 20000:
                self._known.clear()
            known = self._known[key] = (ids, mask)
        return known


class Frame:
    """The arrays of one environment, rewritten in place."""

    __slots__ = (
        "_profile",
        "arrays",
        "elements_mask",
        "features",
        "joint",
        "listed",
        "profile_rows",
        "token_mask",
        "tokens",
    )

    def __init__(self, arrays: Mapping[str, NDArray[Any]], padding: int) -> None:
        self.arrays = arrays
        self.tokens: IntArray = arrays["dom_elements"]
        self.token_mask: FloatArray = arrays["dom_attribute_mask"]
        self.elements_mask: FloatArray = arrays["dom_elements_mask"]
        self.features: FloatArray = arrays["dom_features"]
        self.joint: FloatArray = arrays["dom_profile_joint_mask"]
        self.clear(padding)

    def clear(self, padding: int) -> None:
        """Empties every row."""
        self._profile: list[tuple[str, Value]] = []
        self.listed = 0
        self.profile_rows = 0
        self.tokens[:] = padding
        for array in (self.token_mask, self.elements_mask, self.features, self.joint, self.arrays["time_step"]):
            array[:] = 0.0

    def set_listed(self, listed: int, padding: int) -> None:
        """Sets how many rows hold elements; empties those behind them."""
        before = self.listed
        if listed < before:
            self.tokens[listed:before] = padding
            self.token_mask[listed:before] = 0.0
            self.features[listed:before] = 0.0
            self.elements_mask[listed:before] = 0.0
            self.joint[: self.profile_rows, listed:before] = 0.0
        elif listed > before:
            self.elements_mask[before:listed] = 1.0
            self.joint[: self.profile_rows, before:listed] = 1.0
        self.listed = listed

    def set_profile(self, profile: Sequence[tuple[str, Value]], encoder: Encoder) -> None:
        """Writes the profile, keys sorted."""
        if profile == self._profile:
            return
        self._profile = list(profile)
        arrays = self.arrays
        rows = min(len(profile), len(self.joint))
        for name, column in (("profile_key", 0), ("profile_value", 1)):
            ids, mask = arrays[name], arrays[f"{name}_mask"]
            ids[rows:] = encoder.padding
            mask[rows:] = 0.0
            for row in range(rows):
                ids[row], mask[row] = encoder(profile[row][column])
        if rows != self.profile_rows:
            self.joint[:] = 0.0
            self.joint[:rows, : self.listed] = 1.0
            self.profile_rows = rows


def profile_rows(profile: Mapping[str, str | bool]) -> list[tuple[str, Value]]:
    """The rows of a profile: keys sorted, the first one always a dummy without a value."""
    return [(DUMMY_KEY, None), *sorted(profile.items())]


def new_frame(sizes: Sizes, padding: int) -> Frame:
    """Returns a frame with new arrays."""
    return Frame({key: np.zeros(shape, dtype) for key, (shape, dtype) in array_specs(sizes).items()}, padding)


def encode(frame: Frame, rows: Sequence[PageRow], previous: frozenset[int] | None, encoder: Encoder) -> None:
    """Writes the rows of a page.

    Args:
        rows: all listed elements; what does not fit is dropped.
        previous: the nodes of the previous observation, None for none.
    """
    kept = rows[: len(frame.tokens)]
    frame.set_listed(len(kept), encoder.padding)
    widest = max((row.width for row in rows), default=1.0)
    highest = max((row.height for row in rows), default=1.0)
    for number, row in enumerate(kept):
        texts = (row.tag, row.value, row.text, row.placeholder, row.classes or NO_CLASS)
        for attribute, text in enumerate(texts):
            frame.tokens[number, attribute], frame.token_mask[number, attribute] = encoder(text)
        frame.features[number] = (
            row.focused,
            row.tampered,
            previous is not None and row.node not in previous,
            row.tag == "div",
            row.left / widest,
            row.top / highest,
            row.width / widest,
            row.height / highest,
        )
