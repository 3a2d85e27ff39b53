"""Evaluations during a training run, for callbacks: one policy after the other, in a2perf's participant process."""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from a2perf.api.environments import find_task
from a2perf.errors import ConfigError, RunFailed

if TYPE_CHECKING:
    from a2perf.api.results import Result, Runs


@dataclass(frozen=True)
class EvaluatedPolicy:
    """One evaluation.

    Attributes:
        step: step of the training run at the time of the snapshot.
        result: the result; None if the evaluation failed.
        failure: why it failed; empty otherwise.
    """

    step: int
    result: Result | None
    failure: str
    wall_s: float

    def values(self) -> dict[str, float]:
        """Returns the numbers to log, by name."""
        if self.result is None:
            return {}
        energy = self.result.energy
        found = {
            "return": self.result.mean_return,
            "normalised_score": self.result.normalised_score,
            "success_rate": self.result.success_rate,
            "energy_kwh": None if energy is None else energy.value,
            "evaluation_s": self.wall_s,
        }
        return {f"a2perf/{name}": float(value) for name, value in found.items() if value is not None}


class PeriodicEvaluation:
    """Evaluates policies of a training run and keeps the results.

    Args:
        every: steps or epochs between evaluations.
        episodes: episodes per evaluation.
        seed: seed of the episodes, the same in every evaluation.
        name: name of the policy; the step is added.
        root_dir: folder of the records, one folder per evaluation. An earlier record in its place moves to its attic.
        background: whether evaluations run in a thread while the training continues.
        options: further keywords of ``a2perf.evaluate``.

    Raises:
        ConfigError: an unknown task, or a number that is not positive.
    """

    def __init__(
        self,
        task: str,
        *,
        every: int,
        episodes: int | None = None,
        seed: int = 0,
        name: str = "policy",
        root_dir: str | Path = "runs",
        background: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if every < 1:
            raise ConfigError(f"an evaluation every {every} steps is not possible", hint="give a positive number")
        if episodes is not None and episodes < 1:
            raise ConfigError(f"episodes = {episodes} leaves no episode", hint="give a positive number")
        self.task = find_task(task).name
        self.every = every
        self._episodes = episodes
        self._seed = seed
        self.name = name
        self._root = Path(root_dir).absolute()
        self._options = dict(options or {})
        self._background = background
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None
        self._pending: list[concurrent.futures.Future[EvaluatedPolicy]] = []
        self._evaluated: list[EvaluatedPolicy] = []

    @property
    def evaluated(self) -> tuple[EvaluatedPolicy, ...]:
        """The evaluations that have ended, in the order of their steps."""
        return tuple(self._evaluated)

    @property
    def results(self) -> Runs:
        """The results so far."""
        from a2perf.api.results import Runs

        return Runs([entry.result for entry in self._evaluated if entry.result is not None])

    @property
    def failures(self) -> dict[int, str]:
        """Why evaluations failed, by step."""
        return {entry.step: entry.failure for entry in self._evaluated if entry.failure}

    def folder(self, step: int) -> Path:
        """Returns the folder of the evaluation at a step."""
        return self._root / f"{self.name}_step_{step}"

    def snapshot(self, step: int) -> Path:
        """Returns the folder of the submission that holds the policy of a step."""
        name = self.folder(step).name
        return self.folder(step) / "submission" / name

    def start(self, policy: object, step: int) -> list[EvaluatedPolicy]:
        """Saves a policy and evaluates it, or queues it for the background thread.

        Args:
            policy: what ``a2perf.evaluate`` takes; a later change of an object has no effect.

        Returns:
            The evaluations that have ended since the last call.

        Raises:
            UserError: the policy cannot be saved, or cannot be called with one observation.
        """
        if not isinstance(policy, str | os.PathLike):
            from a2perf.api.live_policy import live_policy

            place = self.snapshot(step)
            shutil.rmtree(place.parent, ignore_errors=True)  # of an earlier training run
            policy = live_policy(policy, place.name).written_to(place.parent)
        if not self._background:
            self._evaluated.append(self._evaluate(policy, step))
            return self._evaluated[-1:]
        if self._executor is None:
            # One thread: evaluations share the machine with the training run.
            self._executor = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="a2perf-evaluation")
        self._pending.append(self._executor.submit(self._evaluate, policy, step))
        return self.finished()

    def finished(self) -> list[EvaluatedPolicy]:
        """Returns the evaluations that have ended since the last call, without waiting."""
        ended: list[EvaluatedPolicy] = []
        while self._pending and self._pending[0].done():
            ended.append(self._pending.pop(0).result())
        self._evaluated += ended
        return ended

    def wait(self) -> list[EvaluatedPolicy]:
        """Waits for the queued evaluations and returns those that have ended since the last call."""
        if self._executor is None:
            return []
        self._executor.shutdown(wait=True)
        self._executor = None
        return self.finished()

    def _evaluate(self, policy: object, step: int) -> EvaluatedPolicy:
        from a2perf.api.evaluation import evaluate

        began = time.perf_counter()
        result, failure = None, ""
        try:
            result = evaluate(
                policy,
                self.task,
                episodes=self._episodes,
                seed=self._seed,
                name=self.folder(step).name,
                root_dir=self.folder(step),
                progress=False,
                force=True,
                **cast("Any", self._options),
            )
        except RunFailed as error:  # a failed evaluation must not end a training run of days
            failure = str(error)
        return EvaluatedPolicy(step, result, failure, time.perf_counter() - began)
