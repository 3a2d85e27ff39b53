"""The cache of log files as columns: decoding gigabytes of event files takes minutes.

One cache file per log file: a JSON head (state of the log file, problems, offset and checksum of each column) and raw
little-endian float64 columns, so one series is read without the others. The cache file is valid while size and times of
the log file agree. A damaged cache file counts as missing. The cache can be deleted at any time; files that were not
read for 90 days are deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf import assets
from a2perf.runs.bundles.files import BundleFiles, FileStatus
from a2perf.system import files as os

Columns = NDArray[np.float64]
Problem = tuple[int, str]  # byte offset in an event file (-1 for other files), and the problem

_HEAD = struct.Struct("<8sIQI")  # magic and version, bytes of JSON, bytes of columns, checksum of the JSON
_MAGIC = b"a2ser\x00\x00\x05"
_FIRST_READ = 8192  # bytes; holds the head of most cache files
_UNUSED_S = 90 * 86_400
_DAY_S = 86_400


@dataclass
class LogContent:
    """The result of reading a log file once.

    Attributes:
        columns: float64 arrays of shape ``(width, points)`` by name: steps, values and times of a series, or one column
            of a table.
    """

    columns: dict[str, Columns]
    problems: list[Problem] = field(default_factory=list)


Reader = Callable[[], LogContent]


class CachedLog:
    """One log file; its series are read on demand.

    Args:
        target: the cache file; its columns begin at ``base``.
        held: the columns of a file that was read just now.

    Attributes:
        state: the head of the cache file.
        began_s: earliest time of a series in it; None for a table.
        names: number of points by name: series sorted by name, columns in the order of the file.
    """

    def __init__(self, state: dict[str, Any], target: Path, base: int, held: dict[str, Columns] | None = None) -> None:
        self.state = state
        self.began_s: float | None = state["began_s"]
        self.problems: list[Problem] = [(offset, detail) for offset, detail in state["problems"]]
        self._index = {name: place for name, *place in state["columns"]}
        self.names: dict[str, int] = {name: points for name, (_, _, points, _) in self._index.items()}
        self._target, self._base, self._held = target, base, held

    @classmethod
    def of(cls, content: LogContent, status: FileStatus) -> CachedLog:
        """Returns a log file that was read just now."""
        firsts = [float(found[2].min()) for found in content.columns.values() if found.shape[0] == 3 and found.shape[1]]
        state = {
            # NaN is not equal to itself and is left out: min would depend on its place.
            "began_s": min((first for first in firsts if first == first), default=None),
            "stamp": status.stamp,
            "problems": content.problems,
            "columns": [(name, 0, *found.shape, 0) for name, found in content.columns.items()],
        }
        return cls(state, Path(), 0, content.columns)

    def read(self, name: str) -> Columns | None:
        """Returns the columns of a series, shape ``(width, points)``; None if the cache file is damaged."""
        offset, width, points, checksum = self._index[name]
        if self._held is not None:
            return self._held[name]
        try:
            with self._target.open("rb", buffering=0) as stream:
                data = os.pread(stream.fileno(), 8 * width * points, self._base + offset)
        except OSError:
            return None
        if len(data) != 8 * width * points or zlib.crc32(data) != checksum:
            return None
        return np.frombuffer(data, "<f8").reshape(width, points)


class SeriesCache:
    """The cache of every log file that this user reads.

    Args:
        folder: folder of its files, by default a2perf's cache folder. If it cannot be written, log files are read
            without a cache.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else assets.cache_dir() / "series"

    def fresh(self, files: BundleFiles, status: FileStatus) -> CachedLog | None:
        """Returns a log file from the cache; None if it must be read."""
        log = _load(self._target(files, status.path)) if status.stamp else None
        return log if log is not None and log.state["stamp"] == status.stamp else None

    def read(self, files: BundleFiles, status: FileStatus, reader: Reader, *, again: bool = False) -> CachedLog:
        """Returns a log file, from the cache if that is valid; raises what ``reader`` raises."""
        known = None if again else self.fresh(files, status)
        if known is not None:
            return known
        content = reader()
        log = CachedLog.of(content, status)
        if status.stamp:
            _replace(self._target(files, status.path), log.state, content)
            _sweep(self.folder)
        return log

    def _target(self, files: BundleFiles, name: str) -> Path:
        place = os.fsencode(os.path.join(os.path.abspath(files.path), name))
        return self.folder / f"{hashlib.sha256(place).hexdigest()[:40]}.columns"


def _load(target: Path) -> CachedLog | None:
    """Returns the log file of a cache file; None if the cache file is missing or damaged."""
    try:
        with target.open("rb", buffering=0) as stream:
            status = os.fstat(stream.fileno())
            if time.time() - status.st_mtime > _DAY_S:
                os.utime(target)  # _sweep deletes by modification time: mark as used
            data = os.pread(stream.fileno(), _FIRST_READ, 0)
            magic, length, size, checksum = _HEAD.unpack_from(data)
            base = _HEAD.size + length
            if magic != _MAGIC or base + size != status.st_size:
                return None
            head = data[_HEAD.size : base] if base <= len(data) else os.pread(stream.fileno(), length, _HEAD.size)
    except (OSError, struct.error):
        return None
    return CachedLog(json.loads(head), target, base) if zlib.crc32(head) == checksum else None


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
    pieces, index, offset = [], [], 0
    for name, found in content.columns.items():
        data = np.ascontiguousarray(found, "<f8").tobytes()
        index.append([name, offset, *found.shape, zlib.crc32(data)])
        pieces.append(data)
        offset += len(data)
    head = json.dumps({**state, "columns": index}, separators=(",", ":")).encode()
    temporary = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
        with os.fdopen(descriptor, "wb") as stream:
            stream.writelines([_HEAD.pack(_MAGIC, len(head), offset, zlib.crc32(head)), head, *pieces])
        os.replace(temporary, target)
    except OSError:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
