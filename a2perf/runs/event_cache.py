"""A columnar cache of event files, since decoding the same gigabytes twice is waste and event files only grow.

One cache file per event file: a sequence of segments, each with a checksum, a JSON head and the columns of every scalar
tag as raw little-endian arrays. A reading is served from it when path, size, modification time, the first and the last
checksum of the event file agree. When the file grew and both checksums still stand where they stood, only the new
records are decoded, and appended as one more segment. In every other case the cache file is replaced. A damaged cache
file counts as none. Losing it loses nothing but time; what nobody has read for 90 days is deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import tempfile
import time
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from a2perf import assets
from a2perf.runs.event_files import HEADER_BYTES, EventFile, EventProblem, ScalarSeries, joined, read_event_file

_HEAD = struct.Struct("<8sIQI")  # magic and version, bytes of JSON, bytes of columns, checksum of both
_MAGIC = b"a2evc\x00\x00\x01"
_MOST_SEGMENTS = 16
_FOOTER_BYTES = 4
_UNUSED_S = 90 * 86_400  # a cache file that nobody has read for this long goes
_SWEEP_S = 86_400


@dataclass
class _Segment:
    """One reading: the scalars between two bytes of the event file, and the file's state at that time."""

    state: dict[str, Any]
    scalars: dict[str, ScalarSeries]


class EventCache:
    """Reads event files through a cache folder.

    Args:
        folder: where the cache files lie; a2perf's own cache folder when not given. When it cannot be written, files
            are read without a cache.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else assets.cache_dir() / "events"

    def read(self, path: Path, tags: Collection[str] | None = None) -> EventFile:
        """Reads the scalars of an event file, from the cache as far as that is still right.

        Args:
            path: the event file.
            tags: the tags wanted; all when None. The cache holds all of them in any case.

        Returns:
            The same as ``read_event_file``.
        """
        try:
            now = _state(path)
        except OSError:
            return read_event_file(path, tags)
        target = self._target(path)
        segments = _load(target)
        if segments and not _is_current(segments[-1].state, now):
            segments = _extended(path, segments, now, target)
        if not segments:
            found = read_event_file(path)
            segments = [_segment(path, found, now, start=0)]
            _replace(target, segments)
            _sweep(self.folder)
        return _result(path, segments, tags)

    def _target(self, path: Path) -> Path:
        name = hashlib.sha256(os.fsencode(os.path.abspath(path))).hexdigest()[:40]
        return self.folder / f"{name}.columns"


def _state(path: Path) -> dict[str, Any]:
    """Returns what identifies the content of a file without reading it all."""
    with path.open("rb") as stream:
        status = os.fstat(stream.fileno())
        return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "first": stream.read(HEADER_BYTES).hex()}


def _bytes_before(path: Path, end: int) -> str:
    with path.open("rb") as stream:
        stream.seek(max(0, end - _FOOTER_BYTES))
        return stream.read(min(end, _FOOTER_BYTES)).hex()


def _is_current(cached: dict[str, Any], now: dict[str, Any]) -> bool:
    return all(cached[key] == now[key] for key in ("size", "mtime_ns", "first"))


def _extended(path: Path, segments: list[_Segment], now: dict[str, Any], target: Path) -> list[_Segment]:
    """Returns the segments with the file's new records, or none when the file did not merely grow."""
    last = segments[-1].state
    grew = now["size"] > last["size"] and now["first"] == last["first"] and last["end"] > 0
    if not grew or _bytes_before(path, last["end"]) != last["last"]:
        return []
    found = read_event_file(path, start=last["end"])
    new = _segment(path, found, now, start=last["end"])
    segments = [*segments, new]
    if len(segments) > _MOST_SEGMENTS:
        _replace(target, segments := [_merged(segments)])
    else:
        with contextlib.suppress(OSError), target.open("ab") as stream:
            stream.write(_encoded(new))
    return segments


def _segment(path: Path, found: EventFile, now: dict[str, Any], *, start: int) -> _Segment:
    with contextlib.suppress(OSError):
        now = {**now, "last": _bytes_before(path, found.end)}
    problems = [[problem.kind, problem.offset, problem.detail] for problem in found.problems]
    state = {**now, "start": start, "end": found.end, "records": found.records, "problems": problems}
    return _Segment(state, found.scalars)


