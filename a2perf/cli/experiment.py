"""``a2perf experiment`` and ``a2perf status``; how ``a2perf run`` runs an experiment and prints its result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from a2perf import terminal
from a2perf.cli.launch_options import LaunchOptions, launch_options
from a2perf.errors import ConfigError, command_line
from a2perf.experiments.kinds import kind_names, plan_kind
from a2perf.experiments.progress import read_progress
from a2perf.launch import QUEUE_FILE, ExperimentResult, QueueEntry, RunSpec, State
from a2perf.launch.outcomes import mean_return
from a2perf.plain_text import terminal_line
from a2perf.submission.options import normalised

_FILE_WIDTH = 160
_FIRST_LABELS = ("submission", "task", "mode")
_NOT_LABELS = ("seed", "root", "bundle", "log", "split")
"""Data of a run that differ between its seeds or follow from other labels."""


def run_specs(specs: Sequence[RunSpec], root: Path, options: LaunchOptions, *, json_output: bool) -> int:
    """Runs specifications below a folder, shows their progress on stderr and the result on stdout."""
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
    done = result.counts[State.FINISHED]
    console.print(f"{done} of {len(result.entries)} runs finished in {root} ({result.wall_s:.1f} s)", markup=False)
    if result.stopped:
        console.print("interrupted; run the same command again to resume")
    elif done:
        console.print(
            f"write the report: {command_line('a2perf', 'report', root, '--output', f'{root}-report')}", markup=False
        )


@click.command(name="experiment", context_settings=normalised())
@click.argument("kind", required=False, metavar="[KIND]")
@click.option(
    "--root-dir", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the experiment; default: runs/KIND."
)
@click.option("-o", "--option", "given", multiple=True, metavar="K=V", help="Option of the kind, repeatable.")
@launch_options("workers", "launcher", "force", "retry")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def experiment(kind: str | None, root_dir: Path | None, given: tuple[str, ...], as_json: bool, **options: Any) -> int:
    r"""Run a kind of experiment from an installed package; without KIND, list the kinds.

    Run the same command again to resume it.

    \b
    Example:
      a2perf experiment sweep -o submission=my_agent -o values=1:3 --workers 2

    Exit status: 0 all runs finished, 1 some failed, 3 infrastructure, 130 interrupted.
    """
    if kind is None:
        names = kind_names()
        click.echo("\n".join(names) if names else "no installed package has a kind of experiment (a2perf.experiments)")
        return 0
    root = (root_dir or Path("runs") / kind).expanduser().absolute()
    specs = plan_kind(kind, root, _parsed(given))
    return run_specs(specs, root, LaunchOptions.taken_from(options), json_output=as_json)


def _parsed(given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name.isidentifier():
            raise ConfigError(f"-o {text!r} is not K=V", hint="write -o NAME=VALUE")
        if name in found:
            raise ConfigError(f"the option {name!r} is given twice", hint="give each option once")
        found[name] = value
    return found


@click.command(context_settings=normalised())
@click.argument("root", type=click.Path(path_type=Path), metavar="ROOT_DIR")
@click.option("--json", "as_json", is_flag=True, help="Print every run as JSON.")
def status(root: Path, as_json: bool) -> int:
    """Show the progress of an experiment.

    ROOT_DIR is the --root-dir of its `a2perf run`, or a packed file of that folder. Exit status: 0 all runs finished, 1
    some failed, 3 some are not finished.
    """
    entries = read_progress(root)
    counts = {state: sum(entry.state is state for entry in entries) for state in State}
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
