"""Folders that one TensorBoard writer creates below its own: they belong to its run.

``add_scalars("loss", {"policy": ..., "value": ...})`` writes the tag ``loss`` into the folders ``loss_policy`` and
``loss_value``; ``add_hparams`` writes final values into a folder that is named by the time.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from a2perf.runs.event_files import read_event_stream
from a2perf.runs.files import files_of, folders_of
from a2perf.runs.log_files import LogKind, is_trainer_log, log_kind
from a2perf.stranger_files import StrangerFileError

_HPARAMS = re.compile(r"\d{9,11}\.\d+")
_PEEK_BYTES = 256 << 10


def writer_children(folder: Path, names: Iterable[str], files: Sequence[str]) -> dict[str, list[str]]:
    """Returns the event files of each folder below one with event files that its writer created."""
    if not any(log_kind(file) is LogKind.EVENTS for file in files):
        return {}
    found = {}
    for name in names:
        _, _, inner = next(folders_of(folder / name), ("", [], []))
        logs = [file for file in inner if is_trainer_log(file)]
        if logs and all(log_kind(file) is LogKind.EVENTS for file in logs) and _is_child(folder / name, logs):
            found[name] = sorted(logs)
    return found


def is_hparams_folder(name: str) -> bool:
    """Returns whether a folder's name is the time at which ``add_hparams`` was called."""
    return _HPARAMS.fullmatch(name) is not None


def child_name(folder: str, tag: str) -> str | None:
    """Returns the name of a curve of ``add_scalars`` from its folder and its tag; None if it is not one of them."""
    start = tag.replace("/", "_") + "_"
    return folder.removeprefix(start) if folder.startswith(start) and folder != start else None


def _is_child(folder: Path, logs: Sequence[str]) -> bool:
    if is_hparams_folder(folder.name):
        return True
    tags: set[str] = set()
    for log in logs:
        try:
            with files_of(folder).open(log) as stream:
                beginning = stream.read(_PEEK_BYTES)
        except (StrangerFileError, OSError):
            return False
        tags |= set(read_event_stream(io.BytesIO(beginning), Path(log)).scalars)
    return all(child_name(folder.name, tag) is not None for tag in tags)
