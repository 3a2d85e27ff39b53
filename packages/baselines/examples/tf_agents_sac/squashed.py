"""The networks of soft actor-critic on four legs, and the actors' copy.

What is learnt is a deviation from the reference, 12 numbers in [-1, 1]; the environment's action is the reference plus
``reach`` times that. Observations are normalised in the first layer of every network, by the same moments.
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
from tf_agents.distributions.utils import SquashToSpecNormal  # isort: skip
from tf_agents.networks import network  # isort: skip

Floats = NDArray[np.float32]
LOG_DEVIATIONS = (-5.0, 1.0)


class Actor(network.Network):
    """Returns a squashed normal distribution of deviations for an observation.

    Args:
        observation_spec: of a vector.
        deviation_spec: of deviations.
        normalise: the layer that normalises.
        widths: of the hidden layers.
        log_deviation: logarithm of the standard deviation at the start, before squashing.
    """

    def __init__(
        self, observation_spec: Any, deviation_spec: Any, normalise: Affine, widths: Sequence[int], log_deviation: float
    ) -> None:
        super().__init__(observation_spec, state_spec=(), name="Actor")
        self._spec, self._normalise = deviation_spec, normalise
        size = deviation_spec.shape[0]
        small = tf.keras.initializers.VarianceScaling(1e-2)
        start = tf.constant_initializer(np.repeat([0.0, log_deviation], size))
        self._dense = [tf.keras.layers.Dense(width, "relu") for width in widths]
        self._dense.append(tf.keras.layers.Dense(2 * size, kernel_initializer=small, bias_initializer=start))

    def moments(self, observation: Any) -> tuple[Any, Any]:
        """Returns mean and standard deviation before squashing, for a batch."""
        values = self._normalise(observation)
        for layer in self._dense:
            values = layer(values)
        mean, log_deviation = tf.split(values, 2, axis=-1)
        return mean, tf.exp(tf.clip_by_value(log_deviation, *LOG_DEVIATIONS))

    def call(self, observation: Any, step_type: Any = (), network_state: Any = (), training: bool = False) -> Any:
        """Returns the distribution for a batch."""
        normal = tfp.distributions.MultivariateNormalDiag(*self.moments(observation))
        return SquashToSpecNormal(normal, self._spec), network_state

    def copied(self, prior: Prior, reach: float, *, explore: bool) -> SquashedPolicy:
        """Returns the actors' copy."""
        return SquashedPolicy(NumpyNetwork.of([self._normalise, *self._dense]), prior, reach, explore)


class Critic(network.Network):
    """Returns the value of an observation and a deviation; arguments as those of the actor."""

    def __init__(self, input_spec: Any, normalise: Affine, widths: Sequence[int], name: str = "Critic") -> None:
        super().__init__(input_spec, state_spec=(), name=name)
        self._normalise = normalise
        self._dense = [tf.keras.layers.Dense(width, "relu") for width in widths]
        self._dense.append(tf.keras.layers.Dense(1))

    def call(self, inputs: Any, step_type: Any = (), network_state: Any = (), training: bool = False) -> Any:
        """Returns the values of a batch, shape (n,)."""
        observation, deviation = inputs
        values = tf.concat([self._normalise(observation), deviation], axis=-1)
        for layer in self._dense:
            values = layer(values)
        return tf.squeeze(values, -1), network_state


class Deployed(network.Network):
    """Returns the environment's action: the reference, and the most likely deviation from it."""

    def __init__(self, observation_spec: Any, actor: Actor, prior: Prior, reach: float) -> None:
        super().__init__(observation_spec, state_spec=(), name="Deployed")
        self._actor, self._prior, self._reach = actor, prior, reach

    def call(self, observation: Any, step_type: Any = (), network_state: Any = (), training: bool = False) -> Any:
        """Returns the actions of a batch."""
        mean, _ = self._actor.moments(observation)
        reference = tf.matmul(observation, self._prior.matrix) + self._prior.bias
        return reference + self._reach * tf.tanh(mean), network_state


@dataclass(frozen=True)
class SquashedPolicy:
    """The actors' copy; the deviations that it chose are among what it hands to the learner.

    Attributes:
        learnt: the actor's layers.
        prior: the reference.
        reach: rad of a deviation of 1.
        explore: whether it draws from the distribution.
    """

    learnt: NumpyNetwork
    prior: Prior
    reach: float
    explore: bool

    def __call__(self, observations: NDArray[Any], rng: np.random.Generator) -> tuple[Floats, dict[str, Any]]:
        mean, log_deviation = np.split(self.learnt(observations), 2, axis=-1)
        if self.explore:
            mean = mean + np.exp(np.clip(log_deviation, *LOG_DEVIATIONS)) * rng.standard_normal(mean.shape)
        deviation = np.tanh(mean).astype(np.float32)
        return self.prior(observations) + np.float32(self.reach) * deviation, {"deviation": deviation}


@dataclass(frozen=True)
class RandomPolicy:
    """Uniform deviations from the reference, of at most ``spread``, before anything is learnt."""

    prior: Prior
    reach: float
    spread: float

    def __call__(self, observations: NDArray[Any], rng: np.random.Generator) -> tuple[Floats, dict[str, Any]]:
        size = (len(observations), len(self.prior.bias))
        deviation = rng.uniform(-self.spread, self.spread, size).astype(np.float32)
        return self.prior(observations) + np.float32(self.reach) * deviation, {"deviation": deviation}
