"""Collects the episodes of a plan with several rollout workers, resumes after an interruption, and measures the energy.

The working folder contains the plan, the finished blocks and one tracking folder per attempt. Finished blocks are not
collected again. The energy of a killed attempt is taken from the last row that its tracker wrote.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from a2perf.datasets.plan import Block, Plan
from a2perf.datasets.records import together
from a2perf.datasets.rollout_worker import BlockRecord, record_path
from a2perf.errors import InfrastructureError, SubmissionError, UserError
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.records import Failure
from a2perf.runs.bundles.layout import TRACKING_FILE, emissions_file
from a2perf.runs.dataset_notes import Energy
from a2perf.runs.tracking_record import TrackingReport, read_tracking, recorded
from a2perf.storage import read_json, read_record, write_json
from a2perf.submission.evaluator.progress import RunProgress

_TRACKING = "tracking"
_MODE = "inference"


def collect(work: Path, plan: Plan, *, processes: int, progress: RunProgress) -> list[BlockRecord]:
    """Plays every block of a plan that is not finished yet, and returns the records of all blocks in order.

    Raises:
        SubmissionError: a policy failed.
        UserError: a setting of the plan is not available on this host.
        InfrastructureError: a rollout worker ended unexpectedly.
    """
    left = [block for block in plan.blocks if not record_path(work, block.index).exists()]
    if left:
        done = plan.episodes - sum(block.count for block in left)
        progress.phase(f"{plan.name}: episodes", plan.episodes)
        progress.advance(done)
        with _tracked(work), _Team(work, min(processes, len(left))) as team:
            team.collect(left, done, progress)
    return [read_record(record_path(work, block.index), BlockRecord) for block in plan.blocks]


def energy_of(work: Path) -> Energy:
    """Returns the total energy of all attempts in a working folder; unknown if one of them recorded nothing."""
    attempts = sorted((work / _TRACKING).glob("attempt_*"))
    return together(_attempt_energy(folder) for folder in attempts) if attempts else Energy()


def energy_in_report(report: TrackingReport) -> Energy:
    """Returns the energy in a tracking report."""
    energy, kwh = report.energy, recorded(report.energy.gross_kwh)
    if kwh is None or energy.quality in ("", "none"):
        return Energy(method=energy.method)
    return Energy(kwh=kwh, provenance=energy.quality, method=energy.method)


def _attempt_energy(folder: Path) -> Energy:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return energy_in_report(read_tracking(read_json(folder / TRACKING_FILE)))
    with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
        rows = list(csv.DictReader((folder / emissions_file(_MODE)).read_text(encoding="utf-8").splitlines()))
        method = "last row of the table of an attempt that was killed"
        return Energy(kwh=float(rows[-1]["energy_consumed"]), provenance="estimated", method=method)
    return Energy(kwh=0.0, provenance="estimated", method="an attempt was killed before its first sample")


@contextlib.contextmanager
def _tracked(work: Path) -> Iterator[None]:
    """Tracks this process and all that it starts: environments and policies."""
    attempts = work / _TRACKING
    attempts.mkdir(parents=True, exist_ok=True)
    folder = attempts / f"attempt_{len(list(attempts.glob('attempt_*'))):03d}"
    sampler = Sampler(directory=folder, mode=_MODE, with_codecarbon=False)
    sampler.attach(os.getpid())
    try:
        yield
    finally:
        write_json(folder / TRACKING_FILE, msgspec.to_builtins(sampler.stop()))


class _Team:
    """Rollout workers, one process each; all have ended when the context exits.

    A worker collects many blocks, because starting an environment often takes longer than a block. All workers share
    one tracked attempt. Both are reasons not to use one run spec per block.
    """

    def __init__(self, work: Path, size: int) -> None:
        self._work = work
        self._size = size
        self._processes: list[subprocess.Popen[str]] = []
        self._heard: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()

    def __enter__(self) -> _Team:
        logs = self._work / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        for number in range(self._size):
            with (logs / f"worker_{number}.log").open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "a2perf.datasets.rollout_worker", str(self._work)],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                )  # fmt: skip
            self._processes.append(process)
            threading.Thread(target=self._listen, args=(number, process), daemon=True).start()
        return self

    def __exit__(self, *details: object) -> None:
        # All inputs are closed before the first wait: the workers end at the same time.
        for process in self._processes:
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()  # a worker exits at the end of its input
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def collect(self, blocks: Sequence[Block], done: int, progress: RunProgress) -> None:
        """Assigns blocks to free workers until all are collected; ``done``: episodes collected before."""
        waiting = list(reversed(blocks))
        busy: set[int] = set()
        while waiting or busy:
            number, answer = self._heard.get()
            kind = None if answer is None else answer["kind"]
            if answer is None:
                if number in busy or waiting:
                    raise self._ended(number)
            elif kind == "episode":
                done += 1
                progress.advance(done, f"last return {answer['return']:.2f}")
            elif kind in ("ready", "done"):
                busy.discard(number)
                if waiting:
                    busy.add(number)
                    self._ask(number, waiting.pop())
            else:
                raise _failed(answer, self._work)

    def _ask(self, number: int, block: Block) -> None:
        stream = self._processes[number].stdin
        assert stream is not None
        try:
            stream.write(f"{block.index}\n")
            stream.flush()
        except OSError:  # it has ended; its listener thread reports that
            return

    def _listen(self, number: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                self._heard.put((number, json.loads(line)))
        self._heard.put((number, None))

    def _ended(self, number: int) -> InfrastructureError:
        status = self._processes[number].wait()
        log = self._work / "logs" / f"worker_{number}.log"
        return InfrastructureError(
            f"a rollout worker exited with status {status}; see {log}",
            hint="run the same command again to resume",
        )


def _failed(answer: dict[str, Any], work: Path) -> UserError | RuntimeError:
    if answer["kind"] == "participant":
        failure = msgspec.convert(answer["failure"], Failure)
        trace = f"\n{failure.traceback.rstrip()}" if failure.traceback else ""
        return SubmissionError(
            f"the policy failed in {failure.where} ({failure.kind.value}): {failure.message}{trace}",
            hint="correct the policy and run the same command again; finished blocks are kept",
        )
    if answer["kind"] == "user":
        return UserError(answer["message"], hint=answer["hint"])
    return RuntimeError(f"a rollout worker failed:\n{answer['traceback']}")
