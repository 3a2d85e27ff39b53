"""The networks of a task with continuous actions: a Gaussian around a mean, and a value; and the actors' copy.

The first layer normalises observations with the moments of all data so far. The mean is a fixed linear function of the
observation, the *prior*, plus the learned part; a prior of zeros has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf_baselines.learning.tf_agents.frameworks import tf  # before TF-Agents

import tensorflow_probability as tfp  # isort: skip
from a2perf_baselines.learning.tf_agents.networks import Affine, NumpyNetwork  # isort: skip
from a2perf_baselines.quadruped_locomotion.tf_agents_training import Prior  # isort: skip
from tf_agents.networks import network  # isort: skip

Floats = NDArray[np.float32]


class GaussianActor(network.Network):
    """Returns a normal distribution of actions for an observation.

    Args:
        observation_spec: of a vector.
        normalise: the layer that normalises; shared with the value's network.
        prior: of the mean.
        widths: of the hidden layers.
        log_deviation: logarithm of the standard deviation at the start, the same for each action.
        reach: how far an output of 1 of the last layer is from the prior.
    """

    def __init__(
        self,
        observation_spec: Any,
        normalise: Affine,
        prior: Prior,
        widths: Sequence[int],
        log_deviation: float,
        reach: float,
    ) -> None:
        super().__init__(observation_spec, state_spec=(), name="GaussianActor")
        self._normalise, self._prior, self._reach = normalise, prior, reach
        small = tf.keras.initializers.VarianceScaling(1e-4)  # at the start nothing is added to the prior
        self._dense = [tf.keras.layers.Dense(width, "tanh") for width in widths]
        self._dense.append(tf.keras.layers.Dense(len(prior.bias), kernel_initializer=small))
        start = np.full(len(prior.bias), log_deviation, np.float32)
        self._log_deviation = tf.Variable(start, name="log_deviation")

    def call(self, observation: Any, step_type: Any = (), network_state: Any = (), training: bool = False) -> Any:
        """Returns the distribution for a batch."""
        values = self._normalise(observation)
        for layer in self._dense:
            values = layer(values)
        mean = tf.matmul(observation, self._prior.matrix) + self._prior.bias + self._reach * values
        deviation = tf.exp(self._log_deviation) * tf.ones_like(mean)
        return tfp.distributions.MultivariateNormalDiag(mean, deviation), network_state

    def copied(self, explore: bool, bound: float) -> GaussianPolicy:
        """Returns the actors' copy.

        Args:
            explore: whether it draws from the distribution.
            bound: of actions.
        """
        learnt = NumpyNetwork.of([self._normalise, *self._dense])
        deviation = np.exp(self._log_deviation.numpy()) if explore else None
        return GaussianPolicy(learnt, self._prior, self._reach, deviation, bound)


class Value(network.Network):
    """Returns the value of an observation; arguments as those of the actor."""

    def __init__(self, observation_spec: Any, normalise: Affine, widths: Sequence[int]) -> None:
        super().__init__(observation_spec, state_spec=(), name="Value")
        self._normalise = normalise
        self._dense = [tf.keras.layers.Dense(width, "tanh") for width in widths]
        self._dense.append(tf.keras.layers.Dense(1))

    def call(self, observation: Any, step_type: Any = (), network_state: Any = (), training: bool = False) -> Any:
        """Returns the values of a batch, shape (n,)."""
        values = self._normalise(observation)
        for layer in self._dense:
            values = layer(values)
        return tf.squeeze(values, -1), network_state


@dataclass(frozen=True)
class GaussianPolicy:
    """The actors' copy of the policy; deviation ``None`` is its mean."""

    learnt: NumpyNetwork
    prior: Prior
    reach: float
    deviation: Floats | None
    bound: float

    def __call__(self, observations: NDArray[Any], rng: np.random.Generator) -> tuple[Floats, dict[str, Any]]:
        actions = self.prior(observations) + self.reach * self.learnt(observations)
        if self.deviation is not None:
            actions = actions + self.deviation * rng.standard_normal(actions.shape)
        return np.clip(actions, -self.bound, self.bound).astype(np.float32), {}
