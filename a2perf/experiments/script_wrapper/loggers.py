"""Patches the loggers of a script: classes named ``Logger`` with ``log(key, value)``, and that of Stable-Baselines3.

A value is recorded before the logger's method runs, in case that method fails. The call is passed on unchanged; a
patched method never changes a result or an exception.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Collection, Iterable
from types import ModuleType
from typing import Any

from a2perf.experiments.script_wrapper.import_hooks import after_import
from a2perf.experiments.script_wrapper.live_values import LiveValues

STEP_ATTRIBUTE = "num_steps"
_LISTENED = "__a2perf_listened__"
_PLACES = ("cherry.envs", "cherry.wrappers", "cherry.envs.logger_wrapper", "cherry.wrappers.logger_wrapper")
_NOT_RETURNS = frozenset(("logging", "stable_baselines3"))


class Loggers:
    """The loggers that were found."""

    def __init__(self, values: LiveValues) -> None:
        self._values = values
        self._inside = threading.local()
        self.found: list[str] = []

    def listen(self) -> None:
        """Patches the known loggers when the script imports them."""
        for place in _PLACES:
            after_import(place, lambda module: self.look_in(vars(module).values()))
        after_import("stable_baselines3.common.logger", self._stable_baselines)

    def look_in(self, candidates: Iterable[Any]) -> None:
        """Patches every logger class among some objects and modules, including base classes."""
        for candidate in list(candidates):
            if isinstance(candidate, ModuleType):
                candidate = vars(candidate).get("Logger")
            kind = candidate if isinstance(candidate, type) else type(candidate)
            if any(base.__name__ == "Logger" for base in kind.__mro__):
                for base in kind.__mro__:
                    with contextlib.suppress(Exception):  # a class may refuse new attributes
                        self._wrap(base)

    def _wrap(self, kind: type) -> None:
        package = kind.__module__.partition(".")[0]
        log = vars(kind).get("log")
        if package in _NOT_RETURNS or kind is object or _LISTENED in vars(kind):
            return
        if inspect.isfunction(log) and _takes_key_and_value(log):
            setattr(kind, _LISTENED, True)
            kind.log = self._listening(log)  # type: ignore[attr-defined]
            self.found.append(f"{kind.__module__}.{kind.__qualname__}")
        statistics = vars(kind).get("_episodes_stats")
        if inspect.isfunction(statistics):
            setattr(kind, _LISTENED, True)
            kind._episodes_stats = self._counting(statistics)  # type: ignore[attr-defined]

    def _listening(self, log: Any) -> Any:
        @functools.wraps(log)
        def listening(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "log", False) or not self._values.training:  # a subclass calls its base class
                return log(*args, **kwargs)
            with contextlib.suppress(Exception):  # a call other than ``logger.log(key, value)`` is ignored
                given = inspect.signature(log).bind(*args, **kwargs).arguments
                logger, key, value = (given[name] for name in list(inspect.signature(log).parameters)[:3])
                self._values.log(str(key), value, _step_of(logger))
            self._inside.log = True
            try:
                return log(*args, **kwargs)
            finally:
                self._inside.log = False

        return listening

    def _counting(self, statistics: Any) -> Any:
        @functools.wraps(statistics)
        def counting(*args: Any, **kwargs: Any) -> Any:
            result = statistics(*args, **kwargs)
            with contextlib.suppress(Exception):
                self._record_statistics(args[0], result)
            return result

        return counting

    def _record_statistics(self, logger: Any, result: Any) -> None:
        pair = (result.get("episode_rewards"), result.get("episode_lengths")) if isinstance(result, dict) else result
        if not self._values.training or not isinstance(pair, tuple) or len(pair) != 2:
            return
        for tag, numbers in zip(("10_ep_mean_reward", "10_ep_mean_length"), pair, strict=True):
            if numbers is None or isinstance(numbers, Collection):  # an iterator would be consumed
                given = [float(number) for number in (() if numbers is None else numbers)] or [0.0]
                self._values.log(tag, sum(given) / len(given), _step_of(logger))

    def _stable_baselines(self, module: ModuleType) -> None:
        dump = module.Logger.dump
        values = self._values

        @functools.wraps(dump)
        def listening(*args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(Exception):
                given = inspect.signature(dump).bind(*args, **kwargs).arguments
                for key, value in dict(args[0].name_to_value).items():
                    values.log(str(key), value, given.get("step", 0))
            return dump(*args, **kwargs)

        module.Logger.dump = listening
        self.found.append("stable_baselines3.common.logger.Logger")


def _step_of(logger: Any) -> int | None:
    try:
        return int(getattr(logger, STEP_ATTRIBUTE))
    except Exception:  # an attribute of a script may be a property that raises
        return None


def _takes_key_and_value(log: Any) -> bool:
    """Returns whether a method is ``log(self, key, value, ...)`` and not ``log(self, message, color="green")``."""
    parameters = list(inspect.signature(log).parameters.values())[1:3]
    return len(parameters) == 2 and all(
        parameter.kind is parameter.POSITIONAL_OR_KEYWORD and not isinstance(parameter.default, str)
        for parameter in parameters
    )
