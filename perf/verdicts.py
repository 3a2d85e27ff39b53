"""How often the regression gate is wrong: false alarms and power over synthetic experiments.

An experiment draws one score a seed for baseline and candidate on three environments, from a normal, a skewed (gamma)
or a two-peaked distribution (a fifth or half of the seeds fail), and is judged as ``a2perf rlops`` judges.
``python perf/verdicts.py [--experiments 1000] [--json]`` prints for each distribution and number of seeds: the share of
experiments without any difference that are called a regression (false alarms, to be at most 5 %), of those exactly at
the tolerance that are, and of those where one environment has lost the stated effect (power, to be at least 80 %).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import numpy as np

from a2perf.rlops.compare.verdict import Tolerance, Verdict, corrected, judge, overall

ENVIRONMENTS = 3
MEAN = 100.0
SPREAD = 10.0
TOLERANCE = Tolerance(relative=0.05)
EFFECTS = {3: 70.0, 5: 35.0, 10: 23.0, 20: 17.0}
"""Loss on one of the environments that is to be found, by number of seeds, in units of the score."""

Draw = Callable[[np.random.Generator, int], np.ndarray]
DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda rng, size: MEAN + SPREAD * rng.standard_normal(size),
    "skewed": lambda rng, size: MEAN + SPREAD * (rng.gamma(2.0, 1.0, size) - 2.0) / np.sqrt(2.0),
    "skewed down": lambda rng, size: MEAN - SPREAD * (rng.gamma(2.0, 1.0, size) - 2.0) / np.sqrt(2.0),
    "learns or not": lambda rng, size: MEAN + SPREAD * np.sign(rng.random(size) - 0.5),
    "two peaks": lambda rng, size: (
        np.where(rng.random(size) < 0.2, MEAN - 2 * SPREAD, MEAN + SPREAD / 2) + SPREAD / 4 * rng.standard_normal(size)
    ),
}


def share_of_regressions(draw: Draw, seeds: int, losses: list[float], experiments: int, seed: int) -> float:
    """Returns the share of experiments that are called a regression."""
    rng = np.random.default_rng(seed)
    called = 0
    for _ in range(experiments):
        judgements = [
            judge(str(index), draw(rng, seeds) - loss, draw(rng, seeds), TOLERANCE) for index, loss in enumerate(losses)
        ]
        called += overall(corrected(judgements)) is Verdict.REGRESSION
    return called / experiments


def share_settled(seeds: int, loss: float, experiments: int, seed: int) -> float:
    """Returns the share of inconclusive experiments that the further seeds which are named then do settle."""
    rng = np.random.default_rng(seed)
    draw, named, settled = DISTRIBUTIONS["normal"], 0, 0
    for _ in range(experiments):
        candidate, baseline = draw(rng, seeds) - loss, draw(rng, seeds)
        further = judge("0", candidate, baseline, TOLERANCE).further_seeds
        if further is not None:
            more = np.append(candidate, draw(rng, further) - loss), np.append(baseline, draw(rng, further))
            named += 1
            settled += judge("0", *more, TOLERANCE).verdict is not Verdict.INCONCLUSIVE
    return settled / max(named, 1)


def main() -> None:
    """Simulates and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    for name, draw in DISTRIBUTIONS.items():
        for seeds, effect in EFFECTS.items():
            nothing = [0.0] * ENVIRONMENTS
            edge = [TOLERANCE.of(MEAN)] * ENVIRONMENTS
            lost = [effect] + [0.0] * (ENVIRONMENTS - 1)
            rows.append(
                {
                    "distribution": name,
                    "seeds": seeds,
                    "false_alarms": share_of_regressions(draw, seeds, nothing, given.experiments, 1),
                    "at_the_tolerance": share_of_regressions(draw, seeds, edge, given.experiments, 2),
                    "effect": effect / SPREAD,
                    "power": share_of_regressions(draw, seeds, lost, given.experiments, 3),
                }
            )
    losses = (0.0, 12.0)
    settled = {count: [share_settled(count, loss, given.experiments, 4) for loss in losses] for count in (3, 5, 10)}
    if given.json:
        print(json.dumps({"rows": rows, "settled": settled}, indent=2))
        return
    print(
        f"{given.experiments} experiments each, {ENVIRONMENTS} environments; tolerance 5 % and spread 10 % of the mean"
    )
    print("distribution  seeds  false alarms  at the tolerance  effect (spreads)  power")
    for row in rows:
        print(
            f"{row['distribution']:12}  {row['seeds']:5}  {row['false_alarms']:12.1%}  {row['at_the_tolerance']:16.1%}"
            f"  {row['effect']:16.1f}  {row['power']:5.1%}"
        )
    print("\ninconclusive comparisons that the named number of further seeds settles (normal, one environment)")
    print("seeds  no difference  a loss of 1.2 spreads")
    for count, (nothing_lost, lost_some) in settled.items():
        print(f"{count:5}  {nothing_lost:13.0%}  {lost_some:21.0%}")


if __name__ == "__main__":
    main()
