"""Records the episodes that a script plays while it trains, whatever it counts itself.

Environments made by ``gymnasium.make`` (or ``gym.make``) are counted where they are made, without a wrapper around
them: only their ``step`` and ``reset`` are replaced on the instance, so that types, specs and attributes stay what the
script expects. ``RecordEpisodeStatistics`` and Stable-Baselines3's ``Monitor`` are listened to where nothing was
counted, since vector environments can live in other processes.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from a2perf.rlops.script_wrapper.import_hooks import after_import

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from a2perf.rlops.script_wrapper.live_values import LiveValues

SMOOTHING = 0.9
"""Weight of the past in ``smoothed_returns``."""


class Episodes:
    """Takes the ends of episodes and logs them.

    Attributes:
        count: episodes so far.
        steps: environment steps of the training so far, over all counted environments.
        source: who counts: ``""`` until an episode has ended.
    """

    def __init__(self, values: LiveValues) -> None:
        self._values = values
        self._smoothed: float | None = None
        self.count = 0
        self.steps = 0
        self.source = ""

    def ended(self, source: str, total: float, length: int, *, at: int | None = None) -> None:
        """Logs one episode of the training.

        Args:
            source: who counted it; the first source to report is the only one that counts.
            total: sum of its rewards.
            length: its number of steps.
            at: environment steps so far; the sum of the lengths unless given.
        """
        if not self._values.training or source != (self.source or source):
            return
        self.source = source
        self.count += 1
        self.steps = at if at is not None else self.steps + length
        past = total if self._smoothed is None else self._smoothed
        self._smoothed = SMOOTHING * past + (1.0 - SMOOTHING) * total
        for tag, value in (
            ("charts/episodic_return", total),
            ("charts/episodic_length", length),
            ("smoothed_returns", self._smoothed),
        ):
            self._values.log(tag, value, self.steps)


def listen(episodes: Episodes) -> None:
    """Counts the episodes of every environment that is made from now on, in either gym."""
    for package in ("gymnasium", "gym"):
        after_import(f"{package}.envs.registration", functools.partial(_patch_make, episodes, package))
    after_import("gymnasium.wrappers.vector.common", functools.partial(_patch_statistics, episodes))
    after_import("stable_baselines3.common.monitor", functools.partial(_patch_monitor, episodes))


class _Counted:
    """Stands in for ``step`` and ``reset`` of one environment; can be pickled with it."""

    def __init__(self, env: Any, episodes: Episodes | None, *, is_reset: bool) -> None:
        self.env = env
        self.episodes = episodes
        self.is_reset = is_reset

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.is_reset:
            self.env.__dict__["_a2perf_episode"] = [0.0, 0]
            return type(self.env).reset(self.env, *args, **kwargs)
        result = type(self.env).step(self.env, *args, **kwargs)
        if self.episodes is not None:
            running = self.env.__dict__.setdefault("_a2perf_episode", [0.0, 0])
            running[0] += float(np.sum(result[1]))
            running[1] += 1
            if any(bool(flag) for flag in result[2:-1]):
                self.episodes.ended("environment", running[0], running[1])
                self.env.__dict__["_a2perf_episode"] = [0.0, 0]
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return (_uncounted, (self.env, self.is_reset))  # a copy in another process has nowhere to report to


def _uncounted(env: Any, is_reset: bool) -> _Counted:
    return _Counted(env, None, is_reset=is_reset)


def count(env: Any, episodes: Episodes) -> Any:
    """Counts the episodes of an environment from now on and returns it; what cannot be counted stays as it is."""
    try:
        env.step = _Counted(env, episodes, is_reset=False)
        env.reset = _Counted(env, episodes, is_reset=True)
    except AttributeError:  # an environment with slots
        pass
    return env


def _patch_make(episodes: Episodes, package: str, registration: ModuleType) -> None:
    make: Callable[..., Any] = registration.make

    @functools.wraps(make)
    def counted_make(*args: Any, **kwargs: Any) -> Any:
        return count(make(*args, **kwargs), episodes)

    registration.make = counted_make  # type: ignore[attr-defined]

    def publish(top: ModuleType) -> None:
        if getattr(top, "make", None) is make:
            top.make = counted_make  # type: ignore[attr-defined]

    # the package binds the name when its own import goes on
    for name in (package, f"{package}.envs"):
        after_import(name, publish)


def _patch_statistics(episodes: Episodes, module: ModuleType) -> None:
    wrapper = getattr(module, "RecordEpisodeStatistics", None)
    if wrapper is None:
        return
    step = wrapper.step

    @functools.wraps(step)
    def listening(self: Any, actions: Any) -> Any:
        result = step(self, actions)
        told = result[-1].get("episode") if isinstance(result[-1], dict) else None
        if told is not None:
            returns, lengths = np.atleast_1d(told["r"]), np.atleast_1d(told["l"])
            ended = np.atleast_1d(result[-1].get("_episode", np.ones(len(returns), bool)))
            for total, length in zip(returns[ended], lengths[ended], strict=True):
                episodes.ended("RecordEpisodeStatistics", float(total), int(length))
        return result

    wrapper.step = listening


def _patch_monitor(episodes: Episodes, module: ModuleType) -> None:
    monitor = module.Monitor
    step = monitor.step

    @functools.wraps(step)
    def listening(self: Any, action: Any) -> Any:
        result = step(self, action)
        told = result[-1].get("episode")
        if told is not None:
            episodes.ended("Monitor", float(told["r"]), int(told["l"]))
        return result

    monitor.step = listening
