"""The log of a Weights & Biases offline run, ``offline-run-*/run-<id>.wandb``, read without their package.

After a header of 7 bytes (``:W&B``, a magic number, a version) the file is a log in the format of LevelDB: blocks of
32 KiB, in them chunks of checksum (CRC-32 of type and payload), length, type (whole, first, middle, last) and payload.
Each record is a protocol buffer; of its fields these are used: ``Record`` 2 history, 5 configuration, 12 metric,
17 run, 18 exit; ``MetricRecord`` 1 name, 2 pattern, 4 step;
``HistoryRecord`` 1 item, 2 step; items 1 key, 2 nested key, 16 value as JSON; ``RunRecord`` 1 id, 2 entity,
3 project, 4 configuration, 8 name, 10 tags, 13 host, 17 start.
"""

from __future__ import annotations

import fnmatch
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.storage import MAX_VALUES, read_bounded, values_of_json

Column = NDArray[np.float64]
_HEADER = b":W&B"
_HEADER_BYTES = 7
_BLOCK_BYTES = 32 << 10
_CHUNK = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_STEP_KEYS = ("global_step", "_step")
# The file may come from another person: reading is bounded in memory and time.
MAX_BYTES, MAX_RECORD_BYTES = 256 << 20, 64 << 20
_MAX_NESTED = 10_000  # parts of one value: numbers of a histogram
MAX_PROBLEMS, MAX_AXES = 100, 1000
_ROW_VALUES = 4  # a row without values costs as much memory as so many values
_MOST_BITS = 63  # of a varint, less its last group
_NOT_METRICS = ("_step", "_timestamp", "_runtime", "_wandb")


@dataclass
class WandbLog:
    """The content of an offline run.

    Attributes:
        run_id: its identifier.
        entity: account or team; empty without one.
        project: its project.
        name: its display name.
        tags: its tags.
        config: its configuration.
        host: the host where it ran.
        started_s: seconds since the epoch, 0 when unknown.
        exit_code: exit code; None if the run did not end.
        rows: one mapping per logging call, nested names joined by dots.
        axes: the step that ``define_metric`` gave to a metric, or to all that a pattern such as ``train/*`` matches.
        problems: problems of the file, one sentence each.
    """

    run_id: str = ""
    entity: str = ""
    project: str = ""
    name: str = ""
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    host: str = ""
    started_s: float = 0.0
    exit_code: int | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    axes: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def began_s(self) -> float:
        """When the first row was logged, in seconds since the epoch; the start of the run if no row has a time."""
        return next((_number(row.get("_timestamp")) for row in self.rows if "_timestamp" in row), self.started_s)

    def series(self) -> dict[str, tuple[Column, Column, Column]]:
        """Returns steps, values and seconds since the first row of every number that was logged.

        The step of a metric is the one that its run defined for it, else ``global_step`` if the run logs that anywhere,
        else the tracker's own. A row without its step, from a separate call, has the last one that was logged.
        """
        found: dict[str, list[tuple[float, float, float]]] = {}
        held: dict[str, float] = {}
        for row in reversed(self.rows):  # rows before the first step have that step
            held |= {axis: _number(row[axis]) for axis in (*_STEP_KEYS, *self.axes.values()) if axis in row}
        usual = next((axis for axis in _STEP_KEYS if axis in held), "_step")
        axes: dict[str, str] = {}
        began = self.began_s
        for index, row in enumerate(self.rows):
            held |= {axis: _number(row.get(axis, index if axis == "_step" else held[axis])) for axis in held}
            seconds = _number(row.get("_timestamp")) - began
            for name, value in row.items():
                if name not in _NOT_METRICS and (isinstance(value, int | float | bool) or value in _SPECIAL):
                    if name not in axes:
                        axis = self._axis(name)
                        axes[name] = axis if axis in held else usual
                    found.setdefault(name, []).append((held.get(axes[name], float(index)), _number(value), seconds))
        columns = {name: np.array(points, np.float64).T for name, points in found.items()}
        return {name: (table[0].copy(), table[1].copy(), table[2].copy()) for name, table in columns.items()}

    def _axis(self, name: str) -> str:
        """Returns the step that the run defined for a metric; ``""`` without one."""
        if name in self.axes:
            return self.axes[name]
        return next((axis for glob, axis in self.axes.items() if "*" in glob and fnmatch.fnmatchcase(name, glob)), "")


_SPECIAL = ("NaN", "Infinity", "-Infinity")


def read_wandb_log(path: Path) -> WandbLog:
    """Reads the log of an offline run, even an incomplete one; damage becomes a problem, and its rest is skipped."""
    log = WandbLog()
    try:
        data = read_bounded(path, MAX_BYTES)
    except OSError as error:
        log.problems.append(f"cannot be read: {error.strerror}")
        return log
    except ValueError as error:
        log.problems.append(f"cannot be read: {str(error).removeprefix(f'{path}: ')}")
        return log
    return parse_wandb_log(data)


