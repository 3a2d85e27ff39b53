"""Checks an answer of the participant against the action space before an environment sees it.

Finite actions are clipped into a box, and the clipped ones are counted. A NaN, an infinity, a wrong shape or a wrong
dtype is refused; the message contains the answer and the space. Whatever a participant answers, a check raises only
``ParticipantFailure`` and allocates no more memory than the answer itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from a2perf.records import FailureKind
from a2perf.submission.evaluator.process.failures import ParticipantFailure, unreadable

_WHERE = "infer_once"
_MAX_SHOWN = 120
_MAX_DEPTH = 32  # numpy supports at least 32 dimensions
_MAX_SEQUENCE = 65_536  # Gymnasium checks each element of a sequence space in Python


class ActionChecker:
    """Turns a participant's answer into an element of one action space."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.clipped = 0
        self._space = space
        self._check = self._checker_of(space)

    def __call__(self, value: Any) -> Any:
        """Returns the action to step with.

        Raises:
            ParticipantFailure: of kind ``bad_output`` if the value is not an action of the space.
        """
        try:
            return self.checked(value)
        except ParticipantFailure as failure:
            if type(value) is tuple and len(value) == 2 and self._accepts(value[0]):  # as SB3's predict returns it
                failure.failure.message += "; the first element of this pair is an action: return only that element"
            raise
        except Exception as error:
            raise unreadable(_WHERE, error) from error

    def _accepts(self, value: Any) -> bool:
        try:
            return self.checked(value) is not None
        except Exception:
            return False

    def checked(self, value: Any) -> Any:
        """Returns the action without converting unexpected exceptions, so fuzz tests can find gaps in the checks."""
        if type(value) is int and type(self._space) is spaces.Discrete:
            return self._check(value)
        with np.errstate(all="ignore"):  # a signaling NaN, or a number too large for the dtype of the space
            return self._check(value)

    def _checker_of(self, space: spaces.Space[Any]) -> Callable[[Any], Any]:
        if isinstance(space, spaces.Box):
            # An open side gets the largest finite number as bound: then one comparison also detects infinities.
            low, high = space.low, space.high
            if space.dtype.kind == "f":
                limit = np.finfo(space.dtype).max
                low, high = np.maximum(low, -limit), np.minimum(high, limit)
            return functools.partial(self._box, space, low, high, space.dtype, space.shape)
        if isinstance(space, spaces.Discrete):
            return functools.partial(self._discrete, space, int(space.start), int(space.start + space.n))
        if isinstance(space, spaces.Dict):
            parts = {name: self._checker_of(part) for name, part in space.spaces.items()}
            return functools.partial(self._dict, space, parts)
        if isinstance(space, spaces.Tuple):
            return functools.partial(self._tuple, space, [self._checker_of(part) for part in space.spaces])
        if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
            return functools.partial(self._integers, space)
        return functools.partial(self._any, space)

    def _box(
        self, space: spaces.Box, low: Any, high: Any, dtype: np.dtype[Any], shape: tuple[int, ...], value: Any
    ) -> Any:
        if type(value) is np.ndarray and value.shape == shape and value.dtype == dtype:
            array = value
        else:
            array = self._numbers(space, value, math.prod(shape))
            if array.shape != shape:
                if array.shape != (1, *shape):  # a batch of one action is accepted
                    raise self._refuse(space, f"an array of shape {array.shape}")
                array = array[0]
            if dtype.kind in "iu" and array.dtype.kind == "f" and np.isfinite(array).all() and (array % 1).any():
                raise self._refuse(space, f"{_shown(array)}, which are not whole numbers")
        # One comparison detects NaN, infinities and numbers out of range, because NaN compares false to everything.
        if ((array >= low) & (array <= high)).all():
            return array if array.dtype == dtype else _cast(array, low, high, dtype)
        if not np.isfinite(array).all():
            bad = "NaN" if np.isnan(array).any() else "an infinite number"
            raise self._refuse(space, f"{bad} in {_shown(array)}")
        self.clipped += 1
        return _cast(array, low, high, dtype)

    def _discrete(self, space: spaces.Discrete, start: int, stop: int, value: Any) -> int:
        if type(value) is not int:
            array = self._numbers(space, value, 1)
            if array.size != 1:
                raise self._refuse(space, f"an array of shape {array.shape}")
            number = array.reshape(()).item()
            whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and float(number).is_integer())
            if not whole:
                raise self._refuse(space, f"{number!r}, which is not a whole number")
            value = int(number)
        if not start <= value < stop:
            raise self._refuse(space, f"{_described(value)}, which is out of range")
        return int(value)

    def _integers(self, space: spaces.MultiDiscrete | spaces.MultiBinary, value: Any) -> Any:
        shape = tuple(space.shape or ())
        array = self._numbers(space, value, math.prod(shape))
        if array.shape == (1, *shape):
            array = array[0]
        fraction = array.dtype.kind == "f" and not (np.isfinite(array) & (array == np.floor(array))).all()
        if array.shape != shape or fraction:
            raise self._refuse(space, f"an array of shape {array.shape} and dtype {array.dtype}")
        cast = array.astype(space.dtype)
        # A cast wraps numbers that do not fit the dtype into its range, so compare them with the original.
        if (cast != array).any() or not space.contains(cast):
            raise self._refuse(space, f"{_shown(array)}, which is out of range")
        return cast

    def _dict(self, space: spaces.Dict, parts: dict[str, Callable[[Any], Any]], value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._refuse(space, _described(value))
        if value.keys() != parts.keys():
            keys = [_shown(key) for key in list(value)[:20]]
            raise self._refuse(space, f"a dict with the keys {sorted(keys)}")
        return {name: check(value[name]) for name, check in parts.items()}

    def _tuple(self, space: spaces.Tuple[Any], parts: list[Callable[[Any], Any]], value: Any) -> tuple[Any, ...]:
        if not isinstance(value, tuple | list) and not (isinstance(value, np.ndarray) and value.ndim):
            raise self._refuse(space, _described(value))
        if len(value) != len(parts):
            raise self._refuse(space, f"a sequence of {len(value)} elements")
        return tuple(check(part) for check, part in zip(parts, value, strict=True))

    def _any(self, space: spaces.Space[Any], value: Any) -> Any:
        if isinstance(value, tuple | list) and len(value) > _MAX_SEQUENCE:
            raise self._refuse(space, _described(value))
        try:
            valid = space.contains(value)
        except Exception:
            valid = False
        if not valid:
            raise self._refuse(space, _described(value))
        return value

    def _numbers(self, space: spaces.Space[Any], value: Any, most: int) -> np.ndarray[Any, np.dtype[Any]]:
        """Returns an answer as an array of numbers; nested sequences may contain ``most`` of them."""
        if isinstance(value, tuple | list) and (wrong := _not_numbers(value, most)):
            raise self._refuse(space, f"{_described(value)} that {wrong}")
        if not isinstance(value, tuple | list | np.ndarray | np.generic | int | float):
            raise self._refuse(space, _described(value))
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise self._refuse(space, f"{_described(value)} that is not an array ({error})") from error
        if array.dtype.kind not in "biuf":
            raise self._refuse(space, f"{_described(value)} of dtype {array.dtype}")
        return array

    def _refuse(self, space: spaces.Space[Any], came: str) -> Exception:
        message = f"the action is {_cut(came, 2 * _MAX_SHOWN)}; expected {_shown(space)}"
        return ParticipantFailure.of(FailureKind.BAD_OUTPUT, _WHERE, message)


def _cast(array: Any, low: Any, high: Any, dtype: np.dtype[Any]) -> Any:
    """Returns finite numbers in the dtype of a box, clipped to its bounds.

    Clipping takes the bounds from the space instead of casting a clipped float: the float nearest to the largest 64-bit
    integer does not fit into one.
    """
    inside = array.astype(dtype)
    return np.where(array >= high, high, np.where(array <= low, low, inside)).astype(dtype, copy=False)


def _not_numbers(value: tuple[Any, ...] | list[Any], most: int) -> str | None:
    """Returns why nested sequences are not at most ``most`` numbers, or ``None``.

    Checked before numpy sees them: numpy pads every string to the longest one, so one long string among many short ones
    would take memory for the product.
    """
    waiting: list[tuple[Any, int]] = [(value, 1)]
    count = 0
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, tuple | list):
            if depth > _MAX_DEPTH:
                return f"has more than {_MAX_DEPTH} dimensions"
            if count + len(item) > max(most, 1):
                return f"contains more than {most} numbers"
            waiting += [(part, depth + 1) for part in item]
        elif isinstance(item, np.ndarray | np.generic) and item.dtype.kind in "biuf":
            count += item.size
        elif isinstance(item, int | float):
            count += 1
        else:
            return f"contains {_described(item)}"
        if count > most:
            return f"contains more than {most} numbers"
    return None


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {_cut(str(value.dtype), _MAX_SHOWN)}"
    if isinstance(value, str | bytes | list | tuple | dict):
        return f"a {type(value).__name__} of length {len(value)}"
    if type(value) is int and value.bit_length() > 128:  # converting it to text takes quadratic time
        return f"an integer of {value.bit_length()} bits"
    return f"{value!r}" if value is None or type(value) in (bool, int, float) else f"a {type(value).__name__}"


def _shown(value: Any) -> str:
    return _cut(" ".join(str(value).split()), _MAX_SHOWN)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
