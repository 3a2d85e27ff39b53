"""Perturbations of the quadruped: sensors that are noisy or late, other friction, other masses.

Dynamics are drawn per episode from the ranges of ``randomization.PARAMETERS``; every parameter that is not perturbed is
nominal. The amplitudes of the noise are those of the Go1 joystick task of MuJoCo Playground (Zakka et al. 2025).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from a2perf.domains.perturbation import SeededWrapper
from a2perf.domains.quadruped_locomotion.physics.randomization import PARAMETERS
from a2perf.domains.quadruped_locomotion.sensors import IMU, MOTOR_ANGLES, STACKED_STEPS

TILT_NOISE, RATE_NOISE, ANGLE_NOISE = 0.05, 0.2, 0.03
"""Largest errors of roll and pitch (rad), of their rates (rad/s), and of motor angles (rad)."""

_AMPLITUDES = ((IMU, np.array([TILT_NOISE] * 2 + [RATE_NOISE] * 2)), (MOTOR_ANGLES, np.full(12, ANGLE_NOISE)))
_MASS, _INERTIA = PARAMETERS["mass"], PARAMETERS["inertia"]
Observation = NDArray[Any]


class NoisySensors(SeededWrapper):
    """Adds uniform noise to the measured angles and rates.

    Each measurement has one error. The stacked blocks of the observation show it in three steps with the same error.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env, "sensor_noise")
        self._errors: list[NDArray[np.float64]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """See ``gymnasium.Env.reset``."""
        observation, info = super().reset(seed=seed, options=options)
        # All stacked steps of the first observation are one measurement.
        self._errors = [np.tile(self._draw(amplitude), STACKED_STEPS) for _, amplitude in _AMPLITUDES]
        return self._measured(observation), info

    def step(self, action: Any) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        """See ``gymnasium.Env.step``."""
        observation, reward, terminated, truncated, info = super().step(action)
        self._errors = [
            np.concatenate([self._draw(amplitude), errors[: -amplitude.size]])
            for (_, amplitude), errors in zip(_AMPLITUDES, self._errors, strict=True)
        ]
        return self._measured(observation), reward, terminated, truncated, info

    def _draw(self, amplitude: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.random.uniform(-amplitude, amplitude)

    def _measured(self, observation: Observation) -> Observation:
        space = self.observation_space
        assert isinstance(space, gymnasium.spaces.Box)
        noisy = observation.astype(np.float64)
        for (block, _), errors in zip(_AMPLITUDES, self._errors, strict=True):
            noisy[block] += errors
        return np.asarray(np.clip(noisy.astype(observation.dtype), space.low, space.high))


class ChangedDynamics(SeededWrapper):
    """Gives each episode dynamics that it draws.

    Args:
        draw: returns parameters in [-1, 1], as the reset option ``randomize`` takes them.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], name: str, draw: Callable[[np.random.Generator], dict[str, Any]]
    ) -> None:
        super().__init__(env, name)
        self._draw = draw

    def begin(self, options: dict[str, Any] | None) -> dict[str, Any]:
        """Draws the dynamics, which replace those of the options."""
        return {**(options or {}), "randomize": self._draw(self.random)}


late_sensors = functools.partial(
    ChangedDynamics, name="sensor_delay", draw=lambda random: {"latency": random.uniform(0.0, 1.0)}
)
"""Delays all measurements by 20 to 40 ms instead of 2 ms."""
other_friction = functools.partial(
    ChangedDynamics, name="friction", draw=lambda random: {"lateral_friction": random.uniform(-1.0, 1.0)}
)
"""Draws the lateral friction of the feet from 0.5 to 1.25."""


def other_masses(env: gymnasium.Env[Any, Any]) -> ChangedDynamics:
    """Scales the masses of chassis and legs by 0.8 to 1.2 each, and their inertias by the same factors."""

    def draw(random: np.random.Generator) -> dict[str, Any]:
        mass = random.uniform(-1.0, 1.0, size=2)
        # Both ranges are centred on the nominal value, so the ratio of their widths gives the inertia equal factors.
        return {"mass": mass, "inertia": mass * (_MASS.high - _MASS.low) / (_INERTIA.high - _INERTIA.low)}

    return ChangedDynamics(env, "mass", draw)
