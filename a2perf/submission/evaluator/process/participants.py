"""Starts the participant processes of a run with trackers attached, for all modes, ``check`` and datasets.

By default one process serves the whole run, so a policy can remember earlier episodes. With
``Submission.fresh_policy = 'episode'`` each episode gets a new process, temporary home, scratch space and artifacts
folder. Episodes at the same time have one ``Participants`` per thread, see ``Participants.beside``.
"""

from __future__ import annotations

import copy
import dataclasses
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from a2perf import assets
from a2perf.constants import BenchmarkMode
from a2perf.domains.registry import get_domain, load_attribute
from a2perf.errors import SubmissionError
from a2perf.fault_point import fault_point
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.records import Manifest
from a2perf.runs.bundles import attempts, disk_reserve
from a2perf.runs.bundles.bundle import participant_starts
from a2perf.sandbox import level_text, levels
from a2perf.submission.evaluator.playing.seeds import RunSeeds
from a2perf.submission.evaluator.process.confinement import ProvidedConfinement, confinement
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from a2perf.submission.evaluator.process.participant_python import explain_missing_module, participant_python
from a2perf.submission.evaluator.process.participant_spec import ParticipantSpec, RunLimit
from a2perf.submission.evaluator.submitted.identity import RunTask, participant_environment
from a2perf.submission.evaluator.submitted.plain_spaces import plain_spaces
from a2perf.submission.evaluator.tracking import attach
from a2perf.submission.participant.forms import form_of
from a2perf.submission.run_services import ServiceSession, explain
from a2perf.submission.settings import RUN_TIME_LIMITS_S, Submission


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParticipantFolders:
    """The folders of a run's participant processes.

    Attributes:
        artifacts: their ``A2PERF_ARTIFACTS``. With one process per episode, the parent of their temporary folders.
        bundle: the bundle; paths of logs are recorded relative to it.
    """

    root_dir: Path
    artifacts: Path
    logs: Path
    bundle: Path


