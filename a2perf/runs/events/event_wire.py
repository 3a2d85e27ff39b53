"""The scalars inside one TensorBoard ``Event``, decoded by the rules of the protocol-buffer wire format.

The decoder returns the values and their byte offsets; with the offsets, thousands of events of the same layout can be
read by column. Field numbers used: ``Event`` 1 wall time, 2 step, 5 summary; ``Summary`` 1 value; ``Value`` 1 tag,
2 simple value, 8 tensor; ``TensorProto`` 1 element type, 2 shape, 4 content, 5 to 7 and 10 values by type;
``TensorShapeProto`` 2 dimension.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

_VARINT, _FIXED64, BYTES, _FIXED32 = 0, 1, 2, 5
MAX_FIELDS = 200_000
"""Of one event at all depths; thousands of scalars in one event have tens of thousands."""
MAX_TAG_BYTES = 4096
_UINT64 = (1 << 64) - 1
# TensorFlow's element types: number -> (struct format, field that holds single values)
_ELEMENTS = {1: ("<f", 5), 2: ("<d", 6), 3: ("<i", 7), 9: ("<q", 10)}


class EventDecodeError(ValueError):
    """The bytes are not a protocol buffer of the expected kind."""


@dataclass(frozen=True)
class Scalar:
    """One value of an event.

    Attributes:
        offset: where its bytes lie in the event, or None when it has no fixed width (an integer as varint).
        code: format of these bytes, for ``struct`` and NumPy.
    """

    tag: str
    value: float
    offset: int | None
    code: str


@dataclass
class Event:
    """The scalars of one event, and their position.

    Attributes:
        wall_offset: where its 8 bytes lie, or None when absent.
        step_span: first byte and width of its varint, or None when absent.
        scalars: the single numbers among its summary values, in order; those with a tag beyond ``MAX_TAG_BYTES`` are
            left out.
    """

    wall_time: float = 0.0
    wall_offset: int | None = None
    step: int = 0
    step_span: tuple[int, int] | None = None
    scalars: list[Scalar] = field(default_factory=list)
    fields: int = 0


def parse_event(data: bytes) -> Event:
    """Decodes one event; skips images, histograms, texts and tensors of more than one element.

    Raises:
        EventDecodeError: the bytes break the wire format, or there are more than ``MAX_FIELDS`` fields.
    """
    event = Event()
    # A list, because the nested decoders count down the same number.
    left = [MAX_FIELDS]
    for number, kind, start, end, value in fields(data, 0, len(data), left):
        if number == 1 and kind == _FIXED64:
            event.wall_time, event.wall_offset = struct.unpack_from("<d", data, start)[0], start
        elif number == 2 and kind == _VARINT:
            event.step, event.step_span = _signed(value), (start, end - start)
        elif number == 5 and kind == BYTES:
            for inner, inner_kind, low, high, _ in fields(data, start, end, left):
                if inner == 1 and inner_kind == BYTES:
                    found = _summary_value(data, low, high, left)
                    if found is not None:
                        event.scalars.append(found)
    event.fields = MAX_FIELDS - left[0]
    return event


def _summary_value(data: bytes, start: int, end: int, left: list[int]) -> Scalar | None:
    tag = ""
    place: tuple[float, int | None, str] | None = None
    for number, kind, low, high, _ in fields(data, start, end, left):
        if number == 1 and kind == BYTES:
            if high - low > MAX_TAG_BYTES:
                return None
            tag = data[low:high].decode("utf-8", errors="replace")
        elif number == 2 and kind == _FIXED32:
            place = (struct.unpack_from("<f", data, low)[0], low, "<f")
        elif number == 8 and kind == BYTES:
            place = _tensor(data, low, high, left)
    return None if place is None else Scalar(tag, *place)


def _tensor(data: bytes, start: int, end: int, left: list[int]) -> tuple[float, int | None, str] | None:
    """Returns value, offset and format of a tensor of rank 0, else None."""
    element = 0
    content: tuple[int, int] | None = None
    singles: dict[int, tuple[int, int, int]] = {}
    for number, kind, low, high, value in fields(data, start, end, left):
        if number == 1 and kind == _VARINT:
            element = value
        elif number == 2 and kind == BYTES:
            if any(inner == 2 for inner, *_ in fields(data, low, high, left)):
                return None
        elif number == 4 and kind == BYTES:
            content = (low, high)
        elif number in (5, 6, 7, 10):
            singles[number] = (kind, low, high)
    if element not in _ELEMENTS:
        return None
    code, single_field = _ELEMENTS[element]
    width = struct.calcsize(code)
    if content is not None and content[1] - content[0] == width:
        return struct.unpack_from(code, data, content[0])[0], content[0], code
    if single_field not in singles:
        return None
    kind, low, high = singles[single_field]
    if code in ("<f", "<d"):
        return (struct.unpack_from(code, data, low)[0], low, code) if high - low == width else None
    if kind == BYTES:
        value, stop = _varint(data, low, high)
        return (float(_signed(value)), None, code) if stop == high else None
    return float(_signed(_varint(data, low, high)[0])), None, code


def fields(data: bytes, position: int, end: int, left: list[int]) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields (field number, wire type, first byte, byte after the last, value of a varint) of each field of a message.

    Raises:
        EventDecodeError: the bytes break the wire format, or ``left``, which counts down, is used up.
    """
    while position < end:
        left[0] -= 1
        if left[0] < 0:
            raise EventDecodeError(f"more than {MAX_FIELDS} fields")
        key, position = _varint(data, position, end)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise EventDecodeError("field number 0")
        start, value = position, 0
        if kind == _VARINT:
            value, position = _varint(data, position, end)
        elif kind == _FIXED64:
            position += 8
        elif kind == _FIXED32:
            position += 4
        elif kind == BYTES:
            size, start = _varint(data, position, end)
            position = start + size
        else:
            raise EventDecodeError(f"wire type {kind}")
        if position > end:
            raise EventDecodeError("a field runs past its message")
        yield number, kind, start, position, value


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    # Ten groups of seven bits hold every 64-bit value.
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _UINT64, position
        shift += 7
    raise EventDecodeError("a varint does not end")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
