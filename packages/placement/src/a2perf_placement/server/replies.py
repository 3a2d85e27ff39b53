"""Writes replies: one JSON value without a delimiter, in the form of the earlier program.

Numbers have 16 significant digits, and whole ones no decimal point, as that program printed them. A tuple is
``{"__tuple__": true, "items": [...]}``, also inside a list, but a list inside a tuple.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

OK = b'{"ok": true}'
NULL = b"null"
_MAX_MESSAGE = 1000  # characters; a message repeats what was given
_EXACT = 2.0**53  # up to which a whole double is an integer of the same value


class UnwritableResult(ValueError):
    """A result has no JSON form: it is not finite."""


def failure(message: str) -> bytes:
    """Returns the status of a call that was refused."""
    if len(message) > _MAX_MESSAGE:
        message = message[:_MAX_MESSAGE] + " ..."
    return json.dumps({"ok": False, "message": message}).encode()


def value(result: Any) -> bytes:
    """Returns the JSON of a result.

    Args:
        result: None, a boolean, number, text or array, or lists and tuples of them.

    Raises:
        UnwritableResult: it contains NaN or an infinity.
    """
    return _text(result).encode()


def _text(result: Any) -> str:
    if isinstance(result, tuple):
        return (
            '{"__tuple__": true, "items": '
            + _list([list(one) if isinstance(one, tuple) else one for one in result])
            + "}"
        )
    if isinstance(result, list):
        return _list(result)
    if isinstance(result, np.ndarray):
        return _array(result)
    if isinstance(result, float):
        if not math.isfinite(result):
            raise UnwritableResult(f"the result is {result}")
        return f"{result:.16g}"
    return json.dumps(result)


def _list(results: Sequence[Any]) -> str:
    return "[" + ",".join([_text(one) for one in results]) + "]"


def _array(array: NDArray[Any]) -> str:
    flat = array.reshape(-1)
    if flat.dtype.kind == "f":
        if not np.isfinite(flat).all():
            raise UnwritableResult("the result contains values that are not finite")
        whole = np.trunc(flat)
        if not (np.array_equal(whole, flat) and (np.abs(flat) < _EXACT).all()):
            return "[" + ",".join(["%.16g" % number for number in flat.tolist()]) + "]"  # noqa: UP031  # twice as fast
        flat = whole.astype(np.int64)
    if flat.size and flat.min() >= 0 and flat.max() <= 9:  # masks: without a Python integer per cell
        text = np.full(2 * flat.size + 1, ord(","), np.uint8)
        text[1::2] = flat + ord("0")
        text[0], text[-1] = b"[]"
        return text.tobytes().decode()
    return str(flat.tolist()).replace(" ", "")
