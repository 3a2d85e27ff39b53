"""The result of a protocol's runs, read from their bundles: states, budgets, normalised scores, the citation.

The record depends only on the bundles, so it can be recomputed at any time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from a2perf._version import __version__
from a2perf.experiments.protocol_plan import SubmitRequest, seeds_of
from a2perf.launch.run_spec import RunSpec
from a2perf.metrics import protocol as protocols
from a2perf.metrics.bootstrap import bootstrap
from a2perf.metrics.protocol import ProtocolTask, Track
from a2perf.metrics.submitted import BudgetCheck, ProtocolRecord, ProtocolScore, SubmittedRun
from a2perf.records import Manifest, RolloutResults, RunState, SubmissionIdentity, TrainResults
from a2perf.runs.bundles import layout
from a2perf.runs.bundles.bundle_reader import BundleReader
from a2perf.runs.bundles.files import files_of
from a2perf.runs.events.log_files import find_logs
from a2perf.runs.series import SeriesReader, read_returns
from a2perf.storage import sha256_of
from a2perf.submission.evaluator.train import ENERGY_LIMIT

MISSING = "missing"
NOT_RUN = "it has not run"
"""Reason of a missing run that was not started."""


def record_of(
    folder: Path,
    request: SubmitRequest,
    identity: SubmissionIdentity,
    planned: Sequence[RunSpec],
    queue_reasons: Mapping[str, str] = MappingProxyType({}),
) -> ProtocolRecord:
    """Returns the current record of a submission's folder.

    Args:
        queue_reasons: by name, the reason from the queue why a run left no bundle.
    """
    readers = {spec.key: BundleReader.of(files_of(folder / spec.command.name)) for spec in planned}
    manifests = {spec.command.name: readers[spec.key].manifest for spec in planned}
    runs = [_run(folder, request, spec, readers, queue_reasons) for spec in planned]
    scores = {name: _task_score(request.protocol.task(name), request, runs) for name in request.tasks}
    overall = _overall(scores, request, runs)
    unfinished = [run for run in runs if run.state != RunState.FINISHED.value]
    reasons = [f"{run.path}: {run.state}" + (f" ({run.reason})" if run.reason else "") for run in unfinished]
    if request.quick:
        reasons.insert(0, "made with --quick, a reduced protocol")
    if request.bindings:
        reasons.append(f"made with additional bindings: {'; '.join(request.bindings)}")
    reasons += _changed(request, identity, runs, manifests)
    if overall.iqm is None:
        reasons.append("no task has a normalised score")
    attempts = [attempt for manifest in manifests.values() if manifest for attempt in manifest.attempts]
    record = ProtocolRecord(
        a2perf_version=__version__,
        protocol=request.protocol.name,
        protocol_sha256=protocols.sha256(request.protocol.name),
        submission=identity,
        track=_kept_track(request, runs),
        asked_track=request.track,
        quick=request.quick,
        public_seeds=request.public_seeds,
        models=request.models,
        complete=not unfinished,
        rankable=not reasons,
        not_rankable=reasons,
        tasks=list(request.tasks),
        runs=runs,
        scores=scores,
        overall=overall,
        core={task.name for task in request.protocol.core_tasks()}
        <= set(map(request.protocol.ranked_task, request.tasks)),
        recorded_at=max((attempt.finished_at or "" for attempt in attempts), default=""),
        citation="",
    )
    record.citation = citation(record)
    return record


def citation(record: ProtocolRecord) -> str:
    """Returns the line that cites a result."""
    overall = record.overall
    if overall.iqm is None:
        result = "no score"
    else:
        known = overall.low is not None and overall.high is not None
        interval = f" [{shown(overall.low)}, {shown(overall.high)}]" if known else ""
        tasks = record.tasks[0] if len(record.tasks) == 1 else f"{overall.tasks} tasks"
        result = (
            f"normalised IQM {shown(overall.iqm)}{interval} ({tasks} x {overall.seeds} of {overall.expected} seeds)"
        )
    marks = [record.track.replace("_", " "), *(["quick, not rankable"] if record.quick else [])]
    marks += ["public seeds"] if record.public_seeds else []
    models = f" with {', '.join(record.models)}" if record.models else ""
    return (
        f"{record.submission.name}{models} (sha256 {record.submission.sha256[:12]}), A2Perf protocol {record.protocol} "
        f"(sha256 {record.protocol_sha256[:12]}; {', '.join(marks)}), a2perf {record.a2perf_version}, "
        f"{record.recorded_at[:10] or 'no date'}: {result}"
    )


def shown(score: float | None) -> str:
    """Returns a normalised score with three decimals, zero without a sign, or a dash if it is missing."""
    return "-" if score is None else f"{round(score, 3) + 0.0:.3f}"


def _run(
    folder: Path,
    request: SubmitRequest,
    spec: RunSpec,
    readers: Mapping[str, BundleReader],
    queue_reasons: Mapping[str, str],
) -> SubmittedRun:
    task, path = request.protocol.task(str(spec.data["task"])), spec.command.name
    found = SubmittedRun(task=task.name, seed=spec.data["seed"], mode=spec.data["mode"], path=path, state=MISSING)
    reader = readers[spec.key]
    manifest = reader.manifest
    if manifest is None:
        before = readers[spec.after].manifest if spec.after is not None else None
        failed = before is not None and before.state is RunState.FAILED
        found.reason = "its training failed" if failed else queue_reasons.get(path) or NOT_RUN
        return found
    found.state = manifest.state.value
    found.attempts = max(1, len(manifest.attempts))
    found.reason = manifest.exit_reason or ""
    found.manifest_sha256 = sha256_of(layout.manifest_path(folder / path))
    if manifest.state is RunState.FINISHED and found.mode == "inference":
        rollouts = reader.record(layout.ROLLOUTS, RolloutResults)
        if rollouts is not None and rollouts.episodes:
            found.mean_return = float(np.mean([episode.episode_return for episode in rollouts.episodes]))
            if task.has_references():
                found.normalised = float(task.normalise(found.mean_return))
    if manifest.state is RunState.FINISHED and found.mode == "train" and request.track != "open":
        found.budget = _budget(reader, task, request.track)
    return found


def _budget(reader: BundleReader, task: ProtocolTask, track: Track) -> BudgetCheck:
    trained = reader.record(layout.TRAIN, TrainResults)
    ended = track == "fixed_energy" and trained is not None and trained.exit_reason == ENERGY_LIMIT
    if track == "fixed_energy":
        limit, unit = task.budget.energy_kwh, "kWh"
        used, how = _energy_used(reader, ended=ended)
    else:
        limit, unit = float(task.budget.steps), "steps"
        used, how = _steps_used(reader, trained)
    found = BudgetCheck(verdict="unknown", used=used, limit=limit, unit=unit, how=how)
    if used is not None:
        found.verdict = "kept" if ended or used <= limit else "exceeded"
    return found


def _steps_used(reader: BundleReader, trained: TrainResults | None) -> tuple[float | None, str]:
    """Returns the steps of a training run, None if unknown, and where the number comes from."""
    if trained is not None and trained.artifact_files == 0:
        return 0.0, "it left nothing that was learnt"
    curve, _ = read_returns(SeriesReader(find_logs(reader.files, below="")))
    if curve is None or not curve.steps.size:
        return None, "it logged no curve of returns over steps"
    # a restart may set the counter back; the steps before it count as well
    used = float(curve.steps[-1]) + sum(before for before, _ in curve.restarts)
    return used, f"as the participant logged it ({curve.source})"


def _energy_used(reader: BundleReader, *, ended: bool) -> tuple[float | None, str]:
    """Returns the energy of a training run in kWh, None if unknown, and how it was found."""
    tracking = reader.tracking(layout.TRACKING)
    if tracking is None or not math.isfinite(tracking.energy.net_kwh) or not tracking.energy.quality:
        return None, "no energy was recorded"
    used, quality = tracking.energy.net_kwh, tracking.energy.quality
    if ended:
        return used, f"the evaluator ended it there, within one sampling interval ({quality})"
    return used, f"above idle, {quality}"


def _kept_track(request: SubmitRequest, runs: Sequence[SubmittedRun]) -> Track:
    """Returns the track if every training run is known to have kept its budget; no training uses no budget."""
    checks = [run.budget for run in runs if run.mode == "train"]
    return request.track if all(check is not None and check.verdict == "kept" for check in checks) else "open"


def _task_score(task: ProtocolTask, request: SubmitRequest, runs: Sequence[SubmittedRun]) -> ProtocolScore:
    expected = len(seeds_of(task, request))
    if not task.has_references():
        return ProtocolScore(expected=expected, tasks=1, notes=["no stored references, so no normalised score"])
    return _score({task.name: _normalised(task.name, runs)}, expected)


def _overall(scores: dict[str, ProtocolScore], request: SubmitRequest, runs: Sequence[SubmittedRun]) -> ProtocolScore:
    scored = [name for name in scores if request.protocol.task(name).has_references()]
    values = {name: _normalised(name, runs) for name in scored}
    score = _score(values, max((score.expected for score in scores.values()), default=0))
    left_out = [name for name in scores if name not in values]
    if left_out:
        score.notes.append(f"without {', '.join(left_out)}, which have no stored references")
    return score


def _score(values: dict[str, dict[int, float]], expected: int) -> ProtocolScore:
    """Returns the interquartile mean over the seeds that all tasks have, with its interval for few runs."""
    notes = [
        f"{name}: {expected - len(seeds)} of {expected} seeds missing"
        for name, seeds in values.items()
        if len(seeds) < expected
    ]
    common = sorted(set.intersection(*(set(seeds) for seeds in values.values()))) if values else []
    if not common:
        return ProtocolScore(expected=expected, tasks=len(values), notes=notes)
    matrix = np.array([[seeds[seed] for seeds in values.values()] for seed in common])
    found = bootstrap(matrix, method="small")
    return ProtocolScore(
        iqm=found.value,
        low=found.low,
        high=found.high,
        seeds=len(common),
        expected=expected,
        tasks=len(values),
        notes=notes,
    )


def _normalised(task: str, runs: Sequence[SubmittedRun]) -> dict[int, float]:
    return {run.seed: run.normalised for run in runs if run.task == task and run.normalised is not None}


def _changed(
    request: SubmitRequest,
    identity: SubmissionIdentity,
    runs: Sequence[SubmittedRun],
    manifests: Mapping[str, Manifest | None],
) -> list[str]:
    """Returns how the bundles differ from the current protocol and submission."""
    found = []
    for run in runs:
        manifest = manifests[run.path]
        if manifest is None:
            continue
        if manifest.submission.sha256 != identity.sha256:
            found.append(f"{run.path}: made with other files of the submission")
        fingerprint = request.protocol.task(run.task).fingerprint
        if run.mode != "generalization" and manifest.env_identity != fingerprint:
            found.append(f"{run.path}: the environment behaves otherwise than the protocol's")
    return found
