"""``a2perf status``: how the runs of an experiment stand, from its queue, also while it is running."""

from __future__ import annotations

import json
from pathlib import Path

import click

from a2perf.cli.experiment import plain_console, print_failures, runs_table
from a2perf.errors import ConfigError
from a2perf.launch import QUEUE_FILE, Queue, State
from a2perf.submission.options import normalised


@click.command(context_settings=normalised())
@click.argument("root", type=click.Path(path_type=Path), metavar="ROOT_DIR")
@click.option("--json", "as_json", is_flag=True, help="Print every run as JSON.")
def status(root: Path, as_json: bool) -> int:
    """Show how the runs of an experiment stand.

    ROOT_DIR is the --root_dir of the `a2perf-launch` that started it. Exit status 0 when all runs are finished, 1 when
    some failed, 3 when some are still to be run.
    """
    if not (root / QUEUE_FILE).is_file():
        raise ConfigError(f"{root} holds no experiment", hint="give the --root_dir of an experiment of several runs")
    with Queue(root / QUEUE_FILE) as queue:
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
