"""Runs a wrapped script: bundle, sandboxed child process, trackers, output on the terminal.

The parent decides how the run ended; the report of the child is part of the bundle's artifacts.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from pathlib import Path

import msgspec

from a2perf.experiments.autotag import autotag
from a2perf.experiments.command_run import COMMAND_MODE, command_manifest
from a2perf.experiments.script_wrapper.episodes import log_curves
from a2perf.experiments.script_wrapper.instrument import instrument
from a2perf.experiments.script_wrapper.order import ORDER, REPORT, ScriptOrder, ScriptReport
from a2perf.launch.foreground import LogTail
from a2perf.records import Failure, FailureKind, Manifest, SandboxRecord, SubmissionIdentity
from a2perf.runs.bundles.attempts import now
from a2perf.runs.bundles.bundle import Bundle, Finished, open_bundle
from a2perf.runs.bundles.layout import WRITTEN_ELSEWHERE
from a2perf.runs.bundles.run_record import RUN_FILE, ExperimentRun, config_of, folder_name, user_name
from a2perf.runs.bundles.written_files import WrittenFiles, descendants
from a2perf.runs.conditions import packages_of
from a2perf.runs.events.event_writer import EventWriter
from a2perf.runs.stores.store import store_folder
from a2perf.sandbox import Confined, Ending, Limits, Sandbox, SandboxSpec, get_sandbox
from a2perf.storage import sha256_of, write_json, write_record
from a2perf.submission.evaluator.process import failure_diagnosis
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.process.participant_home import THREAD_VARIABLES
from a2perf.submission.evaluator.process.session import recorded_outcome
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.tracking import attach, record_tracking, tracker

_CHILD = "a2perf.experiments.script_wrapper.child"
_POLL_S = 0.1
_OWN_ENVIRONMENT = ("none", "process")
"""Levels for trusted scripts, which get the user's environment variables."""


def new_run_folder(wanted: ScriptOrder, store: str | None) -> Path:
    """Returns the folder of the store for a run with these arguments, always the same, and writes its record there.

    The version is that of the script's repository; the six digits after it distinguish scripts and arguments within
    one version.

    Raises:
        UserError: the script does not exist, or the folder cannot be written.
    """
    instrument(wanted.path)
    tagged = autotag(wanted.path.resolve().parent, os.environ)
    words = "\0".join([sha256_of(wanted.path), *wanted.arguments])
    version = f"{folder_name(tagged.tag)}-{hashlib.sha256(words.encode()).hexdigest()[:6]}"
    names = (folder_name(wanted.path.stem), folder_name(wanted.env), version, f"seed_{wanted.seed}")
    root = store_folder(store).joinpath(*names)
    if not (root / RUN_FILE).exists():
        root.mkdir(parents=True, exist_ok=True)
        record = ExperimentRun(
            experiment=wanted.path.stem,
            env_id=wanted.env,
            seed=wanted.seed,
            tags=[tagged.tag, *([tagged.pull_request] if tagged.pull_request else [])],
            user=user_name(),
            config=config_of(wanted.arguments),
            source="script",
            command=wanted.command(),
            version=version,
            autotag=tagged,
            created_at=now(),
            packages=packages_of([sys.executable]),
        )
        write_record(root / RUN_FILE, record)
    return root


def run(wanted: ScriptOrder, root: Path, progress: RunProgress, *, force: bool = False) -> int:
    """Runs the script into its bundle, and copies its standard output to that of this process without delay.

    Args:
        root: folder of the run; the bundle is ``root/command``.

    Returns:
        The exit status: 0 success, 1 the script failed, 3 infrastructure, 130 interrupted.

    Raises:
        UserError: the script cannot be wrapped, the sandbox is not available, or the folder holds another run.
    """
    instrument(wanted.path)  # raises for a wrong script before any file is created
    sandbox = get_sandbox(wanted.sandbox)
    opened = open_bundle(root / COMMAND_MODE, _manifest(wanted, sandbox), _settings(wanted), force=force)
    if isinstance(opened, Finished):
        progress.say(f"already done: {opened.path}")
        return opened.manifest.exit_code or 0
    with recorded_outcome(opened, progress) as outcome:
        outcome.reason = _run(wanted, sandbox, opened)
    for text in opened.manifest.warnings:
        progress.say(f"warning: {text}")
    return outcome.status


def _run(wanted: ScriptOrder, sandbox: Sandbox, bundle: Bundle) -> str:
    shutil.copyfile(wanted.path, bundle.artifacts / "script.py")
    order = msgspec.structs.replace(wanted, script=str(wanted.path.resolve()), folder=str(bundle.artifacts.resolve()))
    write_record(bundle.artifacts / ORDER, order)
    limits = Limits(wall_s=wanted.time_limit_s)
    spec = SandboxSpec(
        argv=(sys.executable, "-P", "-m", _CHILD, str(bundle.artifacts.resolve() / ORDER)),
        cwd=Path.cwd(),
        env=_environment(wanted),
        readable=[wanted.path.resolve().parent, Path.cwd()],
        writable=[bundle.artifacts.resolve()],
        limits=limits,
        stdout=bundle.logs / "stdout.log",
        stderr=bundle.logs / "stderr.log",
    )
    (bundle.logs / "stdout.log").unlink(missing_ok=True)  # of an interrupted attempt
    log = LogTail(bundle.logs / "stdout.log")
    written = WrittenFiles(Path.cwd(), wanted.env, wanted.seed)
    with tracker(bundle.metrics, mode=COMMAND_MODE) as sampler:
        confined = sandbox.start(spec)
        try:
            attach(sampler, confined)
            sampler.mark("script")
            ending = _wait(confined, written, log)
        finally:
            confined.kill_tree()
            record_tracking(bundle.manifest, msgspec.to_builtins(sampler.stop()))
    # The script's own logs are not copied: with their hashes, readers recognise them as logs of this run.
    own = {os.path.relpath(path, written.folder): sha256_of(path) for path in written.found() if path.is_file()}
    write_json(bundle.path / WRITTEN_ELSEWHERE, own)
    return _judge(ending, bundle, limits)


