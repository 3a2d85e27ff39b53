"""Train mode: ``train()`` runs alone, watched and timed; its artefacts stay in the bundle."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from a2perf.records import FailureKind, TrainResults
from a2perf.storage import write_record
from a2perf.submission import configuration, results
from a2perf.submission.bundle import Bundle, Finished, open_bundle
from a2perf.submission.energy_budget import ENERGY_LIMIT, energy_budget
from a2perf.submission.identity import RunTask, new_manifest
from a2perf.submission.participant_process import ParticipantFailure
from a2perf.submission.progress import RunProgress
from a2perf.submission.session import participant_process, supervise, tracking

if TYPE_CHECKING:
    from a2perf.submission.submission_util import Submission

TIME_LIMIT = "time limit"
"""Exit reason of a training that was ended at its limit and left artefacts; without artefacts it is a failure."""


def run(settings: Submission, *, force: bool = False, progress: RunProgress | None = None) -> int:
    """Runs ``train()`` of the submission into the bundle ``<root_dir>/train``.

    Returns:
        The exit status; a ``train()`` that fails is never a success.
    """
    progress = progress or RunProgress()
    task = RunTask.configured(str(settings.domain))
    manifest = new_manifest(settings, task, episodes=0)
    opened = open_bundle(settings.root / "train", manifest, configuration.text(), force=force)
    if isinstance(opened, Finished):
        return results.already_done(opened, progress)
    bundle = opened
    return supervise(bundle, progress, lambda: _train(settings, task, bundle, progress))


def _train(settings: Submission, task: RunTask, bundle: Bundle, progress: RunProgress) -> str:
    confined = participant_process(
        settings, task, bundle.manifest, mode="train",
        root_dir=bundle.artifacts, artifacts=bundle.artifacts, logs=bundle.logs, bundle_path=bundle.path,
    )  # fmt: skip
    started = time.perf_counter()
    reason, wall_s = "failed", 0.0
    try:
        with confined as participant, tracking(settings, bundle, energy_mode="train") as sampler:
            started = time.perf_counter()
            participant.start()
            sampler.attach(
                participant.tree_root, cgroup=participant.cgroups, clock=participant.cpu_clock, root_is_guard=True
            )
            limit = settings.train_time_limit_s
            progress.phase(
                f"training {settings.folder.name} on {task.name}" + (f" (at most {limit:g} s)" if limit else "")
            )
            sampler.mark("train")
            train_started = time.perf_counter()
            budget = None
            try:
                with energy_budget(sampler, participant.pid, settings.train_energy_limit_kwh) as budget:
                    reason = participant.train(settings.participant_args, time_limit_s=limit)
            except ParticipantFailure as error:
                if budget is not None and budget.reached:
                    error.failure.kind, reason = FailureKind.TIMEOUT, ENERGY_LIMIT
                    error.failure.message = f"it used up its {settings.train_energy_limit_kwh:g} kWh and left nothing"
                elif error.failure.kind is FailureKind.TIMEOUT:
                    reason = TIME_LIMIT
                if error.failure.kind is not FailureKind.TIMEOUT or not _size_of(bundle.artifacts)["artifact_files"]:
                    reason = error.failure.kind.value
                    raise
            finally:
                wall_s = time.perf_counter() - train_started
                sampler.mark("end")
    finally:
        bundle.manifest.timings_s["train"] = bundle.manifest.timings_s.get("train", 0.0) + wall_s
        write_record(
            bundle.metrics / "train.json",
            TrainResults(
                wall_s=wall_s,
                participant_wall_s=time.perf_counter() - started,
                exit_reason=reason,
                **_size_of(bundle.artifacts),
            ),
        )
        results.publish(bundle, settings)
    progress.say(f"train(): {reason} after {wall_s:.1f} s")
    return reason


def _size_of(folder: Path) -> dict[str, int]:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {"artifact_bytes": sum(path.stat().st_size for path in files), "artifact_files": len(files)}
