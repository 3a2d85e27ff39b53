"""Kernels that read the protobuf text of a netlist: bytes in, columns out; then names become indices, inputs nets.

The text is a GraphDef: ``node { name: "..." input: "..." attr { key: "..." value { f: 1 | placeholder: "..." } } }``.
Strings are copied into one blob and named by offsets; numbers are converted in place where that is exact, and left to
the caller (as text in the blob) where it would not be. A kernel never raises: it returns a status and a position.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.netlists.netlist import KINDS, ORIENTATIONS, SIDES
from a2perf.domains.compilation import compiled_part, compiled_without_allocation

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

# What a scan ended with.
DONE, NEED_MORE, TRUNCATED, BAD_SYNTAX, NO_NAME, BAD_NUMBER, BAD_KIND, BAD_SIDE, BAD_ORIENTATION, TOO_DEEP = range(10)

# Columns of numbers, and the columns of strings (offset into the blob, length) of a node.
WIDTH, HEIGHT, X, Y, X_OFFSET, Y_OFFSET, WEIGHT = range(7)
NUMBER_NAMES = ("width", "height", "x", "y", "x_offset", "y_offset", "weight")
NAME, MACRO_NAME = range(2)
_KEEP_INPUT, _KEEP_NUMBER = 2, 3  # besides those, strings that are copied
# Positions in the counters that a scan advances.
NODES, INPUTS, BLOB, SLOW, ERROR_AT, NODE_AT = range(6)

_END, _WORD, _STRING, _OPEN, _CLOSE, _COLON, _BROKEN = range(7)
_AT_TOP, _IN_NODE, _IN_ATTRIBUTE, _IN_VALUE = range(4)
_NAME_WANTED, _COLON_WANTED, _VALUE_WANTED = range(3)  # what a field is waiting for
_MAX_DEPTH = 64


def _packed(word: str) -> int:
    """Returns the first seven letters of a word, in capitals, as a number with its length."""
    value = len(word)
    for letter in word.upper().encode()[:7]:
        value = value * 256 + letter
    return value


_NODE, _INPUT, _ATTR, _KEY, _VALUE, _NAME_FIELD = (
    _packed(word) for word in ("node", "input", "attr", "key", "value", "name")
)
_FLOAT, _INTEGER, _PLACEHOLDER, _TEXT = (_packed(word) for word in ("f", "i", "placeholder", "s"))
_TYPE, _SIDE, _ORIENTATION, _MACRO = (_packed(word) for word in ("type", "side", "orientation", "macro_name"))
_NUMBER_KEYS = np.array([_packed(word) for word in NUMBER_NAMES], dtype=np.int64)
# The words that attributes may have as values: kinds, sides and orientations, and where each group starts.
_CODE_KEYS = np.array([_TYPE, _SIDE, _ORIENTATION], dtype=np.int64)
_CODE_WORDS = np.array([_packed(word) for word in (*KINDS, *SIDES, *ORIENTATIONS)], dtype=np.int64)
_CODE_STARTS = np.cumsum([0, len(KINDS), len(SIDES), len(ORIENTATIONS)])
_METADATA = np.frombuffer(b"__metadata__", dtype=np.uint8)
_POWERS = 10.0 ** np.arange(23)
_HASH_MASK = (1 << 46) - 1  # keeps 31 * hash + byte within 64 bits


@compiled_part
def _pack(text: Bytes, start: int, end: int) -> int:
    value = end - start
    # The length must fit into one byte beside seven letters; no known word is longer.
    if value > 255:
        return -1
    for i in range(start, min(end, start + 7)):
        # Without Numba, the sum of a Python integer and a NumPy byte below could overflow.
        letter = int(text[i])
        if 97 <= letter <= 122:
            letter -= 32
        value = value * 256 + letter
    return value


@compiled_part
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
            # Otherwise one missing quote would take the rest of the file as a string.
            if text[at] == 10:
                return _BROKEN, start, at, at
            # An escaped quote must not end the string; names keep their escapes.
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
            # Signs count as letters, because -1.5e-3 must be one word.
            or letter == 45
            or letter == 43
        ):
            at += 1
        else:
            break
    if at == start:
        return _BROKEN, start, start + 1, start + 1
    return _WORD, start, at, at


@compiled_part
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
            # 15 digits and powers of ten up to 10^22 are exact as doubles, so the one division rounds correctly.
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


@compiled_without_allocation
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
        slow: shape (n, 4): node, column, offset and length of each number that is left to the caller.
    """
    size = text.size
    at = 0
    level, waiting, skipped = _AT_TOP, _NAME_WANTED, 0
    row = first_input = first_blob = first_slow = 0
    field = key = -1
    value_kind, value_start, value_end, value_word = _END, 0, 0, -1
    metadata = False
    counts[ERROR_AT] = 0
    while True:
        kind, start, end, at = _token(text, at, size)
        if kind == _END:
            if level == _AT_TOP and waiting == _NAME_WANTED and skipped == 0 and start == end:
                return DONE
            if level != _AT_TOP:
                # The next piece starts with the unfinished node again, so what it has added is taken back.
                counts[INPUTS], counts[BLOB], counts[SLOW] = first_input, first_blob, first_slow
            return TRUNCATED if last else NEED_MORE
        if skipped > 0 and kind != _BROKEN:
            if kind == _OPEN:
                skipped += 1
                if skipped > _MAX_DEPTH:
                    counts[ERROR_AT] = start
                    return TOO_DEEP
            elif kind == _CLOSE:
                skipped -= 1
                if skipped == 0 and level == _AT_TOP:
                    counts[ERROR_AT] = at
            continue
        word = _pack(text, start, end) if _WORD <= kind <= _STRING else -1
        keep = -1  # where the offset of a copied string goes
        if waiting == _NAME_WANTED and kind == _WORD:
            field = word
            waiting = _COLON_WANTED
            if level == _AT_TOP:
                counts[NODE_AT] = start
        elif waiting == _COLON_WANTED and kind == _COLON:
            waiting = _VALUE_WANTED
        elif waiting != _NAME_WANTED and kind == _OPEN:
            waiting = _NAME_WANTED
            if level == _AT_TOP and field == _NODE:
                level = _IN_NODE
                row = counts[NODES]
                first_input, first_blob, first_slow = counts[INPUTS], counts[BLOB], counts[SLOW]
                for column in range(7):
                    present[row, column] = 0
                codes[row, 0], codes[row, 1], codes[row, 2] = -1, 0, 0
                strings[row, NAME, 1] = strings[row, MACRO_NAME, 1] = -1
                offsets[row] = counts[NODE_AT]
                metadata = False
            elif level == _IN_NODE and field == _ATTR:
                level = _IN_ATTRIBUTE
                key, value_kind = -1, _END
            elif level == _IN_ATTRIBUTE and field == _VALUE:
                level = _IN_VALUE
            else:
                skipped = 1
        elif waiting == _VALUE_WANTED and _WORD <= kind <= _STRING:
            waiting = _NAME_WANTED
            if level == _AT_TOP:
                counts[ERROR_AT] = at
            elif level == _IN_NODE and field == _NAME_FIELD:
                keep = NAME
                metadata = end - start == _METADATA.size
                for i in range(_METADATA.size if metadata else 0):
                    metadata = metadata and text[start + i] == _METADATA[i]
            elif level == _IN_NODE and field == _INPUT:
                keep = _KEEP_INPUT
            elif level == _IN_ATTRIBUTE and field == _KEY:
                key = word
            elif level == _IN_VALUE and field in (_FLOAT, _INTEGER, _PLACEHOLDER, _TEXT):
                value_kind, value_start, value_end, value_word = kind, start, end, word
        elif waiting == _NAME_WANTED and kind == _CLOSE and level != _AT_TOP:
            if level == _IN_NODE:
                if metadata:
                    counts[INPUTS], counts[BLOB], counts[SLOW] = first_input, first_blob, first_slow
                elif strings[row, NAME, 1] < 0:
                    counts[ERROR_AT] = counts[NODE_AT]
                    return NO_NAME
                else:
                    counts[NODES] = row + 1
                counts[ERROR_AT] = at
            elif level == _IN_ATTRIBUTE:
                start, end = value_start, value_end
                for column in range(_NUMBER_KEYS.size):
                    if key == _NUMBER_KEYS[column]:
                        if value_kind != _WORD:
                            counts[ERROR_AT] = start if value_kind == _STRING else at
                            return BAD_NUMBER
                        exact, numbers[row, column] = _number(text, start, end)
                        present[row, column] = 1
                        if not exact:
                            keep = _KEEP_NUMBER
                            slow[counts[SLOW], 0], slow[counts[SLOW], 1] = row, column
                for group in range(_CODE_KEYS.size):
                    if key == _CODE_KEYS[group] and value_kind != _END:
                        codes[row, group] = -1
                        for i in range(_CODE_STARTS[group], _CODE_STARTS[group + 1]):
                            if value_word == _CODE_WORDS[i]:
                                codes[row, group] = i - _CODE_STARTS[group]
                        if codes[row, group] < 0:
                            counts[ERROR_AT] = start
                            # The statuses of kind, side and orientation follow each other in the order of _CODE_KEYS.
                            return BAD_KIND + group
                if key == _MACRO and value_kind != _END:
                    keep = MACRO_NAME
            level -= 1
        else:
            counts[ERROR_AT] = start
            return BAD_SYNTAX
        if keep >= 0:
            place, length = counts[BLOB], end - start
            for i in range(length):
                blob[place + i] = text[start + i]
            counts[BLOB] = place + length
            if keep == _KEEP_INPUT:
                inputs[counts[INPUTS], 0], inputs[counts[INPUTS], 1] = place, length
                input_owner[counts[INPUTS]] = row
                counts[INPUTS] += 1
            elif keep == _KEEP_NUMBER:
                slow[counts[SLOW], 2], slow[counts[SLOW], 3] = place, length
                counts[SLOW] += 1
            else:
                strings[row, keep, 0], strings[row, keep, 1] = place, length


