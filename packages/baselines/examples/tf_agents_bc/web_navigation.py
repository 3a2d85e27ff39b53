"""Clones the scripted solver, which fills the fields of a page in random order and presses its button.

Training uses designs generated for it instead of those of the task, and the policy transfers to further designs.
``designs.json`` lists the designs used.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from cloning import Cloner, Demonstrations

from a2perf.domains.registry import find_environment
from a2perf.domains.web_navigation.sites.generator import training_designs
from a2perf.domains.web_navigation.sites.website import WebsiteDesign
from a2perf.domains.web_navigation.solver import solve
from a2perf.submission.participant.adapters.origin import record_environment
from a2perf_baselines import learning
from a2perf_baselines.candidates import CandidateEnv
from a2perf_baselines.learning.tf_agents.frameworks import seed_everything
from a2perf_baselines.tf_agents_candidates import contract, record_candidates

__all__ = ["Settings", "contract", "train"]

DESIGNS = "designs.json"


@dataclass(frozen=True)
class Settings:
    """Parameters of the cloning.

    Attributes:
        levels: levels of the designs; by default that of the task.
        rounds: number of rounds, each with new designs.
        designs: designs shown in a round, those of all levels together.
        showings: episodes on each of them.
        updates: gradient steps of a round; over those of the last one the learning rate falls to nothing.
        batch_size, learning_rate: of a gradient step.
        layers: widths of the hidden layers.
        evaluation_designs: further designs on which the learner is tried after each round, an episode each.
        time_budget_s: of this call; it ends after a round.
    """

    levels: tuple[int, ...] = ()
    rounds: int = 3
    designs: int = 100
    showings: int = 2
    updates: int = 200
    batch_size: int = 64
    learning_rate: float = 1e-3
    layers: tuple[int, ...] = (128, 64)
    evaluation_designs: int = 50
    time_budget_s: float = learning.may_change(900.0)


def train(run: learning.TrainingRun) -> None:
    """Clones; see the file's docstring."""
    settings: Settings = run.settings
    seed_everything(run.seed)
    env = CandidateEnv(_any_design(), shaped=False)
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
    levels = settings.levels or _levels(run)
    design_seeds = run.seeds("designs", settings.rounds + 1)
    seen, shown, steps = Demonstrations(), [], 0
    for number in range(done):  # what was shown before is shown again rather than kept
        steps += _show(env, _designs(levels, design_seeds[number], settings.designs), settings, seen, shown)
    trial = _designs(levels, design_seeds[-1], settings.evaluation_designs)
    export = learner.export(run)
    while done < settings.rounds and not run.out_of_time:
        steps += _show(env, _designs(levels, design_seeds[done], settings.designs), settings, seen, shown)
        step = max(step, steps)
        (run.folder / DESIGNS).write_text(json.dumps([design.as_record() for design in shown]), encoding="utf-8")
        rates = np.full(settings.updates, settings.learning_rate)
        done += 1
        if done == settings.rounds:
            rates *= 0.01 + 0.99 * 0.5 * (1.0 + np.cos(np.pi * np.arange(settings.updates) / settings.updates))
        loss = learner.fit(run, seen, rng, rates.tolist(), settings.batch_size, step)
        returns, solved = evaluate(env, learner.chooser(), trial)
        run.log({"Loss/cloning": loss, "Metrics/Solved": solved}, step)
        run.average_return(returns, step)
        run.say(f"round {done}: {len(seen)} examples, loss {loss:.4f}, {solved:.0%} of {len(trial)} new designs solved")
        export.save(step)
        run.save(step, learner.write, {"rng": learning.rng_state(rng), "rounds": done})
    env.close()


def evaluate(env: CandidateEnv, choose: Any, designs: list[WebsiteDesign], seed: int = 0) -> tuple[float, float]:
    """Returns the mean return and the share of solved episodes, with one episode per design."""
    returns, solved = [], []
    for number, design in enumerate(designs):
        table, _ = env.reset(seed=seed + number, options={"design": design.as_record()})
        over, info = False, {}
        while not over:
            table, _, terminated, truncated, info = env.step(choose.best(table))
            over = terminated or truncated
        returns.append(info["episode_return"])
        solved.append(info.get("reason") == "solved")
    return float(np.mean(returns)), float(np.mean(solved))


def _any_design() -> gymnasium.Env[Any, Any]:
    """Makes an environment that takes a design with each reset."""
    return gymnasium.make("WebNavigation-v0", num_websites=1, difficulty=1)


def _levels(run: learning.TrainingRun) -> tuple[int, ...]:
    """Returns the level of the run's task; all of them where it names none."""
    _, environment = find_environment(run.env_id)
    level = {**environment.kwargs, **run.env_kwargs}.get("difficulty")
    return (1, 2, 3) if level is None else (int(level),)


def _designs(levels: tuple[int, ...], seed: int, count: int) -> list[WebsiteDesign]:
    drawn = [training_designs(level, seed, -(-count // len(levels))) for level in levels]
    return [design for designs in zip(*drawn, strict=True) for design in designs][:count]


def _show(
    env: CandidateEnv,
    designs: list[WebsiteDesign],
    settings: Settings,
    seen: Demonstrations,
    shown: list[WebsiteDesign],
) -> int:
    """Shows solutions of some designs; returns the steps that it took."""
    before = len(seen)
    for number, design in enumerate(designs):
        for showing in range(settings.showings):
            seed = 2 * number + showing
            table, _ = env.reset(seed=seed, options={"design": design.as_record()})
            site, profile = env.unwrapped.site, env.unwrapped.profile
            for action in _in_any_order(solve(site, profile), np.random.default_rng(seed)):
                row = env.row_of(action)
                seen.add(table, row)
                table, *_ = env.step(row)
    shown += designs
    return len(seen) - before


def _in_any_order(actions: list[int], rng: np.random.Generator) -> list[int]:
    """Shuffles the fields of each page; the button of a page, with the row without a value, stays its last action."""
    ordered: list[int] = []
    page: list[int] = []
    for action in actions:
        if action >= 250:
            page.append(action)
            continue
        ordered += [*rng.permutation(page).tolist(), action]
        page = []
    return ordered
