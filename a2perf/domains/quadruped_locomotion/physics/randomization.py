"""Dynamics randomisation: at the end of every training reset the robot's body and motors are drawn again.

Each parameter is drawn in [-1, 1] and mapped affinely to its range, in alphabetical order of the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from a2perf.domains.arguments import refuse_unknown
from a2perf.domains.quadruped_locomotion.physics.backends import PhysicsBackend
from a2perf.domains.quadruped_locomotion.physics.robot import (
    CHASSIS_GROUP,
    FOOT_LINKS,
    LEG_GROUP,
    LOWER_LEG_LINKS,
    FloatArray,
)
from a2perf.domains.quadruped_locomotion.sensors import DEFAULT_LATENCY
from a2perf.errors import ConfigError


@dataclass(frozen=True)
class Parameter:
    """A randomised parameter: number of draws and the range that [-1, 1] maps to."""

    draws: int
    low: float
    high: float


# battery (V) and motor_friction (N m) have no effect on this robot. They are drawn to keep the random numbers of the
# earlier implementation in sequence.
PARAMETERS: Mapping[str, Parameter] = {
    "battery": Parameter(1, 14.0, 16.8),
    "inertia": Parameter(2, 0.5, 1.5),  # chassis, legs; times nominal
    "joint_friction": Parameter(8, 0.0, 0.05),  # N m, of the foot links; toes are fixed, so only the knees react
    "latency": Parameter(1, 0.0, 0.04),  # s
    "lateral_friction": Parameter(1, 0.5, 1.25),  # of the foot links
    "mass": Parameter(2, 0.8, 1.2),  # chassis, legs; times nominal
    "motor_friction": Parameter(1, 0.0, 0.05),
    "motor_strength": Parameter(12, 0.8, 1.2),  # torque multipliers
}


NominalDynamics = Mapping[int, tuple[float, FloatArray, float]]
"""Masses (kg), principal inertias (kg m^2) and frictions of all links as loaded, by link index (-1: the chassis)."""


def nominal_dynamics(physics: PhysicsBackend) -> NominalDynamics:
    """Reads the dynamics of a backend that was just built."""
    return {link: physics.get_dynamics(link) for link in (*CHASSIS_GROUP, *LEG_GROUP)}


def draw(generator: np.random.Generator | np.random.RandomState) -> dict[str, FloatArray]:
    """Draws every parameter in [-1, 1], in alphabetical order."""
    return {
        name: np.asarray(generator.uniform(-1.0, 1.0, size=PARAMETERS[name].draws), dtype=np.float64)
        for name in sorted(PARAMETERS)
    }


def checked(given: Mapping[str, Any]) -> dict[str, FloatArray]:
    """Checks parameters in [-1, 1] that a caller gives; a single number stands for all draws of its parameter.

    Raises:
        ConfigError: an unknown name, a wrong number of values or a value outside [-1, 1].
    """
    refuse_unknown(given, tuple(PARAMETERS), "a parameter of the dynamics for randomize")
    values: dict[str, FloatArray] = {}
    for name, value in given.items():
        draws = PARAMETERS[name].draws
        try:
            array = np.asarray(value, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"randomize: {name} must be numbers, got {value!r}") from error
        if array.size == 1:
            array = np.full(draws, array[0])
        if array.size != draws:
            raise ConfigError(f"randomize: {name} takes {draws} values (or one for all), got {array.size}")
        if not (np.abs(array) <= 1.0).all():
            raise ConfigError(f"randomize: {name} must lie in [-1, 1], got {value!r}")
        values[name] = array
    return values


def scaled(values: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Maps parameters from [-1, 1] to their ranges (units as in ``PARAMETERS``)."""
    result = {}
    for name, value in values.items():
        parameter = PARAMETERS[name]
        result[name] = parameter.low + 0.5 * (value + 1.0) * (parameter.high - parameter.low)
    return result


def apply(
    physics: PhysicsBackend, nominal: NominalDynamics, parameters: Mapping[str, FloatArray], *, inertia_from_shape: bool
) -> tuple[float, FloatArray]:
    """Applies scaled parameters to a physics backend; one that is not given takes its nominal value.

    Args:
        inertia_from_shape: let the engine derive the inertia of a changed mass from the collision shape, which makes
            the inertia parameter void (the behaviour of the earlier implementation).

    Returns:
        The latency (s) and the torque multipliers, shape (12,), which are the controller's to keep.
    """
    mass_ratio = parameters.get("mass", np.ones(2))
    inertia_ratio = parameters.get("inertia", np.ones(2))
    for group, links in enumerate((CHASSIS_GROUP, LEG_GROUP)):
        for link in links:
            mass, inertia, _ = nominal[link]
            physics.set_dynamics(
                link,
                mass=mass * float(mass_ratio[group]),
                inertia=None if inertia_from_shape else inertia * inertia_ratio[group],
                friction=None,
            )
    for number, link in enumerate(FOOT_LINKS):
        friction = parameters.get("lateral_friction")
        value = nominal[link][2] if friction is None else float(friction[0])
        physics.set_dynamics(link, mass=None, inertia=None, friction=value)
        if link in LOWER_LEG_LINKS and "joint_friction" in parameters:
            physics.set_joint_friction(link, float(parameters["joint_friction"][number]))
    latency = parameters.get("latency")
    strength = parameters.get("motor_strength", np.ones(12))
    return (DEFAULT_LATENCY if latency is None else float(latency[0])), np.array(strength)
