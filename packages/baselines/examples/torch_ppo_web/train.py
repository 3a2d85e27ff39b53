"""Trains a policy for websites from scratch with PPO: no demonstrations, and the scripted solver is not in the loop.

Arguments (``--participant-args total_steps=100000``): the fields of `Settings`. ``configs`` has those of each level. It
ends after ``total_steps`` or ``time_budget_s``; the same command resumes from the last checkpoint.
"""

from __future__ import annotations

from a2perf_baselines.learning.torch import frameworks  # noqa: F401  # isort: skip  reports what is missing

import csv
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from policy import CandidatePolicy

from a2perf.domains.registry import find_environment
from a2perf.domains.web_navigation import LEVELS
from a2perf.domains.web_navigation.sites.designs import shipped_designs
from a2perf.domains.web_navigation.sites.generator import training_designs
from a2perf.domains.web_navigation.sites.website import WebsiteDesign
from a2perf.submission.participant.adapters.origin import record_environment
from a2perf_baselines import learning
from a2perf_baselines.learning.torch.ppo import PPO, PPOSettings, Update
from a2perf_baselines.web_navigation.batch import FinishedEpisodes, WebBatch

DESIGNS, POLICY, CURVE, LEARNER = "designs.json", "policy.npz", "progress.csv", "ppo.pt"
COLUMNS = (
    "env_steps", "wall_s", "processor_s", "stage", "training_solved", "training_return", "validation_solved",
    "validation_return", "entropy", "divergence", "learning_rate",
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Parameters of the training.

    Attributes:
        total_steps: environment steps in total, over all calls.
        curriculum: levels of the designs, one stage after another; by default all levels up to that of the task.
        advance_at: share of training episodes solved between two evaluations that ends a stage.
        designs: number of designs per stage.
        members: episodes that step together.
        validation_designs: further designs of the task's level, an episode each.
        evaluate_every: updates between evaluations, each followed by a checkpoint.
        width, embedding: sizes of the policy.
        compare_words: whether the policy sees the resemblance of texts; without it, it learns every pair of words.
        horizon, epochs, minibatches, gamma, gae_lambda, clip_range, learning_rate, max_learning_rate,
            target_divergence, value_weight, entropy_weight: see `PPOSettings`; the weight of the entropy falls to 0.
        time_budget_s: of this call.
    """

    total_steps: int = learning.may_change(160_000)
    curriculum: tuple[int, ...] = ()
    advance_at: float = 0.95
    designs: int = 500
    members: int = 128
    validation_designs: int = 100
    evaluate_every: int = 5
    width: int = 32
    embedding: int = 8
    compare_words: bool = True
    horizon: int = 32
    epochs: int = 3
    minibatches: int = 16
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    learning_rate: float = 3e-3
    max_learning_rate: float = 3e-3
    target_divergence: float = 0.02
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    time_budget_s: float = learning.may_change(3600.0)


class Curriculum:
    """The designs of each stage, and the episodes of the learner and of the validation.

    Args:
        run: the training run.
        settings: its parameters.
    """

    def __init__(self, run: learning.TrainingRun, settings: Settings) -> None:
        level = _level(run)
        self.levels = settings.curriculum or tuple(range(1, level + 1))
        # The tasks show shipped designs; the validation must not have been trained on.
        kept = set(shipped_designs(level))
        first, *seeds = run.seeds("designs", 1 + len(self.levels))
        self.validated = _designs(level, first, settings.validation_designs, kept)
        kept |= set(self.validated)
        self._size = settings.designs
        self.shown = [
            design
            for stage, seed in zip(self.levels, seeds, strict=True)
            for design in _designs(stage, seed, settings.designs, kept | set(shipped_designs(stage)))
        ]
        env = run.make_env().unwrapped
        rules = {"reward": env.reward, "step_limit": env.step_limit}
        run.require_spaces(env.observation_space, env.action_space)
        env.close()
        self.batch = WebBatch(self.shown, settings.members, **rules)
        self.validation = WebBatch(self.validated, settings.validation_designs, in_order=True, **rules)
        self.stage = 0

    def enter(self, stage: int) -> None:
        """Shows the designs of a stage from the next episodes on."""
        self.stage = stage
        self.batch.draw_from(range(stage * self._size, (stage + 1) * self._size))

    @property
    def is_last(self) -> bool:
        """Whether no stage follows."""
        return self.stage == len(self.levels) - 1

    @torch.no_grad()
    def evaluate(self, model: CandidatePolicy) -> tuple[float, float]:
        """Returns the share of validation designs that the most probable actions solve, and the mean return."""
        batch = self.validation
        shown = batch.reset(seed=0)
        for _ in range(batch.step_limit):
            tensors = {name: torch.from_numpy(array) for name, array in shown.items()}
            shown = batch.step(model.best(tensors).numpy()).observations
        done = batch.finished()
        # A place shows the designs of others after its first episode; the first episode on a design is its own.
        own = np.zeros(len(done.solved), bool)
        own[np.unique(done.members, return_index=True)[1]] = True
        return float(done.solved[own].mean()), float(done.returns[own].mean())


def train(**participant_args: str) -> None:
    """Trains until the budget is used up."""
    settings = learning.read_settings(Settings, participant_args, Path(__file__).parent)
    torch.set_num_threads(1)
    with learning.begin(settings) as run:
        record_environment(run.folder)
        curriculum = Curriculum(run, settings)
        records = [design.as_record() for design in (*curriculum.shown, *curriculum.validated)]
        (run.folder / DESIGNS).write_text(json.dumps(records), encoding="utf-8")
        curriculum.enter(0)
        model = CandidatePolicy(
            settings.width, settings.embedding, run.seeds("weights", 1)[0], compare_words=settings.compare_words
        )
        learner = PPO(curriculum.batch, model, ppo_settings(settings), run.seeds("learner", 1)[0])
        curve, before_s, best = _Curve(run.folder / CURVE), 0.0, (-1.0, -np.inf)
        if (found := run.latest()) is not None:
            learner.restore(torch.load(found.path / LEARNER, weights_only=True))
            curriculum.enter(found.state["stage"])
            before_s, best = found.state["processor_s"], tuple(found.state["best"])
            # Another stream: that of the first call would repeat its episodes.
            learner.begin_episodes(run.seeds(f"after {learner.steps}", 1)[0])
        curve.cut(learner.steps)
        updates = 0
        while learner.steps < run.total_steps and not run.out_of_time:
            learner.collect()
            update = learner.update(min(1.0, learner.steps / run.total_steps))
            updates += 1
            run.progress(learner.steps)
            if updates % settings.evaluate_every and learner.steps < run.total_steps and not run.out_of_time:
                continue
            solved, returned = curriculum.evaluate(model)
            done = curriculum.batch.finished()
            processor_s = before_s + time.process_time()
            curve.add(learner.steps, run.elapsed_s, processor_s, curriculum, done, solved, returned, update)
            run.log({"Metrics/Solved": solved, "Loss/value": update.value_loss}, learner.steps)
            run.average_return(returned, learner.steps)
            if (solved, returned) >= best:
                best = (solved, returned)
                learning.replace(run.folder / POLICY, lambda path: _write(path, model.weights()))
            if not curriculum.is_last and len(done.solved) and done.solved.mean() >= settings.advance_at:
                curriculum.enter(curriculum.stage + 1)
                run.say(f"{learner.steps} steps: level {curriculum.levels[curriculum.stage]} begins")
            run.save(
                learner.steps,
                lambda folder: torch.save(learner.state(), folder / LEARNER),
                {"stage": curriculum.stage, "processor_s": processor_s, "best": list(best)},
            )
        run.say(f"{learner.steps} steps, {best[0]:.1%} of the validation designs solved")


class _Curve:
    """The file ``progress.csv``.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def cut(self, steps: int) -> None:
        """Keeps the rows up to a step, those of the checkpoint that the training run resumes from."""
        rows = []
        if self._path.is_file():
            with self._path.open(newline="", encoding="utf-8") as stream:
                rows = [row for row in csv.reader(stream) if row[0].isdigit() and int(row[0]) <= steps]
        with self._path.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream, lineterminator="\n").writerows([COLUMNS, *rows])

    def add(
        self,
        steps: int,
        wall_s: float,
        processor_s: float,
        curriculum: Curriculum,
        done: FinishedEpisodes,
        solved: float,
        returned: float,
        update: Update,
    ) -> None:
        """Appends a row."""
        trained = (done.solved.mean(), done.returns.mean()) if len(done.solved) else (np.nan, np.nan)
        row = (
            f"{wall_s:.2f}", f"{processor_s:.2f}", curriculum.levels[curriculum.stage], f"{trained[0]:.4f}",
            f"{trained[1]:.4f}", f"{solved:.4f}", f"{returned:.4f}", f"{update.entropy:.4f}",
            f"{update.divergence:.5f}", f"{update.learning_rate:.2e}",
        )  # fmt: skip
        with self._path.open("a", newline="", encoding="utf-8") as stream:
            csv.writer(stream, lineterminator="\n").writerow((steps, *row))


def _level(run: learning.TrainingRun) -> int:
    """Returns the level of the run's task: the highest of several, and the hardest one if it names none."""
    _, environment = find_environment(run.env_id)
    given = {**environment.kwargs, **run.env_kwargs}.get("difficulty") or max(LEVELS)
    return max(given) if isinstance(given, list) else int(given)


def _designs(level: int, seed: int, count: int, without: set[WebsiteDesign]) -> list[WebsiteDesign]:
    """Draws different designs of a level that are not among others."""
    drawn = count
    while True:
        found = [design for design in training_designs(level, seed, drawn) if design not in without]
        if len(found) >= count:
            return found[:count]
        drawn += count


def ppo_settings(settings: Settings) -> PPOSettings:
    """Returns the parameters of the algorithm."""
    same = (
        "horizon", "epochs", "minibatches", "gamma", "gae_lambda", "clip_range", "learning_rate", "max_learning_rate",
        "target_divergence", "value_weight", "entropy_weight",
    )  # fmt: skip
    return PPOSettings(**{name: getattr(settings, name) for name in same})


def _write(path: Path, arrays: Mapping[str, Any]) -> None:
    with path.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


if __name__ == "__main__":
    learning.main(train)
