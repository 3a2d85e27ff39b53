"""The trained actor in NumPy: a perceptron on normalised observations, and the meaning of its actions."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import ConfigError
from a2perf_baselines.quadruped_locomotion.residual_control import ResidualControl

FILE = "actor.npz"
BOUND = 5.0  # of normalised observations


class Actor:
    """Mean actions of a trained policy.

    Args:
        mean, deviation: of the observations that the policy saw in training, float32, shape (n,).
        layers: weights, shape (inputs, outputs), and biases; all but the last are followed by ELU.
        control: meaning of observations and actions.
    """

    def __init__(
        self,
        mean: NDArray[np.float32],
        deviation: NDArray[np.float32],
        layers: list[tuple[NDArray[np.float32], NDArray[np.float32]]],
        control: ResidualControl,
    ) -> None:
        self.mean, self.deviation, self.layers, self.control = mean, deviation, layers, control

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """Returns the environment's actions (rad, shape (12,) or (n, 12)) for observations (160,) or (n, 160)."""
        if observations.ndim == 2:
            return np.array([self(row) for row in observations])
        action = self.mean_action(self.control.observe(observations))
        return self.control.environment_action(action, self.control.reference(observations))

    def mean_action(self, seen: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the policy's own action for what it sees (``ResidualControl.observe``), of any leading shape."""
        hidden = np.clip((seen - self.mean) / self.deviation, -BOUND, BOUND)
        for weights, bias in self.layers[:-1]:
            hidden = hidden @ weights + bias
            hidden = np.where(hidden > 0.0, hidden, np.expm1(np.minimum(hidden, 0.0)))
        weights, bias = self.layers[-1]
        action: NDArray[np.float32] = hidden @ weights + bias
        return action

    def save(self, path: Path) -> None:
        """Writes everything to one file."""
        arrays = {"mean": self.mean, "deviation": self.deviation, "control": np.array(json.dumps(asdict(self.control)))}
        for number, (weights, bias) in enumerate(self.layers):
            arrays |= {f"weights_{number}": weights, f"bias_{number}": bias}
        with path.open("wb") as stream:
            np.savez_compressed(stream, **arrays)

    @classmethod
    def load(cls, path: Path) -> Actor:
        """Reads what ``save`` wrote.

        Raises:
            ConfigError: the file is missing or is not an actor.
        """
        try:
            with np.load(path) as found:
                count = sum(name.startswith("weights_") for name in found.files)
                layers = [(found[f"weights_{number}"], found[f"bias_{number}"]) for number in range(count)]
                control = ResidualControl(**json.loads(str(found["control"])))
                return cls(found["mean"], found["deviation"], layers, control)
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise ConfigError(
                f"{path} cannot be read as an actor: {error}", hint="train first: examples/mujoco_ppo/train.py"
            ) from error
