"""``a2perf demo``: what a2perf does, in a few minutes: policies evaluated, a training run, a report.

It runs the public commands, prints each one before it runs, and reads results only from the recorded runs. Every domain
declares its part (``Domain.demonstration``). The same command again keeps finished runs and writes the report again.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from a2perf.domains.demonstration import DemonstrationRun
from a2perf.domains.registry import domains, gin_folder, load_attribute
from a2perf.errors import UserError
from a2perf.runs import Run, read_runs
from a2perf.submission.options import normalised
from a2perf.terminal import styled


@dataclass(frozen=True)
class Step:
    """One command of the demonstration.

    Attributes:
        title: what it shows.
        command: program and arguments.
        root: root directory of the run; its numbers are shown at the end unless there is a log.
        log: a file whose new lines are shown while it runs.
    """

    title: str
    command: tuple[str, ...]
    root: Path | None = None
    log: Path | None = None


@click.command(context_settings=normalised())
@click.option("--output", default="runs/demo", show_default=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--train-seconds", default=40, show_default=True, type=click.IntRange(min=1), help="Budget of the training."
)
@click.option("--force", is_flag=True, help="Start from scratch, also if a run is already finished.")
def demo(output: Path, train_seconds: int, force: bool) -> int:
    """Run the demonstration and write its report; under five minutes on two processors."""
    started = time.monotonic()
    steps = _steps(output, train_seconds, force)
    for number, step in enumerate(steps, start=1):
        styled(f"\n[{number}/{len(steps)}] {step.title}\n", bold=True)
        click.echo(f"$ {shlex.join(step.command)}")
        status = _run(step)
        if status != 0:
            click.echo(f"this step ended with status {status}; the same command resumes here")
            return status
        for line in _measured(step.root) if step.root else ():
            click.echo(f"  {line}")
    click.echo(f"\nall of it in {time.monotonic() - started:.0f} s")
    report = output / "report"
    click.echo(f"report: {report / 'index.html'}  (Markdown: {report / 'report.md'})")
    return 0


def _steps(output: Path, train_seconds: int, force: bool) -> list[Step]:
    """Returns the runs of all domains, the quickest first, and the report."""
    found: list[tuple[str, DemonstrationRun]] = []
    for domain in domains().values():
        if domain.demonstration is not None:
            found += [(domain.name, run) for run in load_attribute(domain.demonstration)(train_seconds)]
    found.sort(key=lambda one: one[1].first_number_s)
    roots = dict.fromkeys(output / run.folder for _, run in found)
    report = ("report", *map(str, roots), "-o", str(output / "report"))
    return [
        *(_step(domain, run, output / run.folder, force) for domain, run in found),
        Step("the report", (*_program("a2perf"), *report)),
    ]


def _step(domain: str, run: DemonstrationRun, root: Path, force: bool) -> Step:
    flags = [flag for binding in run.bindings for flag in ("--gin_bindings", binding)]
    command = (
        *_program("a2perf-launch"), "--submission", _shown(examples_folder() / run.submission),
        "--gin_config", _shown(gin_folder(domain) / run.gin_file), "--root_dir", str(root), *flags,
        *(("--participant_args", run.participant_args) if run.participant_args else ()),
        *(("--force",) if force else ()),
    )  # fmt: skip
    if run.progress:
        return Step(run.title, command, log=root / run.progress)
    return Step(run.title, command, root=root)


def examples_folder() -> Path:
    """Returns the folder of the example submissions: inside an installed package, beside it in a checkout.

    Raises:
        UserError: neither is there.
    """
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "examples", package.parent / "examples"):
        if (candidate / "numpy_ars" / "train.py").is_file():
            return candidate
    raise UserError("the examples are missing from this installation", hint="install a2perf again")


def _shown(path: Path) -> str:
    """Returns a path as a person would type it here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _program(name: str) -> tuple[str, ...]:
    """Returns the console script beside this interpreter."""
    script = Path(sys.executable).with_name(name)
    if not script.is_file():
        raise UserError(f"{script} is missing", hint="install a2perf again: `make setup`")
    return (_shown(script),)


def _run(step: Step) -> int:
    """Runs a step, showing what its log gains; the status of the command."""
    seen = step.log.stat().st_size if step.log is not None and step.log.is_file() else 0
    process = subprocess.Popen(step.command)
    try:
        while True:
            try:
                status = process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                status = None
            if step.log is not None and step.log.is_file():
                seen = _show_new(step.log, seen)
            if status is not None:
                return status
    except KeyboardInterrupt:
        process.wait()  # it got the same signal, and leaves a readable bundle
        raise


def _show_new(log: Path, seen: int) -> int:
    """Prints the complete lines that a log gained; a log that got shorter was started again."""
    data = log.read_bytes()
    if len(data) < seen:
        seen = 0
    end = data.rfind(b"\n") + 1
    for line in data[seen:end].decode("utf-8", errors="replace").splitlines():
        click.echo(f"    {click.unstyle(line)}")
    return max(seen, end)


def _measured(root: Path) -> list[str]:
    """Returns a few lines on the runs below a root folder."""
    runs = {run.mode: run for run in read_runs([root])}
    lines = []
    if "train" in runs:
        lines += [f"training: {runs['train'].wall_clock_s:.0f} s{_cost(runs['train'])}", *_learned(runs["train"])]
    inference = runs["inference"]
    for task, episodes in inference.episodes.items():
        mean = np.mean([episode.episode_return for episode in episodes])
        length = np.mean([episode.length for episode in episodes])
        lines.append(
            f"{task}: mean return {mean:.1f} over {len(episodes)} episodes of {length:.0f} steps on average"
            f"{_cost(inference)}"
        )
    latency = inference.latency_s.get("infer_once")
    if latency is not None:
        lines.append(
            f"  infer_once: median {np.median(latency) * 1e6:.0f} us, 99th percentile "
            f"{np.percentile(latency, 99) * 1e6:.0f} us ({len(latency)} calls)"
        )
    return lines


def _learned(run: Run) -> list[str]:
    """Returns how the return changed from the first to the last twentieth of what the participant logged."""
    values = run.curve.values if run.curve is not None else np.zeros(0)
    part = max(1, len(values) // 20)
    if len(values) < 2 * part:
        return []
    first, last = values[:part].mean(), values[-part:].mean()
    return [f"  return of whole episodes, as the participant logged it: {first:.1f} at first, {last:.1f} at the end"]


def _cost(run: Run) -> str:
    """Returns energy and memory of a run, with the provenance of the energy; empty without trackers."""
    energy, memory = run.tracking.energy, run.tracking.rss_peak_bytes
    text = ""
    if np.isfinite(energy.net_kwh):
        text += f", {energy.net_kwh * 1e6:.1f} mWh ({energy.quality})"
    if np.isfinite(memory) and memory:
        text += f", at most {memory / 2**20:.0f} MiB"
    return text
