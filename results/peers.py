"""Runs the programs of peers on their tasks through the benchmark matrix, and compares with what the peers published.

    python results/peers.py [NAME ...] [--seeds N] [--workers N]     runs what is missing, then prints the table
    python results/peers.py --table [--write]                        prints the table; --write updates the page
    python results/peers.py --bare                                   compares a short run with and without a2perf

The programs are installed from the package index into `runs/peers/venv` and are not modified; the runs are in the store
`runs/peers/store`. A run takes 1.5 to 4 minutes of one processor. The same command resumes: finished runs are kept.
`docs/explanation/peers.md` has the table and the definition of each number.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.statistics import student_quantile
from a2perf.records import Manifest
from a2perf.rlops.filters import RunQuery
from a2perf.rlops.store import Store
from a2perf.runs.events.event_files import read_event_stream
from a2perf.runs.run import Run
from a2perf.runs.stores.store import read_curve
from a2perf.runs.tracking_record import JOULES_PER_KWH, read_tracking
from a2perf.storage import read_record

HOUSE = Path(__file__).resolve().parents[1]
EXAMPLE = HOUSE / "examples" / "peers"
WORK = HOUSE / "runs" / "peers"
STORE = WORK / "store"
PYTHON = "venv/bin/python"
"""The peers' Python, relative to ``WORK``; the commands of the matrix are the same on every machine."""

PAGE, BEGIN, END = HOUSE / "docs" / "explanation" / "peers.md", "<!-- results -->", "<!-- end of results -->"
CLEANRL = "cleanrl==1.2.0"
HEAD = (
    "program",
    "environment",
    "steps",
    "seeds",
    "return here [95 %]",
    "published [95 %]",
    "overlap",
    "wall s",
    "processor s",
    "J",
)
EPISODES = 100
"""A curve's last values that make the score of a run (the rule of openrlbenchmark, CleanRL's tool for its tables)."""


@dataclass(frozen=True)
class Published:
    """What a peer published for one environment.

    Attributes:
        env_id: the environment.
        steps: training steps.
        mean: mean return.
        deviation: standard deviation over ``count`` values.
        count: number of training runs, or of evaluation episodes of one training run.
        of: ``"runs"`` or ``"episodes"``.
    """

    env_id: str
    steps: int
    mean: float
    deviation: float
    count: int
    of: str

    def interval(self) -> tuple[float, float]:
        """Returns the 95 % interval of the mean (Student)."""
        half = student_quantile(0.975, self.count - 1) * self.deviation / self.count**0.5
        return self.mean - half, self.mean + half


@dataclass(frozen=True)
class Peer:
    """A program of a peer.

    Attributes:
        name: name of the experiment.
        title: what runs.
        tag: tag of the runs, the version of the program.
        command: the command, relative to ``WORK``; the matrix adds ``--env-id`` and ``--seed``.
        metric: the curve that is compared.
        last: number of the last values that count; 0 for all.
        published: the peer's numbers.
        seeds: number of seeds.
    """

    name: str
    title: str
    tag: str
    command: str
    metric: str
    last: int
    published: tuple[Published, ...]
    seeds: int


def _zoo(algorithm: str, published: Published) -> Peer:
    command = f"{PYTHON} ../../examples/peers/zoo/zoo.py --algo {algorithm}"
    title = f"RL Baselines3 Zoo 2.9.2, {algorithm.upper()}"
    return Peer(f"zoo_{algorithm}", title, "rl-zoo3-2.9.2", command, "evaluation_return", 0, (published,), 5)


PEERS = (
    Peer(
        "cleanrl_ppo",
        "CleanRL 1.2.0, ppo.py",
        "cleanrl-1.2.0",
        f"{PYTHON} -m cleanrl.ppo --cuda False",
        "charts/episodic_return",
        EPISODES,
        (
            Published("CartPole-v1", 500_000, 490.04, 6.12, 3, "runs"),
            Published("Acrobot-v1", 500_000, -86.36, 1.32, 3, "runs"),
        ),
        3,
    ),
    _zoo("ppo", Published("CartPole-v1", 100_000, 500.0, 0.0, 300, "episodes")),
    _zoo("dqn", Published("CartPole-v1", 50_000, 500.0, 0.0, 300, "episodes")),
    _zoo("sac", Published("Pendulum-v1", 20_000, -157.0, 89.0, 750, "episodes")),
)


def main() -> None:
    """Runs what is missing and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(peer.name for peer in PEERS)}; all")
    parser.add_argument("--seeds", type=int, help="number of seeds from 1 on, by default 3 or 5")
    parser.add_argument("--workers", type=int, default=1, help="runs at the same time")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--write", action="store_true", help="replace the table of docs/explanation/peers.md")
    parser.add_argument("--bare", action="store_true", help="compare a short run of CleanRL with and without a2perf")
    given = parser.parse_args()
    known = {peer.name: peer for peer in PEERS}
    if unknown := [name for name in given.names if name not in known]:
        sys.exit(f"{unknown[0]} is not a peer; there are {', '.join(known)}")
    peers = [known[name] for name in given.names or known]
    status = 0
    if given.bare:
        install()
        sys.exit(compare_with_bare())
    if not given.table:
        install()
        status = max(run(peer, given.seeds or peer.seeds, given.workers) for peer in peers)
    lines = table(peers)
    print("\n".join(lines))
    if given.write:
        write(lines)
    sys.exit(status)


def install() -> None:
    """Creates the Python of the peers if it is missing."""
    python = WORK / PYTHON
    stamp = WORK / "venv" / ".installed"
    if stamp.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(WORK / "venv")], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--requirement", str(EXAMPLE / "requirements.txt")], check=True)
    # the package claims Python < 3.11 and pins libraries that ppo.py does not import
    subprocess.run([*pip, "--no-deps", "--ignore-requires-python", CLEANRL], check=True)
    stamp.touch()


def run(peer: Peer, seeds: int, workers: int) -> int:
    """Runs the missing cells of a peer's matrix; returns the status of `a2perf benchmark`."""
    command = [
        sys.executable,
        "-m",
        "a2perf",
        "benchmark",
        "--command",
        peer.command,
        "--exp-name",
        peer.name,
        "--env-ids",
        *(one.env_id for one in peer.published),
        "--num-seeds",
        str(seeds),
        "--workers",
        str(workers),
        "--no-auto-tag",
        "--store",
        str(STORE),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "WANDB_TAGS": peer.tag}
    done = subprocess.run(command, cwd=WORK, env=environment, check=False)
    shutil.rmtree(WORK / "runs", ignore_errors=True)  # CleanRL's own copies of the logs, which the store has collected
    return done.returncode


