"""Networks that include their normalisation, and NumPy copies of them for actor processes.

Actors do not use TensorFlow: it does not work in a process that was forked after TensorFlow had started, and a small
network is faster in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf_baselines.learning.tf_agents.frameworks import tf

Floats = NDArray[np.float32]
_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda x: np.maximum(x, np.float32(0.0)),
    "tanh": np.tanh,
    "linear": lambda x: x,
}


class Affine(tf.keras.layers.Layer):  # type: ignore[misc]
    """``(x - shift) / scale``, or the inverse ``x * scale + shift``; set by statistics, not trained by gradients.

    Args:
        limit: limit of the result's absolute value; the inverse has none.
    """

    def __init__(self, inverse: bool = False, limit: float = 10.0, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._inverse, self._limit = inverse, limit

    def build(self, shape: Any) -> None:
        """Creates the two vectors with the length of the last dimension."""
        self.shift = self.add_weight("shift", shape[-1:], initializer="zeros", trainable=False)
        self.scale = self.add_weight("scale", shape[-1:], initializer="ones", trainable=False)
        super().build(shape)

    def call(self, inputs: Any) -> Any:
        """Maps a batch of vectors."""
        if self._inverse:
            return inputs * self.scale + self.shift
        return tf.clip_by_value((inputs - self.shift) / self.scale, -self._limit, self._limit)

    def set_moments(self, mean: NDArray[Any], deviation: NDArray[Any]) -> None:
        """Sets the two vectors."""
        self.shift.assign(np.asarray(mean, np.float32))
        self.scale.assign(np.asarray(deviation, np.float32))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments."""
        return {**super().get_config(), "inverse": self._inverse, "limit": self._limit}


class NumpyNetwork:
    """A sequence of dense and affine layers in NumPy; pickles to their arrays.

    Args:
        layers: pairs of a kind and its arrays or numbers; ``of`` creates them.
    """

    def __init__(self, layers: Sequence[tuple[Any, ...]]) -> None:
        self.layers = list(layers)

    @classmethod
    def of(cls, layers: Sequence[Any]) -> NumpyNetwork:
        """Copies Keras layers.

        Args:
            layers: each an ``Affine`` or a ``Dense`` with the activation ``relu``, ``tanh`` or none.

        Raises:
            TypeError: a layer of another kind.
        """
        copied: list[tuple[Any, ...]] = []
        for layer in layers:
            if isinstance(layer, Affine):
                kind = "inverse" if layer.get_config()["inverse"] else "normalise"
                copied.append((kind, layer.shift.numpy(), layer.scale.numpy(), layer.get_config()["limit"]))
            elif isinstance(layer, tf.keras.layers.Dense):
                kernel, bias = (weights.numpy() for weights in layer.weights)
                copied.append((tf.keras.activations.serialize(layer.activation), kernel, bias))
            else:
                raise TypeError(f"a {type(layer).__name__} layer has no copy in NumPy")
        return cls(copied)

    def __call__(self, inputs: NDArray[Any]) -> Floats:
        """Maps a batch of vectors, float32, shape (n, inputs), to (n, outputs)."""
        values = np.asarray(inputs, np.float32)
        for kind, first, second, *limit in self.layers:
            if kind == "normalise":
                values = np.clip((values - first) / second, -limit[0], limit[0])
            elif kind == "inverse":
                values = values * second + first
            else:
                values = _ACTIVATIONS[kind](values @ first + second)
        return values


class Moments:
    """Mean and deviation of all observations so far, by the parallel update of Chan et al. 1979.

    Args:
        least: added to each deviation: nearly constant components must not be amplified.
    """

    def __init__(self, size: int, least: float = 1e-2) -> None:
        self.count = 0.0
        self.mean: NDArray[np.float64] = np.zeros(size)
        self.squares: NDArray[np.float64] = np.zeros(size)
        self._least = least

    def add(self, observations: NDArray[Any]) -> None:
        """Adds a batch, shape (n, size)."""
        values = np.asarray(observations, np.float64)
        count, mean = len(values), values.mean(axis=0)
        away, total = mean - self.mean, self.count + count
        self.squares = self.squares + values.var(axis=0) * count + away**2 * self.count * count / total
        self.mean = self.mean + away * count / total
        self.count = total

    @property
    def deviation(self) -> NDArray[np.float64]:
        """Standard deviation plus ``least``."""
        deviation: NDArray[np.float64] = np.sqrt(self.squares / max(self.count, 1.0)) + self._least
        return deviation

    def state(self) -> dict[str, Any]:
        """Returns the state."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a state that ``state`` returned."""
        self.count, self.mean, self.squares = state["count"], state["mean"], state["squares"]
