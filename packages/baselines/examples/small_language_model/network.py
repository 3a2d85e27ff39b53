"""The transformer in NumPy: reads a prompt at once, then writes token after token.

A decoder with pre-normalisation, rotary positions (Su et al. 2021, arXiv:2104.09864) and squared rectifiers (So et al.
2021, arXiv:2109.08668); no biases.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prompt import END

from a2perf.errors import ConfigError

Floats = NDArray[np.float32]
WEIGHTS = Path(__file__).parent / "weights" / "level_1.npz"
SCALE = ".scale"


@dataclass(frozen=True)
class Shape:
    """Sizes of the network.

    Attributes:
        width: numbers per token.
        layers: blocks.
        heads: of the attention; ``width`` is a multiple of twice their number.
        context: most tokens of a prompt with its answer.
    """

    width: int = 160
    layers: int = 4
    heads: int = 5
    context: int = 2048

    @property
    def head(self) -> int:
        """Numbers per head."""
        return self.width // self.heads


@lru_cache(maxsize=4)
def rotation(shape: Shape) -> tuple[Floats, Floats]:
    """Returns cosines and sines of the positions, each of shape (context, head / 2)."""
    rates = 10_000.0 ** (-np.arange(0, shape.head, 2) / shape.head)
    angles = np.arange(shape.context)[:, None] * rates
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


class Network:
    """A trained network.

    Args:
        shape: sizes.
        arrays: ``embedding`` (vocabulary, width), and per block ``i`` the matrices ``i.qkv`` (width, 3 width),
            ``i.out`` (width, width), ``i.up`` (width, 4 width) and ``i.down`` (4 width, width). Normalisations have no
            weights.

    Attributes:
        shape, arrays: as given.
    """

    def __init__(self, shape: Shape, arrays: dict[str, Floats]) -> None:
        self.shape = shape
        self.arrays = arrays

    @classmethod
    def load(cls, path: Path = WEIGHTS) -> Network:
        """Reads what ``train.py`` wrote.

        Raises:
            ConfigError: the file is missing or is not a network.
        """
        try:
            with np.load(path) as found:
                sizes = [int(number) for number in found["shape"]]
                names = [name for name in found.files if name != "shape" and not name.endswith(SCALE)]
                return cls(Shape(*sizes), {name: found[name] * found[name + SCALE] for name in names})
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise ConfigError(f"{path} cannot be read as a network: {error}", hint="train one: train.py") from error

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(array.size for array in self.arrays.values())

    def answer(self, prompt: list[int], most: int = 128) -> list[int]:
        """Returns the most likely answer, without the mark that ends it.

        Args:
            prompt: tokens.
            most: tokens of the answer.

        Raises:
            ConfigError: the prompt does not fit into the context.
        """
        shape = self.shape
        if len(prompt) + 1 > shape.context:
            raise ConfigError(
                f"the prompt has {len(prompt)} tokens; the context has {shape.context}", hint="ask a shorter question"
            )
        most = min(most, shape.context - len(prompt))
        size = (shape.layers, shape.heads, len(prompt) + most, shape.head)
        cache = np.empty((2, *size), dtype=np.float32)
        written: list[int] = []
        logits = self._read(np.array(prompt), 0, cache)
        while len(written) < most:
            token = int(logits.argmax())
            if token == END:
                break
            written.append(token)
            if len(written) < most:
                logits = self._read(np.array([token]), len(prompt) + len(written) - 1, cache)
        return written

    def logits(self, tokens: list[int]) -> Floats:
        """Returns the logits of the token after each position, shape (tokens, vocabulary)."""
        shape = self.shape
        cache = np.empty((2, shape.layers, shape.heads, len(tokens), shape.head), dtype=np.float32)
        return self._hidden(np.array(tokens), 0, cache) @ self.arrays["embedding"].T

    def _read(self, tokens: NDArray[Any], at: int, cache: Floats) -> Floats:
        """Returns the logits after the last of the tokens, which begin at a position."""
        logits: Floats = self._hidden(tokens, at, cache)[-1] @ self.arrays["embedding"].T
        return logits

    def _hidden(self, tokens: NDArray[Any], at: int, cache: Floats) -> Floats:
        shape, arrays = self.shape, self.arrays
        count = len(tokens)
        cosine, sine = (table[at : at + count] for table in rotation(shape))
        hidden = arrays["embedding"][tokens]
        # a token sees itself and those before it
        mask = np.triu(np.full((count, count), -np.inf, dtype=np.float32), 1) if count > 1 else None
        for block in range(shape.layers):
            mixed = (_normalised(hidden) @ arrays[f"{block}.qkv"]).reshape(count, 3, shape.heads, shape.head)
            query, key, value = mixed.transpose(1, 2, 0, 3)
            keys, values = cache[:, block, :, : at + count]
            keys[:, at:], values[:, at:] = _rotated(key, cosine, sine), value
            scores = _rotated(query, cosine, sine) @ keys.transpose(0, 2, 1) / np.float32(np.sqrt(shape.head))
            if mask is not None:
                scores[:, :, at:] += mask
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            scores /= scores.sum(axis=-1, keepdims=True)
            hidden = hidden + (scores @ values).transpose(1, 0, 2).reshape(count, -1) @ arrays[f"{block}.out"]
            inner = np.maximum(_normalised(hidden) @ arrays[f"{block}.up"], 0.0)
            hidden = hidden + (inner * inner) @ arrays[f"{block}.down"]
        return _normalised(hidden)

    def save(self, path: Path) -> None:
        """Writes the weights in 8 bits, with a scale per column; ``load`` reads rounded ones."""
        shape = self.shape
        written = {"shape": np.array([shape.width, shape.layers, shape.heads, shape.context])}
        for name, array in self.arrays.items():
            scale = np.abs(array).max(axis=0, keepdims=True) / np.float32(127.0)
            written |= {name: np.rint(array / scale).astype(np.int8), name + SCALE: scale}
        with path.open("wb") as stream:
            np.savez_compressed(stream, **written)


def _normalised(rows: Floats) -> Floats:
    return rows / np.sqrt((rows * rows).mean(axis=-1, keepdims=True) + np.float32(1e-6))


def _rotated(heads: Floats, cosine: Floats, sine: Floats) -> Floats:
    first, second = np.split(heads, 2, axis=-1)
    return np.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)
