"""Reads the text of a netlist: protobuf text of a GraphDef, plain or gzipped, piece by piece.

The kernels of ``netlist_scanner`` turn a piece of text into columns; this module joins the pieces, resolves
names and checks every node; errors name the file, the line and the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from a2perf.domains.circuit_training.netlists import netlist_scanner as scanner
from a2perf.domains.circuit_training.netlists.netlist import (
    KIND_MACRO,
    KIND_MACRO_PIN,
    KIND_STDCELL,
    KINDS,
    ORIENTATIONS,
    SIDES,
    SOFT_PREFIX,
    Names,
    Netlist,
    NetlistError,
    netlist_paths,
    open_netlist,
)
from a2perf.domains.compilation import is_kept

_PIECE_BYTES = 16 * 2**20
_FIX = "correct the netlist file, or write it again with the tool that made it"


@dataclass
class _Piece:
    """Columns of the nodes of one piece of text."""

    path: Path
    numbers: NDArray[np.float64]
    present: NDArray[np.uint8]
    codes: NDArray[np.int8]
    strings: NDArray[np.int64]
    inputs: NDArray[np.int64]
    input_owner: NDArray[np.int64]
    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]


def read_netlist(netlist_file: str | Path) -> Netlist:
    """Reads one netlist from one file or a comma list of files.

    Raises:
        NetlistError: a file is missing or is not a netlist.
    """
    pieces = [piece for path in netlist_paths(netlist_file) for piece in _scan_file(path)]
    return _Linker(str(netlist_file), pieces).link()


def keep_scanner() -> None:
    """Compiles the scanner unless its code is on disk: a participant has no netlist in a cache, and needs it."""
    if not is_kept(scanner.scan):
        _scan_piece(Path(), b"", 0, True)


def _scan_file(path: Path) -> Iterator[_Piece]:
    carried = b""
    position = 0  # of the first carried byte in the (unzipped) file
    with open_netlist(path) as stream:
        last = False
        while not last:
            try:
                fresh = stream.read(_PIECE_BYTES)
            except (OSError, EOFError) as error:
                raise NetlistError(f"{path}: cannot be read: {error}", hint="check the file, copy it again") from error
            # Plain and gzipped streams are both buffered, so they return less only at the end.
            last = len(fresh) < _PIECE_BYTES
            text = carried + fresh if carried else fresh
            piece, reached = _scan_piece(path, text, position, last)
            yield piece
            # Without a limit, a brace that is never closed would have the whole file scanned again and again.
            if reached == 0 and not last and len(text) >= 4 * _PIECE_BYTES:
                raise _at(path, position, f"a node longer than {len(text)} bytes")
            carried = text[reached:]
            position += reached


_FAULTS = {
    scanner.TRUNCATED: "the file ends in the middle of a node",
    scanner.BAD_SYNTAX: "not the text form of a GraphDef here",
    scanner.NO_NAME: "a node without a name",
    scanner.BAD_NUMBER: "a number was expected here",
    scanner.BAD_KIND: f"unknown type of node; known are {', '.join(KINDS)}",
    scanner.BAD_SIDE: f"unknown side; known are {', '.join(SIDES[1:])}",
    scanner.BAD_ORIENTATION: f"unknown orientation; known are {', '.join(ORIENTATIONS)}",
    scanner.TOO_DEEP: "braces nested too deep",
}


def _scan_piece(path: Path, text: bytes, position: int, last: bool) -> tuple[_Piece, int]:
    """Returns the columns of the complete nodes of a piece, and the length of text that they take."""
    folded = text.lower()  # the scanner ignores case too, and its compiled code does not check bounds
    nodes = folded.count(b"node") + 1
    inputs = folded.count(b"input") + 1
    numbers = np.empty((nodes, 7))
    present = np.empty((nodes, 7), dtype=np.uint8)
    codes = np.empty((nodes, 3), dtype=np.int8)
    strings = np.zeros((nodes, 2, 2), dtype=np.int64)
    spans = np.empty((inputs, 2), dtype=np.int64)
    owner = np.empty(inputs, dtype=np.int64)
    slow = np.empty((folded.count(b"value") + 1, 4), dtype=np.int64)
    blob = np.empty(len(text), dtype=np.uint8)
    offsets = np.empty(nodes, dtype=np.int64)
    counts = np.zeros(6, dtype=np.int64)
    view = np.frombuffer(text, dtype=np.uint8)
    status = scanner.scan(view, last, counts, numbers, present, codes, strings, spans, owner, slow, blob, offsets)
    reached = int(counts[scanner.ERROR_AT])
    if status not in (scanner.DONE, scanner.NEED_MORE):
        name = _name_near(text, int(counts[scanner.NODE_AT]))
        raise _at(path, position + reached, f"{_FAULTS[status]}{f' (node {name!r})' if name else ''}")
    for row, column, start, length in slow[: counts[scanner.SLOW]].tolist():
        number = blob[start : start + length].tobytes()
        try:
            # A trailing f marks a float in protobuf text, but it is also the last letter of inf.
            numbers[row, column] = float(number if number.lower().endswith(b"inf") else number.rstrip(b"fF"))
        except ValueError:
            name = _name_near(text, int(offsets[row]))
            what = f"{scanner.NUMBER_NAMES[column]} {number.decode(errors='replace')!r} is not a number (node {name!r})"
            raise _at(path, position + int(offsets[row]), what) from None
    n, m = int(counts[scanner.NODES]), int(counts[scanner.INPUTS])
    piece = _Piece(
        path,
        numbers[:n],
        present[:n],
        codes[:n],
        strings[:n],
        spans[:m],
        owner[:m],
        # A view would keep a buffer as large as the piece of text alive.
        blob[: counts[scanner.BLOB]].copy(),
        offsets[:n] + position,
    )
    return piece, reached


def _name_near(text: bytes, at: int) -> str:
    """Returns the name that is given first after a position, for messages."""
    _, marker, rest = text[at : at + 4096].partition(b"name:")
    parts = rest.split(b'"', 2)
    return parts[1].decode(errors="replace") if marker and len(parts) == 3 else ""


def _at(path: Path, position: int, what: str) -> NetlistError:
    """Returns an error at a byte position; the file is read again for its line."""
    line = 1
    with open_netlist(path) as stream:
        while position > 0:
            piece = stream.read(min(position, _PIECE_BYTES))
            if not piece:
                break
            line += piece.count(b"\n")
            position -= len(piece)
    return NetlistError(f"{path}, line {line}: {what}", hint=_FIX)


class _Linker:
    """Joins the pieces, resolves names and checks the nodes."""

    def __init__(self, source: str, pieces: Sequence[_Piece]) -> None:
        self._source = source
        self._pieces = pieces
        self._first_node = np.cumsum([0, *(len(piece.offsets) for piece in pieces)])
        first_byte = np.cumsum([0, *(piece.blob.size for piece in pieces)])
        self._blob = np.concatenate([piece.blob for piece in pieces])
        self._numbers = np.concatenate([piece.numbers for piece in pieces])
        self._present = np.concatenate([piece.present for piece in pieces]).astype(bool)
        self._codes = np.concatenate([piece.codes for piece in pieces])
        strings, inputs, owners = [], [], []
        for number, piece in enumerate(pieces):
            shift = np.array([first_byte[number], 0])
            strings.append(piece.strings + shift)
            inputs.append(piece.inputs + shift)
            owners.append(piece.input_owner + self._first_node[number])
        self._strings = np.concatenate(strings)
        self._inputs = np.concatenate(inputs)
        self._input_owner = np.concatenate(owners)

    def link(self) -> Netlist:
        """Returns the netlist.

        Raises:
            NetlistError: as `read_netlist`.
        """
        count = len(self._codes)
        kind = self._codes[:, 0]
        self._refuse(kind < 0, "has no type")
        names = Names(self._blob, np.ascontiguousarray(self._strings[:, scanner.NAME]))
        owner, sinks = self._resolve(names.spans)
        self._check(kind, owner)
        # Exact sums of weights in the congestion need single precision; what overflows is refused below.
        with np.errstate(over="ignore"):
            numbers = np.where(self._present, self._numbers, 0.0).astype(np.float32).astype(np.float64)
        self._refuse(~np.isfinite(numbers).all(axis=1), "has a number that is not finite")
        sized = (kind == KIND_MACRO) | (kind == KIND_STDCELL)
        for column in (scanner.WIDTH, scanner.HEIGHT):
            name = scanner.NUMBER_NAMES[column]
            self._refuse(sized & ~self._present[:, column], f"has no {name}")
            self._refuse(sized & (numbers[:, column] <= 0), f"has a {name} that is not positive")
        numbers[~sized, scanner.WIDTH : scanner.HEIGHT + 1] = 0.0
        starts, lengths = names.spans[:, 0], names.spans[:, 1]
        prefix = SOFT_PREFIX.encode()
        # The last names of the blob may be shorter than the prefix; the zeros keep the index inside.
        padded = np.concatenate((self._blob, np.zeros(len(prefix), dtype=np.uint8)))
        grouped = lengths >= len(prefix)
        for i, letter in enumerate(prefix):
            grouped &= padded[starts + i] == letter
        net_start = np.empty(count + 1, dtype=np.int64)
        net_pins = np.empty(2 * len(sinks) + 1, dtype=np.int32)
        seen = np.full(count, -1, dtype=np.int32)
        nets, pins = scanner.build_nets(kind, sinks, self._input_owner, seen, net_start, net_pins)
        numbers[~self._present[:, scanner.WEIGHT], scanner.WEIGHT] = 1.0
        columns = np.ascontiguousarray(numbers.T)
        return Netlist(
            source=self._source,
            names=_compact(names),
            kind=np.ascontiguousarray(kind),
            soft=((kind == KIND_MACRO) & grouped).astype(np.uint8),
            owner=owner,
            width=columns[scanner.WIDTH],
            height=columns[scanner.HEIGHT],
            x=columns[scanner.X],
            y=columns[scanner.Y],
            x_offset=columns[scanner.X_OFFSET],
            y_offset=columns[scanner.Y_OFFSET],
            weight=columns[scanner.WEIGHT],
            has_location=(self._present[:, scanner.X] & self._present[:, scanner.Y]).astype(np.uint8),
            side=np.ascontiguousarray(self._codes[:, 1]),
            orientation=np.ascontiguousarray(self._codes[:, 2]),
            net_start=net_start[: nets + 1].copy(),
            net_pins=net_pins[:pins].copy(),
        )

    def _resolve(self, names: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns the macro of each pin (-1: none) and the sink of each input."""
        count = len(names)
        wanted = np.ascontiguousarray(np.concatenate((self._strings[:, scanner.MACRO_NAME], self._inputs)))
        found = np.empty(len(wanted), dtype=np.int32)
        # Never full: the search for a name ends only at an empty slot.
        table = np.full(1 << (2 * count + 1).bit_length(), -1, dtype=np.int32)
        twin = scanner.resolve(self._blob, names, wanted, table, found)
        if twin >= 0:
            raise self._error(int(twin), "has a name that an earlier node has already")
        sinks = found[count:].copy()
        if len(sinks) and sinks.min() < 0:
            at = int(np.argmax(sinks < 0))
            start, length = self._inputs[at]
            missing = self._blob[start : start + length].tobytes().decode(errors="replace")
            raise self._error(int(self._input_owner[at]), f"drives {missing!r}, which is not a node", field=missing)
        return found[:count].copy(), sinks

    def _check(self, kind: NDArray[np.int8], owner: NDArray[np.int32]) -> None:
        pins = kind == KIND_MACRO_PIN
        self._refuse(pins & (self._strings[:, scanner.MACRO_NAME, 1] < 0), "is a macro pin without macro_name")
        self._refuse(pins & (owner < 0), "is a macro pin of a macro that does not exist")
        owner[~pins] = -1
        self._refuse(pins & (kind[owner] != KIND_MACRO), "is a macro pin of a node that is not a macro")
        for column in (scanner.X_OFFSET, scanner.Y_OFFSET):
            self._refuse(pins & ~self._present[:, column], f"is a macro pin without {scanner.NUMBER_NAMES[column]}")

    def _refuse(self, faulty: NDArray[np.bool_] | np.bool_, what: str) -> None:
        if faulty.any():
            raise self._error(int(np.argmax(faulty)), what)

    def _error(self, node: int, what: str, field: str | None = None) -> NetlistError:
        number = int(np.searchsorted(self._first_node, node, side="right")) - 1
        piece = self._pieces[number]
        position = int(piece.offsets[node - self._first_node[number]])
        if field is not None:
            position = _position_of_field(piece.path, position, field)
        start, length = self._strings[node, scanner.NAME]
        name = self._blob[start : start + length].tobytes().decode(errors="replace")
        return _at(piece.path, position, f"node {name!r} {what}")


def _position_of_field(path: Path, position: int, field: str) -> int:
    """Returns the position of a quoted string behind a position, or that position."""
    with open_netlist(path) as stream:
        stream.seek(stream.tell() + position)
        at = stream.read(_PIECE_BYTES).find(f'"{field}"'.encode())
    return position + max(at, 0)


def _compact(names: Names) -> Names:
    """Returns the names without the other strings of the blob."""
    starts, lengths = names.spans[:, 0], names.spans[:, 1]
    first = np.concatenate(([0], np.cumsum(lengths)))
    index = np.arange(first[-1]) + np.repeat(starts - first[:-1], lengths)
    return Names(names.blob[index], np.stack((first[:-1], lengths), axis=1))
