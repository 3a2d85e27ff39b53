"""Clones the placement that simulated annealing finds.

In some training episodes macros are misplaced, and the label of the next macro stays its cell in that placement, or the
nearest feasible one. Otherwise a single mistake of the learner would lead to states without training data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from cloning import Cloner, Demonstrations
from numpy.typing import NDArray

from a2perf.submission.participant.adapters.origin import record_environment
from a2perf_baselines import learning
from a2perf_baselines.candidates import CandidateEnv
from a2perf_baselines.learning.tf_agents.frameworks import seed_everything
from a2perf_baselines.tf_agents_candidates import contract, record_candidates
from a2perf_placement.annealing import Annealing, Schedule

__all__ = ["Settings", "contract", "train"]


@dataclass(frozen=True)
class Settings:
    """Parameters of the cloning.

    Attributes:
        moves: of the annealing.
        replace_every: moves between two runs of the force-directed placer.
        rounds: times that the placement is played and learnt from.
        playings: episodes of a round; in the first one of all, nothing goes astray.
        astray: share of macros that do in the others.
        updates: gradient steps of a round; over those of the last one the learning rate falls to nothing.
        batch_size, learning_rate: of a gradient step.
        layers: widths of the hidden layers.
        time_budget_s: of this call; it ends after a round.
    """

    moves: int = 20_000
    replace_every: int = 1000
    rounds: int = 2
    playings: int = 3
    astray: float = 0.05
    updates: int = 400
    batch_size: int = 32
    learning_rate: float = 2e-3
    layers: tuple[int, ...] = (128, 128)
    time_budget_s: float = learning.may_change(900.0)


def train(run: learning.TrainingRun) -> None:
    """Clones; see the file's docstring."""
    settings: Settings = run.settings
    seed_everything(run.seed)
    env = CandidateEnv(run.make_env(), shaped=False)
    run.require_spaces(env.observation_space, env.action_space)
    learner = Cloner(env, settings.layers, settings.learning_rate)
    record_environment(run.folder)
    record_candidates(run.folder, run.env_id, *env.observation_space.shape)
    rng = np.random.default_rng(run.seeds("minibatches", 1)[0])
    done, step = 0, 0
    if (found := run.latest()) is not None:
        learner.read(found.path)
        learning.restore_rng(rng, found.state["rng"])
        done, step = found.state["rounds"], found.step
        cells = np.asarray(found.state["cells"])
    else:
        cells = _anneal(run, env, settings)
    playing_seeds = run.seeds("playings", settings.rounds)
    seen = Demonstrations()
    for number in range(done):  # what was played before is played again rather than kept
        _play(env, cells, settings, playing_seeds[number], seen, first=number == 0)
    export = learner.export(run)
    while done < settings.rounds and not run.out_of_time:
        _play(env, cells, settings, playing_seeds[done], seen, first=done == 0)
        step = max(step, settings.moves + len(seen))
        rates = np.full(settings.updates, settings.learning_rate)
        done += 1
        if done == settings.rounds:
            rates *= 0.01 + 0.99 * 0.5 * (1.0 + np.cos(np.pi * np.arange(settings.updates) / settings.updates))
        loss = learner.fit(run, seen, rng, rates.tolist(), settings.batch_size, step)
        value = evaluate(env, learner.chooser())
        run.log({"Loss/cloning": loss}, step)
        run.average_return(value, step)
        run.say(f"round {done}: {len(seen)} examples, loss {loss:.4f}, return {value:.4f}")
        export.save(step)
        run.save(step, learner.write, {"rng": learning.rng_state(rng), "rounds": done, "cells": cells})
    env.close()


def evaluate(env: CandidateEnv, choose: Any) -> float:
    """Returns the return of an episode."""
    table, _ = env.reset(seed=0)
    while True:
        table, _, terminated, truncated, info = env.step(choose.best(table))
        if terminated or truncated:
            return float(info["episode_return"])


def _anneal(run: learning.TrainingRun, env: CandidateEnv, settings: Settings) -> NDArray[np.int64]:
    """Returns a cell for each macro, in the order of placing."""
    schedule = Schedule(time_budget_s=np.inf, max_moves=settings.moves, replace_every=settings.replace_every)
    annealing = Annealing(env.env, schedule, run.seeds("annealing", 1)[0])
    found = annealing.run(lambda moves, cost, best: run.progress(moves, f"annealing: cost {cost:.4f}, best {best:.4f}"))
    return np.array([found[node] for node in annealing.order], np.int64)


def _play(
    env: CandidateEnv, cells: NDArray[np.int64], settings: Settings, seed: int, seen: Demonstrations, *, first: bool
) -> None:
    rng = np.random.default_rng(seed)
    columns = env.unwrapped.grid_cols
    for playing in range(settings.playings):
        table, _ = env.reset(seed=0)
        for cell in cells.tolist():
            valid = np.flatnonzero(table[:, 0] > 0)
            if len(valid) == 0:
                break
            away = np.abs(np.stack(np.divmod(valid, columns)) - np.array(np.divmod(cell, columns))[:, None]).sum(axis=0)
            row = int(valid[away.argmin()])
            seen.add(table, row)
            strays = not (first and playing == 0) and rng.random() < settings.astray
            table, *_ = env.step(int(rng.choice(valid)) if strays else row)
