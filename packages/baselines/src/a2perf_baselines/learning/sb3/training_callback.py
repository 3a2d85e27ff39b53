"""A training run with Stable-Baselines3: a callback that logs, evaluates, saves, resumes and stops.

The callback acts between two rollouts, after the learner has used the last one. At a checkpoint the members start new
episodes with seeds derived from the run's seed and the step. A resumed training run therefore continues exactly like an
uninterrupted one.
"""

from __future__ import annotations

from a2perf_baselines.learning.sb3 import frameworks  # noqa: F401  # isort: skip  raises MissingDependency

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import VecNormalize

from a2perf_baselines import learning
from a2perf_baselines.learning.sb3 import checkpoint
from a2perf_baselines.learning.sb3.environments import GymnasiumVecEnv

POLICY = "policy"
"""Folder in the artifacts with the best policy so far."""


class _StopTraining(Exception):
    """Ends ``learn`` between two rollouts, when all collected data has been used."""


class TrainingCallback(BaseCallback):  # type: ignore[misc]  # mypy does not follow the library
    """Accompanies one training run.

    Args:
        members: the vector environment below ``envs``.
        log_every: steps between two points of the curve.
        checkpoint_every: steps between two checkpoints; an evaluation precedes each.
        episodes: episodes of an evaluation, always the same ones.
        export: writes further files of a policy into the folder that it gets.
    """

    def __init__(
        self,
        run: learning.TrainingRun,
        envs: VecNormalize,
        members: GymnasiumVecEnv,
        *,
        log_every: int,
        checkpoint_every: int,
        episodes: int,
        export: Callable[[Path], None],
    ) -> None:
        super().__init__()
        self.best = -np.inf
        self._run, self._envs, self._members, self._export = run, envs, members, export
        self._log_every, self._checkpoint_every = log_every, checkpoint_every
        self._evaluation_seeds = run.seeds("evaluation", episodes)
        self._logged = self._saved = 0
        self._resumed: learning.TrainingCheckpoint | None = None

    def learn(self, make: Callable[[], BaseAlgorithm], kind: type[BaseAlgorithm]) -> BaseAlgorithm:
        """Trains a new model, or that of the last checkpoint, until the budget is used.

        Returns:
            The model.
        """
        self._resumed = self._run.latest()
        if self._resumed is None:
            model = make()
        else:
            model = kind.load(self._resumed.path / checkpoint.MODEL, env=self._envs, device="cpu")
        model.set_logger(Logger(None, []))
        self.init_callback(model)
        self.best = -np.inf if self._resumed is None else float(self._resumed.state["best"])
        remaining = self._run.total_steps - model.num_timesteps
        if remaining > 0:
            with contextlib.suppress(_StopTraining):
                model.learn(remaining, callback=self, log_interval=None, reset_num_timesteps=False)
            if self._saved < model.num_timesteps:
                self._log(model.num_timesteps)
                self._finish_part()
        self._run.say(f"done: {model.num_timesteps} steps, best evaluation {self.best:.4g}")
        return model

    def _on_training_start(self) -> None:
        model = self.model
        if self._resumed is None:
            self._begin_episodes()
            return
        checkpoint.read_training(self._resumed.path, model, self._envs)
        self._logged = self._saved = self._resumed.step
        self._begin_episodes()
        checkpoint.restore_generators(model, self._resumed.state["generators"])

    def _on_rollout_start(self) -> None:
        steps = self.model.num_timesteps
        stopping = self._run.out_of_time or steps + self._rollout_steps() > self._run.total_steps
        saving = steps > self._saved and (stopping or steps - self._saved >= self._checkpoint_every)
        if saving or steps - self._logged >= self._log_every:
            self._log(steps)
        self._run.progress(steps)
        if saving:
            self._finish_part()
        if stopping:
            raise _StopTraining

    def _on_step(self) -> bool:
        return True

    def _rollout_steps(self) -> int:
        if isinstance(self.model, OnPolicyAlgorithm):
            return int(self.model.n_steps * self._envs.num_envs)
        assert isinstance(self.model, OffPolicyAlgorithm)
        frequency: Any = self.model.train_freq
        return int(frequency.frequency * self._envs.num_envs)

    def _log(self, steps: int) -> None:
        self._logged = steps
        losses = self.model.logger.name_to_value
        values = {name: float(value) for name, value in losses.items() if name.startswith("train/")}
        if self._members.finished:
            returns, lengths = np.array(self._members.finished, dtype=np.float64).T
            self._members.finished.clear()
            self._run.average_return(float(returns.mean()), steps)
            values["Metrics/AverageEpisodeLength"] = float(lengths.mean())
        losses.clear()
        if values:
            self._run.log(values, steps)

    def _finish_part(self) -> None:
        """Evaluates, keeps the best policy, writes a checkpoint, and starts new episodes."""
        model, run = self.model, self._run
        self._saved = model.num_timesteps
        generators = checkpoint.generators(model)
        value = float(learning.evaluate_vector(self._act, self._members.envs, self._evaluation_seeds).mean())
        run.log({"Evaluation/AverageReturn": value}, self._saved)
        run.say(f"{self._saved:9d} steps  evaluation {value:.4g}")
        if value > self.best:
            self.best = value
            learning.replace(run.folder / POLICY, self._write_policy)
        run.save(
            self._saved,
            lambda folder: checkpoint.write_training(folder, model, self._envs),
            {"best": self.best, "generators": generators},
        )
        self._begin_episodes()
        checkpoint.restore_generators(model, generators)

    def _write_policy(self, folder: Path) -> None:
        checkpoint.write_policy(folder, self.model, self._envs)
        self._export(folder)

    def _act(self, observations: Any) -> Any:
        actions, _ = self.model.predict(self._envs.normalize_obs(observations), deterministic=True)
        return actions

    def _begin_episodes(self) -> None:
        """Starts an episode in every member."""
        model: Any = self.model
        self._envs.seed(self._run.seeds(f"episodes after {model.num_timesteps} steps", 1)[0])
        model._last_obs = self._envs.reset()
        model._last_episode_starts = np.ones(self._envs.num_envs, dtype=np.bool_)
        model._last_original_obs = self._envs.get_original_obs()
