"""Trains a quadruped from scratch in the batched MuJoCo twin, and evaluates it in PyBullet's test mode.

``simulator=pybullet`` trains in PyBullet itself, for comparison: about ten times slower.

Arguments (``--participant-args robots=1024,threads=2``): the fields of `Settings`. It ends after ``total_steps`` or
``time_budget_s``; the same command resumes from the last checkpoint.
"""

from __future__ import annotations

from a2perf_baselines.learning.torch import frameworks  # noqa: F401  # isort: skip  reports what is missing

import csv
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from actor import FILE
from bullet_robots import BulletRobots
from clips import clip_of
from evaluation import evaluate_in_pybullet, evaluate_in_twin, twin_physics
from model import RobotPolicy

from a2perf.domains.arguments import one_of
from a2perf.submission.participant.adapters.origin import record_environment
from a2perf_baselines import learning
from a2perf_baselines.learning.batch import BatchStep
from a2perf_baselines.learning.torch.ppo import PPO, PPOSettings, Update
from a2perf_baselines.quadruped_locomotion.mujoco_batch import MuJoCoBatch, Variation
from a2perf_baselines.quadruped_locomotion.residual_control import ResidualControl

CURVE = "curve.csv"
COLUMNS = ("steps", "seconds", "processor_s", "training_return", "training_length", "twin_return", "pybullet_return")


@dataclass(frozen=True)
class Settings:
    """Parameters of the training.

    Attributes:
        total_steps: environment steps of all calls.
        time_budget_s: wall-clock budget of this call, s.
        threads: that step the robots and that PyTorch uses; robots' results do not depend on it.
        evaluate_every: steps between two evaluations, each with a checkpoint.
        evaluation_episodes: of an evaluation; the best policy by their mean return in PyBullet is kept.
        robots: that step together.
        horizon, epochs, minibatches, gamma, gae_lambda, clip_range, learning_rate, target_divergence, entropy_weight,
            last_entropy_weight: see ``PPOSettings``.
        reward_scale: of the rewards that the learner gets.
        log_std: logarithm of the first standard deviation of an action; an action of 1 is ``scale`` rad.
        widths: of the hidden layers, of the policy and of the value.
        share, ahead, scale, differences: see ``ResidualControl``.
        simulator: ``twin``, or ``pybullet`` for training in the task's own physics, without ``dynamics``, ``push`` and
            ``start_noise``.
        substeps: of the twin's physics in a control step.
        dynamics: see ``Variation``.
        push, start_noise, longest: see ``Variation``; a resumed run may have others. Episodes that are cut off early
            show more start states, in which most falls happen.
    """

    total_steps: int = learning.may_change(200_000_000)
    time_budget_s: float = learning.may_change(3600.0)
    threads: int = learning.may_change(2)
    evaluate_every: int = learning.may_change(500_000)
    evaluation_episodes: int = 10
    robots: int = 128
    horizon: int = 24
    epochs: int = 5
    minibatches: int = 4
    gamma: float = 0.95
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    learning_rate: float = 1e-3
    target_divergence: float = 0.02
    entropy_weight: float = 0.0
    last_entropy_weight: float = 0.0
    reward_scale: float = 0.1
    log_std: float = -1.2
    widths: tuple[int, ...] = (256, 128)
    share: float = 1.0
    ahead: float = 3.0
    scale: float = 0.4
    differences: bool = True
    simulator: str = "twin"
    substeps: int = 6
    dynamics: int = 0
    push: float = learning.may_change(0.0)
    start_noise: float = learning.may_change(0.0)
    longest: int = learning.may_change(150)

    @property
    def control(self) -> ResidualControl:
        """The meaning of actions and observations."""
        return ResidualControl(self.share, self.ahead, self.scale, self.differences)

    @property
    def ppo(self) -> PPOSettings:
        """Parameters of the algorithm."""
        return PPOSettings(
            horizon=self.horizon,
            epochs=self.epochs,
            minibatches=self.minibatches,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            clip_range=self.clip_range,
            learning_rate=self.learning_rate,
            target_divergence=self.target_divergence,
            rate_per_update=True,
            entropy_weight=self.entropy_weight,
            last_entropy_weight=self.last_entropy_weight,
        )


class TrainingRobots(MuJoCoBatch):
    """Robots with scaled rewards."""

    reward_scale = 1.0

    def step(self, actions: Any) -> BatchStep:
        """Steps each robot."""
        result = super().step(actions)
        np.multiply(result.rewards, np.float32(self.reward_scale), out=result.rewards)
        return result


def train(**participant_args: str) -> None:
    """Trains until the budget is used up."""
    settings = learning.read_settings(Settings, participant_args, Path(__file__).parent)
    with learning.begin(settings) as run:
        record_environment(run.folder)
        Training(run).work()


def make_robots(settings: Settings, clip: str) -> TrainingRobots | BulletRobots:
    """Returns the robots of the chosen simulator.

    Raises:
        ConfigError: there is no such simulator.
    """
    one_of("simulator", settings.simulator, ("twin", "pybullet"))
    if settings.simulator == "pybullet":
        return BulletRobots(settings.robots, clip, settings.control, settings.longest, settings.threads)
    variation = Variation(
        dynamics=settings.dynamics,
        push=settings.push,
        start_noise=settings.start_noise,
        longest=settings.longest,
        mixed_ages=True,
    )
    return TrainingRobots(
        settings.robots,
        clip,
        control=settings.control,
        physics=twin_physics(settings.substeps),
        variation=variation,
        threads=settings.threads,
    )


