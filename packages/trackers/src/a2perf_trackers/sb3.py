"""A callback for Stable-Baselines3; importing this module imports the framework."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2perf.api.tracking import MetricLogger
from a2perf.errors import MissingDependency
from a2perf_trackers.periodic_evaluation import EvaluatedPolicy, PeriodicEvaluation

if TYPE_CHECKING:
    from a2perf.api.results import Runs

try:
    from stable_baselines3.common.callbacks import BaseCallback
except ModuleNotFoundError as error:
    raise MissingDependency(
        "a2perf_trackers.sb3 needs the package stable_baselines3, which is not installed",
        hint="pip install stable-baselines3",
    ) from error

_MODEL = "model.zip"  # in a snapshot


class EvaluateCallback(BaseCallback):  # type: ignore[misc]  # Stable-Baselines3 is not installed where types are checked
    """Evaluates the model every few steps as a submission: in a2perf's participant process and sandbox.

    Each evaluation saves the model, with the statistics of ``VecNormalize`` if the training environment has them, as a
    submission below ``root_dir/<name>_step_<n>`` and evaluates this folder as ``a2perf run`` does. The policy observes
    the environment of the task without further wrappers: a model that was trained on stacked frames or on another task
    does not fit. A failed evaluation does not end the training run: see ``failures``.

    Every evaluation logs ``a2perf/return``, ``a2perf/success_rate`` and ``a2perf/normalised_score`` (if the task has
    them), ``a2perf/energy_kwh`` and ``a2perf/evaluation_s`` to the logger of the model.

    Args:
        task: name of the task, such as ``"dog_pace"``.
        every_steps: environment steps between evaluations, counted over all parallel environments.
        episodes: episodes per evaluation; by default those of the task.
        seed: seed of the episodes, the same in every evaluation.
        name: name of the policy in the records; by default the name of the algorithm in lower case.
        best_model_path: file to which the model with the highest mean return is copied, such as ``"best.zip"``.
        background: evaluate in a thread while the training continues. The numbers are then logged when an evaluation
            has ended, with ``a2perf/evaluated_step``; the training run waits at its end for the rest.
        logger: also receives the logged numbers: a ``MetricLogger``, or a function of numbers and step such as
            ``mlflow.log_metrics``.
        options: further keywords of ``a2perf.evaluate``, such as ``{"sandbox": "process"}``.
        verbose: 1 prints one line per evaluation.

    Raises:
        ConfigError: an unknown task, or a number that is not positive.

    Example:
        >>> evaluations = EvaluateCallback("dog_pace", every_steps=10_000, episodes=5, best_model_path="best.zip")
        >>> model.learn(100_000, callback=evaluations)
        >>> evaluations.results.to_pandas()[["run", "return"]]
    """

    def __init__(
        self,
        task: str,
        *,
        every_steps: int,
        episodes: int | None = None,
        seed: int = 0,
        name: str | None = None,
        root_dir: str | Path = "runs",
        best_model_path: str | Path | None = None,
        background: bool = False,
        logger: MetricLogger | Callable[[Mapping[str, float], int], object] | None = None,
        options: Mapping[str, Any] | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        self._evaluation = PeriodicEvaluation(
            task,
            every=every_steps,
            episodes=episodes,
            seed=seed,
            name=name or "",
            root_dir=root_dir,
            background=background,
            options=options,
        )
        self._best_path = None if best_model_path is None else Path(best_model_path)
        self._extra_logger = logger
        self._background = background
        self._last_step = 0
        self.best_mean_return: float | None = None

    @property
    def results(self) -> Runs:
        """The results so far, in the order of the steps."""
        return self._evaluation.results

    @property
    def evaluated(self) -> tuple[EvaluatedPolicy, ...]:
        """Step, result and wall time of each evaluation that has ended."""
        return self._evaluation.evaluated

    @property
    def failures(self) -> dict[int, str]:
        """Why evaluations failed, by step."""
        return self._evaluation.failures

    def _init_callback(self) -> None:
        self._last_step = self.model.num_timesteps
        self._evaluation.name = self._evaluation.name or type(self.model).__name__.lower()

    def _on_step(self) -> bool:
        if self.num_timesteps - self._last_step >= self._evaluation.every:
            self._last_step = self.num_timesteps
            self._log(self._evaluation.start(self.model, self.num_timesteps))
        elif self._background:
            self._log(self._evaluation.finished())
        return True

    def _on_training_end(self) -> None:
        self._log(self._evaluation.wait())

    def _log(self, ended: list[EvaluatedPolicy]) -> None:
        for entry in ended:
            values = entry.values()
            if self._background and values:
                values["a2perf/evaluated_step"] = float(entry.step)
            for key, value in values.items():
                self.logger.record(key, value)
            if values:
                self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
                self.logger.dump(self.num_timesteps)
                if isinstance(self._extra_logger, MetricLogger):
                    self._extra_logger.log(entry.step, values)
                elif self._extra_logger is not None:
                    self._extra_logger(values, entry.step)
            self._keep_best(entry)
            if self.verbose:
                print(f"a2perf: step {entry.step}: {entry.failure or values.get('a2perf/return')}")

    def _keep_best(self, entry: EvaluatedPolicy) -> None:
        mean = None if entry.result is None else entry.result.mean_return
        if mean is None or (self.best_mean_return is not None and mean <= self.best_mean_return):
            return
        self.best_mean_return = mean
        if self._best_path is not None:
            self._best_path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._evaluation.snapshot(entry.step) / _MODEL, self._best_path)
