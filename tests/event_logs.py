"""Reads the event files that a run wrote, with the reader of the package."""

from __future__ import annotations

from pathlib import Path

from a2perf.runs.events.event_files import EventFile, read_event_stream


def read_event_file(path: Path) -> EventFile:
    with path.open("rb") as stream:
        return read_event_stream(stream)


def event_files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*tfevents*") if path.is_file() and not path.is_symlink())