class Training:
    """One training run.

    Raises:
        UserError: the environment is none of quadruped locomotion with a single clip.
    """

    def __init__(self, run: learning.TrainingRun) -> None:
        self.run = run
        self.settings: Settings = run.settings
        settings = self.settings
        torch.set_num_threads(settings.threads)
        self.clip = clip_of(run.env_id)
        self.robots = make_robots(settings, self.clip)
        self.robots.reward_scale = settings.reward_scale
        policy_seed, self.first_seed = run.seeds("policy and first episodes", 2)
        self.model = RobotPolicy(
            *self.robots.observation_sizes, widths=settings.widths, log_std=settings.log_std, seed=policy_seed
        )
        self.ppo = PPO(self.robots, self.model, settings.ppo, self.first_seed)
        self.best = -np.inf
        self.processor_before = 0.0

    def work(self) -> None:
        """Trains, evaluates and saves until the budget is used."""
        run, ppo, settings = self.run, self.ppo, self.settings
        self._resume()
        if not (run.folder / FILE).exists():  # a time limit may end the run before the first evaluation
            learning.replace(run.folder / FILE, self.model.exported(settings.control).save)
        evaluated = ppo.steps
        while ppo.steps < run.total_steps and not run.out_of_time:
            ppo.collect()
            update = ppo.update(ppo.steps / run.total_steps)
            # After the update: other statistics would change the policy that the steps were collected with.
            self.model.see(ppo.stored)
            run.progress(ppo.steps, f"length {np.mean(self.robots.episodes.lengths[-1000:] or [0]):.0f}")
            if ppo.steps - evaluated >= settings.evaluate_every:
                self._finish_part(update)
                evaluated = ppo.steps
        if ppo.steps > evaluated:
            self._finish_part(None)
        run.say(f"done: {ppo.steps} steps, best evaluation {self.best:.4g}")

    def _resume(self) -> None:
        found = self.run.latest()
        if found is None:
            self.ppo.collect()  # only for the statistics of the observations
            self.model.see(self.ppo.stored)
            self.ppo.steps = 0
            self.ppo.begin_episodes(self.first_seed)
            return
        # written by this run, checked against its hash; nothing but tensors and numbers is read
        self.ppo.restore(torch.load(found.path / "ppo.pt", weights_only=True))
        self.best = float(found.state["best"])
        self.processor_before = float(found.state["processor_s"]) - time.process_time()
        self._begin_episodes()

    def _begin_episodes(self) -> None:
        self.ppo.begin_episodes(self.run.seeds(f"episodes after {self.ppo.steps} steps", 1)[0])

    def _finish_part(self, update: Update | None) -> None:
        """Evaluates, keeps the best policy, and writes a point of the curve and a checkpoint."""
        run, ppo = self.run, self.ppo
        episodes = self.robots.episodes
        actor = self.model.exported(self.settings.control)
        seeds = run.seeds("evaluation", self.settings.evaluation_episodes)
        bullet = float(evaluate_in_pybullet(actor, self.clip, seeds, self.settings.threads).mean())
        twin = float(evaluate_in_twin(actor, self.clip, self.settings.substeps, seeds[0], count=32).mean())
        processor = self.processor_before + time.process_time()
        row = (
            ppo.steps, run.elapsed_s, processor, np.mean(episodes.returns or [0.0]), np.mean(episodes.lengths or [0]),
            twin, bullet,
        )  # fmt: skip
        path = run.folder / CURVE
        new = not path.exists()
        with path.open("a", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            if new:
                writer.writerow(COLUMNS)
            writer.writerow([ppo.steps, *(f"{value:.2f}" for value in row[1:])])
        values = dict(zip((f"Curve/{name}" for name in COLUMNS), map(float, row), strict=True))
        if update is not None:
            values |= {f"Update/{name}": float(value) for name, value in update._asdict().items()}
        std = float(self.model.log_std.exp().mean().detach())
        run.log({**values, "Training/AverageReturn": float(row[3]), "Update/std": std}, ppo.steps)
        run.average_return(bullet, ppo.steps)
        run.say(
            f"{ppo.steps:10d} steps {row[1]:6.0f} s  training {row[3]:6.1f} ({row[4]:.0f} steps)  twin {twin:6.1f}  "
            f"PyBullet {bullet:6.1f}  std {std:.3f}  rate {ppo.learning_rate:.1e}"
            + (f"  value loss {update.value_loss:.3f}  clipped {update.clipped:.2f}" if update else "")
        )
        learning.replace(run.folder / "latest.npz", actor.save)
        if bullet > self.best:
            self.best = bullet
            learning.replace(run.folder / FILE, actor.save)
        run.save(
            ppo.steps,
            lambda folder: torch.save(ppo.state(), folder / "ppo.pt"),
            {"best": self.best, "processor_s": processor},
        )
        self._begin_episodes()


if __name__ == "__main__":
    learning.main(train)
