"""The cache of log files: what it serves, and from where it reads again."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from a2perf.runs.bundles.files import BundleFiles
from a2perf.runs.events import log_files
from a2perf.runs.events.event_files import read_event_stream
from a2perf.runs.events.event_series import EventFile
from a2perf.runs.events.log_files import LogKind, reader_of
from a2perf.runs.events.series_cache import CachedLog, LogContent, SeriesCache
from tests.event_logs import read_event_file
from tests.metrics import event_bytes as made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(made.version() + made.curve("a", range(40)) + made.curve("b", range(40)))
    return path


class EventCache:
    """Reads whole event files through the cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, path: Path, *, again: bool = False) -> CachedLog:
        files = BundleFiles(path.parent)
        status = files.status(path.name)
        assert status is not None
        reader = reader_of(files, path.name, LogKind.EVENTS)
        return SeriesCache(self.folder).read(files, status, reader, again=again)

    def read(self, path: Path) -> LogContent:
        for again in (False, True):
            log = self.open(path, again=again)
            columns = {name: found for name in sorted(log.names) if (found := log.read(name)) is not None}
            if len(columns) == len(log.names):
                break
        return LogContent(columns, log.problems)


@pytest.fixture
def cache(tmp_path: Path) -> EventCache:
    return EventCache(tmp_path / "cache")


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[EventFile]:
    """The result of each real reading of a file."""
    found: list[EventFile] = []

    def noting(stream: BinaryIO) -> EventFile:
        found.append(read_event_stream(stream))
        return found[-1]

    monkeypatch.setattr(log_files, "read_event_stream", noting)
    return found


def same(left: LogContent, right: EventFile | LogContent) -> None:
    if isinstance(right, LogContent):
        assert left.problems == right.problems
        expected = right.columns
    else:
        assert left.problems == [(found.offset, found.detail) for found in right.problems]
        expected = {
            tag: np.stack([points.steps.astype(float), points.values, points.wall_times])
            for tag, points in right.scalars.items()
        }
    assert list(left.columns) == list(expected)
    for tag, columns in left.columns.items():
        np.testing.assert_array_equal(columns, expected[tag])


def test_second_reading_comes_from_the_cache_and_is_equal(path: Path, cache: EventCache, readings: list[EventFile]):
    first = cache.read(path)
    same(cache.read(path), first)
    same(first, read_event_file(path))
    assert cache.open(path).names == {"a": 40, "b": 40}
    assert len(readings) == 1


def test_record_that_was_cut_off_is_complete_at_the_next_reading(path: Path, cache: EventCache):
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    assert "not complete" in cache.read(path).problems[0][1]
    with path.open("ab") as stream:
        stream.write(whole[-7:])
    found = cache.read(path)
    assert found.problems == []
    same(found, read_event_file(path))


@pytest.mark.parametrize("what", ["rewritten", "shrunk", "replaced and longer", "touched"])
def test_other_changes_are_read_from_the_beginning(path: Path, cache: EventCache, readings: list[EventFile], what: str):
    cache.read(path)
    old = path.read_bytes()
    if what == "rewritten":
        path.write_bytes(made.version() + made.curve("a", range(1, 41)) + made.curve("b", range(40)))
        assert path.stat().st_size == len(old)
    elif what == "shrunk":
        path.write_bytes(old[: len(old) // 2])
    elif what == "replaced and longer":
        path.write_bytes(made.version() + made.curve("a", range(200, 300)))
        assert path.stat().st_size > len(old)
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))
    found = cache.read(path)
    assert len(readings) == 2
    same(found, read_event_file(path))


@pytest.mark.parametrize("where", [0, 10, 200, -1, "cut off by a crash"])
def test_damaged_cache_file_counts_as_none(path: Path, cache: EventCache, readings: list[EventFile], where: int | str):
    cache.read(path)
    (columns,) = cache.folder.glob("*.columns")
    data = bytearray(columns.read_bytes())
    if isinstance(where, str):
        del data[-100:]
    else:
        data[where] ^= 0xFF
    columns.write_bytes(data)
    same(cache.read(path), read_event_file(path))
    assert len(readings) == 2
    cache.read(path)
    assert len(readings) == 2  # it was repaired


def test_folder_that_cannot_be_written_only_costs_time(path: Path, tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    cache = EventCache(tmp_path / "file" / "cache")
    same(cache.read(path), read_event_file(path))
    same(cache.read(path), read_event_file(path))


def test_what_nobody_reads_for_long_is_deleted_at_most_once_a_day(path: Path, cache: EventCache, tmp_path: Path):
    cache.read(path)
    (kept,) = cache.folder.glob("*.columns")
    old = cache.folder / "old.columns"
    other = tmp_path / "events.out.tfevents.2"
    other.write_bytes(path.read_bytes())

    def age(file: Path, days: float) -> None:
        then = time.time() - days * 86_400
        os.utime(file, (then, then))

    old.write_bytes(b"")
    age(old, 100)
    cache.read(other)
    assert old.exists()  # swept a moment ago
    age(cache.folder / ".swept", 2)
    age(kept, 100)
    cache.read(path)  # in use again
    age(cache.folder / ".swept", 2)
    other.write_bytes(made.version())
    cache.read(other)
    assert not old.exists()
    assert kept.exists()
