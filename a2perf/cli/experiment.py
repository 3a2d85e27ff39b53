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
from a2perf.experiments.experiment import Experiment, plan
from a2perf.launch import QUEUE_FILE, ExperimentResult, QueueEntry, State
from a2perf.launch.outcomes import mean_return
from a2perf.plain_text import terminal_line

_FILE_WIDTH = 160


def run_experiment(experiment: Experiment, options: LaunchOptions, *, json_output: bool) -> int:
    """Runs an experiment, shows its progress on stderr and its result on stdout.

    Returns:
        The exit status: 0 all runs finished, 1 some failed, 3 the infrastructure failed one, 130 interrupted.
    """
    with options.conductor(live=not json_output) as conductor:
        result = conductor.run(plan(experiment), experiment.root / QUEUE_FILE, restart=options.restart())
    if json_output:
        click.echo(json.dumps(result.as_json(experiment.root), indent=2))
    else:
        _print_summary(result, experiment.root)
    return result.exit_code


def runs_table(entries: Sequence[QueueEntry]) -> Table:
    """Returns one line per submission, task and mode: how its runs stand, and the mean return of the finished ones."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("submission", "task", "mode"):
        table.add_column(name, no_wrap=True)
    for name in ("runs", "finished", "failed", "waiting", "mean return"):
        table.add_column(name, justify="right")
    groups: dict[tuple[str, str, str], list[QueueEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.data["submission"], entry.data["task"], entry.data["mode"]), []).append(entry)
    for names, members in groups.items():
        finished = [entry for entry in members if entry.state is State.FINISHED]
        failed = sum(entry.state is State.FAILED for entry in members)
        returns = [value for entry in finished if (value := mean_return(entry)) is not None]
        mean = f"{sum(returns) / len(returns):.4g}" if returns else ""
        waiting = len(members) - len(finished) - failed
        table.add_row(*map(terminal_line, names), *map(str, (len(members), len(finished), failed, waiting)), mean)
    return table


def print_failures(console: Console, entries: Sequence[QueueEntry]) -> None:
    """Prints every failed run with its kind, its reason and its log, those that needed another one as a count."""
    failed = [entry for entry in entries if entry.state is State.FAILED]
    for entry in failed:
        if not entry.blocked:
            console.print(terminal_line(f"{entry.command.name}: {entry.kind}: {entry.reason}"))
            console.print(f"  log: {entry.command.log}")
    if count := sum(entry.blocked for entry in failed):
        console.print(f"{count} more did not run, because what they need failed")


def plain_console() -> Console:
    """Returns a console for results: as wide as the terminal, or as wide as a table needs where there is none."""
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
        console.print("interrupted; the same command resumes")
    elif done:
        console.print(f"the report: a2perf report {root} --output {root}-report")
