"""The cache of log files as columns: decoding gigabytes of event files takes minutes.

One cache file per log file: segments of a JSON head (state of the log file, problems, offset and checksum of each
column) and raw little-endian float64 columns, so one series is read without the others. The cache file is valid while
size and times of the log file agree. If an event file grew and both ends of the part read before are unchanged, only
the new part is decoded and appended as a segment; otherwise the cache file is replaced. A damaged cache file counts as
missing. The cache can be deleted at any time; files that were not read for 90 days are deleted.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf import assets
from a2perf.runs.files import BundleFiles, FileStatus

Columns = NDArray[np.float64]
Problem = tuple[int, str]
"""Byte offset in an event file (-1 for other files), and the problem."""

_HEAD = struct.Struct("<8sIQI")  # magic and version, bytes of JSON, bytes of columns, checksum of the JSON
_MAGIC = b"a2ser\x00\x00\x02"
_FIRST_READ = 8192  # bytes; holds the head of most cache files
_MOST_SEGMENTS = 16
_UNUSED_S = 90 * 86_400
_DAY_S = 86_400


@dataclass
class LogContent:
    """The result of reading a log file once.

    Attributes:
        columns: float64 arrays of shape ``(width, points)`` by name: steps, values and times of a series, or one column
            of a table.
        end: byte up to which it read; a later reading may begin there. 0 if it may not.
        ends: the first bytes of the file and those before ``end``, to recognise a file that only grew.
    """

    columns: dict[str, Columns]
    problems: list[Problem] = field(default_factory=list)
    start: int = 0
    end: int = 0
    ends: tuple[str, str] = ("", "")


Reader = Callable[[int], LogContent]
"""Reads a log file from a byte on; 0 for all of it."""


@dataclass(frozen=True)
class _Segment:
    state: dict[str, Any]
    index: dict[str, tuple[int, int, int, int]]  # offset, width, points, checksum
    base: int
    content: LogContent | None = None


class _DamagedCache(Exception):
    """A cache file does not hold what its head states."""


class CachedLog:
    """One log file; its series are read on demand.

    Attributes:
        began_s: earliest time of a series in it; None for a table.
    """

    def __init__(self, target: Path, segments: list[_Segment]) -> None:
        self._target = target
        self._segments = segments
        began = [segment.state["began_s"] for segment in segments if segment.state["began_s"] is not None]
        self.began_s: float | None = min(began) if began else None
        self.problems: list[Problem] = []
        for at, segment in enumerate(segments):
            # the next segment reads the former end of the file again, so its problems there are outdated
            settled = segment.state["end"] if at + 1 < len(segments) else float("inf")
            self.problems += [(offset, detail) for offset, detail in segment.state["problems"] if offset < settled]

    @classmethod
    def of(cls, content: LogContent, status: FileStatus) -> CachedLog:
        """Returns a log file that is not in the cache."""
        return cls(Path(), [_segment(content, status)])

    @functools.cached_property
    def names(self) -> dict[str, int]:
        """Number of points by name: series sorted by name, columns in the order of the file."""
        found: dict[str, int] = {}
        for segment in self._segments:
            for name, (_, _, points, _) in segment.index.items():
                found[name] = found.get(name, 0) + points
        return found

    def read(self, name: str) -> Columns | None:
        """Returns the columns of a series, shape ``(width, points)``; None if the cache file is damaged.

        Raises:
            KeyError: there is no such series.
        """
        found = self._read([name])
        return None if found is None else found[name]

    def content(self) -> LogContent | None:
        """Returns all columns; None if the cache file is damaged."""
        columns = self._read(sorted(self.names))
        last = self._segments[-1].state
        if columns is None:
            return None
        return LogContent(columns, list(self.problems), 0, last["end"], tuple(last["ends"]))

    def _read(self, names: Sequence[str]) -> dict[str, Columns] | None:
        whole = self._segments[0].content
        if whole is not None:
            return {name: whole.columns[name] for name in names}
        try:
            with self._target.open("rb", buffering=0) as stream:
                found = {name: self._columns(stream.fileno(), name) for name in names}
        except (OSError, _DamagedCache):
            return None
        return found

    def _columns(self, descriptor: int, name: str) -> Columns:
        pieces = []
        for segment in self._segments:
            if name in segment.index:
                offset, width, points, checksum = segment.index[name]
                data = os.pread(descriptor, 8 * width * points, segment.base + offset)
                if len(data) != 8 * width * points or zlib.crc32(data) != checksum:
                    raise _DamagedCache
                pieces.append(np.frombuffer(data, "<f8").reshape(width, points))
        if not pieces:
            raise KeyError(name)
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=1)


class SeriesCache:
    """The cache of every log file that this user reads.

    Args:
        folder: folder of its files, by default a2perf's cache folder. If it cannot be written, log files are read
            without a cache.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else assets.cache_dir() / "series"

    def fresh(self, files: BundleFiles, status: FileStatus) -> CachedLog | None:
        """Returns a log file from the cache; None if it must be read.

        Args:
            files: the run's files.
        """
        target = self._target(files, status.path)
        segments = _load(target) if status.stamp else []
        return CachedLog(target, segments) if segments and segments[-1].state["stamp"] == status.stamp else None

    def read(self, files: BundleFiles, status: FileStatus, reader: Reader, *, again: bool = False) -> CachedLog:
        """Returns a log file, from the cache as far as that is valid.

        Args:
            files: the run's files.

        Raises:
            StrangerFileError: the log file cannot be opened.
            OSError: it cannot be read.
        """
        target = self._target(files, status.path)
        segments = _load(target) if status.stamp and not again else []
        if segments and segments[-1].state["stamp"] != status.stamp:
            segments = _extended(segments, files, status, reader, target)
        if not segments:
            content = reader(0)
            segments = [_segment(content, status)]
            if status.stamp:
                _replace(target, segments[0].state, content)
                _sweep(self.folder)
        return CachedLog(target, segments)

    def _target(self, files: BundleFiles, name: str) -> Path:
        place = os.fsencode(os.path.join(os.path.abspath(files.path), name))
        return self.folder / f"{hashlib.sha256(place).hexdigest()[:40]}.columns"


