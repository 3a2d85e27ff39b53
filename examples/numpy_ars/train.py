"""Trains a linear policy by augmented random search, with NumPy alone.

Arguments (``--participant_args=time_budget_s=60,workers=2``): ``iterations``, ``time_budget_s``, ``workers``,
``mode``, ``evaluate_every``, and the fields of `SearchSettings`. It ends when ``iterations`` or ``time_budget_s`` is
reached.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
from event_writer import EventWriter
from linear_policy import save_arrays
from random_search import RandomSearch, SearchSettings

EVALUATION_EPISODES = 2


def train(
    iterations: str = "1000000",
    time_budget_s: str = "75",
    workers: str = "0",
    mode: str = "test",
    evaluate_every: str = "10",
    **search: str,
):
    """Trains until the budget is used up; the same call continues from the last checkpoint.

    Args:
        iterations: number of iterations in total.
        time_budget_s: wall-clock budget of this call in seconds.
        workers: worker processes; 0 is one per processor.
        mode: the environment's mode while training. Quadruped locomotion's own training mode starts with episodes of
            20 steps and widens them over 30 million steps, far beyond this budget; "test" has whole episodes.
        evaluate_every: iterations between two evaluations of the current policy over whole episodes.
        **search: fields of `SearchSettings`.
    """
    deadline = time.monotonic() + float(time_budget_s)
    artifacts = Path(os.environ["A2PERF_ARTIFACTS"])
    env_kwargs = json.loads(os.environ.get("A2PERF_ENV_KWARGS", "{}"))
    if "mode" in env_kwargs:
        env_kwargs["mode"] = mode
    seed = int(os.environ.get("SEED", "0"))
    processes = int(workers) or len(os.sched_getaffinity(0))
    search_settings = _settings(search)
    search_run = RandomSearch(os.environ["A2PERF_ENV_ID"], env_kwargs, search_settings, seed=seed, workers=processes)
    checkpoint = artifacts / "checkpoint.npz"
    best = -np.inf
    if checkpoint.is_file():
        with np.load(checkpoint, allow_pickle=False) as arrays:
            state = dict(arrays)
        best = float(state.pop("best"))
        search_run.restore(state)
        print(f"continuing after {search_run.iteration} iterations", flush=True)
    log = _Log(artifacts)
    try:
        while search_run.iteration < int(iterations):
            returns = search_run.step(deadline)
            if returns is None:
                break
            evaluated = None
            if (search_run.iteration - 1) % int(evaluate_every) == 0:
                evaluated = search_run.evaluate(EVALUATION_EPISODES, deadline)
                if evaluated is not None and evaluated > best:
                    best = evaluated
                    search_run.policy().save(artifacts / "policy.npz")
            log.iteration(search_run, float(returns.mean()), evaluated)
            save_arrays(checkpoint, {**search_run.state(), "best": np.array(best)})
    finally:
        search_run.close()
        log.close()
    if not (artifacts / "policy.npz").is_file():
        search_run.policy().save(artifacts / "policy.npz")
    print(
        f"done: {search_run.iteration} iterations, {search_run.env_steps} steps, best evaluation {best:.2f}", flush=True
    )


def _settings(given: dict[str, str]) -> SearchSettings:
    kinds = {field.name: type(field.default) for field in fields(SearchSettings)}
    unknown = sorted(set(given) - set(kinds))
    if unknown:
        raise ValueError(
            f"unknown arguments {unknown}; known are {sorted(kinds)}, iterations, time_budget_s, workers, "
            "mode, evaluate_every"
        )
    return SearchSettings(**{name: kinds[name](value) for name, value in given.items()})


class _Log:
    """The learning curve: evaluations over whole episodes, and the shorter rollouts that the search itself sees."""

    def __init__(self, artifacts: Path) -> None:
        self._events = EventWriter(artifacts / "train")
        path = artifacts / "progress.csv"
        before = _last_elapsed(path)
        self._started = time.monotonic() - before
        self._csv = path.open("a", encoding="utf-8")
        if path.stat().st_size == 0:
            self._csv.write("iteration,env_steps,elapsed_s,training_return,average_return\n")

    def iteration(self, run: RandomSearch, training: float, evaluated: float | None) -> None:
        """Logs one iteration: the mean of its short rollouts, and of whole episodes if it was evaluated."""
        elapsed = time.monotonic() - self._started
        self._events.scalar("Training/AverageReturn", training, run.env_steps)
        whole = ""
        if evaluated is not None:
            self._events.scalar("Metrics/AverageReturn", evaluated, run.env_steps)
            whole = f"{evaluated:.6g}"
            print(f"iteration {run.iteration:4d}  {run.env_steps:7d} steps  return {evaluated:8.2f}", flush=True)
        self._csv.write(f"{run.iteration},{run.env_steps},{elapsed:.3f},{training:.6g},{whole}\n")
        self._csv.flush()

    def close(self) -> None:
        self._events.close()
        self._csv.close()


def _last_elapsed(path: Path) -> float:
    """Returns the seconds that earlier calls have trained, from the last row of the table."""
    try:
        return float(path.read_text(encoding="utf-8").rstrip().splitlines()[-1].split(",")[2])
    except (OSError, IndexError, ValueError):
        return 0.0
