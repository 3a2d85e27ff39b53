"""Web navigation: the candidates are pairs of a profile row and a listed element.

Words are compared, not learnt: how much a profile key resembles the texts at and beside an element is a feature. Which
resemblance matters, and when to press a button, is left to the network.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.web_navigation.vocabulary import UnlockedVocabulary

TAG, VALUE, TEXT, PLACEHOLDER, CLASS = range(5)
HASHED = ((TAG, 16), (CLASS, 32), (TEXT, 16))  # attribute, buckets its words are hashed into
PAIR = 10


class WebCandidates:
    """Features of a pair: what the element looks like, how it resembles the profile row, what is left to be done.

    Args:
        env: a web environment; the shape of its observations is looked at.
    """

    features = 1 + sum(buckets for _, buckets in HASHED) + 1 + 8 + PAIR
    reward_offset = 0.0
    reward_scale = 1.0

    def __init__(self, env: Any) -> None:
        self._row_length = env.observation_space["dom_elements"].shape[0]
        self._words = {number: word for word, number in UnlockedVocabulary().save().items()}
        self._limits: tuple[int, int] | None = None

    def size(self, elements: int, fields: int) -> int:
        """Limits the tables to that many elements and profile rows, and returns their product."""
        self._limits = (elements, fields)
        return elements * fields

    def table(self, observation: Any) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Returns the candidates and their actions, all elements for the first profile row, then for the second..."""
        joint = np.asarray(observation["dom_profile_joint_mask"])
        elements, fields = int(joint[0].sum()), int(joint[:, 0].sum())
        if self._limits is not None:
            elements, fields = min(elements, self._limits[0]), min(fields, self._limits[1])
        page = [self._texts(observation, row) for row in range(elements)]
        keys = ["".join(key) for key in self._profile(observation, "profile_key", fields)]
        values = self._profile(observation, "profile_value", fields)
        looks = self._looks(page, np.asarray(observation["dom_features"])[:elements])
        rows = np.zeros((fields, elements, self.features), np.float32)
        rows[:, :, 0] = joint[:fields, :elements]
        rows[:, :, 1:-PAIR] = looks
        rows[:, :, -PAIR:] = self._pairs(page, keys, values, float(np.asarray(observation["time_step"]).item()))
        actions = np.arange(fields)[:, None] * self._row_length + np.arange(elements)
        return rows.reshape(-1, self.features), actions.reshape(-1)

    def _texts(self, observation: Any, row: int) -> list[list[str]]:
        ids, masks = observation["dom_elements"][row], observation["dom_attribute_mask"][row]
        return [self._read(ids[attribute], masks[attribute]) for attribute in range(len(ids))]

    def _profile(self, observation: Any, name: str, fields: int) -> list[list[str]]:
        return [self._read(observation[name][field], observation[f"{name}_mask"][field]) for field in range(fields)]

    def _read(self, ids: Any, mask: Any) -> list[str]:
        count = int(np.sum(mask))
        return [self._words.get(number, "") for number in np.asarray(ids)[:count].tolist()]

    def _looks(self, page: list[list[list[str]]], given: NDArray[np.float32]) -> NDArray[np.float32]:
        """Hashed words, the mark of a visited element, and the observation's own features, per element."""
        looks = np.zeros((len(page), self.features - 1 - PAIR), np.float32)
        start = 0
        for attribute, buckets in HASHED:
            for row, texts in enumerate(page):
                for word in texts[attribute]:
                    looks[row, start + zlib.crc32(word.encode()) % buckets] = 1.0
            start += buckets
        looks[:, start] = ["visited" in texts[CLASS] for texts in page]
        looks[:, start + 1 :] = given
        return looks

    def _pairs(
        self, page: list[list[list[str]]], keys: list[str], values: list[list[str]], time: float
    ) -> NDArray[np.float32]:
        texts = ["".join(row[TEXT]) for row in page]
        labels = [text if row[TAG] == ["label"] else "" for row, text in zip(page, texts, strict=True)]
        beside = list(zip(texts, ["".join(row[PLACEHOLDER]) for row in page], ["", *labels], [*labels[1:], ""]))  # noqa: B905
        alike = np.array([[[resemblance(key, text) for text in near] for near in beside] for key in keys], np.float32)
        controls = np.array([row[TAG] == ["select"] or "".join(row[TAG]).startswith("input") for row in page])
        best = np.where(controls, alike.max(axis=2), -1.0)  # how well each control fits each key
        visited = np.array(["visited" in row[CLASS] for row in page])
        chosen = best.argmax(axis=1)
        left = ~visited[chosen]
        pairs = np.zeros((len(keys), len(page), PAIR), np.float32)
        pairs[:, :, :4] = alike
        pairs[np.arange(len(keys)), chosen, 4] = 1.0
        pairs[:, :, 5] = [[row[VALUE] == value for row in page] for value in values]
        pairs[0, :, 6] = 1.0  # the row without a value
        pairs[0, :, 4] = 0.0
        pairs[:, :, 7] = left[1:].mean() if len(keys) > 1 else 0.0
        pairs[:, :, 8] = not left[1:].any()
        pairs[:, :, 9] = time
        return pairs


@lru_cache(maxsize=100_000)
def resemblance(one: str, other: str) -> float:
    """Returns the share of letter triples that two texts have in common (Jaccard index), in [0, 1]."""
    first, second = _triples(one), _triples(other)
    together = len(first | second)
    return len(first & second) / together if together else 0.0


def _triples(text: str) -> frozenset[str]:
    return frozenset(text[start : start + 3] for start in range(max(1, len(text) - 2))) if text else frozenset()