def _segment(content: LogContent, status: FileStatus) -> _Segment:
    firsts = [float(found[2].min()) for found in content.columns.values() if found.shape[0] == 3 and found.shape[1]]
    state = {
        # NaN is not equal to itself and is left out: min would depend on its place.
        "began_s": min((first for first in firsts if first == first), default=None),
        "stamp": status.stamp, "size": status.size, "start": content.start, "end": content.end,
        "ends": list(content.ends), "problems": [list(problem) for problem in content.problems],
    }  # fmt: skip
    index = {name: (0, *found.shape, 0) for name, found in content.columns.items()}
    return _Segment(state, index, 0, content)


def _extended(
    segments: list[_Segment], files: BundleFiles, status: FileStatus, reader: Reader, target: Path
) -> list[_Segment]:
    """Returns the segments with the part that was appended to the file; none if the file changed otherwise."""
    last = segments[-1].state
    if status.size <= last["size"] or last["end"] <= 0 or not last["ends"][0]:
        return []
    with files.open(status.path) as stream:
        if list(surroundings(stream, last["end"])) != last["ends"]:
            return []
    added = reader(last["end"])
    segment = _segment(added, status)
    if len(segments) < _MOST_SEGMENTS:
        with contextlib.suppress(OSError), target.open("ab") as stream:
            stream.writelines(_encoded(segment.state, added))
    whole = _merged(target, [*segments, segment], status)
    if whole is None:
        return []
    if len(segments) >= _MOST_SEGMENTS:
        assert whole.content is not None
        _replace(target, whole.state, whole.content)
    return [whole]


def _merged(target: Path, segments: list[_Segment], status: FileStatus) -> _Segment | None:
    """Returns segments, the last of them in memory, as one in memory."""
    before = CachedLog(target, segments[:-1]).content()
    last = segments[-1].content
    if before is None or last is None:
        return None
    names = sorted({*before.columns, *last.columns})
    columns = {
        name: np.concatenate([held.columns[name] for held in (before, last) if name in held.columns], axis=1)
        for name in names
    }
    problems = CachedLog(target, segments).problems
    return _segment(LogContent(columns, problems, 0, last.end, last.ends), status)


def surroundings(stream: Any, end: int) -> tuple[str, str]:
    """Returns the first bytes of an open event file and those before ``end``, as hexadecimal text."""
    stream.seek(0)
    # 12 bytes: length of the first record and its checksum. 4 bytes: checksum of the last record that was read.
    first = stream.read(12)
    stream.seek(max(0, end - 4))
    return first.hex(), stream.read(min(end, 4)).hex()


def _encoded(state: dict[str, Any], content: LogContent) -> Iterable[bytes]:
    pieces, index, offset = [], [], 0
    for name, found in content.columns.items():
        data = np.ascontiguousarray(found, "<f8").tobytes()
        index.append([name, offset, *found.shape, zlib.crc32(data)])
        pieces.append(data)
        offset += len(data)
    head = json.dumps({**state, "columns": index}, separators=(",", ":")).encode()
    return [_HEAD.pack(_MAGIC, len(head), offset, zlib.crc32(head)), head, *pieces]


def _load(target: Path) -> list[_Segment]:
    """Returns the contiguous segments of a cache file; none if the file is damaged."""
    segments: list[_Segment] = []
    try:
        with target.open("rb", buffering=0) as stream:
            descriptor = stream.fileno()
            status = os.fstat(descriptor)
            if time.time() - status.st_mtime > _DAY_S:
                os.utime(descriptor)  # _sweep deletes by modification time: mark as used
            position = 0
            while position < status.st_size:
                data = os.pread(descriptor, _FIRST_READ, position)
                magic, length, size, checksum = _HEAD.unpack_from(data)
                base = position + _HEAD.size + length
                head = data[_HEAD.size : _HEAD.size + length]
                if magic != _MAGIC or base + size > status.st_size:
                    return []
                if len(head) < length:
                    head = os.pread(descriptor, length, position + _HEAD.size)
                if zlib.crc32(head) != checksum:
                    return []
                state = json.loads(head)
                if state["start"] != (segments[-1].state["end"] if segments else 0):
                    return []  # two processes appended the same segment: files are not locked, checking here is enough
                index = {name: (offset, width, points, crc) for name, offset, width, points, crc in state["columns"]}
                segments.append(_Segment(state, index, base))
                position = base + size
    except (OSError, struct.error):
        return []
    return segments


def _sweep(folder: Path) -> None:
    """Deletes the cache files that were not read for a long time; runs at most once a day."""
    stamp = folder / ".swept"
    now = time.time()
    with contextlib.suppress(OSError):
        if stamp.exists() and now - stamp.stat().st_mtime < _DAY_S:
            return
        # Before the search: processes that start during it do not repeat it.
        stamp.touch()
        os.utime(stamp, (now, now))
        for path in folder.glob("*.columns"):
            if now - path.stat().st_mtime > _UNUSED_S:
                path.unlink()


def _replace(target: Path, state: dict[str, Any], content: LogContent) -> None:
    """Writes a cache file atomically but without ``fsync``: its checksums reveal damage by a crash."""
    temporary = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
        with os.fdopen(descriptor, "wb") as stream:
            stream.writelines(_encoded(state, content))
        os.replace(temporary, target)
    except OSError:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
