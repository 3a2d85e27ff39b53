"""Rates of the verdicts of ``a2perf reproduce`` on results that are honest and not bit-equal, and on inflated ones.

    python perf/reproductions.py [--results 2000]

Each result is drawn again from the distribution of the record; the inflated ones are recorded two spreads too high.
Training runs: one value per seed on both sides. Episodes: 20 per record, the policy repeats the part of the return that
its seed decides. Margins are 5 % of a distance of ten spreads from random policy to expert.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from a2perf.experiments.reproduce import statement
from a2perf.records import Episode
from a2perf.runs.run import Run, RunIdentity

SEED = 20
EPISODES = 20
MARGIN = 0.5
Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda rng, count: rng.normal(0.0, 1.0, count),
    "half fail": lambda rng, count: np.where(rng.random(count) < 0.5, 0.0, 2.0) + rng.normal(0.0, 0.1, count),
    "a fifth fails": lambda rng, count: np.where(rng.random(count) < 0.2, -4.0, 0.0) + rng.normal(0.0, 0.5, count),
    "lognormal": lambda rng, count: rng.lognormal(0.0, 1.0, count),
}


def run_of(values: Sequence[float] | NDArray[np.float64]) -> Run:
    """Returns a run in memory with one episode per value."""
    episodes = [
        Episode(index=index, seed=index, episode_return=float(value), length=1, terminated=True, truncated=False)
        for index, value in enumerate(values)
    ]
    returns = {"inference": {"task": np.asarray(values, np.float64)}}
    return Run(RunIdentity(mode="inference"), returns=returns, episodes={"task": episodes})


def training_runs(draw: Draw, seeds: int, inflation: float, rng: np.random.Generator) -> str:
    """Returns the verdict about one repeated study."""
    recorded, repeated = draw(rng, seeds) + inflation, draw(rng, seeds)
    pairs = [(run_of([before]), run_of([after])) for before, after in zip(recorded, repeated, strict=True)]
    return statement.verdict_of(statement.compare_trainings(pairs))[0]


def episodes(shared: float, looks: int, inflation: float, rng: np.random.Generator) -> str:
    """Returns the verdict about a policy after every look; a refutation at any look counts.

    Args:
        shared: share of the variance that the seed of an episode decides.
    """
    of_seeds = rng.normal(0.0, np.sqrt(shared), EPISODES)
    noise = np.sqrt(1.0 - shared)
    record = run_of(of_seeds + rng.normal(inflation, noise, EPISODES))
    repeated = [run_of(of_seeds + rng.normal(0.0, noise, EPISODES))]
    found = "INCONCLUSIVE"
    for look in range(1, looks + 1):
        while len(repeated) < 2 ** (look - 1):
            repeated.append(run_of(rng.normal(0.0, 1.0, EPISODES)))
        found = statement.verdict_of(statement.compare_episodes(record, repeated, look))[0]
        if found == "REFUTED":
            break
    return found


def main() -> None:
    """Prints one row per case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=int, default=1000, help="results per row")
    count = parser.parse_args().results
    print("| repeated | honest: refuted | confirmed | open | inflated: refuted | confirmed |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    cases: dict[str, Callable[[float, np.random.Generator], str]] = {}
    for name, draw in DISTRIBUTIONS.items():
        for seeds in (1, 3, 5, 10):
            cases[f"{seeds} training runs, {name}"] = lambda by, rng, draw=draw, seeds=seeds: training_runs(
                draw, seeds, by, rng
            )
    for shared in (0.0, 0.9):
        for looks in (1, 4):
            name = f"20 episodes, seeds decide {shared:.0%}, {looks} look{'s' * (looks > 1)}"
            cases[name] = lambda by, rng, shared=shared, looks=looks: episodes(shared, looks, by, rng)
    with patch.object(statement, "margin_of", lambda recorded: MARGIN):
        for name, case in cases.items():
            rng = np.random.default_rng(SEED)
            honest = Counter(case(0.0, rng) for _ in range(count))
            inflated = Counter(case(2.0, rng) for _ in range(count))
            numbers = (
                *(honest[verdict] for verdict in ("REFUTED", "CONFIRMED", "INCONCLUSIVE")),
                *(inflated[verdict] for verdict in ("REFUTED", "CONFIRMED")),
            )
            print(f"| {name} | {' | '.join(f'{100 * number / count:.1f} %' for number in numbers)} |", flush=True)


if __name__ == "__main__":
    main()
