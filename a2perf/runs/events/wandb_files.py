"""Files of Weights & Biases: ``run-ID.wandb``, which every run leaves, and ``history.jsonl``, which people export.

A ``.wandb`` file is a log of LevelDB: after a header of 7 bytes, blocks of 32 KiB with chunks of checksum, length, kind
and payload. Each record is a message ``Record`` of ``wandb_internal.proto``, of which four fields are read here.
``history.jsonl`` has one JSON object per line, as ``wandb.Api().run(...).scan_history()`` returns them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from a2perf.errors import UserError
from a2perf.runs.bundles.files import BundleFiles
from a2perf.runs.bundles.tables import MAX_BYTES
from a2perf.runs.events.event_wire import BYTES, fields
from a2perf.runs.events.series_cache import Columns, LogContent
from a2perf.storage import MAX_VALUES, parse_json, values_of_json

SUFFIX, HISTORY = ".wandb", "history.jsonl"

_MAGIC, _HEADER_BYTES, _BLOCK_BYTES = b":W&B", 7, 32 << 10
_CHUNK = struct.Struct("<IHB")
_WHOLE, _FIRST, _LAST = 1, 2, 4
_HEAD_BYTES = 4 << 20  # configuration and name stand before the first values
_RECORD_HISTORY, _RECORD_CONFIG, _RECORD_RUN = 2, 5, 17
_RUN_CONFIG, _RUN_NAME = 4, 8
_KEY, _NESTED_KEY, _VALUE = 1, 2, 16
_STEP_KEYS = ("global_step", "_step")
_NOT_METRICS = ("_step", "_timestamp", "_runtime", "_wandb")
_SPECIAL = ("NaN", "Infinity", "-Infinity")


@dataclass
class WandbRun:
    """What a ``.wandb`` file holds.

    Attributes:
        name: the displayed name; ``""`` if the script gave none.
        rows: the numbers of each call of ``log``.
        problems: byte offset and reason, where reading ended early.
    """

    name: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)


def read_wandb_log(files: BundleFiles, name: str) -> LogContent:
    """Reads every number that was logged over steps.

    Raises:
        StrangerFileError: the file cannot be opened, or is too large.
        UserError: it is not a file of Weights & Biases, or holds too many values.
    """
    data = files.read(name, MAX_BYTES)
    run = wandb_run(data) if name.endswith(SUFFIX) else WandbRun(rows=_history_rows(data))
    return LogContent(history_series(run.rows), run.problems)


def wandb_head(files: BundleFiles, name: str) -> tuple[str, dict[str, Any]]:
    """Returns displayed name and configuration of a run; empty if they cannot be read."""
    try:
        if name.endswith(SUFFIX):
            with files.open(name) as stream:
                run = wandb_run(stream.read(_HEAD_BYTES), head_only=True)
            return run.name, run.config
        beside = f"{name.rpartition('/')[0]}/config.json".lstrip("/")
        config = parse_json(files.read(beside, _HEAD_BYTES), beside)
    except (UserError, OSError):
        return "", {}
    config = config if isinstance(config, dict) else {}
    return "", {key: value for key, value in config.items() if not key.startswith("_")}


def wandb_run(data: bytes, *, head_only: bool = False) -> WandbRun:
    """Decodes a ``.wandb`` file, up to the first values if ``head_only``.

    Raises:
        UserError: it is not one, or holds too many values.
    """
    if not data.startswith(_MAGIC):
        raise UserError("not a file of Weights & Biases", hint="copy the file again")
    run, values, at = WandbRun(), 0, _HEADER_BYTES
    try:
        for place, record in _records(data):
            at = place
            for number, body in _fields(record):
                if number == _RECORD_HISTORY and head_only:
                    return run
                if number in (_RECORD_HISTORY, _RECORD_CONFIG):
                    items, count = _items(body)
                    values += 4 + count
                    if number == _RECORD_CONFIG:
                        run.config |= items
                    else:
                        run.rows.append(_numbers(items))
                elif number == _RECORD_RUN:
                    for inner, content in _fields(body):
                        if inner == _RUN_CONFIG:
                            run.config |= _items(content)[0]
                        elif inner == _RUN_NAME:
                            run.name = content.decode()
                if values > MAX_VALUES:
                    raise _too_many()
    except (ValueError, RecursionError):
        run.problems.append((at, "damaged record; what follows was left out"))
    run.config.pop("_wandb", None)
    return run


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields place and content of each complete record; an incomplete last one belongs to a run that was cut off."""
    place = _HEADER_BYTES
    parts: list[bytes] = []
    while place + _CHUNK.size <= len(data):
        left = _BLOCK_BYTES - place % _BLOCK_BYTES
        _, length, kind = _CHUNK.unpack_from(data, place)
        if left < _CHUNK.size or kind == 0:  # a chunk does not begin where its header does not fit
            place += left
            continue
        end = place + _CHUNK.size + length
        if end > len(data):
            return
        if kind in (_WHOLE, _FIRST):
            parts = []
        parts.append(data[place + _CHUNK.size : end])
        if kind in (_WHOLE, _LAST):
            yield place, b"".join(parts)
        place = end


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields number and content of the fields of a message that hold bytes."""
    for number, kind, start, end, _ in fields(message, 0, len(message), [len(message)]):
        if kind == BYTES:
            yield number, message[start:end]


def _items(message: bytes) -> tuple[dict[str, Any], int]:
    """Returns the items that a message updates, and how many values they hold."""
    found: dict[str, Any] = {}
    values = 0
    for number, item in _fields(message):
        if number == 1:
            key, text = "", b"null"
            nested: list[str] = []
            for inner, content in _fields(item):
                if inner == _KEY:
                    key = content.decode()
                elif inner == _NESTED_KEY:
                    nested.append(content.decode())
                elif inner == _VALUE:
                    text = content
            values += 1 + values_of_json(text)
            if values > MAX_VALUES:
                raise _too_many()
            found[".".join(nested) or key] = json.loads(text)
    return found, values


def _history_rows(data: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    values = 0
    for line in data.splitlines():
        values += 4 + values_of_json(line)
        if values > MAX_VALUES:
            raise _too_many()
        try:
            row = json.loads(line.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(_numbers(row))
    return rows


def _too_many() -> UserError:
    return UserError(f"holds more than {MAX_VALUES} values", hint="export fewer rows or columns")


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if isinstance(value, int | float) or value in _SPECIAL}


def history_series(rows: Sequence[dict[str, Any]]) -> dict[str, Columns]:
    """Returns steps, values and seconds since the first row of every number that was logged, shape ``(3, points)``.

    The step is ``global_step`` if the run logged that anywhere, else ``_step``. A row without its step, from a separate
    call, has the last one that was logged.
    """
    axis = next((key for key in _STEP_KEYS if any(key in row for row in rows)), "")
    step = next((_as_float(row[axis]) for row in rows if axis in row), 0.0)  # rows before the first step have that step
    began = next((_as_float(row["_timestamp"]) for row in rows if "_timestamp" in row), 0.0)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for index, row in enumerate(rows):
        step = _as_float(row.get(axis, step)) if axis else float(index)
        seconds = _as_float(row.get("_timestamp")) - began
        for name, value in row.items():
            if name not in _NOT_METRICS and (isinstance(value, int | float | bool) or value in _SPECIAL):
                found.setdefault(name, []).append((step, _as_float(value), seconds))
    return {name: np.array(points, np.float64).T for name, points in found.items()}


def _as_float(value: Any) -> float:
    if isinstance(value, str):
        return float(value.replace("Infinity", "inf")) if value in _SPECIAL else float("nan")
    try:
        return float(value) if isinstance(value, int | float) else float("nan")
    except OverflowError:  # an integer of hundreds of digits
        return float("nan")