def _merged(segments: list[_Segment]) -> _Segment:
    whole = _result(Path(), segments, None)
    problems = [[problem.kind, problem.offset, problem.detail] for problem in whole.problems]
    state = {**segments[-1].state, "start": 0, "records": whole.records, "problems": problems}
    return _Segment(state, whole.scalars)


def _result(path: Path, segments: list[_Segment], tags: Collection[str] | None) -> EventFile:
    pieces: dict[str, list[ScalarSeries]] = {}
    result = EventFile(path, end=segments[-1].state["end"])
    for index, segment in enumerate(segments):
        for tag, series in segment.scalars.items():
            if tags is None or tag in tags:
                pieces.setdefault(tag, []).append(series)
        result.records += segment.state["records"]
        # what was said of the end of the file at that time was judged anew by the next segment
        settled = segment.state["end"] if index + 1 < len(segments) else float("inf")
        result.problems += [EventProblem(path, *fields) for fields in segment.state["problems"] if fields[1] < settled]
    result.scalars = {tag: joined(pieces[tag]) for tag in sorted(pieces)}
    return result


def _encoded(segment: _Segment) -> bytes:
    tags = [[tag, len(series)] for tag, series in segment.scalars.items()]
    head = json.dumps({**segment.state, "tags": tags}, separators=(",", ":")).encode()
    head += b" " * (-(len(head) + _HEAD.size) % 8)  # columns begin on a multiple of 8
    columns = b"".join(
        column.astype(dtype, copy=False).tobytes()
        for series in segment.scalars.values()
        for column, dtype in ((series.steps, "<i8"), (series.values, "<f8"), (series.wall_times, "<f8"))
    )
    checksum = zlib.crc32(columns, zlib.crc32(head))
    return _HEAD.pack(_MAGIC, len(head), len(columns), checksum) + head + columns


def _load(target: Path) -> list[_Segment]:
    """Returns the segments of a cache file that follow one another without a gap; none when anything is wrong."""
    try:
        data = target.read_bytes()
        os.utime(target)  # says that it is still in use
    except OSError:
        return []
    segments: list[_Segment] = []
    view = memoryview(data)
    position = 0
    while position + _HEAD.size <= len(data):
        magic, head_size, column_size, checksum = _HEAD.unpack_from(data, position)
        low = position + _HEAD.size
        middle, high = low + head_size, low + head_size + column_size
        if magic != _MAGIC or high > len(data) or zlib.crc32(view[low:high]) != checksum:
            return []
        state = json.loads(data[low:middle])
        if state["start"] != (segments[-1].state["end"] if segments else 0):
            return []  # two processes appended the same records
        segments.append(_Segment(state, _columns(data, middle, state.pop("tags"))))
        position = high
    return segments if position == len(data) else []


def _columns(data: bytes, position: int, tags: list[tuple[str, int]]) -> dict[str, ScalarSeries]:
    found = {}
    for tag, count in tags:
        steps = np.frombuffer(data, "<i8", count, position)
        values = np.frombuffer(data, "<f8", count, position + 8 * count)
        wall_times = np.frombuffer(data, "<f8", count, position + 16 * count)
        found[tag] = ScalarSeries(steps, values, wall_times)
        position += 24 * count
    return found


def _sweep(folder: Path) -> None:
    """Deletes, at most once a day, the cache files that nobody has read for long."""
    stamp = folder / ".swept"
    now = time.time()
    with contextlib.suppress(OSError):
        if stamp.exists() and now - stamp.stat().st_mtime < _SWEEP_S:
            return
        stamp.touch()
        os.utime(stamp, (now, now))
        for path in folder.glob("*.columns"):
            if now - path.stat().st_mtime > _UNUSED_S:
                path.unlink()


def _replace(target: Path, segments: list[_Segment]) -> None:
    """Writes a cache file in one step, without waiting for the disk: the checksums tell when a crash spoilt it."""
    temporary = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
        with os.fdopen(descriptor, "wb") as stream:
            for segment in segments:
                stream.write(_encoded(segment))
        os.replace(temporary, target)
    except OSError:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
