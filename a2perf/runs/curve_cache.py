"""A columnar cache of what runs logged: one file a run, from which one metric is read without the others.

File: magic (8 bytes), length and CRC-32 of the head, the head as JSON, then for each metric its steps, values and times
as raw little-endian float64. The head names the fingerprint of the run's files, so a run that went on is read anew; a
metric's own checksum is verified when it is read. A damaged file counts as none. Losing the cache loses only time.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.runs.run_series import LoggedRun, Series, fingerprint, read_series, sources
from a2perf.worker_pool import worker_pool

_MAGIC = b"a2rlc\x00\x00\x01"
_START = struct.Struct("<8sII")
_FEW = 8  # runs that are read faster here than by processes that must start first


@dataclass(frozen=True)
class CachedRun:
    """The head of a cache file.

    Attributes:
        file: the cache file.
        base: byte at which the columns begin.
        metrics: offset, number of points and checksum by metric.
        notes: what a reader should know of the run's files.
    """

    file: Path
    base: int
    metrics: dict[str, tuple[int, int, int]]
    notes: list[str]

    def read(self, metric: str) -> Series | None:
        """Reads one metric; None when the run has none of that name or the file is damaged."""
        if metric not in self.metrics:
            return None
        offset, count, checksum = self.metrics[metric]
        try:
            with self.file.open("rb") as stream:
                data = os.pread(stream.fileno(), 24 * count, self.base + offset)
        except OSError:
            return None
        if len(data) != 24 * count or zlib.crc32(data) != checksum:
            return None
        columns = np.frombuffer(data, "<f8").reshape(3, count)
        return Series(columns[0], columns[1], columns[2])


class CurveCache:
    """The cache of one store.

    Args:
        folder: where the cache files lie; made when needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def head(self, run_id: str, run: Path) -> CachedRun | None:
        """Returns the head of a run's cache file if it is still right, else None."""
        return _head(self._file(run_id), fingerprint(sources(run)))

    def fill(self, runs: dict[str, Path], *, processes: int | None = None) -> None:
        """Reads the runs that the cache does not hold, in several processes when they are many."""
        stale = [(self._file(run_id), run) for run_id, run in runs.items() if self.head(run_id, run) is None]
        workers = min(len(os.sched_getaffinity(0)) if processes is None else processes, len(stale) // _FEW)
        if workers < 2:
            for file, run in stale:
                ingest(file, run)
            return
        with worker_pool(workers) as pool:
            list(pool.map(_ingest_pair, stale, chunksize=max(1, min(16, len(stale) // (4 * workers)))))

    def read(self, run_id: str, run: Path) -> CachedRun | LoggedRun:
        """Returns what a run logged: the head of its cache file, or all of it where the cache cannot be written."""
        head = self.head(run_id, run)
        if head is not None:
            return head
        return ingest(self._file(run_id), run)

    def series(self, run_id: str, run: Path, held: CachedRun | LoggedRun, metric: str) -> Series | None:
        """Returns one metric of a run; where its columns in the cache are damaged the run is read anew.

        Args:
            run_id: the run's name.
            run: its folder.
            held: what ``read`` returned.
            metric: the metric.
        """
        if isinstance(held, LoggedRun):
            return held.series.get(metric)
        found = held.read(metric)
        if found is None and metric in held.metrics:
            found = ingest(self._file(run_id), run).series.get(metric)
        return found

    def _file(self, run_id: str) -> Path:
        return self.folder / f"{hashlib.sha256(run_id.encode()).hexdigest()[:32]}.columns"


def ingest(file: Path, run: Path) -> LoggedRun:
    """Reads a run and writes its cache file, in one step; a cache that cannot be written is no error."""
    files = sources(run)
    state = fingerprint(files)
    logged = read_series(run, files)
    metrics: list[tuple[str, int, int, int]] = []
    pieces: list[bytes] = []
    offset = 0
    for name, series in logged.series.items():
        columns = (series.steps, series.values, series.times)
        data = b"".join(np.ascontiguousarray(column, "<f8").tobytes() for column in columns)
        metrics.append((name, offset, len(series.steps), zlib.crc32(data)))
        pieces.append(data)
        offset += len(data)
    head = json.dumps({"fingerprint": state, "notes": logged.notes, "metrics": metrics}).encode()
    temporary = ""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=file.parent)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(_START.pack(_MAGIC, len(head), zlib.crc32(head)))
            stream.write(head)
            stream.writelines(pieces)
        os.replace(temporary, file)
    except OSError:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
    return logged


def _ingest_pair(pair: tuple[Path, Path]) -> None:
    ingest(*pair)


def _head(file: Path, wanted: str) -> CachedRun | None:
    try:
        with file.open("rb") as stream:
            start = stream.read(_START.size)
            if len(start) < _START.size:
                return None
            magic, length, checksum = _START.unpack(start)
            head = stream.read(length) if magic == _MAGIC else b""
    except OSError:
        return None
    if not head or len(head) != length or zlib.crc32(head) != checksum:
        return None
    content: dict[str, Any] = json.loads(head)
    if content["fingerprint"] != wanted:
        return None
    metrics = {name: (offset, count, crc) for name, offset, count, crc in content["metrics"]}
    return CachedRun(file, _START.size + length, metrics, content["notes"])
