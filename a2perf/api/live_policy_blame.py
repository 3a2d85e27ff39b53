"""Finds the part of a policy that cannot be pickled: its path, its type, and what to do about it."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from a2perf.api import live_policy_pickle
from a2perf.errors import UserError

_MOST_TRIES = 2_000
_MOST_ITEMS = 200
_MOST_TEXT = 300


def unpicklable(policy: Any, error: Exception) -> UserError:
    """Returns the error for a policy that cannot be pickled.

    Args:
        policy: the policy.
        error: what pickling it raised.
    """
    place = _culprit(policy)
    kind = type(place.value)
    reason = " ".join(str(error).split())[:_MOST_TEXT]
    if place.value is policy:
        return UserError(
            f"the policy is a {_name(kind)}, which cannot be pickled: {type(error).__name__}: {reason}",
            hint="give a2perf.evaluate a function of one observation, or a submission folder",
        )
    what = f"{place.path} is a {_name(kind)}, which cannot be pickled"
    plain = kind.__module__.partition(".")[0] in ("_thread", "threading", "_io", "socket", "builtins", "select")
    return UserError(
        f"the policy cannot be sent to its process: {what}" + ("" if plain else f" ({reason})"),
        hint=place.hint,
    )


class _Place(NamedTuple):
    """A part of the policy with the path that leads to it."""

    value: Any
    path: str
    hint: str


def _culprit(policy: Any) -> _Place:
    """Follows, from the policy down, the first part that cannot be pickled, and returns the innermost one."""
    seen: dict[int, Any] = {}  # keeps the values: an id must not be used again

    def fails(value: Any) -> bool:
        if id(value) in seen or len(seen) >= _MOST_TRIES:
            return False
        seen[id(value)] = value
        try:
            live_policy_pickle.pickled(value)
        except Exception:
            return True
        return False

    found = _Place(policy, "policy", "")
    while (inner := next((part for part in _parts(found) if fails(part.value)), None)) is not None:
        found = inner
    return found


def _parts(place: _Place) -> Iterator[_Place]:
    value, path = place.value, place.path
    if isinstance(value, types.FunctionType):
        yield from _of_function(value, path)
    elif isinstance(value, types.MethodType):
        at, hint = "policy" if path == "policy" else f"{path}.__self__", "give a function instead of a method"
        yield _Place(value.__self__, at, hint)
        yield _Place(value.__func__, f"{path}.{value.__name__}", hint)
    elif isinstance(value, functools.partial):
        hint = "leave it out of functools.partial, and create it inside the function on first use"
        yield _Place(value.func, f"{path}.func", hint)
        for index, item in enumerate(value.args):
            yield _Place(item, f"{path}.args[{index}]", hint)
        for name, item in value.keywords.items():
            yield _Place(item, f"{path}.keywords[{name!r}]", hint)
    elif isinstance(value, Mapping):
        with contextlib.suppress(Exception):  # a mapping of a stranger's class may fail in any way
            for key, item in list(value.items())[:_MOST_ITEMS]:
                yield _Place(item, f"{path}[{key!r:.40}]", place.hint or "remove it from the dictionary")
    elif isinstance(value, list | tuple | set | frozenset):
        for index, item in enumerate(list(value)[:_MOST_ITEMS]):
            yield _Place(item, f"{path}[{index}]", place.hint or "remove it from the list")
    elif isinstance(value, types.ModuleType):
        for name, item in list(vars(value).items()):
            if not name.startswith("__"):
                yield _Place(item, f"{path}.{name}", f"create it inside a function of {value.__name__} on first use")
    elif isinstance(value, type):
        for name, item in list(vars(value).items()):
            if name not in ("__dict__", "__weakref__"):
                plain = item.__func__ if isinstance(item, staticmethod | classmethod) else item
                yield _Place(plain, f"{path}.{name}", f"create it in the methods of {value.__name__} on first use")
    else:
        yield from _of_object(value, path)


def _of_function(function: types.FunctionType, path: str) -> Iterator[_Place]:
    own = "policy" if function.__name__ == "<lambda>" else function.__name__
    here = own if path == "policy" else path
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # the cell is empty
            yield _Place(cell.cell_contents, name, f"create {name!r} inside {own} on first use")
    for name in function.__code__.co_names:
        if name in function.__globals__:
            hint = f"create {name!r} inside {own} on first use"
            yield _Place(function.__globals__[name], name, hint)
    for index, item in enumerate(function.__defaults__ or ()):
        yield _Place(item, f"{here}.__defaults__[{index}]", f"remove it from the defaults of {own}")
    for name, item in (function.__kwdefaults__ or {}).items():
        yield _Place(item, f"{here}.__kwdefaults__[{name!r}]", f"remove it from the defaults of {own}")


def _of_object(value: Any, path: str) -> Iterator[_Place]:
    kind = type(value)
    state: dict[str, Any] = {}
    slots = [vars(base).get("__slots__", ()) for base in kind.__mro__]
    for name in (name for names in slots for name in ([names] if isinstance(names, str) else names)):
        with contextlib.suppress(Exception):  # an empty slot
            state[name] = getattr(value, name)
    with contextlib.suppress(Exception):
        state |= vars(value)
    for name, item in list(state.items()):
        hint = f"create it on first use, or define __getstate__ in {_name(kind)} that leaves {name!r} out"
        yield _Place(item, f"{path}.{name}", hint)
    yield _Place(kind, kind.__name__, "")


def _name(kind: type) -> str:
    return kind.__qualname__.rpartition(".")[2] if kind.__module__ in ("builtins", "__main__") else (
        f"{kind.__module__}.{kind.__qualname__.rpartition('.')[2]}"
    )  # fmt: skip
