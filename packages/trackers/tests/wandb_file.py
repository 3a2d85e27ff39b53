"""The file of an offline run of Weights & Biases, decoded with the messages of the package."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2perf.runs.events.series_cache import Columns
from a2perf.runs.events.wandb_files import history_series

_CHUNK = struct.Struct("<IHB")
_HEADER_BYTES, _BLOCK_BYTES = 7, 32 << 10
_WHOLE, _MIDDLE, _LAST = 1, 3, 4


@dataclass
class WandbFile:
    """What tests compare."""

    project: str = ""
    name: str = ""
    host: str = ""
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    exit_code: int | None = None

    def series(self) -> dict[str, Columns]:
        return history_series(self.rows)


def read(path: Path) -> WandbFile:
    from wandb.proto.wandb_internal_pb2 import Record

    found = WandbFile()
    for data in _records(path.read_bytes()):
        record = Record.FromString(data)
        found.summary |= _items(record.summary.update)
        found.config |= _items(record.config.update)
        if record.HasField("run"):
            found.project, found.name, found.host = record.run.project, record.run.display_name, record.run.host
            found.tags = list(record.run.tags)
            found.config |= _items(record.run.config.update)
        if record.history.item:
            found.rows.append(_items(record.history.item))
        if record.HasField("exit"):
            found.exit_code = record.exit.exit_code
    return found


def _records(data: bytes) -> Iterator[bytes]:
    """Yields the complete records of a log of LevelDB: chunks of checksum, length, kind and payload in blocks."""
    position, parts = _HEADER_BYTES, b""
    while position + _CHUNK.size <= len(data):
        left = _BLOCK_BYTES - position % _BLOCK_BYTES
        _, length, kind = _CHUNK.unpack_from(data, position)
        if left < _CHUNK.size or kind == 0:  # a chunk does not begin where its header does not fit
            position += left
            continue
        position += _CHUNK.size + length
        if position > len(data):
            break
        parts = (parts if kind in (_MIDDLE, _LAST) else b"") + data[position - length : position]
        if kind in (_WHOLE, _LAST):
            yield parts


def _items(items: Iterable[Any]) -> dict[str, Any]:
    return {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}
