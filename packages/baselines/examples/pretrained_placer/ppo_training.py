"""Training by PPO, on generated designs or on the task's design; needs PyTorch."""

from __future__ import annotations

from a2perf_baselines.learning.torch import frameworks  # noqa: F401  # isort: skip  reports what is missing

import dataclasses
import time
from typing import Any

import numpy as np
import torch
from designs import training_designs, validation_designs
from model import PlacerModel
from placements import WEIGHTS, BestPlacement, generated_task, starting_policy

from a2perf_baselines import learning
from a2perf_baselines.learning.torch.ppo import PPO, PPOSettings
from a2perf_placement.features.batch import PlacementBatch, PlacementTask
from a2perf_placement.features.features import PlacementState


class Training:
    """One training run."""

    def __init__(self, run: learning.TrainingRun, settings: Any) -> None:
        torch.set_num_threads(1)
        self.run, self.settings = run, settings
        if settings.designs:
            self.tasks = [generated_task(spec) for spec in training_designs(settings.designs)]
            self.validation = [generated_task(spec) for spec in validation_designs(settings.validation_designs)]
        else:
            self.tasks = self.validation = [PlacementTask(run.make_env())]
        torch.manual_seed(run.seed)
        model = PlacerModel(settings.width)
        model.load_scorer(starting_policy(settings.start, settings.width))
        self.batch = PlacementBatch(self.tasks, settings.episodes, settings.reward_scale)
        names = {field.name for field in dataclasses.fields(PPOSettings)}
        ppo_settings = PPOSettings(**{name: getattr(settings, name) for name in names if hasattr(settings, name)})
        self.ppo = PPO(self.batch, model, ppo_settings, run.seed)
        self.best = BestPlacement(run.folder)
        self.best_evaluation = float("inf")
        self.updates = 0
        self.states = [PlacementState(task.design, task.start) for task in self.validation]
        self.progress = run.folder / "progress.csv"

    def learn(self) -> None:
        """Continues from the last checkpoint, if there is one."""
        run, ppo = self.run, self.ppo
        saved = run.latest()
        if saved is not None:
            ppo.restore(torch.load(saved.path / "ppo.pt", weights_only=True))
            self.best_evaluation, self.updates = saved.state["best_evaluation"], saved.state["updates"]
            for task, mean in zip(self.tasks, saved.state["means"], strict=True):
                task.mean_cost = mean
            ppo.begin_episodes(run.seeds(f"episodes {self.updates}", 1)[0])
        else:
            self.progress.write_text("updates,steps,episodes,seconds,cpu_seconds,mean_cost,evaluation,best,entropy\n")
            self._evaluate([], 0.0)
        costs: list[float] = []
        while ppo.steps < run.total_steps and not self._out_of_time:
            ppo.collect()
            update = ppo.update(min(1.0, ppo.steps / run.total_steps))
            self.updates += 1
            costs += self._take_finished()
            run.progress(ppo.steps, f"cost {np.mean(costs) if costs else np.nan:.4f}")
            if self.updates % self.settings.evaluate_every == 0 or self._out_of_time:
                self._evaluate(costs, update.entropy)
                costs = []

    @property
    def _out_of_time(self) -> bool:
        return self.run.out_of_time or time.process_time() >= self.settings.processor_budget_s

    def _take_finished(self) -> list[float]:
        """Returns the costs of the episodes that ended, and keeps the best placement of the run's own design."""
        costs = []
        for episode in self.batch.finished:
            costs.append(episode.cost)
            if not self.settings.designs and len(episode.cells) == len(self.tasks[0].macros):
                self.best.offer(episode.cost, self.tasks[0].macros, episode.cells)
        self.batch.finished.clear()
        return costs

    def _evaluate(self, costs: list[float], entropy: float) -> None:
        """Places each validation design once, without chance; keeps the best policy, and a checkpoint."""
        run, ppo = self.run, self.ppo
        scorer = ppo.model.scorer()
        found = []
        for task, state in zip(self.validation, self.states, strict=True):
            cells = scorer.place(state)
            cost = 2.0 if cells is None else task.finish(cells)[0]
            found.append(cost)
            if not self.settings.designs and cells is not None:
                self.best.offer(cost, task.macros, cells)
        evaluation = float(np.mean(found))
        if evaluation < self.best_evaluation:
            self.best_evaluation = evaluation
            learning.replace(run.folder / WEIGHTS, scorer.save)
        run.average_return(-evaluation, ppo.steps)
        mean = float(np.mean(costs)) if costs else float("nan")
        best = self.best_evaluation if self.settings.designs else self.best.cost
        line = (
            f"{self.updates},{ppo.steps},{self.batch.episodes},{run.elapsed_s:.1f},{time.process_time():.1f},"
            f"{mean:.5f},{evaluation:.5f},{best:.5f},{entropy:.3f}"
        )
        with self.progress.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        run.say(line)
        state = {
            "best_evaluation": self.best_evaluation,
            "updates": self.updates,
            "means": [task.mean_cost for task in self.tasks],
        }
        run.save(ppo.steps, lambda path: torch.save(ppo.state(), path / "ppo.pt"), state)
