"""One run of a plain command, recorded as a bundle, and the plan that all runs of a benchmark matrix share.

    python -m a2perf.experiments.command_run PLAN ENV_ID SEED

A launcher starts this process. It opens the bundle ``R/command``, runs the command in the working directory of the
plan, writes its output to ``logs/output.log``, samples its costs, and collects its logs: the files in
``A2PERF_RUN_DIR`` and its files below the working directory (by the rules of ``written_files``).
Exit status: 0 finished (now or before), 1 the command failed, 3 infrastructure, 130 interrupted.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from a2perf._version import __version__
from a2perf.constants import ExitCode
from a2perf.errors import UserError, command_line
from a2perf.launch import die_with_parent
from a2perf.metrics.trackers.host import describe_host
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.records import SCHEMA, Failure, FailureKind, Manifest, Record, RunState, SubmissionIdentity
from a2perf.runs.bundles.attempts import now
from a2perf.runs.bundles.bundle import Bundle, Finished, open_bundle
from a2perf.runs.bundles.layout import TRACKING_FILE
from a2perf.runs.bundles.run_record import RUN_FILE, AutotagRecord, ExperimentRun, config_of, folder_name, user_name
from a2perf.runs.bundles.written_files import WrittenFiles, descendants
from a2perf.runs.conditions import packages_of
from a2perf.storage import read_record, write_json, write_record
from a2perf.submission.evaluator.process.failure_diagnosis import tail
from a2perf.system import KILL, POSIX, STOPPING, adopt_orphans, wait_for_end

RUN_DIR_VARIABLE = "A2PERF_RUN_DIR"
COMMAND_MODE = "command"
OUTPUT = "logs/output.log"
PLAN_FOLDER = ".matrix"
_DIGEST_DIGITS = 6
_FIRST_LOOKS_S = 0.05
_LOOK_INTERVAL_S = 0.5
_GRACE_S = 10.0
_LEFTOVER_GRACE_S = 1.0
_MOST_COLLECTED_BYTES = 4 << 30
_TAIL_CHARACTERS = 2000


class MatrixPlan(Record, kw_only=True):
    """Everything except environment and seed; written once to a file that the nodes of a cluster can read.

    Attributes:
        store_path: the store, absolute.
        cwd: working directory of the commands, absolute.
        words: the command, without ``--env-id`` and ``--seed``; of a submission, the flags of the evaluator.
        source: ``"command"`` or ``"submission"``.
        autotag: version of the code; None without the automatic tag.
        wandb_tags: value of ``WANDB_TAGS`` for the commands.
    """

    schema: int = SCHEMA
    experiment: str
    store_path: str
    cwd: str
    words: list[str]
    source: str = "command"
    code: SubmissionIdentity
    autotag: AutotagRecord | None = None
    tags: list[str] = msgspec.field(default_factory=list)
    wandb_tags: str = ""
    alone: bool = False
    resources: dict[str, float] = msgspec.field(default_factory=dict)

    @property
    def store(self) -> Path:
        """The store's folder."""
        return Path(self.store_path)

    def digest(self) -> str:
        """Returns a hash of the command and its resources."""
        words = [*self.words, *(f"{name}={value:g}" for name, value in sorted(self.resources.items()))]
        return hashlib.sha256(shlex.join(words).encode()).hexdigest()

    def version(self) -> str:
        """Returns the name of the version's folder: the tag of the code and some digits of the command's hash."""
        code = self.autotag.tag if self.autotag is not None else f"untagged-{self.code.sha256[:12]}"
        return f"{folder_name(code)}-{self.digest()[:_DIGEST_DIGITS]}"

    def run_folder(self, env_id: str, seed: int) -> Path:
        """Returns the folder of a run."""
        return self.store / folder_name(self.experiment) / folder_name(env_id) / self.version() / f"seed_{seed}"

    def command(self, env_id: str, seed: int) -> tuple[str, ...]:
        """Returns the words of a plain command for one run."""
        return (*self.words, "--env-id", env_id, "--seed", str(seed))

    def record(self, env_id: str, seed: int, words: Sequence[str]) -> ExperimentRun:
        """Returns ``rlops.json`` of a run."""
        config = {**config_of(words), "env_id": env_id, "seed": seed}
        config.setdefault("exp_name", self.experiment)
        return ExperimentRun(
            experiment=self.experiment,
            env_id=env_id,
            seed=seed,
            tags=list(self.tags),
            user=user_name(),
            config=config,
            source=self.source,
            command=list(words),
            version=self.autotag.tag if self.autotag is not None else self.version(),
            autotag=self.autotag,
            created_at=now(),
            packages=packages_of(words) if self.source == "command" else {},
        )

    def path(self) -> Path:
        """Returns the path of the plan; matrices with the same code and command share it."""
        return self.store / PLAN_FOLDER / f"{folder_name(self.experiment)}-{self.version()}.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command of a plan and returns the exit status."""
    plan, env_id, seed = sys.argv[1:] if arguments is None else arguments
    try:
        return run_command(read_record(Path(plan), MatrixPlan), env_id, int(seed))
    except UserError as error:
        print(f"a2perf: {error}", file=sys.stderr)
        return int(error.exit_code)
    except OSError as error:  # a full disk or an unmounted store: the infrastructure failed, not the command
        print(f"a2perf: {error}", file=sys.stderr)
        return int(ExitCode.INFRASTRUCTURE)