@compiled_part
def _hash(blob: Bytes, start: int, length: int) -> int:
    value = np.int64(length)
    for i in range(start, start + length):
        value = (value * 31 + np.int64(blob[i])) & _HASH_MASK
    # The table takes only the low bits; this lets the high ones count.
    return int(value ^ (value >> 17))


@compiled_without_allocation
def resolve(blob: Bytes, names: Ints, wanted: Ints, table: NDArray[np.int32], found: NDArray[np.int32]) -> int:
    """Finds the node of each wanted name.

    Args:
        names: offset and length of each node's name, shape (nodes, 2).
        wanted: offset and length of each name to find, shape (n, 2); a negative length stands for no name.
        table: hash table, a power of two above twice the nodes, filled with -1.
        found: result, shape (n,): node or -1.

    Returns:
        -1, or the first node with a name that an earlier node has already.
    """
    mask = table.size - 1
    nodes = names.shape[0]
    for i in range(nodes + wanted.shape[0]):
        start, length = (names[i, 0], names[i, 1]) if i < nodes else (wanted[i - nodes, 0], wanted[i - nodes, 1])
        node = -1
        if length >= 0:
            slot = _hash(blob, start, length) & mask
            while table[slot] >= 0:
                node = table[slot]
                same = names[node, 1] == length
                for j in range(length if same else 0):
                    same = same and blob[names[node, 0] + j] == blob[start + j]
                if same:
                    break
                node = -1
                slot = (slot + 1) & mask
            if i < nodes:
                if node >= 0:
                    return i
                table[slot] = i
        if i >= nodes:
            found[i - nodes] = node
    return -1


