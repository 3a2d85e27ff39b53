"""The progress of an experiment, from the queue in its root folder or in a packed file of it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from a2perf.errors import ConfigError
from a2perf.launch import QUEUE_FILE, Queue, QueueEntry
from a2perf.runs.bundles.files import files_of, kind_at
from a2perf.runs.packed.packed_archive import packed_place, packed_top
from a2perf.stranger_files import Kind


def read_progress(root: Path) -> list[QueueEntry]:
    """Returns the runs of an experiment, from its root folder or from a packed file of it.

    A run of a launcher that no longer runs counts as waiting.

    Raises:
        ConfigError: the folder holds no experiment.
    """
    with _queue_file(root) as file, Queue(file) as queue:
        queue.reap()  # runs of a dead launcher are no longer running
        return queue.entries()


@contextlib.contextmanager
def _queue_file(root: Path) -> Iterator[Path]:
    """Yields the queue of an experiment; for a packed one, a copy, because SQLite opens only files."""
    top = packed_top(root)
    is_packed = packed_place(top) is not None
    if not (kind_at(top / QUEUE_FILE) is Kind.FILE if is_packed else (top / QUEUE_FILE).is_file()):
        raise ConfigError(f"{root} holds no experiment", hint="give the --root-dir of an experiment of several runs")
    if not is_packed:
        yield top / QUEUE_FILE
        return
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / QUEUE_FILE
        with files_of(top).open(QUEUE_FILE) as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        yield copy
