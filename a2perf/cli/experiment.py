"""How an experiment is run from the command line, and its result as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from a2perf import terminal
from a2perf.cli.launch_options import LaunchOptions
from a2perf.errors import command_line
from a2perf.experiments.experiment import Experiment, plan
from a2perf.launch import QUEUE_FILE, ExperimentResult, QueueEntry, RunSpec, State
from a2perf.launch.outcomes import mean_return
from a2perf.plain_text import terminal_line

_FILE_WIDTH = 160
_FIRST_LABELS = ("submission", "task", "mode")
_NOT_LABELS = ("seed", "root", "bundle", "log", "split")
"""Data of a run that differ between its seeds or follow from other labels."""


def run_experiment(experiment: Experiment, options: LaunchOptions, *, json_output: bool) -> int:
    """Runs an experiment, shows its progress on stderr and its result on stdout.

    Returns:
        The exit status: 0 all runs finished, 1 some failed, 3 the infrastructure failed one, 130 interrupted.
    """
    return run_specs(plan(experiment), experiment.root, options, json_output=json_output)


def run_specs(specs: Sequence[RunSpec], root: Path, options: LaunchOptions, *, json_output: bool) -> int:
    """Runs specifications below a folder; see ``run_experiment``."""
    with options.conductor(live=not json_output) as conductor:
        result = conductor.run(specs, root / QUEUE_FILE, restart=options.restart())
    if json_output:
        click.echo(json.dumps(result.as_json(root), indent=2))
    else:
        _print_summary(result, root)
    return result.exit_code


def runs_table(entries: Sequence[QueueEntry]) -> Table:
    """Returns one line per submission, task, mode and further label: the states of its runs, and their mean return."""
    labels = dict.fromkeys(name for entry in entries for name in entry.data if name not in _NOT_LABELS)
    names = [
        *(name for name in _FIRST_LABELS if name in labels),
        *(name for name in labels if name not in _FIRST_LABELS),
    ]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(terminal_line(name), no_wrap=True)
    for name in ("runs", "finished", "failed", "waiting", "mean return"):
        table.add_column(name, justify="right")
    groups: dict[tuple[str, ...], list[QueueEntry]] = {}
    for entry in entries:
        groups.setdefault(tuple(str(entry.data.get(name, "")) for name in names), []).append(entry)
    for values, members in groups.items():
        finished = [entry for entry in members if entry.state is State.FINISHED]
        failed = sum(entry.state is State.FAILED for entry in members)
        returns = [value for entry in finished if (value := mean_return(entry)) is not None]
        mean = f"{sum(returns) / len(returns):.4g}" if returns else ""
        waiting = len(members) - len(finished) - failed
        table.add_row(*map(terminal_line, values), *map(str, (len(members), len(finished), failed, waiting)), mean)
    return table


def print_failures(console: Console, entries: Sequence[QueueEntry]) -> None:
    """Prints every failed run with its kind, reason and log, and the number of runs that waited for a failed one."""
    failed = [entry for entry in entries if entry.state is State.FAILED]
    for entry in failed:
        if not entry.blocked:
            console.print(terminal_line(f"{entry.command.name}: {entry.failure}"))
            console.print(f"  log: {entry.command.log}")
    if count := sum(entry.blocked for entry in failed):
        console.print(f"{count} more did not run because the run before them failed")


def plain_console() -> Console:
    """Returns a console for results: as wide as the terminal, or wide enough for a table in a file."""
    console = terminal.console()
    return console if console.is_terminal else terminal.console(width=_FILE_WIDTH)


def _print_summary(result: ExperimentResult, root: Path) -> None:
    console = plain_console()
    console.print(runs_table(result.entries))
    print_failures(console, result.entries)
    done = result.summary.counts[State.FINISHED]
    console.print(
        f"{done} of {len(result.entries)} runs finished in {root} ({result.summary.wall_s:.1f} s)", markup=False
    )
    if result.summary.stopped:
        console.print("interrupted; run the same command again to resume")
    elif done:
        console.print(
            f"write the report: {command_line('a2perf', 'report', root, '--output', f'{root}-report')}", markup=False
        )
