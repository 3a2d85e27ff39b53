"""The returns of a policy in a fixed set of episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from a2perf.errors import UserError


def evaluate(act: Callable[[Any], Any], env: gymnasium.Env[Any, Any], seeds: Sequence[int]) -> NDArray[np.float64]:
    """Runs one episode per seed.

    Returns:
        The returns, shape ``(len(seeds),)``.
    """
    returns = np.zeros(len(seeds))
    for number, seed in enumerate(seeds):
        observation, _ = env.reset(seed=int(seed))
        over = False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            returns[number] += float(reward)
            over = terminated or truncated
    return returns


def evaluate_vector(
    act: Callable[[Any], Any], envs: gymnasium.vector.VectorEnv[Any, Any, Any], seeds: Sequence[int]
) -> NDArray[np.float64]:
    """Runs one episode per seed, in batches of one episode per member.

    Args:
        act: maps a batch of observations to a batch of actions.
        envs: the members, with autoreset mode ``DISABLED`` or ``SAME_STEP``; what members do that are done with their
            batch does not count. Reset them before another use.

    Returns:
        The returns, shape ``(len(seeds),)``.

    Raises:
        UserError: the members have another mode: a step of a member would only reset it.
    """
    mode = (envs.metadata or {}).get("autoreset_mode")
    disabled, same_step = gymnasium.vector.AutoresetMode.DISABLED, gymnasium.vector.AutoresetMode.SAME_STEP
    if mode not in (disabled, same_step):
        raise UserError(
            f"members with the autoreset mode {mode} cannot be evaluated together",
            hint="make them with autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED",
        )
    returns = np.zeros(len(seeds))
    reset: Any = envs.reset  # Gymnasium's annotation does not allow a list of seeds
    for start in range(0, len(seeds), envs.num_envs):
        batch = [int(seed) for seed in seeds[start : start + envs.num_envs]]
        padded = batch + [batch[-1]] * (envs.num_envs - len(batch))
        observations, _ = reset(seed=padded)
        over = np.arange(envs.num_envs) >= len(batch)
        while not over.all():
            observations, rewards, terminations, truncations, _ = envs.step(act(observations))
            returns[start : start + len(batch)] += np.where(over, 0.0, rewards)[: len(batch)]
            ended = terminations | truncations
            over |= ended
            if mode is disabled and ended.any() and not over.all():
                observations, _ = envs.reset(options={"reset_mask": ended})
    return returns
