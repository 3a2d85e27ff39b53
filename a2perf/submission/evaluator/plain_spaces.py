"""Spaces of an environment for the participant, which then need not build the environment to know them.

Gymnasium's own spaces, and those with a method ``fresh()``, are made again from their bounds: an object of the
evaluator's environment could carry the state of its generator, or a way to the environment.
"""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

from gymnasium import spaces

from a2perf.submission.participant.wire import SPACES

_KINDS = (
    spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Dict, spaces.Tuple,
)  # fmt: skip


def pickled_spaces(env: Any) -> dict[str, bytes]:
    """Returns the spaces of an environment by the name of their attribute, without those of other kinds."""
    found: dict[str, bytes] = {}
    for name in SPACES:
        space = getattr(env, name)
        with contextlib.suppress(TypeError):
            again = _again(space)
            if again == space:
                found[name] = pickle.dumps(again)
    return found


def _again(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Returns a new space with the same elements.

    Raises:
        TypeError: it is of a kind that is not known here.
    """
    if hasattr(space, "fresh"):  # a space of our domains
        again: spaces.Space[Any] = space.fresh()
        return again
    if type(space) not in _KINDS:
        raise TypeError(type(space).__name__)
    if isinstance(space, spaces.Box):
        return spaces.Box(space.low, space.high, dtype=space.dtype.type)
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n), start=int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec, dtype=space.dtype.type, start=space.start)
    if isinstance(space, spaces.MultiBinary):
        return spaces.MultiBinary(space.n)
    if isinstance(space, spaces.Dict):
        return spaces.Dict([(name, _again(part)) for name, part in space.spaces.items()])
    assert isinstance(space, spaces.Tuple)
    return spaces.Tuple([_again(part) for part in space.spaces])