def parse_wandb_log(data: bytes) -> WandbLog:
    """Decodes the content of a log; see ``read_wandb_log``."""
    log = WandbLog()
    if not data.startswith(_HEADER):
        log.problems.append("not the log of an offline run")
        return log
    values = 0
    for record in _records(data, log.problems):
        rows = len(log.rows)
        try:
            _take(record, log)
        except (ValueError, struct.error, IndexError, RecursionError) as error:
            log.problems.append(f"a record could not be read ({error})")
        values += 1 + sum(_ROW_VALUES + len(row) for row in log.rows[rows:])
        over = values + len(log.config) > MAX_VALUES or len(log.problems) > MAX_PROBLEMS
        if over:
            log.problems.append("more records, values or problems than are read; the rest was left out")
            break
    return log


def _records(data: bytes, problems: list[str]) -> Iterator[bytes]:
    position, size = _HEADER_BYTES, 0
    parts: list[bytes] = []
    open_record = False
    while position + _CHUNK.size <= len(data):
        left = _BLOCK_BYTES - position % _BLOCK_BYTES
        # The format never begins a chunk where its header does not fit into the block.
        if left < _CHUNK.size:
            position += left
            continue
        stored, length, kind = _CHUNK.unpack_from(data, position)
        payload = data[position + _CHUNK.size : position + _CHUNK.size + length]
        if len(payload) < length:
            break
        if kind == 0 and length == 0:  # preallocated space
            position += left
            continue
        if zlib.crc32(payload, zlib.crc32(bytes([kind]))) != stored:
            if len(problems) <= MAX_PROBLEMS:
                problems.append(f"byte {position}: the checksum is wrong; the rest of its block was passed over")
            position, open_record = position + left, False
            continue
        position += _CHUNK.size + length
        if kind in (_WHOLE, _FIRST):
            parts, size, open_record = [payload], length, True
        elif open_record:
            size += length
            parts.append(payload)
        if size > MAX_RECORD_BYTES and open_record:
            problems.append(f"byte {position}: a record is larger than {MAX_RECORD_BYTES >> 20} MiB; left out")
            open_record = False
        if kind in (_WHOLE, _LAST) and open_record:
            open_record = False
            yield b"".join(parts)
    if position < len(data) or open_record:
        problems.append("the last record is not complete")


def _take(record: bytes, log: WandbLog) -> None:
    for number, value in _fields(record):
        if not isinstance(value, bytes):
            continue
        if number == 2:
            row: dict[str, Any] = {}
            for inner, item in _fields(value):
                if inner == 1 and isinstance(item, bytes):
                    name, content = _item(item)
                    _flatten(name, content, row)
                elif inner == 2 and isinstance(item, bytes):
                    row.setdefault("_step", next((step for key, step in _fields(item) if key == 1), 0))
            if row:
                log.rows.append(row)
        elif number == 5:
            _take_config(value, log)
        elif number == 12 and len(log.axes) < MAX_AXES:
            texts = {key: text.decode("utf-8", "replace") for key, text in _fields(value) if isinstance(text, bytes)}
            if (texts.get(1) or texts.get(2)) and texts.get(4):
                log.axes[texts.get(1) or texts[2]] = texts[4]
        elif number == 17:
            _take_run(value, log)
        elif number == 18:
            log.exit_code = next((int(code) for key, code in _fields(value) if key == 1 and isinstance(code, int)), 0)


def _take_run(data: bytes, log: WandbLog) -> None:
    texts = {1: "run_id", 2: "entity", 3: "project", 8: "name", 13: "host"}
    tags: list[str] = []
    for number, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if number in texts:
            setattr(log, texts[number], value.decode("utf-8", "replace"))
        elif number == 4:
            _take_config(value, log)
        elif number == 10:
            tags.append(value.decode("utf-8", "replace"))
        elif number == 17:
            parts = {key: part for key, part in _fields(value) if isinstance(part, int)}
            log.started_s = parts.get(1, 0) + 1e-9 * parts.get(2, 0)
    log.tags = tags or log.tags


def _take_config(data: bytes, log: WandbLog) -> None:
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            name, content = _item(value)
            if name and name != "_wandb" and not name.startswith("_wandb."):
                log.config[name] = content


def _item(data: bytes) -> tuple[str, Any]:
    keys: list[str] = []
    content: Any = None
    for number, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if number in (1, 2):
            keys.append(value.decode("utf-8", "replace"))
        elif number == 16:
            if values_of_json(value) > _MAX_NESTED:
                raise ValueError(f"a value of more than {_MAX_NESTED} parts")
            content = json.loads(value)
    return ".".join(key for key in keys if key), content


def _flatten(name: str, content: Any, row: dict[str, Any]) -> None:
    if isinstance(content, dict):
        for key, value in content.items():
            _flatten(f"{name}.{key}", value, row)
    elif name:
        row[name] = content


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, position = _varint(data, position)
            yield number, value
        elif kind == 2:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise ValueError("a field runs over the end of its record")
            yield number, data[position : position + length]
            position += length
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > _MOST_BITS:
            raise ValueError("a number of more than ten bytes")


def _number(value: Any) -> float:
    if isinstance(value, str):
        return float(value.replace("Infinity", "inf")) if value in _SPECIAL else float("nan")
    try:
        return float(value) if isinstance(value, int | float) else float("nan")
    except OverflowError:  # an integer of hundreds of digits
        return float("nan")
