"""``a2perf status``: how the runs of an experiment stand, from its queue, also while it is running."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from a2perf.cli.experiment import plain_console, print_failures, runs_table
from a2perf.errors import ConfigError
from a2perf.launch import QUEUE_FILE, Queue, State
from a2perf.runs.files import files_of, kind_at
from a2perf.runs.packed_archive import packed_place, packed_top
from a2perf.stranger_files import Kind
from a2perf.submission.options import normalised


@click.command(context_settings=normalised())
@click.argument("root", type=click.Path(path_type=Path), metavar="ROOT_DIR")
@click.option("--json", "as_json", is_flag=True, help="Print every run as JSON.")
def status(root: Path, as_json: bool) -> int:
    """Show how the runs of an experiment stand.

    ROOT_DIR is the --root_dir of the `a2perf-launch` that started it, or a packed file of that folder. Exit status 0
    when all runs are finished, 1 when some failed, 3 when some are still to be run.
    """
    with _queue_file(root) as file, Queue(file) as queue:
        queue.reap()  # a run whose launcher died does not run
        entries = queue.entries()
        counts = queue.counts()
    if as_json:
        found = {"counts": {state.value: count for state, count in counts.items()}}
        click.echo(json.dumps({**found, "runs": [entry.as_json() for entry in entries]}, indent=2))
    else:
        console = plain_console()
        console.print(runs_table(entries))
        print_failures(console, entries)
        console.print(", ".join(f"{count} {state.value}" for state, count in counts.items() if count))
    if counts[State.FINISHED] + counts[State.FAILED] < len(entries):
        return 3
    return 1 if counts[State.FAILED] else 0


@contextlib.contextmanager
def _queue_file(root: Path) -> Iterator[Path]:
    """Yields the queue of an experiment; that of a packed one is a copy, since SQLite opens files only."""
    top = packed_top(root)
    is_packed = packed_place(top) is not None
    if not (kind_at(top / QUEUE_FILE) is Kind.FILE if is_packed else (top / QUEUE_FILE).is_file()):
        raise ConfigError(f"{root} holds no experiment", hint="give the --root_dir of an experiment of several runs")
    if not is_packed:
        yield top / QUEUE_FILE
        return
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / QUEUE_FILE
        with files_of(top).open(QUEUE_FILE) as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        yield copy