def run_command(plan: MatrixPlan, env_id: str, seed: int) -> int:
    """Runs the command of a plan in one environment with one seed.

    Raises:
        UserError: the bundle belongs to another run or process.
    """
    run, words = plan.run_folder(env_id, seed), plan.command(env_id, seed)
    record = plan.record(env_id, seed, words)
    if not (run / RUN_FILE).exists():
        write_record(run / RUN_FILE, record)
    manifest = command_manifest(
        env_id,
        seed,
        submission=plan.code,
        seeds={},
        command=list(words),
        config_sha256=plan.digest(),
        executable=sys.executable,
    )
    bundle = open_bundle(run / COMMAND_MODE, manifest, "# a plain command has no gin\n")
    if isinstance(bundle, Finished):
        print(f"{run.relative_to(plan.store)}: finished before, kept")
        return 0
    if bundle.resumed:  # a plain command cannot resume: start it from scratch
        for folder in (bundle.artifacts, bundle.logs, bundle.metrics):
            shutil.rmtree(folder)
            folder.mkdir()
    return _Attempt(plan, bundle, words, record).run()


class _Attempt:
    """One execution of the command, from the first snapshot of the folders to the finished manifest."""

    def __init__(self, plan: MatrixPlan, bundle: Bundle, words: Sequence[str], record: ExperimentRun) -> None:
        self.plan, self.bundle, self.words, self.record = plan, bundle, list(words), record
        self.interrupted: signal.Signals | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        cwd = Path(self.plan.cwd)
        assert self.record.seed is not None
        written = WrittenFiles(cwd, self.record.env_id, self.record.seed, self.plan.alone)
        # Orphaned descendants become children of this process: it can still sample and end them.
        adopt_orphans()
        for number in STOPPING:
            signal.signal(number, self._interrupt)
        sampler = Sampler(directory=self.bundle.metrics, mode=COMMAND_MODE, with_codecarbon=False)
        sampler.prepare()
        self.bundle.manifest.host = msgspec.to_builtins(describe_host())
        self.bundle.save()
        began = time.perf_counter()
        with (self.bundle.path / OUTPUT).open("ab") as log:
            through = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), "all"]
            try:
                self.process = subprocess.Popen(
                    [*(through if POSIX else ()), *self.words],
                    cwd=cwd,
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            except OSError as error:
                sampler.stop()
                return self._finish(None, f"could not be started: {error.strerror}")
            if self.interrupted is not None:  # while the process was being started
                self.process.send_signal(signal.SIGTERM)
            sampler.attach(self.process.pid)
            self._wait(self.process.pid, written)
        report = sampler.stop()
        status = self.process.wait()
        # After process.wait: reaping any child would take the status of the command.
        _end_descendants()
        manifest = self.bundle.manifest
        manifest.timings_s[COMMAND_MODE] = time.perf_counter() - began
        manifest.tracking = msgspec.to_builtins(report)
        manifest.tracker_failures = [
            {"tracker": failure.tracker, "error": failure.error} for failure in report.failures
        ]
        write_json(self.bundle.metrics / TRACKING_FILE, manifest.tracking)
        self._collect(written)
        return self._finish(status)

    def _environment(self) -> dict[str, str]:
        """Returns the environment of the command; Weights & Biases logs offline unless the user chose a mode."""
        artifacts = str(self.bundle.artifacts)
        defaults = {"WANDB_DIR": artifacts, "WANDB_MODE": "offline", "PYTHONUNBUFFERED": "1"}
        environment = {**defaults, **os.environ, RUN_DIR_VARIABLE: artifacts}
        if self.plan.wandb_tags:
            environment["WANDB_TAGS"] = self.plan.wandb_tags
        return environment

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = signal.Signals(number)
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)

    def _wait(self, pid: int, written: WrittenFiles) -> None:
        """Waits for the end of the command without reaping it, and observes its open files until then."""
        pause, killed_at = _FIRST_LOOKS_S, None
        while not wait_for_end([pid], pause):
            written.look(descendants(os.getpid()))
            pause = min(_LOOK_INTERVAL_S, 1.3 * pause)
            if self.interrupted is not None:
                killed_at = killed_at or time.monotonic() + _GRACE_S
                if time.monotonic() >= killed_at:
                    os.kill(pid, KILL)
        written.look([pid])

    def _collect(self, written: WrittenFiles) -> None:
        """Copies the run's files into the bundle."""
        artifacts, folder = self.bundle.artifacts, written.folder
        copied = 0
        for path, rule in written.found().items():
            name = path.relative_to(folder if path.is_relative_to(folder) else path.parents[1])
            size = path.stat().st_size
            if copied + size > _MOST_COLLECTED_BYTES:
                self.bundle.manifest.warnings.append(f"{name} was left out: too large")
                continue
            copied += size
            target = artifacts / name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
                self.record.notes.append(f"{name.as_posix()}: collected ({rule})")
        write_record(self.bundle.path.parent / RUN_FILE, self.record)

    def _finish(self, status: int | None, words: str = "") -> int:
        if status == 0:
            self.bundle.finish(RunState.FINISHED, exit_code=0, reason="finished")
            return 0
        if self.interrupted is not None:
            self.bundle.finish(RunState.INTERRUPTED, exit_code=130, reason=f"interrupted by {self.interrupted.name}")
            return 130
        name = signal.Signals(-status).name if status is not None and status < 0 else None
        words = words or (f"was ended by {name}" if name is not None else f"ended with status {status}")
        failure = Failure(
            kind=FailureKind.SIGNAL if name is not None else FailureKind.EXIT,
            where="command",
            message=f"`{command_line(*self.words)}` {words}",
            traceback=tail(self.bundle.path / OUTPUT)[-_TAIL_CHARACTERS:] or None,
            exit_code=status if status is not None and status >= 0 else None,
            signal=name,
            log=OUTPUT,
        )
        self.bundle.finish(RunState.FAILED, exit_code=1, reason=words, failure=failure)
        print(f"{self.bundle.path}: {failure.message}", file=sys.stderr)
        return int(ExitCode.PARTICIPANT_FAILED)


def command_manifest(env_id: str, seed: int, *, executable: str = "", **own: Any) -> Manifest:
    """Returns the manifest of a run outside of the evaluator, which knows no domain and no arguments."""
    python = {"version": platform.python_version(), "implementation": platform.python_implementation()}
    if executable:
        python["executable"] = os.path.basename(executable)
    return Manifest(
        a2perf_version=__version__,
        mode=COMMAND_MODE,
        domain="",
        task=env_id,
        env_id=env_id,
        env_kwargs={},
        env_fingerprint=None,
        root_seed=seed,
        participant_args={},
        state=RunState.RUNNING,
        attempts=[],
        python=python,
        **own,
    )


def _end_descendants() -> None:
    """Ends the processes that the command left; a tracker's service gets a moment to write its last lines."""
    deadline = time.monotonic() + _LEFTOVER_GRACE_S
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        _reap()
        time.sleep(0.05)
    for pid in left:
        try:
            os.kill(pid, KILL)
        except ProcessLookupError:
            continue
    _reap()


def _reap() -> None:
    try:
        while POSIX and os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    sys.exit(main())