class Participants:
    """Starts, tracks and ends the participant processes of a run.

    As a context manager it prepares the first process and then enters the trackers: the preparation is not measured.

    Args:
        manifest: receives the records of sandbox and Python, warnings and loading times.
        run_limit: the limit on the whole run; by default it counts from now.

    Raises:
        UserError: on entering, if this host cannot provide the sandbox or the submission's environment cannot be
            built.
    """

    process: ParticipantProcess
    sampler: Sampler | None

    def __init__(
        self,
        settings: Submission,
        task: RunTask,
        manifest: Manifest,
        folders: ParticipantFolders,
        *,
        mode: str,
        tracker: AbstractContextManager[Sampler] | None = None,
        services: Sequence[ServiceSession] = (),
        run_limit: RunLimit | None = None,
        env: Any = None,
    ) -> None:
        # A held-out task may have other spaces than the task that the participant sees.
        self._spaces = {} if env is None or task.public_kwargs is not None else plain_spaces(env)
        self.settings, self._task, self._manifest = settings, task, manifest
        self._folders, self._mode, self._tracker = folders, mode, tracker
        self._all, self._of_process = ExitStack(), ExitStack()
        self._services, self._run_limit = tuple(services), run_limit or run_limit_of(settings, manifest)
        self._attached = self._is_cancelled = False
        self._prepared: ParticipantProcess | None = None
        self._tree_root: int | None = None
        self._preparing = threading.Lock()
        self._episodes_s: list[float] = []
        self._phase = ""

    @contextmanager
    def beside(self) -> Iterator[Participants]:
        """Opens participants of the same run for another thread; they start no process before ``of_episode``.

        They have the same trackers and records, and other sessions of the services.
        """
        other = copy.copy(self)
        other._services = tuple(session.another() for session in self._services)
        other._of_process, other._prepared, other._tree_root = ExitStack(), None, None
        other._is_cancelled = False
        with ExitStack() as ending:
            for session in other._services:
                ending.callback(session.close)
            ending.callback(other.end_process)
            try:
                yield other
            except ParticipantFailure as failure:
                if self._services:  # without any, the run itself explains the failure
                    _explain(failure, other._services)
                raise

    def __enter__(self) -> Participants:
        form = form_of(self.settings.folder)
        if form is not None and form.prepare:
            load_attribute(form.prepare)()
        with ExitStack() as stack:
            stack.enter_context(self._of_process)
            self._prepare(self._folders)
            tracker: AbstractContextManager[Sampler | None] = self._tracker or nullcontext()
            self.sampler = stack.enter_context(tracker)
            for session in self._services if self.sampler is not None else ():
                stack.enter_context(session.reporting_energy(self._net_kwh))
            stack.push(self._end_with)  # before the trackers end: exit handlers cost too
            self._all = stack.pop_all()
        return self

    def __exit__(self, *details: Any) -> None:
        try:
            _explain(details[1], self._services)
            explain_missing_module(details[1], self.settings, self.settings.folder)
        finally:
            self._all.__exit__(*details)

    @property
    def level_text(self) -> str:
        """First line of the run: the level of the sandbox."""
        return level_text(self.process.confinement.sandbox.level, self.settings.sandbox)

    def mark(self, phase: str) -> None:
        """Marks the start of a phase in the trackers' record and for the services."""
        self.track(phase)
        for session in self._services:
            session.enter(phase, task=self._task.name)

    def track(self, phase: str) -> None:
        """Marks the start of a part of a phase in the trackers' record alone."""
        if self.sampler is not None and phase != self._phase:
            self.sampler.mark(phase)
            self._phase = phase

    def start(
        self, *, time_limit_s: float | None = None, on_started: Callable[[], None] = lambda: None
    ) -> ParticipantProcess:
        """Starts the prepared process; the trackers follow it from its first instruction to the end of its tree.

        Raises:
            ParticipantFailure: the process did not start.
        """

        def follow() -> None:
            on_started()
            self._tree_root = self.process.tree.tree_root
            if self.sampler is not None:
                attach(self.sampler, self.process.tree)
                self._attached = True

        self.process.start(time_limit_s=time_limit_s, on_started=follow)
        return self.process

    def end_process(self) -> None:
        """Ends the current process, if there is one.

        Raises:
            ParticipantFailure: its artifacts exceed a limit.
        """
        self._end_with(None, None, None)

    def _end_with(self, *details: Any) -> None:
        """Ends the current process with an exception, which kills it, or without, which lets it end by itself."""
        root, self._tree_root = self._tree_root, None
        if root is None:  # none was started
            self._of_process.__exit__(*details)
            return
        process = self.process
        lives, began_s = process.ending is None, process.wall_s
        if lives and self.sampler is not None:
            self.sampler.sample_now()
        try:
            self._of_process.__exit__(*details)
        finally:
            if lives:
                self._manifest.timings_s["exit"] = process.wall_s - began_s
            if self.sampler is not None and process.ending is not None:
                peak = process.ending.peak_memory_bytes if process.tree.cgroups else None
                self.sampler.detach(root, cpu_s=process.ending.cpu_s, memory_peak_bytes=peak)

    def cancel(self) -> None:
        """Makes the current process, or the next one, fail; called from another thread."""
        self._is_cancelled = True
        if self._prepared is not None:
            self._prepared.cancel()

    def warn(self, texts: Iterable[str]) -> None:
        """Adds warnings to the record of the run."""
        self._manifest.warnings += texts

    def load(self) -> ParticipantProcess:
        """Starts the first process and loads its policy.

        Raises:
            ParticipantFailure: the policy did not load.
        """
        self._manifest.timings_s["load_policy"] = self._load()
        return self.process

    def of_episode(self, index: int, *, repeat: int = 0) -> ParticipantProcess:
        """Returns the process for an episode, a new one if ``fresh_policy`` is ``'episode'``.

        Args:
            repeat: number of the repetition; a new process gets another ``SEED`` in each.

        Raises:
            ParticipantFailure: the new process did not load its policy.
        """
        for session in self._services:
            session.enter("episode", index, task=self._task.name)
        if self.settings.fresh_policy == "episode":
            self.end_process()
            seeds = RunSeeds.recorded(self._manifest.root_seed, self._manifest.seeds)
            seed = seeds.draw("participant", repeat + 1)[repeat] if repeat else None
            self._prepare(self._of_one_episode(f"episode_{index:03d}"), seed=seed)
            self._episodes_s.append(self._load())
            mean_s = sum(self._episodes_s) / len(self._episodes_s)
            self._manifest.timings_s["load_policy_per_episode"] = mean_s
        return self.process

    def _net_kwh(self) -> float:
        """Returns the energy of all attempts so far, above idle, in kWh."""
        assert self.sampler is not None
        return attempts.used(self._manifest.attempts[:-1]).net_kwh + self.sampler.net_kwh

    def _load(self) -> float:
        if not self._attached:
            self.mark("load")
        elif self.settings.concurrent_episodes == 1:
            self.track("load")
        process = self.start()
        self._manifest.timings_s["start"] = process.wall_s
        fault_point("evaluator: participant started")
        process.load_policy(self.settings.participant_args, timeout_s=self.settings.load_timeout_s, spaces=self._spaces)
        return process.wall_s

    def _of_one_episode(self, name: str) -> ParticipantFolders:
        """Creates the folders of an episode's process; its artifacts are deleted when it ends."""
        run = self._folders
        artifacts = run.artifacts / name
        artifacts.mkdir(parents=True, exist_ok=True)
        self._of_process.callback(shutil.rmtree, artifacts, ignore_errors=True)
        root_dir = artifacts if run.root_dir == run.artifacts else run.root_dir
        return dataclasses.replace(run, root_dir=root_dir, artifacts=artifacts, logs=run.logs / name)

    def _prepare(self, folders: ParticipantFolders, *, seed: int | None = None) -> None:
        """Prepares a process: chooses its Python and its sandbox and records both in the manifest."""
        with self._preparing:
            self._prepared = self.process = self._of_process.enter_context(self._in_sandbox(folders, seed))
        if self._is_cancelled:
            self.process.cancel()

    @contextmanager
    def _in_sandbox(self, folders: ParticipantFolders, seed: int | None) -> Iterator[ParticipantProcess]:
        settings, task, manifest = self.settings, self._task, self._manifest
        with participant_python(settings, folders.logs) as chosen:
            manifest.python_env = chosen.record
            environment = participant_environment(settings, task, manifest, root_dir=folders.root_dir)
            if seed is not None:
                environment["SEED"] = str(seed)
            for session in self._services:
                environment |= session.variables
            confined = confinement(settings, environment)
            _refuse_uncovered(manifest, confined.sandbox.level)
            if self._services:
                _warn_of_open_network(manifest, confined)
            shown = task.env_kwargs if task.public_kwargs is None else task.public_kwargs
            named = [str(shown.get(name, "")) for name in get_domain(task.domain).path_arguments]
            # A netlist may be a comma list of files.
            paths = [Path(part.strip()).absolute() for text in named for part in text.split(",") if part.strip()]
            spec = ParticipantSpec(
                submission=settings.folder,
                logs=folders.logs,
                mode=self._mode,
                python=chosen.python,
                python_files=chosen.readable,
                environment=environment,
                artifacts=folders.artifacts,
                assets=assets.available(get_domain(task.domain).assets),
                task_files=[path for path in paths if path.exists()],
                services=self._services,
                log_base=folders.bundle,
                has_own_packages=chosen.record.kind == "isolated",
                run_limit=self._run_limit,
                call_timeout_s=settings.call_timeout_s,
            )
            process = ParticipantProcess(
                spec,
                confined,
                before_code=lambda: participant_starts(folders.bundle, manifest),
                on_full_disk=lambda: disk_reserve.use_reserve(folders.bundle),
            )
            manifest.sandbox = confined.record
            try:
                with process:
                    yield process
            finally:
                manifest.warnings += process.warnings


