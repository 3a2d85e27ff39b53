"""Argument checks shared by all domains: names, choices, numbers, and defaults from gin.

Every error gives what was given, the nearest valid name, and how to fix it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gin
import numpy as np

from a2perf.errors import ConfigError, UserError, did_you_mean

RENDER_MODES = ("human", "rgb_array")


class EpisodeOverError(UserError, RuntimeError):
    """A step before a reset or after the end of an episode, or any call of a closed environment."""


def refuse_unknown(
    given: Iterable[Any],
    valid: Sequence[str],
    kind: str,
    *,
    hint: str | None = None,
    error: type[ConfigError] = ConfigError,
) -> None:
    """Refuses names that are not among the valid ones.

    Args:
        kind: what a valid name is, ``"an option of reset"``.

    Raises:
        ConfigError: there is such a name; the message gives the nearest valid one.
    """
    for name in given:
        if name not in valid:
            hint = hint or f"choose one of: {', '.join(valid)}"
            raise error(f"{name!r} is not {kind}{did_you_mean(str(name), valid)}", hint=hint)


def argument_names(method: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the names of the arguments of a method that it declares, in their order, without ``self``."""
    return method.__code__.co_varnames[1 : method.__code__.co_argcount]


def one_of(name: str, given: Any, valid: Sequence[str], *, error: type[ConfigError] = ConfigError) -> None:
    """Refuses a value that is not among the valid ones.

    Raises:
        ConfigError: it is not.
    """
    if given not in valid:
        raise error(f"{name} is {given!r}{did_you_mean(str(given), valid)}", hint=f"choose one of: {', '.join(valid)}")


def integer_of_at_least(least: int, name: str, given: Any) -> int:
    """Returns an integer.

    Raises:
        ConfigError: not an integer, or too small.
    """
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < least:
        raise ConfigError(f"{name} is {given!r}", hint=f"give an integer of at least {least}")
    return int(given)


def completed_by_gin(name: str, *, module: str, home: str) -> Callable[..., dict[str, Any]]:
    """Returns a function that adds gin bindings of a name to keyword arguments.

    The environment itself is not gin-configurable, since gin rewrites the errors of what it calls.

    Args:
        home: the Python module that defines what ``name`` stands for.
    """

    def completed(**kwargs: Any) -> dict[str, Any]:
        return kwargs

    completed.__module__ = home
    configurable: Callable[..., dict[str, Any]] = gin.configurable(name, module=module)(completed)
    return configurable
