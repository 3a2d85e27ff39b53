"""Spaces of an environment as plain values for the participant, which then need not build the environment.

A space is the name of its class and the arguments that make it again; ``LazyEnvironment`` does that. Nothing else of
the evaluator's environment is passed, such as the state of a generator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from gymnasium import spaces

from a2perf.submission.participant.wire import SPACES

_ARGUMENTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    spaces.Box: lambda space: (space.low, space.high, None, space.dtype.name),
    spaces.Discrete: lambda space: (int(space.n), None, int(space.start)),
    spaces.MultiDiscrete: lambda space: (space.nvec, space.dtype.name, None, space.start),
    spaces.MultiBinary: lambda space: (space.n if isinstance(space.n, int) else tuple(space.n),),
    spaces.Dict: lambda space: tuple((name, plain_space(part)) for name, part in space.spaces.items()),
    spaces.Tuple: lambda space: tuple(plain_space(part) for part in space.spaces),
}


def plain_spaces(env: Any) -> dict[str, tuple[str, Any]]:
    """Returns the spaces of an environment by the name of their attribute, without those of other kinds."""
    found = {}
    for name in SPACES:
        with contextlib.suppress(TypeError):
            found[name] = plain_space(getattr(env, name))
    return found


def plain_space(space: spaces.Space[Any]) -> tuple[str, Any]:
    """Returns the class of a space, as ``module:name``, and its arguments.

    Raises:
        TypeError: it is neither one of Gymnasium's kinds of numbers nor has a method ``arguments()``.
    """
    kind = type(space)
    if hasattr(space, "arguments"):  # a space of our domains
        return f"{kind.__module__}:{kind.__name__}", space.arguments()
    if kind not in _ARGUMENTS:
        raise TypeError(kind.__name__)
    return f"gymnasium.spaces:{kind.__name__}", _ARGUMENTS[kind](space)
