"""Web navigation: the candidates are pairs of a profile row and a listed element.

Words are compared, not learned: the similarity of a profile key or value to the texts at and next to an element is a
feature. The network learns which similarity matters, and when to press a button.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.web_navigation.observation import CLASS, PLACEHOLDER, TAG, TEXT, VALUE
from a2perf.domains.web_navigation.page.vocabulary import MAX_VOCABULARY_SIZE, VISITED, UnlockedVocabulary

HASHED = ((TAG, 16), (CLASS, 32), (TEXT, 16))
"""Attributes with words as features -> number of buckets that the words are hashed into."""
WHOLE = (("placeholder", 16), ("label before", 48), ("label after", 48))
"""Texts at and beside the element that are features as a whole, with their columns: some keys resemble none of them."""
KEY_COLUMNS = 48
"""Columns of the hashed profile key; none of the catalogue's keys share both of theirs."""
PAIR = 11
ELEMENTS, FIELDS, PER_KEY = 192, 16, 20
"""What a table for training holds by default: elements for the dummy row, profile keys, controls for each key."""
_LARGEST_CACHE = 4096
_BESIDE = sum(columns for _, columns in WHOLE)

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class WebCandidates:
    """Features of pairs of an element and a profile row.

    Columns, in order: valid; hashed words of the element's tag, class and text (``HASHED``); visited; the eight
    ``dom_features``; hashed texts next to it (``WHOLE``); the hashed profile key (``KEY_COLUMNS``); and of the pair
    (``PAIR``): similarity of the key to the element's text, its placeholder, the label before and the label after it;
    the control that fits the key best; the element shows the row's value; the row without a value; share of keys with
    an unvisited best control; none is left; time; largest similarity of the value to the element's text and the labels
    next to it.

    Args:
        env: a web environment; only the shape of its observations is read.
        elements: number of elements that are read; further ones cannot be chosen. None: all.
        fields: number of profile rows that are read, including the one without a value. None: all.
        per_key: controls that a profile key is paired with, those that fit best; the row without a value is always
            paired with every element. None: every key with every element, which gives all valid actions.
    """

    features = 1 + sum(buckets for _, buckets in HASHED) + 1 + 8 + _BESIDE + KEY_COLUMNS + PAIR
    reward_offset = 0.0
    reward_scale = 1.0

    def __init__(
        self,
        env: Any,
        elements: int | None = ELEMENTS,
        fields: int | None = FIELDS + 1,
        per_key: int | None = PER_KEY,
    ) -> None:
        shape = env.observation_space["dom_profile_joint_mask"].shape
        self._row_length = int(shape[1])
        self._elements = min(elements or self._row_length, self._row_length)
        self._fields = min(fields or int(shape[0]), int(shape[0]))
        self._per_key = per_key
        paired = self._elements if per_key is None else min(per_key, self._elements)
        self.size = self._elements + (self._fields - 1) * paired
        words = {number: word for word, number in UnlockedVocabulary().save().items()}
        self._words = words
        self._buckets = {
            attribute: _per_word(words, lambda word, buckets=buckets: zlib.crc32(word.encode()) % buckets)
            for attribute, buckets in HASHED
        }
        self._starts_input = _per_word(words, lambda word: word.startswith("input")).astype(bool)
        numbers = {word: number for number, word in words.items()}
        self._label, self._select, self._visited = numbers["label"], numbers["select"], numbers[VISITED]
        self._texts = _Texts(words)

    def table(self, observation: Any) -> tuple[Floats, Ints]:
        """Returns the candidates, shape (n, features), and their actions: all elements with the row without a value,
        then those of the first profile key, and so on.
        """
        joint = np.asarray(observation["dom_profile_joint_mask"])
        elements = min(int(joint[0].sum()), self._elements)
        fields = min(int(joint[:, 0].sum()), self._fields)
        tokens = np.asarray(observation["dom_elements"])[:elements]
        masks = np.asarray(observation["dom_attribute_mask"])[:elements] > 0
        visited = ((tokens[:, CLASS] == self._visited) & masks[:, CLASS]).any(axis=1)
        single = masks[:, TAG].sum(axis=1) == 1
        selects = single & (tokens[:, TAG, 0] == self._select)
        labels = single & (tokens[:, TAG, 0] == self._label)
        controls = selects | (masks[:, TAG, 0] & self._starts_input[tokens[:, TAG, 0]])
        near = self._near(tokens, labels)
        keys = self._texts.numbers(np.asarray(observation["profile_key"])[:fields])
        values = self._texts.numbers(np.asarray(observation["profile_value"])[:fields])
        alike = self._texts.resemblances(keys, near)
        valued = self._texts.resemblances(values, near[:, [0, 2, 3]]).max(axis=2)
        fits = np.where(controls, alike.max(axis=2), -1.0)  # how well each control fits each key
        pairs = self._pairs(observation, tokens, alike, valued, fits, visited)
        looks = self._looks(tokens, masks, visited, np.asarray(observation["dom_features"])[:elements])
        row, element = self._chosen(fits, valued, controls, selects)
        rows = np.empty((len(row), self.features), np.float32)
        rows[:, 0] = joint[row, element]
        end = 1 + looks.shape[1]
        rows[:, 1:end] = looks[element]
        for column, (_, width) in enumerate(WHOLE, start=1):
            rows[:, end : end + width] = self._texts.hashed(near[:, column], width)[element]
            end += width
        rows[:, end:-PAIR] = self._texts.hashed(keys, KEY_COLUMNS)[row]
        rows[:, -PAIR:] = pairs[row, element]
        return rows, row * self._row_length + element

    def _chosen(self, fits: Floats, valued: Floats, controls: Any, selects: Any) -> tuple[Ints, Ints]:
        """Returns profile row and element of each candidate."""
        fields, elements = fits.shape
        if self._per_key is None:
            return np.divmod(np.arange(fields * elements), elements)
        kept = min(self._per_key, int(controls.sum()))
        # A select has no text to resemble; it follows what resembles at all and goes before what does not.
        score = np.where(controls, np.maximum(fits, valued), -1.0)[1:] + 1e-3 * selects
        best = np.argsort(-score, axis=1, kind="stable")[:, :kept]
        keys = np.repeat(np.arange(1, fields), kept)
        return np.concatenate([np.zeros(elements, np.int64), keys]), np.concatenate(
            [np.arange(elements), best.reshape(-1)]
        )

    def _near(self, tokens: Any, labels: Any) -> Ints:
        """Returns the numbers of the texts of each element: its own, its placeholder, the labels before and after."""
        text = self._texts.numbers(tokens[:, TEXT])
        label = np.where(labels, text, 0)
        before, after = np.append(0, label[:-1]), np.append(label[1:], 0)
        return np.stack([text, self._texts.numbers(tokens[:, PLACEHOLDER]), before, after], axis=1)

    def _looks(self, tokens: Any, masks: Any, visited: Any, given: Floats) -> Floats:
        """Hashed words, the mark of a visited element, and the observation's own features, per element."""
        looks = np.zeros((len(tokens), self.features - 1 - _BESIDE - KEY_COLUMNS - PAIR), np.float32)
        start = 0
        for attribute, buckets in HASHED:
            row, word = np.nonzero(masks[:, attribute])
            looks[row, start + self._buckets[attribute][tokens[row, attribute, word]]] = 1.0
            start += buckets
        looks[:, start] = visited
        looks[:, start + 1 :] = given
        return looks

    def _pairs(
        self, observation: Any, tokens: Any, alike: Floats, valued: Floats, fits: Floats, visited: Any
    ) -> Floats:
        fields, elements = fits.shape
        chosen = fits.argmax(axis=1)
        left = ~visited[chosen]
        values = np.asarray(observation["profile_value"])[:fields]
        pairs = np.zeros((fields, elements, PAIR), np.float32)
        pairs[:, :, :4] = alike
        pairs[np.arange(fields), chosen, 4] = 1.0
        pairs[:, :, 5] = (tokens[None, :, VALUE] == values[:, None]).all(axis=2)  # both are padded alike
        pairs[0, :, 6] = 1.0  # the row without a value
        pairs[0, :, 4] = 0.0
        pairs[:, :, 7] = left[1:].mean() if fields > 1 else 0.0
        pairs[:, :, 8] = not left[1:].any()
        pairs[:, :, 9] = float(np.asarray(observation["time_step"]).item())
        pairs[:, :, 10] = valued
        return pairs


