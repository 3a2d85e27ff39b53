"""Trains a DQN that chooses among valid candidates, on circuit training and on web navigation.

Arguments (``--participant_args=total_steps=6000,batch_size=64``): the fields of `Settings`. It ends after
``total_steps`` or ``time_budget_s``; the same call continues from the last checkpoint.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from masked_dqn import CandidatePolicy, MaskedDQN
from stable_baselines3.common.callbacks import BaseCallback

from a2perf.domains.tfa.suite_gym import create_domain
from a2perf_baselines.candidates import CandidateEnv


@dataclass(frozen=True)
class Settings:
    """Parameters of the training.

    Attributes:
        total_steps: environment steps in total, over all calls.
        time_budget_s: wall-clock budget of this call in seconds.
        learning_starts: steps with random valid actions before learning, also to refill the memory of a continued run.
        buffer_size: steps in the replay memory; a step on the toy netlist takes 31 kB.
        batch_size, train_freq, learning_rate, gamma, target_update_interval: as in Stable-Baselines3.
        exploration_fraction: share of the steps over which exploration falls from 1 to 0.05.
        width: of both hidden layers.
        elements, fields: page elements and profile rows that fit into a table of candidates.
        per_key: controls that a profile key is paired with there.
        evaluate_every: steps between evaluations, each followed by a checkpoint.
        evaluation_episodes: episodes of an evaluation, the same ones every time.
    """

    total_steps: int = 10_000
    time_budget_s: float = 3600.0
    learning_starts: int = 500
    buffer_size: int = 10_000
    batch_size: int = 64
    train_freq: int = 4
    learning_rate: float = 1e-3
    gamma: float = 0.95
    target_update_interval: int = 500
    exploration_fraction: float = 0.6
    width: int = 64
    elements: int = 32
    fields: int = 4
    per_key: int = 8
    evaluate_every: int = 1000
    evaluation_episodes: int = 10


def train(**participant_args: str) -> None:
    """Trains until the budget is used up."""
    started = time.monotonic()
    settings = _settings(participant_args)
    torch.set_num_threads(1)
    artifacts = Path(os.environ["A2PERF_ARTIFACTS"])
    seed = int(os.environ.get("SEED", "0"))
    origin = {"seed": seed, "environment": os.environ["A2PERF_ENV_ID"], "width": settings.width}
    checkpoint = artifacts / "checkpoint.zip"
    with _tables(settings) as env:
        best = -np.inf
        if checkpoint.is_file():
            saved = json.loads((artifacts / "checkpoint.json").read_text())
            if saved["origin"] != origin:
                raise ValueError(f"the checkpoint is of {saved['origin']}, not {origin}; give another folder")
            model = MaskedDQN.load(checkpoint, env=env, device="cpu")
            best = saved["best"]
            model.learning_starts = model.num_timesteps + settings.learning_starts
            # a new stream: that of the first part would repeat its episodes
            model.set_random_seed(int(np.random.SeedSequence([seed, model.num_timesteps]).generate_state(1)[0] >> 1))
            print(f"continuing after {model.num_timesteps} steps", flush=True)
        else:
            model = _new_model(env, settings, seed)
        deadline = started + settings.time_budget_s
        with _tables(settings) as evaluation_env:
            watch = _Watch(artifacts, settings, evaluation_env, origin, best, deadline)
            watch.init_callback(model)
            if model.num_timesteps < settings.total_steps:
                steps = settings.total_steps - model.num_timesteps
                model.learn(steps, callback=watch, log_interval=None, reset_num_timesteps=False)
            watch.close()
    print(f"done: {model.num_timesteps} steps, best evaluation {watch.best:.4f}", flush=True)


def _tables(settings: Settings) -> CandidateEnv:
    """Makes the environment of the run, as tables of candidates that are no larger than need be."""
    env = create_domain()
    if "dom_elements" not in env.observation_space.spaces:
        return CandidateEnv(env, size=env.unwrapped.grid_rows * env.unwrapped.grid_cols)
    limits = {"elements": settings.elements, "fields": settings.fields, "per_key": settings.per_key}
    return CandidateEnv(env, size=None, **limits)


def _settings(given: dict[str, str]) -> Settings:
    kinds = {field.name: type(field.default) for field in fields(Settings)}
    unknown = sorted(set(given) - set(kinds))
    if unknown:
        raise ValueError(f"unknown arguments {unknown}; known are {sorted(kinds)}")
    return Settings(**{name: kinds[name](value) for name, value in given.items()})


def _new_model(env: CandidateEnv, settings: Settings, seed: int) -> MaskedDQN:
    return MaskedDQN(
        CandidatePolicy,
        env,
        learning_rate=settings.learning_rate,
        buffer_size=settings.buffer_size,
        learning_starts=settings.learning_starts,
        batch_size=settings.batch_size,
        gamma=settings.gamma,
        train_freq=settings.train_freq,
        target_update_interval=settings.target_update_interval,
        exploration_fraction=settings.exploration_fraction,
        policy_kwargs={"net_arch": [settings.width]},
        seed=seed,
        device="cpu",
    )


class _Watch(BaseCallback):
    """Evaluates, keeps the best policy, writes checkpoints and ``progress.csv``."""

    def __init__(
        self,
        artifacts: Path,
        settings: Settings,
        env: CandidateEnv,
        origin: dict[str, Any],
        best: float,
        deadline: float,
    ) -> None:
        super().__init__()
        self.best = best
        self._artifacts, self._settings, self._env, self._origin = artifacts, settings, env, origin
        self._deadline = deadline
        seeds = np.random.SeedSequence([origin["seed"], 1]).generate_state(settings.evaluation_episodes)
        self._seeds = [int(seed >> 1) for seed in seeds]
        self._returns: list[float] = []
        self._recorded = -1
        path = artifacts / "progress.csv"
        self._csv = path.open("a", encoding="utf-8")
        if path.stat().st_size == 0:
            self._csv.write("env_steps,episodes,average_return,exploration,evaluation_return,evaluation_solved\n")

    def _on_step(self) -> bool:
        self._returns += [info["episode_return"] for info in self.locals["infos"] if "episode_return" in info]
        if self.num_timesteps % self._settings.evaluate_every == 0:
            self._record()
        return time.monotonic() < self._deadline

    def close(self) -> None:
        """Records the last steps if they are not recorded yet."""
        if self._recorded != self.model.num_timesteps:
            self._record()
        self._csv.close()

    def _record(self) -> None:
        model = self.model
        self._recorded = model.num_timesteps
        evaluated, solved = self._evaluate()
        average = float(np.mean(self._returns)) if self._returns else float("nan")
        self._csv.write(
            f"{model.num_timesteps},{len(self._returns)},{average:.6g},{model.exploration_rate:.4g},"
            f"{evaluated:.6g},{solved:.4g}\n"
        )
        self._csv.flush()
        self._returns.clear()
        print(f"{model.num_timesteps:7d} steps  return {evaluated:8.4f}  solved {solved:.2f}", flush=True)
        if evaluated > self.best or not (self._artifacts / "policy.pt").is_file():
            self.best = evaluated
            weights = model.policy.q_net.q_net.state_dict()
            _replace(self._artifacts / "policy.pt", lambda path: torch.save({"weights": weights}, path))
        _replace(self._artifacts / "checkpoint.zip", lambda path: model.save(path))
        notes = json.dumps({"origin": self._origin, "best": self.best})
        _replace(self._artifacts / "checkpoint.json", lambda path: path.write_text(notes))

    def _evaluate(self) -> tuple[float, float]:
        """Returns the mean return of the greedy policy and the share of websites it solved."""
        returns, solved = [], []
        for seed in self._seeds:
            table, _ = self._env.reset(seed=seed)
            over, info = False, {}
            while not over:
                row, _ = self.model.predict(table, deterministic=True)
                table, _, terminated, truncated, info = self._env.step(int(row))
                over = terminated or truncated
            returns.append(info["episode_return"])
            solved.append(info.get("reason") == "solved")
        return float(np.mean(returns)), float(np.mean(solved))


def _replace(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file beside ``path``, then puts it there in one step."""
    beside = path.with_name(f"unfinished_{path.name}")
    write(beside)
    beside.replace(path)