def _wait(confined: Confined, written: WrittenFiles, log: LogTail) -> Ending:
    """Waits for the end, observes the open files of the script, and shows the growing log."""
    while True:
        written.look(descendants(os.getpid()))
        ending = confined.wait(_POLL_S)
        log.copy()
        if ending is not None:
            return ending


def _judge(ending: Ending, bundle: Bundle, limits: Limits) -> str:
    """Returns the exit reason of a success, from the child's report and its exit status."""
    path = bundle.artifacts / REPORT
    report = ScriptReport(phase="start")
    if path.is_file():
        try:
            report = msgspec.json.decode(path.read_bytes(), type=ScriptReport)
        except msgspec.DecodeError as error:
            bundle.manifest.warnings.append(f"{REPORT} cannot be read: {error}")
    if report.phase != "done" and "charts/episodic_return" not in report.values:
        # the script was killed: the journal of episodes has the curve
        with EventWriter(bundle.artifacts, suffix="rescued") as writer:
            chosen, lines = log_curves(bundle.artifacts, writer.scalar)
        if chosen is not None:
            bundle.manifest.warnings += [f"episodes: {line}" for line in lines]
    bundle.manifest.timings_s["train"] = report.train_wall_s
    bundle.manifest.warnings += [f"{name}: {text}" for name, text in report.collected.items() if "found:" not in text]
    for stream, dropped in ending.dropped_bytes.items():
        if dropped:
            bundle.manifest.warnings.append(f"{dropped} bytes of {stream} beyond the limit were dropped")
    log = os.path.relpath(bundle.logs / "stderr.log", bundle.path)
    if report.error is not None:
        raise ParticipantFailure(
            Failure(
                kind=FailureKind.EXIT if report.kind == "exit" else FailureKind.EXCEPTION,
                where="main" if report.phase in ("main", "done", "collecting") else report.phase,
                message=report.error,
                traceback=report.traceback,
                log=log,
            )
        )
    if report.phase != "done" or ending.exit_code != 0:
        tail = failure_diagnosis.tail(bundle.logs / "stderr.log")
        failure = failure_diagnosis.ended(ending, report.phase, limits, tail)
        failure.log = log
        raise ParticipantFailure(failure)
    return "returned"


def _environment(wanted: ScriptOrder) -> dict[str, str]:
    own = dict(os.environ) if wanted.sandbox in _OWN_ENVIRONMENT else {"PATH": os.environ.get("PATH", os.defpath)}
    own.setdefault("LANG", "C.UTF-8")
    for name in THREAD_VARIABLES:
        own.setdefault(name, "1")
    return own | {
        # Otherwise sets of strings would have another order in every run of a seed.
        "PYTHONHASHSEED": str(wanted.seed % 2**32),
        "PYTHONUNBUFFERED": "1",
        "BENCH_SCRIPT": wanted.script,
        "BENCH_ENV": wanted.env,
        "BENCH_SEED": str(wanted.seed),
        "SEED": str(wanted.seed),
    }


def _settings(wanted: ScriptOrder) -> str:
    """Returns the settings of the run as the text of the configuration."""
    names = ("env", "seed", "arguments", "test_episodes", "videos")
    values = [("script", wanted.path.name), *((name, getattr(wanted, name)) for name in names)]
    lines = [f"# {name} = {value!r}\n" for name, value in values]
    return "".join(["# a wrapped script has no gin configuration; it was run with\n", *lines])


def _manifest(wanted: ScriptOrder, sandbox: Sandbox) -> Manifest:
    script = wanted.path
    code = autotag(script.resolve().parent, {})  # may run git here: the user is about to run the script anyway
    config = hashlib.sha256(_settings(wanted).encode()).hexdigest()
    identity = SubmissionIdentity(
        name=script.stem,
        path=str(script),
        sha256=sha256_of(script),
        git_commit=code.sha,
        git_dirty=code.dirty if code.sha is not None else None,
    )
    settings = {
        "configuration": config,
        "sandbox": sandbox.level,
        "time_limit_s": wanted.time_limit_s,
        "python": ".".join(platform.python_version_tuple()[:2]),
    }
    return command_manifest(
        wanted.env,
        wanted.seed,
        submission=identity,
        seeds={"script": wanted.seed},
        command=wanted.command(),
        config_sha256=config,
        settings=settings,
        sandbox=SandboxRecord(
            level=sandbox.level, guarantees=list(sandbox.guarantees()), missing=list(sandbox.missing())
        ),
    )
