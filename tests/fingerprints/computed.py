"""Computes the fingerprint of an environment: its spaces and short traces, rounded because processors differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np

from a2perf.domains.registry import register_environments

SEEDS = (0, 1, 2)
STEPS = 200
DIGITS = 3
# Continuous dynamics amplify round-off: later steps would differ between machines.
CONTINUOUS_HORIZON = 20
_MASK_KEYS = ("mask", "action_mask", "valid_actions")


def environment_fingerprint(env_id: str, **kwargs: Any) -> dict[str, Any]:
    """Computes the fingerprint of an id on this machine.

    Args:
        env_id: a registered id.
        **kwargs: given to ``gymnasium.make``.

    Returns:
        ``spaces`` and ``traces`` (one per seed), hashes that tell what differs, and ``sha256`` over all of them.
    """
    register_environments()
    environment = gymnasium.make(env_id, disable_env_checker=True, **kwargs)
    try:
        spaces = _digest([repr(environment.action_space), *_arrays(environment.observation_space)])
        traces = {str(seed): _trace(environment, seed) for seed in SEEDS}
    finally:
        environment.close()
    parts = {"spaces": spaces, "traces": traces}
    return {**parts, "sha256": hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()}


def _trace(environment: Any, seed: int) -> str:
    """Hashes ``STEPS`` steps from a seed."""
    environment.action_space.seed(seed)
    observation, _ = environment.reset(seed=seed)
    parts: list[Any] = list(_arrays(observation))
    continuous = any(isinstance(part, str) and part.startswith("float") for part in _arrays(environment.action_space))
    horizon = CONTINUOUS_HORIZON if continuous else STEPS
    age = 0
    for _ in range(STEPS):
        observation, reward, terminated, truncated, _ = environment.step(_action(environment, observation))
        age += 1
        # Adding 0.0 turns -0.0 into 0.0: the two are equal, but their texts and bytes are not.
        parts += [*_arrays(observation), round(float(reward), DIGITS) + 0.0, bool(terminated), bool(truncated)]
        if terminated or truncated or age >= horizon:
            observation, _ = environment.reset()
            parts += _arrays(observation)
            age = 0
    return _digest(parts)


def _action(environment: Any, observation: Any) -> Any:
    """A random action: valid if the observation has a mask, within a tenth of the range if actions are continuous."""
    space = environment.action_space
    if isinstance(observation, Mapping) and hasattr(space, "n"):
        for key in _MASK_KEYS:
            mask = observation.get(key)
            if mask is not None and np.size(mask) == space.n:
                return space.sample(np.asarray(mask).astype(np.int8))
    action = space.sample()
    return action * 0.1 if isinstance(action, np.ndarray) and action.dtype.kind == "f" else action


def _arrays(value: Any) -> Iterator[Any]:
    """Flattens observations and spaces to rounded arrays and plain values."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield key
            yield from _arrays(value[key])
    elif hasattr(value, "spaces"):
        yield from _arrays(dict(enumerate(value.spaces)) if isinstance(value.spaces, tuple) else dict(value.spaces))
    elif hasattr(value, "low") and hasattr(value, "high"):
        yield from (str(value.dtype), np.round(value.low, DIGITS) + 0.0, np.round(value.high, DIGITS) + 0.0)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield np.round(value.astype(np.float64), DIGITS) + 0.0
    else:
        yield value if isinstance(value, (np.ndarray, str, int, float, bool)) else repr(value)


def _digest(parts: list[Any]) -> str:
    state = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            state.update(f"{part.dtype}{part.shape}".encode())
            state.update(np.ascontiguousarray(part).tobytes())
        else:
            state.update(repr(part).encode())
        state.update(b"\n")
    return state.hexdigest()
