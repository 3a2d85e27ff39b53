"""``a2perf status``: the progress of an experiment, read from its queue, also while it is running."""

from __future__ import annotations

import json
from pathlib import Path

import click

from a2perf.cli.experiment import plain_console, print_failures, runs_table
from a2perf.experiments.progress import read_progress
from a2perf.launch import State
from a2perf.submission.options import normalised


@click.command(context_settings=normalised())
@click.argument("root", type=click.Path(path_type=Path), metavar="ROOT_DIR")
@click.option("--json", "as_json", is_flag=True, help="Print every run as JSON.")
def status(root: Path, as_json: bool) -> int:
    """Show the progress of an experiment.

    ROOT_DIR is the --root-dir of its `a2perf run`, or a packed file of that folder. Exit status: 0 all runs finished, 1
    some failed, 3 some are not finished.
    """
    entries, counts = read_progress(root)
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
