"""Scalars of TensorBoard event files, read without TensorBoard, TensorFlow or protocol buffers.

An event file is a sequence of records: length (8 bytes, little endian), masked CRC-32C of these bytes, payload, masked
CRC-32C of the payload. Files of a training run repeat a few layouts thousands of times. One event of a layout is
decoded by the rules of the wire format (``event_wire``); all others that agree with it in every byte except wall time,
step and value are read by column, including their checksums (``event_checksums``).

A damaged file never raises: the readable part is read, and each ``EventProblem`` names the byte and the problem. The
writer of a run may still be active, so an incomplete last record is distinguished from a corrupt one.

Participants write these files. The constants of ``event_series`` bound the memory and time that one of them may cost;
at a bound, reading stops with an ``EventProblem``.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from a2perf.runs.events.event_checksums import BLOCK_BYTES, Bytes, crc32c, crc32c_like, crc32c_rows, masked
from a2perf.runs.events.event_series import (
    EVENT_FIELDS,
    MAX_FIELDS_DECODED,
    MAX_LOST,
    MAX_PROBLEMS,
    MAX_RECORD_BYTES,
    MAX_RECORDS,
    MAX_SEARCHED_BYTES,
    MAX_TAGS,
    BoundMet,
    EventFile,
    EventProblem,
    Gathered,
    Offsets,
    ScalarSeries,
)
from a2perf.runs.events.event_wire import MAX_FIELDS, Event, EventDecodeError, parse_event

HEADER_BYTES, FOOTER_BYTES = 12, 4
WINDOW_BYTES = 64 << 20  # read at a time; bounds the memory for a large file
_BATCH = 1 << 18  # records that are scanned together; damage costs at most one such scan
_FEW = 4  # up to this many rows, decoding one by one is cheaper than by column
_PATIENCE = 8  # after this many layouts that match almost no rows, the rest of a length is decoded one by one


def read_event_stream(stream: BinaryIO) -> EventFile:
    """Reads the scalars of an open event file; series of both encodings (simple value, tensor of rank 0) are float64.

    Verified are the checksums of all lengths and of payloads that hold a scalar or have at most 4 KiB.

    Raises:
        OSError: it cannot be read.
    """
    result = EventFile()
    gathered = Gathered()
    try:
        _read_windows(stream, result, gathered)
    except BoundMet as bound:
        result.problems.append(EventProblem("bounded", bound.offset, f"{bound}; what follows was not read"))
    result.scalars = gathered.series()
    result.problems.sort(key=lambda problem: problem.offset)
    if gathered.problems > MAX_PROBLEMS:
        more = f"{gathered.problems - MAX_PROBLEMS} further problems are not listed"
        result.problems.append(EventProblem("corrupt", result.problems[-1].offset, more))
    if gathered.left_out:
        more = f"values of tags beyond the first {MAX_TAGS} were left out"
        result.problems.append(EventProblem("bounded", 0, more))
    return result


def _read_windows(stream: BinaryIO, result: EventFile, gathered: Gathered) -> None:
    rest = b""
    want = WINDOW_BYTES
    while True:
        piece = stream.read(want)
        data = rest + piece if rest else piece
        final = len(piece) < want
        if not data:
            return
        window = _Window(data, result, gathered)
        consumed = window.read(final=final)
        result.end += consumed
        if final:
            return
        rest = data[consumed:]
        want = WINDOW_BYTES if consumed else 2 * want  # a record may be larger than the window


class _Window:
    """A piece of a file, held in memory, that begins with a record."""

    def __init__(self, data: bytes, result: EventFile, gathered: Gathered) -> None:
        self.data = data
        self.array: Bytes = np.frombuffer(data, np.uint8)
        self.result = result
        self.gathered = gathered
        self.base = result.end

    def read(self, *, final: bool) -> int:
        """Reads every complete record; returns the bytes that are accounted for."""
        position = 0
        while True:
            starts, position = _walk(self.data, position)
            sound = self._sound_lengths(starts)
            if sound < len(starts):
                position = int(starts[sound])
            self._decode(starts[:sound])
            self.result.records += sound
            if self.result.records > MAX_RECORDS:
                raise BoundMet(self.base + position, f"more than {MAX_RECORDS} records")
            if sound == _BATCH:
                continue
            left = len(self.data) - position
            if left == 0:
                return position
            if left < HEADER_BYTES or self._sound_lengths(np.array([position])):
                if left >= HEADER_BYTES:
                    size = struct.unpack_from("<Q", self.data, position)[0]
                    if size > MAX_RECORD_BYTES:
                        raise BoundMet(
                            self.base + position, f"a record of {size} bytes, more than {MAX_RECORD_BYTES >> 20} MiB"
                        )
                if final:
                    self._problem("truncated", position, f"the last record is not complete ({left} bytes of it)")
                return position
            self.gathered.lost += 1
            if self.gathered.lost > MAX_LOST:
                raise BoundMet(self.base + position, f"damage at more than {MAX_LOST} places")
            next_record = self._next_record(position + 1)
            if next_record is None:
                if not final:
                    # the next header may straddle the windows
                    self._problem("corrupt", position, "the length of a record is corrupt")
                    return len(self.data) - HEADER_BYTES + 1
                self._problem("corrupt", position, f"no record in the last {left} bytes")
                return position
            lost = next_record - position
            self._problem("corrupt", position, f"the length of a record is corrupt; {lost} bytes were passed over")
            position = next_record

    def _problem(self, kind: str, position: int, detail: str) -> None:
        self.gathered.problems += 1
        if self.gathered.problems > MAX_PROBLEMS:
            return
        self.result.problems.append(EventProblem(kind, self.base + position, detail))

    def _sound_lengths(self, starts: Offsets) -> int:
        """Returns how many of the records, from the first on, have a length that its checksum confirms."""
        if not len(starts):
            return 0
        headers = _rows(self.array, starts, HEADER_BYTES)
        # A file has few different lengths: each is checksummed once.
        distinct, inverse = np.unique(_column(headers, 0, "<u8"), return_inverse=True)
        expected = masked(crc32c_rows(distinct.astype("<u8").view(np.uint8).reshape(-1, 8)))
        wrong = np.flatnonzero(expected[inverse] != _column(headers, 8, "<u4"))
        return int(wrong[0]) if len(wrong) else len(starts)

    def _next_record(self, position: int) -> int | None:
        """Returns where the next length with a right checksum lies."""
        step = 1 << 16
        for low in range(position, len(self.data) - HEADER_BYTES + 1, step):
            self.gathered.searched += step
            if self.gathered.searched > MAX_SEARCHED_BYTES:
                raise BoundMet(self.base + position, f"no record in {MAX_SEARCHED_BYTES >> 20} MiB of damage")
            high = min(low + step, len(self.data) - HEADER_BYTES + 1)
            rows = np.lib.stride_tricks.sliding_window_view(self.array[low : high + HEADER_BYTES - 1], HEADER_BYTES)
            right = masked(crc32c_rows(rows[:, :8])) == _column(rows, 8, "<u4")
            if right.any():
                return low + int(np.argmax(right))
        return None

    def _decode(self, starts: Offsets) -> None:
        if not len(starts):
            return
        ends = np.append(starts[1:], 0)
        last = struct.unpack_from("<Q", self.data, int(starts[-1]))[0]
        ends[-1] = starts[-1] + HEADER_BYTES + last + FOOTER_BYTES
        lengths = ends - starts - HEADER_BYTES - FOOTER_BYTES
        payloads = starts + HEADER_BYTES
        order = np.argsort(lengths, kind="stable")
        bounds = np.flatnonzero(np.diff(lengths[order])) + 1
        for group in np.split(order, bounds):
            self._decode_length(payloads[group], int(lengths[group[0]]))

    def _decode_length(self, payloads: Offsets, length: int) -> None:
        """Decodes the records of one length: by column where a layout repeats, else one by one."""
        if len(payloads) < _FEW or length > BLOCK_BYTES:
            self._decode_singly(payloads, length)
            return
        rows = _rows(self.array, payloads, length + FOOTER_BYTES)
        patience = _PATIENCE
        while len(payloads) >= _FEW and patience:
            first = rows[0, :length]
            try:
                event = parse_event(first.tobytes())
            except EventDecodeError:
                event = Event()
            if not event.scalars or any(scalar.offset is None for scalar in event.scalars):
                # nothing to read by column, which holds for all equal rows; continue with the others
                same = np.zeros(len(rows), bool)
                same[0] = True
                self._decode_singly(payloads[:1], length)
                patience -= 1
            else:
                same, varying = _same_layout(rows, event, length)
                self._decode_columns(rows[same], payloads[same], event, varying, length)
                patience = _PATIENCE if np.count_nonzero(same) >= _FEW else patience - 1
            rows, payloads = rows[~same], payloads[~same]
        self._decode_singly(payloads, length)

    def _decode_columns(
        self, rows: Bytes, payloads: Offsets, event: Event, varying: NDArray[np.intp], length: int
    ) -> None:
        actual = masked(crc32c_like(rows[0, :length], rows[:, :length], varying))
        sound = actual == _column(rows, length, "<u4")
        if not sound.all():
            self._wrong_checksums(payloads[~sound])
            rows, payloads = rows[sound], payloads[sound]
        if not event.scalars:
            return
        wall_times = np.zeros(len(rows))
        if event.wall_offset is not None:
            wall_times = _column(rows, event.wall_offset, "<f8").astype(np.float64)
        steps = np.zeros(len(rows), np.int64)
        if event.step_span is not None:
            steps = _varints(rows, *event.step_span)
        for scalar in event.scalars:
            assert scalar.offset is not None
            values = _column(rows, scalar.offset, scalar.code).astype(np.float64)
            self.gathered.add(scalar.tag, payloads + self.base, ScalarSeries(steps, values, wall_times))

    def _decode_singly(self, payloads: Offsets, length: int) -> None:
        for payload in payloads.tolist():
            end = payload + length
            try:
                event = parse_event(self.data[payload:end])
            except EventDecodeError as error:
                event = None
                reason = str(error)
            self.gathered.fields += EVENT_FIELDS + (min(length, MAX_FIELDS) if event is None else event.fields)
            if self.gathered.fields > MAX_FIELDS_DECODED:
                raise BoundMet(
                    self.base + payload, f"more than {MAX_FIELDS_DECODED} fields in layouts that hardly repeat"
                )
            if event is None or event.scalars or length <= BLOCK_BYTES:
                stored = self.data[end : end + FOOTER_BYTES]
                checksum = masked(np.array([crc32c(self.array[payload:end])], np.uint32)).astype("<u4")
                if checksum.tobytes() != stored:
                    self._wrong_checksums(np.array([payload], np.int64))
                    continue
            if event is None:
                self._problem("corrupt", payload - HEADER_BYTES, f"not an event: {reason}")
                continue
            for scalar in event.scalars:
                self.gathered.add_one(scalar.tag, payload + self.base, event, scalar.value)

    def _wrong_checksums(self, payloads: Offsets) -> None:
        for payload in payloads.tolist():
            self._problem("corrupt", payload - HEADER_BYTES, "the checksum of a record is wrong; it was left out")


def _walk(data: bytes, position: int) -> tuple[Offsets, int]:
    """Returns the beginnings of at most ``_BATCH`` records that fit into the data, and where the next one begins."""
    unpack = struct.Struct("<Q").unpack_from
    size = len(data)
    last_start = size - HEADER_BYTES - FOOTER_BYTES
    starts: list[int] = []
    while position <= last_start and len(starts) < _BATCH:
        end: int = position + 16 + unpack(data, position)[0]
        if end > size:
            break
        starts.append(position)
        position = end
    return np.array(starts, np.int64), position


def _rows(array: Bytes, starts: Offsets, width: int) -> Bytes:
    # The windows are a view without cost; only the chosen rows are copied.
    found: Bytes = np.lib.stride_tricks.sliding_window_view(array, width)[starts]
    return found


def _same_layout(rows: Bytes, event: Event, length: int) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Returns which rows agree with the first except in wall time, step and values, and the columns that may differ."""
    spans = [(scalar.offset, struct.calcsize(scalar.code)) for scalar in event.scalars if scalar.offset is not None]
    if event.wall_offset is not None:
        spans.append((event.wall_offset, 8))
    if event.step_span is not None:
        spans.append(event.step_span)
    free = np.zeros(length, bool)
    for start, width in spans:
        free[start : start + width] = True
    same = (rows[:, :length][:, ~free] == rows[0, :length][~free]).all(axis=1)
    if event.step_span is not None:
        start, width = event.step_span
        # Equal bytes elsewhere do not suffice: the varint has to end at the same byte in every row.
        continued = rows[:, start : start + width] >= 0x80
        same &= continued[:, :-1].all(axis=1) & ~continued[:, -1]
    return same, np.flatnonzero(free)


def _column(rows: Bytes, offset: int, dtype: str) -> NDArray[Any]:
    width = np.dtype(dtype).itemsize
    # A view needs rows that are contiguous in memory.
    return np.ascontiguousarray(rows[:, offset : offset + width]).view(dtype)[:, 0]


def _varints(rows: Bytes, offset: int, width: int) -> NDArray[np.int64]:
    value = np.zeros(len(rows), np.uint64)
    for index in range(width):
        value |= (rows[:, offset + index].astype(np.uint64) & np.uint64(0x7F)) << np.uint64(7 * index)
    return value.view(np.int64)
