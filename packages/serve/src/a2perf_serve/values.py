"""Observations, infos and actions as JSON, with every bit of every number.

An array is a record of three fields: ``dtype`` (NumPy's name with byte order, ``"<f4"``), ``shape``, and ``data``, the
items in C order in base64. If ``data`` has fewer items than ``shape`` asks for, its last
item repeats. Most observations end in padding, so this makes those of web navigation about ten times smaller.

NumPy scalars are arrays without dimensions, and so are floats that JSON does not have (NaN and the infinities).
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from a2perf_serve.errors import ServingError

DTYPES: Final = frozenset(
    ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16")
)
"""Numbers of fixed size."""
_NAMES: Final = {np.dtype(name): name for name in DTYPES}  # the attribute `str` of a dtype takes a microsecond
_FIELDS: Final = frozenset(("dtype", "shape", "data"))
_MOST_DIMENSIONS: Final = 32
_LEAST_ITEMS: Final = 16  # shorter arrays are sent whole
_BITS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_JSON: Final = msgspec.json.Encoder()


class ArrayRecord(msgspec.Struct):
    """An array in a message; see the module's docstring."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class UnsendableValue(TypeError):
    """A value has a type that neither JSON nor an array can hold."""


def encode(value: Any) -> bytes:
    """Returns a plain value as JSON.

    Args:
        value: as `plain` returns it; it may contain ``msgspec.Raw`` with JSON.
    """
    return _JSON.encode(value)


def plain(value: Any) -> Any:
    """Returns a value that `encode` writes without loss.

    Args:
        value: None, booleans, numbers, strings, arrays, and sequences and mappings of them.

    Raises:
        UnsendableValue: another type, or an integer of more than 64 bits.
    """
    kind = type(value)
    if kind is np.ndarray:
        return array_record(value)
    if kind is float:
        return value if math.isfinite(value) else array_record(np.float64(value))
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        if not -(1 << 63) <= value < 1 << 64:
            raise UnsendableValue(f"the integer {value} has more than 64 bits")
        return value
    if kind is dict or isinstance(value, Mapping):  # the check of the abstract class is slow
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (np.generic, np.ndarray)):
        return array_record(value)
    raise UnsendableValue(f"values of type {kind.__name__} cannot be sent")


def array_record(array: NDArray[Any] | np.generic) -> ArrayRecord:
    """Returns the record of an array or a NumPy scalar.

    Raises:
        UnsendableValue: its items are not numbers or booleans.
    """
    whole = np.asarray(array)
    name = _NAMES.get(whole.dtype)
    if name is None:
        native = whole.dtype.newbyteorder("=")
        if native not in _NAMES:
            raise UnsendableValue(f"arrays of dtype {whole.dtype} cannot be sent")
        whole, name = whole.astype(native), _NAMES[native]
    flat = whole.reshape(-1)  # copies only if the array is not contiguous
    if flat.size >= _LEAST_ITEMS and (bits := _BITS.get(flat.itemsize)) is not None:
        # compared as integers, because NaN differs from itself and -0.0 equals 0.0
        integers = flat.view(bits)
        # the search in bytes is several times faster than argmax of the reversed comparison
        last_other = (integers != integers[-1]).tobytes().rfind(1)  # -1: all items are equal
        flat = flat[: last_other + 2]
    return ArrayRecord(name, whole.shape, flat.tobytes())


def is_array_record(value: Any) -> bool:
    """Returns whether a decoded value is the record of an array."""
    return type(value) is dict and value.keys() == _FIELDS


def array_of(record: Mapping[str, Any], *, most_items: int) -> Any:
    """Returns the array of a record; a NumPy scalar for a record without dimensions.

    Args:
        record: ``dtype``, ``shape`` and ``data``, the latter as base64.
        most_items: checked before memory is reserved, because the last item may repeat.

    Raises:
        ServingError: the record is invalid (``bad_request``).
    """
    name, shape, data = record["dtype"], record["shape"], record["data"]
    if not isinstance(name, str) or name not in DTYPES:
        raise _invalid(f"its dtype is {str(name)[:20]!r}", f"choose one of: {', '.join(sorted(DTYPES))}")
    if (
        not isinstance(shape, (list, tuple))
        or len(shape) > _MOST_DIMENSIONS
        or any(type(size) is not int or size < 0 for size in shape)
    ):
        raise _invalid("its shape is not a short list of sizes", 'for example "shape": [2, 3]')
    count = math.prod(shape)
    if count > most_items:
        raise _invalid(f"it has {count:,} items", f"send at most {most_items:,}")
    try:
        data = base64.b64decode(data, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise _invalid("its data is not base64", "encode the bytes in C order") from error
    dtype = np.dtype(name)
    given, rest = divmod(len(data), dtype.itemsize)
    if rest or given > count or (given == 0 and count):
        raise _invalid(
            f"its data has {len(data)} bytes", f"at most {count * dtype.itemsize} fit the shape {list(shape)}"
        )
    if name == "|b1" and data.strip(b"\0\1"):
        raise _invalid("its booleans have bytes other than 0 and 1", "send 0 or 1")
    array: NDArray[Any] = np.empty(count, dtype)
    array[:given] = np.frombuffer(data, dtype)
    if given < count:
        integers = array.view(_BITS[dtype.itemsize]) if dtype.itemsize in _BITS else array
        integers[given:] = integers[given - 1]
    array = array.reshape(tuple(shape))
    return array if shape else array[()]


def _invalid(what: str, hint: str) -> ServingError:
    return ServingError("bad_request", f"an array is invalid: {what}", hint)