@compiled_without_allocation
def build_nets(
    kind: NDArray[np.int8],
    sinks: NDArray[np.int32],
    sink_owner: Ints,
    seen: NDArray[np.int32],
    net_start: Ints,
    net_pins: NDArray[np.int32],
) -> tuple[int, int]:
    """Collects the nets: driver first, then its distinct sinks; macros neither drive nor are driven.

    Args:
        kind: kind of each node; 0 is a macro.
        sinks: the node that each input names, in the order of the file.
        seen: scratch, shape (nodes,), filled with -1.
        net_start: result, shape (nets + 1,) or longer.
        net_pins: result, shape (inputs + nets,) or longer.

    Returns:
        Number of nets, number of pins in them.
    """
    nets, pins, i = 0, 0, 0
    net_start[0] = 0
    while i < sinks.size:
        driver = sink_owner[i]
        is_net = kind[driver] != 0
        if is_net:
            net_pins[pins] = driver
            pins += 1
        while i < sinks.size and sink_owner[i] == driver:
            sink = sinks[i]
            # Marked with the driver: the scratch then needs no clearing between nets.
            if is_net and kind[sink] != 0 and seen[sink] != driver:
                seen[sink] = driver
                net_pins[pins] = sink
                pins += 1
            i += 1
        if is_net:
            nets += 1
            net_start[nets] = pins
    return nets, pins
