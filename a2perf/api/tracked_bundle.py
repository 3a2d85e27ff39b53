"""The record of a tracked block: a bundle in mode ``train`` that every reader of a2perf takes."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from a2perf._version import __version__
from a2perf.errors import ConfigError

if TYPE_CHECKING:
    from a2perf.runs.bundles.bundle import Bundle
    from a2perf.runs.tracking_record import TrackingReport

MODE = "train"
_MOST_TRACEBACK = 20_000  # characters


def open_record(folder: Path, name: str, *, task: str, seed: int) -> Bundle:
    """Opens the bundle ``folder/train``; an earlier record in its place moves to ``folder/attic``.

    Raises:
        ConfigError: the folder cannot be written.
        UserError: another block writes this folder.
    """
    import msgspec

    from a2perf.domains import registry
    from a2perf.metrics.trackers.host import describe_host
    from a2perf.records import Manifest, RunState, SubmissionIdentity
    from a2perf.runs.bundles.bundle import Finished, open_bundle
    from a2perf.runs.bundles.layout import bundle_path, manifest_path
    from a2perf.submission.evaluator.submitted.identity import RunTask

    try:
        domain, found = registry.find_task(task)
        run_task = RunTask(domain.name, task, found.env_id, dict(found.kwargs))
        domain_name, env_id, env_kwargs, view = domain.name, run_task.env_id, run_task.env_kwargs, run_task.view
    except ConfigError:  # any label is valid, a2perf need not know the task
        domain_name, env_id, env_kwargs, view = "", None, {}, None
    script, digest = _script()
    config = "# a tracked block has no gin configuration\n"
    python = os.path.basename(sys.executable)
    manifest = Manifest(
        a2perf_version=__version__,
        mode=MODE,
        domain=domain_name,
        task=task,
        env_id=env_id,
        env_kwargs=env_kwargs,
        env_fingerprint=None,
        view=view,
        root_seed=seed,
        seeds={},
        participant_args={},
        attempts=[],
        submission=SubmissionIdentity(name=name, path=script, sha256=digest),
        state=RunState.RUNNING,
        command=[python, *sys.argv] if script else [],
        config_sha256=hashlib.sha256(config.encode()).hexdigest(),
        host=msgspec.to_builtins(describe_host()),
        python={
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": python,
        },
    )
    path = bundle_path(folder, MODE)
    bundle = open_bundle(path, manifest, config, force=manifest_path(path).exists())
    assert not isinstance(bundle, Finished)  # force starts from scratch
    return bundle


def close_record(bundle: Bundle, report: TrackingReport, error: BaseException | None) -> None:
    """Writes the costs and the outcome of the block, then the hashes of all files."""
    import msgspec

    from a2perf.records import Failure, FailureKind, RunState, TrainResults
    from a2perf.runs.bundles.layout import TRACKING_FILE, TRAIN
    from a2perf.storage import write_json, write_record

    manifest = bundle.manifest
    manifest.tracking = msgspec.to_builtins(report)
    manifest.tracker_failures = [{"tracker": failure.tracker, "error": failure.error} for failure in report.failures]
    manifest.timings_s[MODE] = report.wall_s
    last = manifest.attempts[-1]
    last.train_s, last.net_kwh, last.gross_kwh = report.wall_s, report.energy.net_kwh, report.energy.gross_kwh
    write_json(bundle.metrics / TRACKING_FILE, manifest.tracking)
    sizes = [path.stat().st_size for path in bundle.artifacts.rglob("*") if path.is_file() and not path.is_symlink()]
    reason = "returned" if error is None else type(error).__name__
    results = TrainResults(
        wall_s=report.wall_s,
        participant_wall_s=report.wall_s,
        exit_reason=reason,
        artifact_bytes=sum(sizes),
        artifact_files=len(sizes),
    )
    write_record(bundle.path / TRAIN, results)
    if error is None:
        bundle.finish(RunState.FINISHED, exit_code=0, reason="finished")
    elif isinstance(error, KeyboardInterrupt):
        bundle.finish(RunState.INTERRUPTED, exit_code=130, reason="interrupted by SIGINT")
    else:
        failure = Failure(
            kind=FailureKind.EXCEPTION,
            where="the tracked block",
            message=f"{type(error).__name__}: {error}",
            traceback="".join(traceback.format_exception(error))[-_MOST_TRACEBACK:],
        )
        bundle.finish(RunState.FAILED, exit_code=1, reason=FailureKind.EXCEPTION.value, failure=failure)


def _script() -> tuple[str, str]:
    """Returns the path of the main script and the SHA-256 of its content; empty in a notebook or a shell."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if not path or not Path(path).is_file():
        return "", ""
    return str(Path(path).absolute()), hashlib.sha256(Path(path).read_bytes()).hexdigest()
