"""Collects the episodes of a plan with several rollout workers, resumes after an interruption, and measures the energy.

The working folder contains the plan, the finished blocks and one tracking folder per attempt. Finished blocks are not
collected again. The energy of a killed attempt is taken from the last row that its tracker wrote.
"""

from __future__ import annotations

import contextlib
import csv
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import msgspec

from a2perf.errors import InfrastructureError, SubmissionError
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.runs.bundles.layout import TRACKING_FILE, emissions_file
from a2perf.runs.dataset_notes import Energy
from a2perf.runs.tracking_record import TrackingReport, read_tracking, recorded
from a2perf.storage import read_json, read_record, write_json
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.worker_pool import worker_pool
from a2perf_datasets import rollout_worker
from a2perf_datasets.plan import Block, Plan
from a2perf_datasets.records import together
from a2perf_datasets.rollout_worker import BlockRecord, record_path

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
        with _tracked(work):
            _collect(work, left, min(processes, len(left)), done, progress)
    return [read_record(record_path(work, block.index), BlockRecord) for block in plan.blocks]


def _collect(work: Path, blocks: Sequence[Block], processes: int, done: int, progress: RunProgress) -> None:
    """Collects blocks; ``done``: episodes collected before. All processes have ended when it returns."""
    (work / "logs").mkdir(parents=True, exist_ok=True)
    stopped = multiprocessing.get_context("spawn").Event()
    with worker_pool(processes, rollout_worker.prepare, (work, stopped)) as pool:
        try:
            running = {pool.submit(rollout_worker.collect, block): block for block in blocks}
            for finished in as_completed(running):
                finished.result()
                done += running[finished].count
                progress.advance(done)
        except BrokenProcessPool as error:
            raise InfrastructureError(
                f"a rollout worker ended unexpectedly; see {work / 'logs' / 'workers.log'}",
                hint="run the same command again to resume",
            ) from error
        except ParticipantFailure as error:
            failure = error.failure
            trace = f"\n{failure.traceback.rstrip()}" if failure.traceback else ""
            raise SubmissionError(
                f"the policy failed in {failure.where} ({failure.kind.value}): {failure.message}{trace}",
                hint="correct the policy and run the same command again; finished blocks are kept",
            ) from error
        finally:
            stopped.set()  # after a failure the other workers end in the middle of a block
            pool.shutdown(cancel_futures=True)


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
