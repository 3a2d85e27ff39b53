"""``a2perf demo``: evaluates policies, trains one and writes a report, in a few minutes.

It runs the public commands, prints each one before it runs, and reads results only from the recorded runs. Every domain
declares its part (``Domain.demonstration``). Rerunning the command keeps finished runs and writes the report again.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import click

from a2perf.api.results import read_runs
from a2perf.domains.registry import DemonstrationRun, domains, load_attribute, packaged_gin_file
from a2perf.errors import UserError, command_line, install_hint
from a2perf.launch.foreground import LogTail
from a2perf.submission.options import normalised
from a2perf.terminal import styled

_POLL_S = 0.2


@dataclass(frozen=True)
class Step:
    """One command of the demonstration.

    Attributes:
        root: root directory of the run; its result is printed at the end of the step.
        log: a file; its new lines are printed while the step runs.
    """

    title: str
    command: tuple[str, ...]
    root: Path | None = None
    log: Path | None = None


@click.command(context_settings=normalised())
@click.option(
    "--output",
    default="runs/demo",
    show_default=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the runs and of the report.",
)
@click.option(
    "--train-seconds", default=40, show_default=True, type=click.IntRange(min=1), help="Length of the training run."
)
@click.option("--force", is_flag=True, help="Start from scratch, even if runs are already finished.")
def demo(output: Path, train_seconds: int, force: bool) -> int:
    """Evaluate example policies, train one, and write a report: under five minutes on two processors."""
    started = time.monotonic()
    steps = _steps(output, train_seconds, force)
    for number, step in enumerate(steps, start=1):
        styled(f"\n[{number}/{len(steps)}] {step.title}\n", bold=True)
        click.echo(f"$ {command_line(*step.command)}")
        status = _run(step)
        if status != 0:
            click.echo(f"Step {number} failed with exit status {status}.")
            click.echo("  Hint: see the message above, then rerun the same command; finished steps are kept")
            return status
        for run in read_runs(step.root) if step.root is not None else ():
            click.echo(textwrap.indent(str(run), "  "))
    report = output / "report"
    click.echo(f"\nFinished in {time.monotonic() - started:.0f} s.\n\nNext steps:")
    click.echo(f"  {command_line('a2perf', 'score', output)}        print the scores of these runs")
    click.echo("  a2perf envs list             list the tasks")
    click.echo("  a2perf init my_submission    start a submission")
    click.echo(f"\nReport: {report / 'index.html'}")
    return 0


def _steps(output: Path, train_seconds: int, force: bool) -> list[Step]:
    """Returns the runs of all domains, the fastest first, and the report."""
    found: list[tuple[str, DemonstrationRun]] = []
    for domain in domains().values():
        if domain.demonstration is not None:
            found += [(domain.name, run) for run in load_attribute(domain.demonstration)(train_seconds)]
    found.sort(key=lambda one: one[1].first_number_s)
    roots = dict.fromkeys(output / run.folder for _, run in found)
    report = ("report", *map(str, roots), "-o", str(output / "report"))
    return [
        *(_step(domain, run, output / run.folder, force) for domain, run in found),
        Step("Write the report", (*_program("a2perf"), *report)),
    ]


def _step(domain: str, run: DemonstrationRun, root: Path, force: bool) -> Step:
    gin_file = packaged_gin_file(domain, run.gin_file)
    assert gin_file is not None
    submission = _short_path(examples_folder() / run.submission)
    command = [*_program("a2perf-launch"), "--submission", submission, "--gin_config", _short_path(gin_file)]
    command += ["--root_dir", str(root)]
    for binding in run.bindings:
        command += ["--gin_bindings", binding]
    if run.participant_args:
        command += ["--participant_args", run.participant_args]
    if force:
        command.append("--force")
    if run.progress:
        return Step(run.title, tuple(command), log=root / run.progress)
    return Step(run.title, tuple(command), root=root)


def examples_folder() -> Path:
    """Returns the folder of the example submissions: inside an installed package, or next to it in a checkout.

    Raises:
        UserError: neither exists.
    """
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "examples", package.parent / "examples"):
        if (candidate / "numpy_ars" / "train.py").is_file():
            return candidate
    raise UserError("the examples are missing from this installation", hint=install_hint())


def _short_path(path: Path) -> str:
    """Returns a path relative to the current folder if it is inside."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _program(name: str) -> tuple[str, ...]:
    """Returns the console script beside this interpreter."""
    script = Path(sys.executable).with_name(name)
    if not script.is_file():
        raise UserError(f"{script} is missing", hint=f"{install_hint()}; or in a checkout: make setup")
    return (_short_path(script),)


def _run(step: Step) -> int:
    """Runs a step, shows new lines of its log, and returns the exit status."""
    log = None if step.log is None else LogTail(step.log)
    process = subprocess.Popen(step.command)
    try:
        while (status := process.poll()) is None:
            time.sleep(_POLL_S)
            if log is not None:
                log.copy()
    except KeyboardInterrupt:
        process.wait()  # the terminal signals the whole group; the step closes its bundle before it ends
        raise
    return status
