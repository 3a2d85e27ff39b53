"""The file of an offline run of Weights & Biases, decoded with the messages of the package."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2perf.runs.history_rows import Column, history_series
from a2perf_trackers.wandb import _records


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

    def series(self) -> dict[str, tuple[Column, Column, Column]]:
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


def _items(items: Iterable[Any]) -> dict[str, Any]:
    return {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}
