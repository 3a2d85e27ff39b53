"""The network that scores candidates, in NumPy: what is evaluated needs no PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf_baselines.web_navigation.pairs import BUCKETS, FEATURES, PageTable

WEIGHTS = ("key", "caption", "kind", "first.weight", "first.bias", "last.weight", "last.bias")
"""Arrays of a policy file."""


class CandidateScorer:
    """Scores the candidates of a page one by one.

    Args:
        weights: arrays by the names of ``WEIGHTS``.

    Raises:
        ValueError: an array is missing, or the policy was trained with other features.
    """

    def __init__(self, weights: Mapping[str, Any]) -> None:
        missing = [name for name in WEIGHTS if name not in weights]
        if missing:
            raise ValueError(f"the policy has no arrays {', '.join(missing)}")
        self._key, self._caption, self._kind, self._first, self._bias, self._last, self._offset = (
            np.asarray(weights[name], np.float32) for name in WEIGHTS
        )
        width = len(FEATURES) + 2 * self._key.shape[1] + self._kind.shape[1]
        if self._first.shape[1] != width or (len(self._key), len(self._caption), len(self._kind)) != BUCKETS:
            raise ValueError(f"the policy takes {self._first.shape[1]} features per candidate, there are {width}")

    @classmethod
    def read(cls, path: Path) -> CandidateScorer:
        """Returns the scorer of a policy file."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls(dict(arrays))

    def scores(self, table: PageTable) -> NDArray[np.float32]:
        """Returns the logit of each candidate, shape (n,)."""
        key, caption, kind = table.numbers.astype(np.int64).T
        words = self._caption[caption]
        given = np.concatenate([table.features, self._key[key] * words, words, self._kind[kind]], axis=1)
        hidden = np.maximum(given @ self._first.T + self._bias, 0.0)
        scores: NDArray[np.float32] = (hidden @ self._last.T + self._offset)[:, 0]
        return scores
