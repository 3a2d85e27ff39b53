"""Networks that choose among candidates (`a2perf_baselines.candidates`), and the policies of actors with them.

The same small network scores each candidate from its row. An invalid candidate gets a score below all valid ones, so it
is never chosen: neither by greedy nor by epsilon-greedy nor by sampling policies of TF-Agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf_baselines.learning.tf_agents.frameworks import tf

import tensorflow_probability as tfp  # isort: skip
from a2perf_baselines.learning.tf_agents.networks import NumpyNetwork  # isort: skip
from tf_agents.networks import network  # isort: skip

INVALID = -1e8


def split_mask(table: Any) -> tuple[Any, Any]:
    """Splits a table, or its spec, into rows and their validity: an ``observation_and_action_constraint_splitter``."""
    if isinstance(table, tf.TypeSpec):
        return table, tf.TensorSpec(table.shape[:-1], tf.int32)
    return table, tf.cast(table[..., 0] > 0, tf.int32)


class CandidateNetwork(network.Network):  # type: ignore[misc]
    """Scores candidates: logits or action values.

    Args:
        spec: spec of a table, shape (candidates, features).
    """

    def __init__(self, spec: Any, widths: Sequence[int] = (64, 64), name: str = "CandidateNetwork") -> None:
        super().__init__(input_tensor_spec=spec, state_spec=(), name=name)
        self._widths = tuple(widths)
        self.scorer = [*(tf.keras.layers.Dense(width, "relu") for width in widths), tf.keras.layers.Dense(1)]

    def copy(self, **changed: Any) -> CandidateNetwork:
        """Returns a network of the same shape with separate weights."""
        return CandidateNetwork(
            **{"spec": self.input_tensor_spec, "widths": self._widths, "name": self.name, **changed}
        )

    def call(self, observation: Any, step_type: Any = None, network_state: Any = (), training: bool = False) -> Any:
        """Returns the scores, shape (..., candidates), ``INVALID`` for invalid candidates."""
        del step_type, training
        valid = observation[..., 0] > 0
        values = tf.cast(tf.boolean_mask(observation[..., 1:], valid), tf.float32)  # compute only valid rows
        for layer in self.scorer:
            values = layer(values)
        scores = tf.fill(tf.shape(valid), INVALID)
        scores = tf.tensor_scatter_nd_update(scores, tf.where(valid), values[:, 0])
        # without a valid candidate, as after the last step, all get the same score
        return tf.where(tf.reduce_any(valid, axis=-1, keepdims=True), scores, tf.zeros_like(scores)), network_state


class CandidateDistributionNetwork(network.Network):  # type: ignore[misc]
    """A categorical distribution over candidates; invalid ones have probability zero."""

    def __init__(self, spec: Any, scores: CandidateNetwork, name: str = "CandidateDistribution") -> None:
        super().__init__(input_tensor_spec=spec, state_spec=(), name=name)
        self.scores = scores

    def call(self, observation: Any, step_type: Any = None, network_state: Any = (), training: bool = False) -> Any:
        """Returns the distribution."""
        logits, network_state = self.scores(observation, step_type, network_state, training=training)
        return tfp.distributions.Categorical(logits=logits, dtype=tf.int64), network_state


class CandidateValueNetwork(network.Network):  # type: ignore[misc]
    """The value of a state: features of the valid candidates, their mean and maximum, and a layer on top.

    Args:
        width: of both layers.
    """

    def __init__(self, spec: Any, width: int = 64, name: str = "CandidateValue") -> None:
        super().__init__(input_tensor_spec=spec, state_spec=(), name=name)
        dense = tf.keras.layers.Dense
        self.rows, self.hidden, self.last = dense(width, "relu"), dense(width, "relu"), dense(1)

    def call(self, observation: Any, step_type: Any = None, network_state: Any = (), training: bool = False) -> Any:
        """Returns the values, shape of the batch."""
        del step_type, training
        valid = tf.cast(observation[..., 0] > 0, tf.float32)[..., None]
        rows = self.rows(tf.cast(observation[..., 1:], tf.float32)) * valid
        mean = tf.reduce_sum(rows, axis=-2) / tf.maximum(tf.reduce_sum(valid, axis=-2), 1.0)
        pooled = tf.concat([mean, tf.reduce_max(rows, axis=-2)], axis=-1)
        return tf.squeeze(self.last(self.hidden(pooled)), -1), network_state


class Chooser:
    """Chooses rows of tables in NumPy: the best one, a random valid one with probability epsilon, or a sampled one."""

    def __init__(self, scorer: NumpyNetwork, epsilon: float = 0.0, *, draw: bool = False) -> None:
        self._scorer, self._epsilon, self._draw = scorer, epsilon, draw

    @classmethod
    def of(cls, scores: CandidateNetwork, epsilon: float = 0.0, *, draw: bool = False) -> Chooser:
        """Copies a network."""
        return cls(NumpyNetwork.of(scores.scorer), epsilon, draw=draw)

    def scores(self, table: NDArray[Any]) -> NDArray[np.float32]:
        """Returns the score of each row of one table, ``INVALID`` for invalid rows."""
        valid = table[:, 0] > 0
        scores = np.full(len(table), INVALID, np.float32)
        if valid.any():
            scores[valid] = self._scorer(table[valid, 1:])[:, 0]
        else:
            scores[:] = 0.0
        return scores

    def best(self, table: NDArray[Any]) -> int:
        """Returns the best row of one table."""
        return int(self.scores(table).argmax())

    def __call__(
        self, observations: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Chooses a row of each table of a batch."""
        chosen = np.zeros(len(observations), np.int64)
        for number, table in enumerate(observations):
            if self._epsilon and rng.random() < self._epsilon:
                valid = np.flatnonzero(table[:, 0] > 0)
                chosen[number] = rng.choice(valid) if len(valid) else 0
                continue
            scores = self.scores(table)
            if self._draw:
                # Gumbel-max trick: the argmax of logits plus Gumbel noise is a sample from the softmax
                scores = scores + rng.gumbel(size=len(scores)).astype(np.float32)
            chosen[number] = scores.argmax()
        return chosen, {}