def compare_with_bare() -> int:
    """Runs CleanRL for 50,000 steps by itself and in the matrix; returns 0 if every logged value is equal."""
    words = [PYTHON, "-m", "cleanrl.ppo", "--cuda", "False", "--total-timesteps", "50000"]
    cell = ["--env-id", "CartPole-v1", "--seed", "1"]
    with tempfile.TemporaryDirectory() as folder:
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [str(WORK / PYTHON), *words[1:], *cell],
            cwd=folder,
            check=True,
            capture_output=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        bare = values_of(Path(folder))
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"by itself: {wall:.1f} s, {processor:.1f} processor s")
    with tempfile.TemporaryDirectory() as store:
        command = [
            sys.executable,
            "-m",
            "a2perf",
            "benchmark",
            "--command",
            shlex.join(words),
            "--exp-name",
            "bare",
            "--env-ids",
            cell[1],
            "--num-seeds",
            "1",
            "--workers",
            "1",
            "--no-auto-tag",
            "--store",
            store,
        ]
        subprocess.run(command, cwd=WORK, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        (found,) = Store(Path(store)).runs()
        wall, processor, joules = cost(found)
        quality = found.execution.energy_quality
        print(f"in the matrix: {wall:.1f} s, {processor:.1f} processor s, {joules:.0f} J ({quality})")
        here = values_of(found.folder.path)
    different = sorted(tag for tag in bare.keys() | here.keys() if bare.get(tag) != here.get(tag))
    count = sum(map(len, bare.values()))
    print(f"{count} values in {len(bare)} curves; different: {', '.join(different) or 'none'}")
    return 1 if different or not count else 0


def values_of(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Returns the steps and values of every logged curve except the speed."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(folder.rglob("*tfevents*")):
        with file.open("rb") as stream:
            scalars = read_event_stream(stream).scalars
        for tag, series in scalars.items():
            if tag != "charts/SPS":
                curves.setdefault(tag, []).extend(zip(series.steps.tolist(), series.values.tolist(), strict=True))
    return curves


def table(peers: Sequence[Peer]) -> list[str]:
    """Returns the lines of the table in Markdown; seeds and their scores are below it."""
    lines, notes = [row(HEAD), row(["---"] * len(HEAD))], [""]
    if not STORE.is_dir():
        return lines
    store = Store(STORE)
    for peer in peers:
        for published in peer.published:
            found = store.runs(RunQuery(peer.name, (peer.tag,), env_ids=(published.env_id,)))
            # the newest run of each seed, where the script has changed between runs
            runs = list(
                {run.record.seed: run for run in sorted(found, key=lambda run: run.execution.started_at)}.values()
            )
            if not runs:
                continue
            scores = np.array([score(run, peer) for run in runs])
            costs = np.array([cost(run) for run in runs]).mean(axis=0)
            lines.append(
                row([peer.title, published.env_id, *cells(scores, published), *(f"{one:.0f}" for one in costs)])
            )
            seeds = ", ".join(f"{run.record.seed}: {value:.2f}" for run, value in zip(runs, scores, strict=True))
            energy = ", ".join(sorted({run.execution.energy_quality for run in runs}))
            notes.append(f"* `{peer.name}`, {published.env_id}: returns by seed {seeds}; energy {energy}")
    return [*lines, *notes]


def cells(scores: Values, published: Published) -> list[str]:
    """Returns steps, seeds, both means with their intervals, and whether the intervals overlap."""
    there = published.interval()
    here, overlap = f"{scores.mean():.2f}", "one seed"
    if len(scores) > 1:
        low, high = mean_interval(scores)
        here += f" [{low:.2f}, {high:.2f}]"
        overlap = "yes" if low <= there[1] and there[0] <= high else "no"
    published_here = f"{published.mean:.2f} [{there[0]:.2f}, {there[1]:.2f}]"
    return [f"{published.steps:,}", str(len(scores)), here, published_here, overlap]


def write(lines: Sequence[str]) -> None:
    """Replaces the table of the page by new lines."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text("\n\n".join([before + BEGIN, "\n".join(lines), END + after]), encoding="utf-8")


def row(cells: Sequence[str]) -> str:
    """Returns a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def score(run: Run, peer: Peer) -> float:
    """Returns the score of a run: the mean of a curve's last values."""
    curve = read_curve(run, peer.metric)
    if curve is None:
        sys.exit(f"{run.name} has no values of {peer.metric}")
    return float(curve.values[-peer.last :].mean())


def cost(run: Run) -> tuple[float, float, float]:
    """Returns wall time (s), processor time (s) and energy (J) of a run, evaluation included."""
    tracked = read_tracking(read_record(run.folder.path / "command" / "manifest.json", Manifest).tracking)
    return tracked.wall_s, tracked.cpu_seconds, tracked.energy.gross_kwh * JOULES_PER_KWH


if __name__ == "__main__":
    main()