def _explain(error: BaseException | None, services: Sequence[ServiceSession]) -> None:
    if isinstance(error, ParticipantFailure):
        error.failure = explain(error.failure, services)


def run_limit_of(settings: Submission, manifest: Manifest) -> RunLimit:
    """Returns the limit on a run that starts now; earlier attempts have used a part of it."""
    default_s = RUN_TIME_LIMITS_S[BenchmarkMode(settings.mode)]
    seconds = default_s if settings.run_time_limit_s is None else settings.run_time_limit_s
    return RunLimit(seconds, time.monotonic() + seconds - attempts.used(manifest.attempts[:-1]).wall_s)


def _warn_of_open_network(manifest: Manifest, confined: ProvidedConfinement) -> None:
    """Warns if the participant can reach more than the services, or files and processes with their keys."""
    level, hides = confined.sandbox.level, levels()[confined.sandbox.level].hides_files
    if not hides:
        _warn_once(
            manifest,
            f"at the level {level!r} the submission can use the network, not only the services of the run, and read"
            " their keys from the evaluator's processes and files",
        )
    elif confined.network:
        _warn_once(manifest, "the submission can use the network, not only the services of the run")


def _refuse_uncovered(manifest: Manifest, level: str) -> None:
    """Warns about files that the participant can read but that the submission's hash does not cover.

    Raises:
        SubmissionError: links lead out of the submission, and the level does not hide their targets. The level 'none'
            is for the user's own code and only warns.
    """
    if levels()[level].hides_files or not manifest.submission.not_covered:
        return
    links = [text for text in manifest.submission.not_covered if " -> " in text]
    if links and level != "none":
        raise SubmissionError(
            f"links lead out of the submission, so its hash cannot cover their targets: {', '.join(links)}",
            hint="copy the files into the submission, or add --sandbox bubblewrap, which hides everything outside",
        )
    _warn_once(
        manifest,
        f"at the level {level!r} the submission can read files that its hash does not cover: "
        + ", ".join(manifest.submission.not_covered),
    )


def _warn_once(manifest: Manifest, text: str) -> None:
    """Adds a warning that is the same for every participant process of the run."""
    if text not in manifest.warnings:
        manifest.warnings.append(text)
