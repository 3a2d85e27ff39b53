"""Several robots in one process: a vector environment that steps its members in threads.

The compiled physics loop releases the interpreter lock, so threads run at the same time. Each member is an ordinary
environment; results are those of single environments and of Gymnasium's own vector environments, autoreset included.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate
from numpy.typing import NDArray

from a2perf.domains.quadruped_locomotion.environment import build_imitation_env
from a2perf.errors import ConfigError
from a2perf.system import usable_processors

T = TypeVar("T")
_Step = tuple[Any, float, bool, bool, dict[str, Any], dict[str, Any] | None]


class ThreadedVectorEnv(SyncVectorEnv):
    """Quadruped environments that step in threads.

    Args:
        threads: number of threads; by default one for each processor that this process may use, at most ``num_envs``.

    Raises:
        ConfigError: ``num_envs`` or ``threads`` is not positive.
    """

    def __init__(
        self,
        num_envs: int,
        threads: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        make: Callable[..., Any] = build_imitation_env,
        **kwargs: Any,
    ) -> None:
        if num_envs < 1:
            raise ConfigError(f"num_envs is {num_envs!r}; it must be a positive integer")
        if threads is not None and threads < 1:
            raise ConfigError(f"threads is {threads!r}; it must be a positive integer")
        mode = AutoresetMode(autoreset_mode)
        super().__init__([functools.partial(make, **kwargs)] * num_envs, autoreset_mode=mode)
        available = usable_processors()
        self.threads = min(threads or available, num_envs)
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="quadruped")
        bounds = np.linspace(0, num_envs, self.threads + 1).astype(int)
        self._shares = [range(low, high) for low, high in itertools.pairwise(bounds.tolist())]

    def _each(self, work: Callable[[int], T]) -> list[T]:
        """Does the work for every member, a share of them in each thread; results in the order of the members."""

        def share(members: range) -> list[T]:
            return [work(member) for member in members]

        # The caller takes the first share itself; with one thread, the pool never starts any.
        futures = [self._pool.submit(share, members) for members in self._shares[1:]]
        results = share(self._shares[0])
        for future in futures:
            results += future.result()
        return results

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Resets all members, or those of ``options["reset_mask"]``; seeds as in Gymnasium (``seed + member``)."""
        if options is not None and "reset_mask" in options:
            # Seldom used and quick: left to Gymnasium, which also checks the mask.
            return super().reset(seed=seed, options=dict(options))
        seeds = (
            [None if seed is None else seed + member for member in range(self.num_envs)]
            if not isinstance(seed, list)
            else seed
        )
        if len(seeds) != self.num_envs:
            raise ConfigError(f"{len(seeds)} seeds for {self.num_envs} environments")
        results = self._each(lambda member: self.envs[member].reset(seed=seeds[member], options=options))
        infos: dict[str, Any] = {}
        for member, (observation, info) in enumerate(results):
            self._env_obs[member] = observation
            infos = self._add_info(infos, info, member)
        for flags in (self._terminations, self._truncations, self._autoreset_envs):
            flags[:] = False
        return self._batched(), infos

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Steps every member; a member that ended is reset according to ``autoreset_mode``."""
        if self.autoreset_mode is AutoresetMode.DISABLED and self._autoreset_envs.any():
            raise ConfigError(
                f"members {np.flatnonzero(self._autoreset_envs).tolist()} have ended",
                hint="reset them with reset(options={'reset_mask': ...}) first",
            )
        results = self._each(lambda member: self._advance(member, actions[member]))
        for member, (observation, reward, terminated, truncated, _, _) in enumerate(results):
            self._env_obs[member] = observation
            self._rewards[member] = reward
            self._terminations[member], self._truncations[member] = terminated, truncated
        infos = self._merged([(info, final) for *_, info, final in results])
        self._autoreset_envs = np.logical_or(self._terminations, self._truncations)
        return self._batched(), self._rewards.copy(), self._terminations.copy(), self._truncations.copy(), infos

    def _advance(self, member: int, action: NDArray[Any]) -> _Step:
        env = self.envs[member]
        if self.autoreset_mode is AutoresetMode.NEXT_STEP and self._autoreset_envs[member]:
            observation, info = env.reset()
            return observation, 0.0, False, False, info, None
        observation, reward, terminated, truncated, info = env.step(action)
        final = None
        if self.autoreset_mode is AutoresetMode.SAME_STEP and (terminated or truncated):
            final = {"final_obs": observation, "final_info": info}
            observation, info = env.reset()
        return observation, float(reward), terminated, truncated, info, final

    def _merged(self, infos: list[tuple[dict[str, Any], dict[str, Any] | None]]) -> dict[str, Any]:
        """Merges the members' infos as Gymnasium does, at once where all have the same entries."""
        if all(final is None and info.keys() == infos[0][0].keys() for info, final in infos):
            return _stacked([info for info, _ in infos])
        merged: dict[str, Any] = {}
        for member, (info, final) in enumerate(infos):
            if final is not None:
                merged = self._add_info(merged, final, member)
            merged = self._add_info(merged, info, member)
        return merged

    def _batched(self) -> NDArray[Any]:
        self._observations = concatenate(self.single_observation_space, self._env_obs, self._observations)
        # A copy: the next step writes into the same memory, and callers keep observations.
        batched: NDArray[Any] = np.array(self._observations)
        return batched

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the threads and closes every member."""
        # A member that cannot be made ends the constructor before there is a pool.
        if hasattr(self, "_pool"):
            self._pool.shutdown(wait=True)
        super().close_extras(**kwargs)


def _stacked(infos: list[dict[str, Any]]) -> dict[str, Any]:
    """Stacks infos with the same entries, and adds a mask per entry of the members that have it."""
    stacked: dict[str, Any] = {}
    for key, first in infos[0].items():
        values = [info[key] for info in infos]
        if isinstance(first, dict):
            stacked[key] = _stacked(values)
        else:
            known = isinstance(first, (bool, int, float, np.number, np.ndarray))
            stacked[key] = np.array(values, dtype=None if known else object)
        stacked[f"_{key}"] = np.ones(len(infos), dtype=np.bool_)
    return stacked


def make_mujoco_vector_env(num_envs: int, **kwargs: Any) -> ThreadedVectorEnv:
    """Makes the vector environment of the MuJoCo ids for ``gymnasium.make_vec``."""
    from a2perf.domains.quadruped_locomotion.physics.mujoco_twin import build_mujoco_env

    return ThreadedVectorEnv(num_envs, make=build_mujoco_env, **kwargs)