class _Texts:
    """Numbers texts in order of appearance (the empty text is 0) and stores their similarities."""

    def __init__(self, words: dict[int, str]) -> None:
        self._words = words
        self._clear()

    def _clear(self) -> None:
        self._known: dict[bytes, int] = {}
        self._texts: list[str] = [""]
        self._number = {"": 0}
        self._alike = np.full((64, 64), np.nan, np.float32)

    def hashed(self, numbers: Ints, columns: int) -> Floats:
        """Returns two digits of a hash of each text, one-hot, shape (n, columns); the empty text has none."""
        found = np.zeros((len(numbers), columns), np.float32)
        base, real = columns // 2, np.flatnonzero(numbers)
        # Not hash(), which gives other values in every process.
        hashes = np.array([zlib.crc32(self._texts[number].encode()) for number in numbers[real].tolist()], np.int64)
        found[real, hashes % base] = 1.0
        found[real, base + hashes // base % base] = 1.0
        return found

    def numbers(self, tokens: Any) -> Ints:
        """Returns the number of each row of tokens, int64, shape (n,)."""
        if len(self._texts) > _LARGEST_CACHE:
            self._clear()
        lines = np.ascontiguousarray(tokens)
        keys: list[Any] = lines.view(np.dtype((np.void, lines.shape[1] * lines.itemsize))).reshape(-1).tolist()
        known = self._known
        return np.array([known[key] if key in known else self._add(key, lines[row]) for row, key in enumerate(keys)])

    def _add(self, key: bytes, tokens: Any) -> int:
        text = "".join(self._words.get(number, "") for number in tokens.tolist() if number != 0)
        if text not in self._number:
            self._number[text] = len(self._texts)
            self._texts.append(text)
        self._known[key] = self._number[text]
        return self._known[key]

    def resemblances(self, ones: Ints, others: Ints) -> Floats:
        """Returns the resemblance of each of some texts to each of others, shape (len(ones), *others.shape)."""
        most = max(int(ones.max(initial=0)), int(others.max(initial=0)))
        if most >= len(self._alike):
            grown = np.full((2 * most, 2 * most), np.nan, np.float32)
            grown[: len(self._alike), : len(self._alike)] = self._alike
            self._alike = grown
        found: Floats = self._alike[ones.reshape(-1, *[1] * others.ndim), others[None]]
        if np.isnan(found).any():
            for one in np.unique(ones).tolist():
                for other in np.unique(others).tolist():
                    self._alike[one, other] = resemblance(self._texts[one], self._texts[other])
            found = self._alike[ones.reshape(-1, *[1] * others.ndim), others[None]]
        return found


def resemblance(one: str, other: str) -> float:
    """Returns the share of letter triples that two texts have in common (Jaccard index), in [0, 1]."""
    first, second = _triples(one), _triples(other)
    together = len(first | second)
    return len(first & second) / together if together else 0.0


def _triples(text: str) -> frozenset[str]:
    return frozenset(text[start : start + 3] for start in range(max(1, len(text) - 2))) if text else frozenset()


def _per_word(words: dict[int, str], value: Any) -> Ints:
    """Returns a number for each token of a full vocabulary; words of a user's own profiles count as the empty one."""
    table = np.full(max(MAX_VOCABULARY_SIZE, max(words) + 1), value(""), np.int64)
    for number, word in words.items():
        table[number] = value(word)
    return table
