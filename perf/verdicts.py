"""Error rates and power of the two answers of a comparison, over synthetic experiments.

An experiment draws one score per seed for candidate and baseline. ``python perf/verdicts.py [--experiments 2000]
[--json]`` prints

* the sign (``metrics.difference``): how often two sides without a difference are called better or worse, each to be at
  most 2.5 %, and how often a gain and a loss of 1.2 standard deviations are found;
* the same over five environments together;
* the regression gate on three environments: the share called a regression without any difference and with all losses
  at the tolerance (to be at most 5 %), and with one of them a stated effect.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence

import numpy as np

from a2perf.metrics.difference import Sign, difference, spread_of_all
from a2perf.rlops.compare.verdict import Tolerance, Verdict, corrected, judge, overall

Draw = Callable[[np.random.Generator, int], np.ndarray]
DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda rng, size: rng.standard_normal(size),
    "lognormal": lambda rng, size: (rng.lognormal(size=size) - np.exp(0.5)) / 2.1612,
    "bimodal 1:4": lambda rng, size: (
        (np.where(rng.random(size) < 0.2, -2.0, 0.5) + 0.25 * rng.standard_normal(size)) / 1.0308
    ),
    "two values": lambda rng, size: np.where(rng.random(size) < 0.5, -1.0, 1.0),
    "constant": lambda _, size: np.zeros(size),
}
"""Mean 0 and standard deviation 1, without the last."""
SEEDS = ((3, 3), (3, 5), (5, 5), (10, 10), (20, 20), (3, 10), (3, 20), (5, 20))
EFFECT = 1.2
MANY = 5
MEAN, SPREAD, TOLERANCE = 100.0, 10.0, Tolerance(relative=0.05)
ENVIRONMENTS = 3
LOSSES = {3: 8.0, 5: 3.5, 10: 2.3}
"""Loss in standard deviations that the gate is to find on one environment, by number of seeds."""


def shares(sides: Sequence[tuple[Draw, Draw]], seeds: tuple[int, int], experiments: int, effect: float) -> list[float]:
    """Returns how often the candidate is called better and worse over all pairs of sides together."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(experiments):
        pairs = [(ours(rng, seeds[0]) + effect, theirs(rng, seeds[1])) for ours, theirs in sides]
        scales = [spread_of_all(*pair) for pair in pairs] if len(pairs) > 1 else []
        found.append(difference(pairs, scales).sign)
    return [found.count(sign) / experiments for sign in (Sign.BETTER, Sign.WORSE)]


def signs(experiments: int) -> list[dict]:
    """Rates of the sign on one environment and over several."""
    cases = {name: [(draw, draw)] for name, draw in DISTRIBUTIONS.items()}
    cases["spread 3:1"] = [(lambda rng, size: 3.0 * rng.standard_normal(size), DISTRIBUTIONS["normal"])]
    cases[f"all {MANY}"] = [(draw, draw) for draw in DISTRIBUTIONS.values()]
    rows = []
    for name, sides in cases.items():
        for seeds in SEEDS:
            row = {"scores": name, "seeds": seeds, "nothing": shares(sides, seeds, experiments, 0.0)}
            if seeds in ((3, 3), (5, 5), (10, 10)):
                row["gain"] = shares(sides, seeds, experiments // 2, EFFECT)[0]
                row["loss"] = shares(sides, seeds, experiments // 2, -EFFECT)[1]
            rows.append(row)
    return rows


def regressions(draw: Draw, seeds: int, losses: Sequence[float], experiments: int) -> float:
    """Returns the share of experiments that the gate calls a regression."""
    rng = np.random.default_rng(2)
    called = 0
    for _ in range(experiments):
        judgements = [
            judge(str(at), MEAN + SPREAD * (draw(rng, seeds) - loss), MEAN + SPREAD * draw(rng, seeds), TOLERANCE,
                  further=False)
            for at, loss in enumerate(losses)
        ]  # fmt: skip
        called += overall(corrected(judgements, further=False)) is Verdict.REGRESSION
    return called / experiments


def gate(experiments: int) -> list[dict]:
    """Rates of the regression gate."""
    limit = TOLERANCE.of(MEAN) / SPREAD
    rows = []
    for name in ("normal", "lognormal", "bimodal 1:4"):
        for seeds, effect in LOSSES.items():
            losses = {"nothing": [0.0] * ENVIRONMENTS, "limit": [limit] * ENVIRONMENTS,
                      "effect": [effect] + [0.0] * (ENVIRONMENTS - 1)}  # fmt: skip
            found = {key: regressions(DISTRIBUTIONS[name], seeds, loss, experiments) for key, loss in losses.items()}
            rows.append({"scores": name, "seeds": seeds, "size": effect, **found})
    return rows


def main() -> None:
    """Simulates and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = {"sign": signs(given.experiments), "gate": gate(max(1, given.experiments // 4))}
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print("scores        seeds    false better  false worse  1.2 SD better  1.2 SD worse")
    for row in found["sign"]:
        seeds = f"{row['seeds'][0]} / {row['seeds'][1]}"
        power = f"  {row['gain']:13.1%}  {row['loss']:12.1%}" if "gain" in row else ""
        print(f"{row['scores']:12}  {seeds:7}  {row['nothing'][0]:12.1%}  {row['nothing'][1]:11.1%}{power}")
    print(f"\nregression gate, {ENVIRONMENTS} environments, tolerance half an SD")
    print("scores        seeds  nothing  at the tolerance  effect (SD)  power")
    for row in found["gate"]:
        print(
            f"{row['scores']:12}  {row['seeds']:5}  {row['nothing']:7.1%}  {row['limit']:16.1%}  {row['size']:11.1f}"
            f"  {row['effect']:5.1%}"
        )


if __name__ == "__main__":
    main()
