"""Kernels that read the protobuf text of a netlist: bytes in, columns out.

The text is a GraphDef: ``node { name: "..." input: "..." attr { key: "..." value { f: 1 | placeholder: "..." } } }``.
Strings are copied into one blob and named by offsets; numbers are converted in place where that is exact, and left to
the caller (as text in the blob) where it would not be. A kernel never raises: it returns a status and a position.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.compilation import compiled
from a2perf.domains.circuit_training.netlist import KINDS, ORIENTATIONS, SIDES

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

# What a scan ended with.
DONE, NEED_MORE, TRUNCATED, BAD_SYNTAX, NO_NAME, BAD_NUMBER, BAD_KIND, BAD_SIDE, BAD_ORIENTATION, TOO_DEEP = range(10)

# Columns of numbers, and the columns of strings (offset into the blob, length) of a node.
WIDTH, HEIGHT, X, Y, X_OFFSET, Y_OFFSET, WEIGHT = range(7)
NUMBER_NAMES = ("width", "height", "x", "y", "x_offset", "y_offset", "weight")
NAME, MACRO_NAME = range(2)
# Positions in the counters that a scan advances.
NODES, INPUTS, BLOB, SLOW, ERROR_AT, NODE_AT = range(6)

_END, _WORD, _STRING, _OPEN, _CLOSE, _COLON, _BROKEN = range(7)
_MAX_DEPTH = 64


def _packed(word: str) -> int:
    """Returns the first seven letters of a word as a number, with its length."""
    value = len(word)
    for letter in word.encode()[:7]:
        value = value * 256 + letter
    return value


_NODE, _INPUT, _ATTR, _KEY, _VALUE, _NAME_FIELD = (
    _packed(word) for word in ("node", "input", "attr", "key", "value", "name")
)
_FLOAT, _INTEGER, _PLACEHOLDER, _TEXT = (_packed(word) for word in ("f", "i", "placeholder", "s"))
_TYPE, _SIDE, _ORIENTATION, _MACRO = (_packed(word) for word in ("type", "side", "orientation", "macro_name"))
_NUMBER_KEYS = np.array([_packed(word) for word in NUMBER_NAMES], dtype=np.int64)
_KIND_WORDS = np.array([_packed(word) for word in KINDS], dtype=np.int64)
_SIDE_WORDS = np.array([_packed(word) for word in SIDES], dtype=np.int64)
_ORIENTATION_WORDS = np.array([_packed(word) for word in ORIENTATIONS], dtype=np.int64)
_METADATA = np.frombuffer(b"__metadata__", dtype=np.uint8)
_POWERS = 10.0 ** np.arange(23)


@compiled
def _pack(text: Bytes, start: int, end: int, upper: bool) -> int:
    value = end - start
    if value > 255:
        return -1
    for i in range(start, min(end, start + 7)):
        letter = int(text[i])
        if upper and 97 <= letter <= 122:
            letter -= 32
        value = value * 256 + letter
    return value


@compiled
def _find(words: Ints, word: int) -> int:
    for i in range(words.size):
        if words[i] == word:
            return i
    return -1


@compiled
def _token(text: Bytes, at: int, size: int) -> tuple[int, int, int, int]:
    """Returns kind, start and end of the next token, and the position after it."""
    while at < size:
        letter = text[at]
        if letter <= 32 or letter == 44 or letter == 59:  # blank, comma, semicolon
            at += 1
        elif letter == 35:  # comment
            while at < size and text[at] != 10:
                at += 1
        else:
            break
    if at >= size:
        return _END, at, at, at
    letter = text[at]
    if letter == 123 or letter == 60:
        return _OPEN, at, at + 1, at + 1
    if letter == 125 or letter == 62:
        return _CLOSE, at, at + 1, at + 1
    if letter == 58:
        return _COLON, at, at + 1, at + 1
    if letter == 34 or letter == 39:
        start = at + 1
        at = start
        while at < size and text[at] != letter:
            if text[at] == 10:
                return _BROKEN, start, at, at
            at += 2 if text[at] == 92 else 1
        if at >= size:
            return _END, start, size, size
        return _STRING, start, at, at + 1
    start = at
    while at < size:
        letter = text[at]
        if (
            97 <= letter <= 122
            or 48 <= letter <= 57
            or 65 <= letter <= 90
            or letter == 95
            or letter == 46
            or letter == 45
            or letter == 43
        ):
            at += 1
        else:
            break
    if at == start:
        return _BROKEN, start, start + 1, start + 1
    return _WORD, start, at, at


@compiled
def _number(text: Bytes, start: int, end: int) -> tuple[bool, float]:
    """Returns whether the decimal number converts exactly here, and its value."""
    at = start
    negative = False
    if at < end and (text[at] == 45 or text[at] == 43):
        negative = text[at] == 45
        at += 1
    mantissa = np.int64(0)
    digits = 0
    exponent = 0
    point = False
    while at < end:
        letter = np.int64(text[at])
        if 48 <= letter <= 57:
            mantissa = mantissa * 10 + (letter - 48)
            digits += 1
            if digits > 15:
                return False, 0.0
            if point:
                exponent -= 1
        elif letter == 46 and not point:
            point = True
        else:
            break
        at += 1
    if at != end or digits == 0 or exponent < -22:
        return False, 0.0
    value = float(mantissa)
    if exponent < 0:
        value = value / _POWERS[-exponent]
    return True, -value if negative else value


@compiled
def _skip(text: Bytes, at: int, size: int) -> tuple[int, int]:
    """Skips the value of a field whose name was read; returns a status and the position after it."""
    kind, _, _, after = _token(text, at, size)
    if kind == _COLON:
        kind, _, _, after = _token(text, after, size)
        if kind in (_WORD, _STRING):
            return DONE, after
    if kind == _END:
        return NEED_MORE, after
    if kind != _OPEN:
        return BAD_SYNTAX, after
    depth = 1
    while depth > 0:
        kind, _, _, after = _token(text, after, size)
        if kind == _OPEN:
            depth += 1
            if depth > _MAX_DEPTH:
                return TOO_DEEP, after
        elif kind == _CLOSE:
            depth -= 1
        elif kind == _END:
            return NEED_MORE, after
        elif kind == _BROKEN:
            return BAD_SYNTAX, after
    return DONE, after


@compiled
def _opening(text: Bytes, at: int, size: int) -> tuple[int, int]:
    """Reads ``{`` or ``: {``; returns a status and the position after it."""
    kind, _, _, after = _token(text, at, size)
    if kind == _COLON:
        kind, _, _, after = _token(text, after, size)
    if kind == _OPEN:
        return DONE, after
    return (NEED_MORE if kind == _END else BAD_SYNTAX), after


@compiled
def _scalar(text: Bytes, at: int, size: int) -> tuple[int, int, int, int, int]:
    """Reads ``: value``; returns a status, the token's kind, start and end, and the position after it."""
    kind, start, end, after = _token(text, at, size)
    if kind == _COLON:
        kind, start, end, after = _token(text, after, size)
        if kind in (_WORD, _STRING):
            return DONE, kind, start, end, after
    return (NEED_MORE if kind == _END else BAD_SYNTAX), kind, start, end, after


@compiled
def _attribute(text: Bytes, at: int, size: int) -> tuple[int, int, int, int, int, int]:
    """Reads the body of an ``attr``: status, packed key, kind, start and end of its value, position after it."""
    key = -1
    value_kind, value_start, value_end = _END, 0, 0
    while True:
        kind, start, end, at = _token(text, at, size)
        if kind == _CLOSE:
            return DONE, key, value_kind, value_start, value_end, at
        if kind != _WORD:
            return (NEED_MORE if kind == _END else BAD_SYNTAX), key, value_kind, value_start, value_end, at
        field = _pack(text, start, end, False)
        if field == _KEY:
            status, _, start, end, at = _scalar(text, at, size)
            if status == DONE:
                key = _pack(text, start, end, False)
        elif field == _VALUE:
            status, at = _opening(text, at, size)
            while status == DONE:
                kind, start, end, at = _token(text, at, size)
                if kind == _CLOSE:
                    break
                if kind != _WORD:
                    status = NEED_MORE if kind == _END else BAD_SYNTAX
                    break
                field = _pack(text, start, end, False)
                if field in (_FLOAT, _INTEGER, _PLACEHOLDER, _TEXT):
                    status, value_kind, value_start, value_end, at = _scalar(text, at, size)
                else:
                    status, at = _skip(text, at, size)
        else:
            status, at = _skip(text, at, size)
        if status != DONE:
            return status, key, value_kind, value_start, value_end, at


@compiled
def _copy(text: Bytes, start: int, end: int, blob: Bytes, counts: Ints) -> int:
    at = int(counts[BLOB])
    for i in range(start, end):
        blob[at + i - start] = text[i]
    counts[BLOB] = at + end - start
    return at


@compiled
def scan(
    text: Bytes,
    last: bool,
    counts: Ints,
    numbers: NDArray[np.float64],
    present: NDArray[np.uint8],
    codes: NDArray[np.int8],
    strings: Ints,
    inputs: Ints,
    input_owner: Ints,
    slow: Ints,
    blob: Bytes,
    offsets: Ints,
) -> int:
    """Scans one piece of text; returns a status.

    Args:
        text: the piece, starting between two nodes.
        last: whether the text ends with it; otherwise an unfinished node at its end is left for the next piece.
        counts: counters, shape (6,): nodes, inputs, bytes of the blob and slow numbers found; the position reached (or
            of the fault); the position where the current node starts.
        numbers: shape (nodes, 7), as ``NUMBER_NAMES``.
        present: whether each of them was given, same shape.
        codes: shape (nodes, 3): kind, side, orientation; -1 where a kind is missing.
        strings: shape (nodes, 2, 2): offset into the blob and length of the name and the macro's name.
        inputs: shape (inputs, 2): offset and length of each sink's name.
        input_owner: node that each input belongs to.
        slow: shape (n, 4): node, column, offset and length of each number that is left to the caller.
        blob: all strings.
        offsets: position of each node in the text.
    """
    size = text.size
    at = 0
    status = DONE
    while True:
        saved_inputs, saved_blob, saved_slow = counts[INPUTS], counts[BLOB], counts[SLOW]
        counts[ERROR_AT] = at
        kind, start, end, after = _token(text, at, size)
        counts[NODE_AT] = start
        if kind == _END:
            if start < end:
                status = TRUNCATED if last else NEED_MORE
            return status
        if kind != _WORD:
            counts[ERROR_AT] = start
            return BAD_SYNTAX
        if not last and after == size:
            return NEED_MORE
        if _pack(text, start, end, False) != _NODE:
            status, after = _skip(text, after, size)
        else:
            status, after = _opening(text, after, size)
            if status == DONE:
                offsets[counts[NODES]] = start
                status, after = _node(
                    text, after, size, counts, numbers, present, codes, strings, inputs, input_owner, slow, blob
                )
        if status == NEED_MORE:
            counts[INPUTS], counts[BLOB], counts[SLOW] = saved_inputs, saved_blob, saved_slow
            if last:
                counts[ERROR_AT] = start
                return TRUNCATED
            return NEED_MORE
        if status != DONE:
            counts[ERROR_AT] = after
            return status
        at = after


@compiled
def _node(
    text: Bytes,
    at: int,
    size: int,
    counts: Ints,
    numbers: NDArray[np.float64],
    present: NDArray[np.uint8],
    codes: NDArray[np.int8],
    strings: Ints,
    inputs: Ints,
    input_owner: Ints,
    slow: Ints,
    blob: Bytes,
) -> tuple[int, int]:
    row = counts[NODES]
    first_input, first_blob, first_slow = counts[INPUTS], counts[BLOB], counts[SLOW]
    for column in range(7):
        present[row, column] = 0
    codes[row, 0], codes[row, 1], codes[row, 2] = -1, 0, 0
    strings[row, NAME, 1] = -1
    strings[row, MACRO_NAME, 1] = -1
    metadata = False
    while True:
        kind, start, end, after = _token(text, at, size)
        if kind == _CLOSE:
            at = after
            break
        if kind != _WORD:
            return (NEED_MORE if kind == _END else BAD_SYNTAX), start
        field = _pack(text, start, end, False)
        if field == _NAME_FIELD:
            status, kind, start, end, at = _scalar(text, after, size)
            if status == DONE:
                strings[row, NAME, 0] = _copy(text, start, end, blob, counts)
                strings[row, NAME, 1] = end - start
                metadata = end - start == _METADATA.size
                for i in range(_METADATA.size if metadata else 0):
                    metadata = metadata and text[start + i] == _METADATA[i]
        elif field == _INPUT:
            status, kind, start, end, at = _scalar(text, after, size)
            if status == DONE:
                found = counts[INPUTS]
                inputs[found, 0] = _copy(text, start, end, blob, counts)
                inputs[found, 1] = end - start
                input_owner[found] = row
                counts[INPUTS] = found + 1
        elif field == _ATTR:
            status, at = _opening(text, after, size)
            if status == DONE:
                status, key, kind, start, end, at = _attribute(text, at, size)
            if status == DONE:
                column = _find(_NUMBER_KEYS, key)
                if column >= 0:
                    if kind != _WORD:
                        return BAD_NUMBER, start
                    exact, value = _number(text, start, end)
                    present[row, column] = 1
                    numbers[row, column] = value
                    if not exact:
                        found = counts[SLOW]
                        slow[found, 0], slow[found, 1] = row, column
                        slow[found, 2], slow[found, 3] = _copy(text, start, end, blob, counts), end - start
                        counts[SLOW] = found + 1
                elif key == _TYPE:
                    codes[row, 0] = _find(_KIND_WORDS, _pack(text, start, end, True))
                    if codes[row, 0] < 0:
                        return BAD_KIND, start
                elif key == _SIDE:
                    codes[row, 1] = _find(_SIDE_WORDS, _pack(text, start, end, True))
                    if codes[row, 1] < 0:
                        return BAD_SIDE, start
                elif key == _ORIENTATION:
                    codes[row, 2] = _find(_ORIENTATION_WORDS, _pack(text, start, end, True))
                    if codes[row, 2] < 0:
                        return BAD_ORIENTATION, start
                elif key == _MACRO:
                    strings[row, MACRO_NAME, 0] = _copy(text, start, end, blob, counts)
                    strings[row, MACRO_NAME, 1] = end - start
        else:
            status, at = _skip(text, after, size)
        if status != DONE:
            return status, at
    if metadata:
        counts[INPUTS], counts[BLOB], counts[SLOW] = first_input, first_blob, first_slow
    elif strings[row, NAME, 1] < 0:
        return NO_NAME, counts[NODE_AT]
    else:
        counts[NODES] = row + 1
    return DONE, at
