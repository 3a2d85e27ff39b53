"""The participant processes that answer a run's observations: one for all of it, or another one for each episode.

With one process the policy may remember what it met in earlier episodes. With ``Submission.fresh_policy = 'episode'``
nothing reaches the next episode: process, temporary home, scratch space and artifact folder are new.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from a2perf.fault_point import fault_point
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.records import Manifest
from a2perf.submission.evaluator.identity import RunTask
from a2perf.submission.evaluator.participant_process import ParticipantProcess
from a2perf.submission.evaluator.session import participant_process
from a2perf.submission.settings import Submission


class PolicyProcesses:
    """Starts, follows and ends the processes.

    As a context it prepares the first one, so that nothing of its making is tracked; ``begin`` starts it.

    Args:
        settings: the run's configuration.
        task: the environment that the participant is told of.
        manifest: gets what the sandbox and the warnings say, and the times of loading.
        mode: of the run.
        root_dir: the participant's ``ROOT_DIR``.
        artifacts: its ``A2PERF_ARTIFACTS``, or the folder above those of single episodes, which are not kept.
        logs: where its output is captured, or the folder above.
        bundle_path: the bundle's folder.

    Attributes:
        process: the present one.
    """

    def __init__(
        self, settings: Submission, task: RunTask, manifest: Manifest, *,
        mode: str, root_dir: Path, artifacts: Path, logs: Path, bundle_path: Path,
    ) -> None:  # fmt: skip
        self._settings, self._task, self._manifest = settings, task, manifest
        self._mode, self._root_dir, self._artifacts = mode, root_dir, artifacts
        self._logs, self._bundle_path = logs, bundle_path
        self._open = ExitStack()
        self._episodes_s: list[float] = []
        self._sampler: Sampler
        self.process: ParticipantProcess

    def __enter__(self) -> PolicyProcesses:
        self._prepare(self._artifacts, self._root_dir, self._logs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, value, trace)

    def begin(self, sampler: Sampler) -> ParticipantProcess:
        """Starts the first process and loads its policy.

        Raises:
            ParticipantFailure: it did not load.
        """
        self._sampler = sampler
        self._manifest.timings_s["load_policy"] = self._load(sampler.attach)
        return self.process

    def of_episode(self, index: int) -> ParticipantProcess:
        """Returns the process that answers in an episode.

        Raises:
            ParticipantFailure: a new process did not load its policy.
        """
        if self._settings.fresh_policy == "episode":
            self._sampler.detach()
            self._open.close()
            name = f"episode_{index:03d}"
            artifacts = self._artifacts / name
            artifacts.mkdir(parents=True, exist_ok=True)
            self._open.callback(shutil.rmtree, artifacts, ignore_errors=True)
            root_dir = artifacts if self._root_dir == self._artifacts else self._root_dir
            self._prepare(artifacts, root_dir, self._logs / name)
            self._episodes_s.append(self._load(self._sampler.follow))
            mean_s = sum(self._episodes_s) / len(self._episodes_s)
            self._manifest.timings_s["load_policy_per_episode"] = mean_s
        return self.process

    def _prepare(self, artifacts: Path, root_dir: Path, logs: Path) -> None:
        self.process = self._open.enter_context(
            participant_process(
                self._settings, self._task, self._manifest, mode=self._mode,
                root_dir=root_dir, artifacts=artifacts, logs=logs, bundle_path=self._bundle_path,
            )
        )  # fmt: skip

    def _load(self, follow: Callable[..., None]) -> float:
        started, process = time.perf_counter(), self.process
        process.start()
        follow(process.tree_root, cgroup=process.cgroups, clock=process.cpu_clock, root_is_guard=True)
        if not self._episodes_s:
            self._sampler.mark("load")
        fault_point("evaluator: participant started")
        process.load_policy(self._settings.participant_args, timeout_s=self._settings.load_timeout_s)
        return time.perf_counter() - started
