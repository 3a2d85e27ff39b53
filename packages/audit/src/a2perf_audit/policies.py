"""Policies that should not win: they ignore the observation, repeat it, or were searched by the reward alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from a2perf.domains.any_environment import ACTION_SEED
from a2perf_audit.episodes import Policy, mask_of, play

MOST_CONSTANTS = 12
MOST_LOOPS = 12
_POPULATION, _ELITE = 24, 5
_MOST_FEATURES = 64


def constants(space: spaces.Space[Any]) -> list[Any]:
    """Returns a coarse set of actions: ends, middle and zero of a box; of a finite space up to a dozen."""
    if isinstance(space, spaces.Discrete):
        count = min(int(space.n), MOST_CONSTANTS)
        return [int(space.start) + round(i * (int(space.n) - 1) / max(1, count - 1)) for i in range(count)]
    if isinstance(space, spaces.Box):
        low, high = np.maximum(space.low, -1e3), np.minimum(space.high, 1e3)
        shares = (0.5, 0.0, 1.0, 0.25, 0.75)
        found = [(low + (high - low) * share).astype(space.dtype) for share in shares]
        zero = np.zeros(space.shape, space.dtype)
        return [*([zero] if space.contains(zero) else []), *found]
    if isinstance(space, spaces.MultiDiscrete):
        return [np.asarray(space.start, space.dtype), (space.start + space.nvec - 1).astype(space.dtype)]
    if isinstance(space, spaces.MultiBinary):
        return [np.zeros(space.shape, space.dtype), np.ones(space.shape, space.dtype)]
    if isinstance(space, spaces.Dict):
        parts = {name: constants(part) for name, part in space.spaces.items()}
        return [{name: found[min(i, len(found) - 1)] for name, found in parts.items()} for i in range(3)]
    if isinstance(space, spaces.Tuple):
        tuples = [constants(part) for part in space.spaces]
        return [tuple(found[min(i, len(found) - 1)] for found in tuples) for i in range(3)]
    space.seed(0)
    return [space.sample() for _ in range(3)]


def trivial(env: Any) -> Iterator[tuple[str, Callable[[int], Policy]]]:
    """Yields the name and maker (by seed) of each policy that should not win."""
    space = env.action_space
    known = constants(space)
    for index, action in enumerate(known):
        yield ("null" if index == 0 else f"always {_shown(action)}"), _loop(action)
    for one, two in itertools.islice(itertools.combinations(known, 2), MOST_LOOPS):
        yield f"loop {_shown(one)}, {_shown(two)}", _loop(one, two)
    yield "repeat the first random action", _repeated(space)
    if isinstance(space, spaces.Discrete):
        for index in range(min(8, len(_numbers(env.observation_space.sample())))):
            yield f"echo number {index} of the observation", _echo(space, index)


def random_policy(env: Any) -> Callable[[int], Policy]:
    """Returns the maker of random policies, the floor of a score."""

    def made(seed: int) -> Policy:
        env.action_space.seed(ACTION_SEED + seed)
        return lambda o, t: env.action_space.sample(mask_of(o, env.action_space))

    return made


def searched(env: Any, cap: int, steps: int, features: Callable[[Any, int], Any], size: int) -> Policy | None:
    """Searches linear policies by the cross-entropy method on the return alone.

    Args:
        steps: budget, in steps of the environment.
        features: maps observation and step to a vector.
        size: its length; longer than 64 it is projected at random.

    Returns:
        The best policy, or None for an action space that is neither a box nor finite.
    """
    space = env.action_space
    if isinstance(space, spaces.Discrete):
        outputs = int(space.n)
    elif isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        outputs = int(np.prod(space.shape))
    else:
        return None
    rng = np.random.default_rng(0)
    projection = rng.normal(size=(size, _MOST_FEATURES)) / np.sqrt(size) if size > _MOST_FEATURES else None
    width = min(size, _MOST_FEATURES) + 1

    def policy_of(weights: Any) -> Policy:
        matrix = weights.reshape(outputs, width)

        def act(observation: Any, step: int) -> Any:
            given = np.asarray(features(observation, step), np.float64)
            given = np.clip(given if projection is None else given @ projection, -1e3, 1e3)
            return _action(space, matrix @ np.append(given, 1.0))

        return act

    mean, spread = np.zeros(outputs * width), np.ones(outputs * width)
    best, best_total, used, generation = mean, -np.inf, 0, 0
    while used < steps:
        scored = []
        for sample in mean + spread * rng.normal(size=(_POPULATION, mean.size)):
            played = play(env, policy_of(sample), 10_000 + generation % 7, cap)
            used += max(1, len(played.rewards))
            scored.append((played.total, sample))
            if used >= 2 * steps:
                break
        scored.sort(key=lambda pair: -pair[0])
        elite = np.array([sample for _, sample in scored[:_ELITE]])
        mean, spread = elite.mean(axis=0), elite.std(axis=0) + 0.3 / (1 + generation)
        if scored[0][0] > best_total:
            best_total, best = scored[0]
        generation += 1
    finals = [(sum(play(env, policy_of(w), 20_000 + s, cap).total for s in range(4)), w) for w in (mean, best)]
    return policy_of(max(finals, key=lambda pair: pair[0])[1])


def observation_features(env: Any) -> tuple[Callable[[Any, int], Any], int] | None:
    """Returns the observation as a vector, and its length; None for spaces without a fixed one."""
    space = env.observation_space
    try:
        size = spaces.flatdim(space)
    except (ValueError, NotImplementedError):
        return None
    return (lambda o, t: spaces.flatten(space, o)), int(size)


def time_features(cap: int) -> tuple[Callable[[Any, int], Any], int]:
    """Returns functions of the step alone: a policy of these sees only time."""
    periods = (2, 3, 5, 8, 13, 21, 34)

    def made(observation: Any, step: int) -> list[float]:
        waves = [f(2 * np.pi * step / period) for period in periods for f in (np.sin, np.cos)]
        first = [float(step == number) for number in range(24)]
        return [step / max(1, min(cap, 100)), *waves, *first]

    return made, 1 + 2 * len(periods) + 24


def shuffled(policy: Policy, seen: list[Any], seed: int) -> Policy:
    """Returns a policy that is shown observations of random other moments."""
    rng = np.random.default_rng(seed)
    return lambda o, t: policy(seen[int(rng.integers(len(seen)))], t)


def _loop(*actions: Any) -> Callable[[int], Policy]:
    return lambda seed: lambda o, t: actions[t % len(actions)]


def _repeated(space: spaces.Space[Any]) -> Callable[[int], Policy]:
    def made(seed: int) -> Policy:
        space.seed(ACTION_SEED + seed)  # with the seed of the episode it would repeat the draws of the environment
        first = space.sample()
        return lambda o, t: first

    return made


def _echo(space: spaces.Discrete, index: int) -> Callable[[int], Policy]:
    def act(observation: Any, step: int) -> int:
        numbers = _numbers(observation)
        value = numbers[index] if index < len(numbers) and np.isfinite(numbers[index]) else 0
        return int(space.start) + round(float(value)) % int(space.n)

    return lambda seed: act


def _numbers(observation: Any) -> Any:
    if isinstance(observation, dict):
        observation = list(observation.values())
    if isinstance(observation, list | tuple):
        parts = [_numbers(part) for part in observation]
        return np.concatenate(parts)[:64] if parts else np.zeros(0)
    array = np.asarray(observation)
    return array.astype(float).reshape(-1)[:64] if array.dtype.kind in "biuf" else np.zeros(0)


def _action(space: spaces.Space[Any], outputs: Any) -> Any:
    if isinstance(space, spaces.Discrete):
        return int(space.start) + int(np.argmax(outputs))
    share = (np.tanh(outputs) + 1) / 2
    if isinstance(space, spaces.Box):
        low, high = np.maximum(space.low, -1e3), np.minimum(space.high, 1e3)
        return (low + (high - low) * share.reshape(space.shape)).astype(space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        chosen = np.minimum((share.reshape(space.shape) * space.nvec).astype(int), space.nvec - 1)
        return (space.start + chosen).astype(space.dtype)
    return (share.reshape(space.shape) > 0.5).astype(space.dtype)


def _shown(action: Any) -> str:
    text = np.array2string(action, precision=2, threshold=6) if isinstance(action, np.ndarray) else str(action)
    return text if len(text) <= 40 else f"{text[:37]}..."
