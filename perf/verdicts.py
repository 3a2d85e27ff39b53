"""Error rates of the regression gate: false alarms, false passes and power over synthetic experiments.

An experiment draws one score per seed for baseline and candidate from a normal, a skewed (gamma), a heavy-tailed or a
two-peaked distribution (a fifth or half of the seeds fail), and is judged as ``a2perf rlops`` judges.
``python perf/verdicts.py [--experiments 1000] [--json]`` prints

* for each distribution and number of seeds, on three environments: the share of experiments without any difference
  that are called a regression (false alarms, to be at most 5 %), of those exactly at the tolerance that are, and of
  those where one environment has lost the stated effect (power, to be at least 80 %);
* the share that is called a regression where all of five environments have lost 1.2 spreads, and without any loss;
* the share of candidates of which some seeds collapse that pass (to be at most 2.5 % for a fifth and more), and of
  unchanged candidates that do;
* verdicts on constant scores and on successes and failures;
* the share of inconclusive comparisons that the named number of further seeds settles.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable

import numpy as np

from a2perf.rlops.compare.verdict import Tolerance, Verdict, corrected, judge, overall

ENVIRONMENTS = 3
MEAN = 100.0
SPREAD = 10.0
TOLERANCE = Tolerance(relative=0.05)
EFFECTS = {3: 80.0, 5: 35.0, 10: 23.0, 20: 17.0}
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


MANY = 5
"""Environments of the pooled test."""
SEEDS = (3, 5, 10, 20)
HEAVY: dict[str, Draw] = {
    "normal": DISTRIBUTIONS["normal"],
    "t(3)": lambda rng, size: MEAN + SPREAD * rng.standard_t(3, size) / np.sqrt(3.0),
    "lognormal": lambda rng, size: MEAN + SPREAD * (rng.lognormal(size=size) - np.exp(0.5)) / 2.161,
    "two peaks": DISTRIBUTIONS["two peaks"],
    "success 0.8": lambda rng, size: MEAN * (rng.random(size) < 0.8),
}


def share_of_regressions(draw: Draw, seeds: int, losses: list[float], experiments: int, seed: int) -> float:
    """Returns the share of experiments that are called a regression."""
    rng = np.random.default_rng(seed)
    called = 0
    for _ in range(experiments):
        judgements = [
            judge(str(index), draw(rng, seeds) - loss, draw(rng, seeds), TOLERANCE, further=False)
            for index, loss in enumerate(losses)
        ]
        called += overall(corrected(judgements, further=False)) is Verdict.REGRESSION
    return called / experiments


def shares(
    candidate: Draw, baseline: Draw, seeds: int, experiments: int, seed: int, tolerance: Tolerance = TOLERANCE
) -> dict[str, float]:
    """Returns the share of each verdict on one environment."""
    rng = np.random.default_rng(seed)
    found = Counter(
        judge("0", candidate(rng, seeds), baseline(rng, seeds), tolerance, further=False).verdict.value
        for _ in range(experiments)
    )
    return {verdict.value: found[verdict.value] / experiments for verdict in Verdict}


def collapsing(draw: Draw, share: float) -> Draw:
    """Returns scores of which a share collapses to a tenth of the mean."""
    return lambda rng, size: np.where(rng.random(size) < share, 0.1 * MEAN, draw(rng, size))


def share_settled(ours: Draw, theirs: Draw, seeds: int, experiments: int, seed: int) -> tuple[float, float]:
    """Returns the share of inconclusive experiments with a number of further seeds, and of those that they settle."""
    rng = np.random.default_rng(seed)
    opened = named = settled = 0
    for _ in range(experiments):
        candidate, baseline = ours(rng, seeds), theirs(rng, seeds)
        found = judge("0", candidate, baseline, TOLERANCE)
        opened += found.verdict is Verdict.INCONCLUSIVE
        if (further := found.further_seeds) is not None:
            more = np.append(candidate, ours(rng, further)), np.append(baseline, theirs(rng, further))
            named += 1
            settled += judge("0", *more, TOLERANCE, further=False).verdict is not Verdict.INCONCLUSIVE
    return named / max(opened, 1), settled / max(named, 1)


def gate(experiments: int) -> list[dict]:
    """False alarms and power of one loss on three environments."""
    rows = []
    for name, draw in DISTRIBUTIONS.items():
        for seeds, effect in EFFECTS.items():
            losses = [0.0] * ENVIRONMENTS, [TOLERANCE.of(MEAN)] * ENVIRONMENTS, [effect] + [0.0] * (ENVIRONMENTS - 1)
            found = [share_of_regressions(draw, seeds, loss, experiments, at) for at, loss in enumerate(losses, 1)]
            rows.append({
                "distribution": name, "seeds": seeds, "false_alarms": found[0], "at_the_tolerance": found[1],
                "effect": effect / SPREAD, "power": found[2],
            })  # fmt: skip
    return rows


def together(experiments: int) -> list[dict]:
    """A loss of 1.2 spreads on all of five environments, none, and one at the tolerance."""
    rows = []
    for name in ("normal", "skewed", "two peaks"):
        for seeds in (3, 5, 10):
            found = [
                share_of_regressions(DISTRIBUTIONS[name], seeds, [loss] * MANY, experiments, 5)
                for loss in (0.0, TOLERANCE.of(MEAN), 1.2 * SPREAD)
            ]
            rows.append({"distribution": name, "seeds": seeds, "nothing": found[0], "limit": found[1], "all": found[2]})
    return rows


def collapses(experiments: int) -> list[dict]:
    """How often a candidate passes if a share of its seeds collapses, for several shares and for none."""
    rows = []
    for name, spread in (("spread 10 %", SPREAD), ("spread 1 %", 0.1 * SPREAD), ("constant", 0.0)):

        def draw(rng: np.random.Generator, size: int, spread: float = spread) -> np.ndarray:
            return MEAN + spread * rng.standard_normal(size)

        for seeds in SEEDS:
            passed = [
                shares(collapsing(draw, share), draw, seeds, experiments, 6)["PASS"] for share in (0.3, 0.2, 0.1, 0.0)
            ]
            rows.append({"scores": name, "seeds": seeds, "passed": passed})
    return rows


def counted(experiments: int) -> list[dict]:
    """Verdicts on constant scores, and on successes of each rate."""
    rows = []
    for first, second in ((0.3, 0.9), (0.5, 0.5), (0.9, 0.9)):
        for seeds in SEEDS:
            draws = [lambda rng, size, rate=rate: 1.0 * (rng.random(size) < rate) for rate in (first, second)]
            rows.append({"rates": (second, first), "seeds": seeds, **shares(*draws, seeds, experiments, 7)})
    return rows


def worse(name: str, draw: Draw) -> Draw:
    """Returns the scores of a candidate that has lost 1.2 spreads, or that succeeds at a rate of 0.3."""
    if name == "success 0.8":
        return lambda rng, size: MEAN * (rng.random(size) < 0.3)
    return lambda rng, size: draw(rng, size) - 1.2 * SPREAD


def named(experiments: int) -> list[dict]:
    """How often the gate names a number of further seeds, and how often they settle the comparison."""
    rows = []
    for name, draw in HEAVY.items():
        for seeds in (3, 5, 10):
            found = [share_settled(ours, draw, seeds, experiments, 4) for ours in (draw, worse(name, draw))]
            rows.append({"distribution": name, "seeds": seeds, "nothing": found[0], "lost": found[1]})
    return rows


def main() -> None:
    """Simulates and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    count = given.experiments
    found = {"gate": gate(count), "together": together(count), "collapses": collapses(count)}
    found |= {"counted": counted(count), "named": named(max(1, count // 4))}
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{count} experiments each; tolerance 5 % and spread 10 % of the mean")
    print(f"\n{ENVIRONMENTS} environments, one with the effect")
    print("distribution   seeds  false alarms  at the tolerance  effect (spreads)  power")
    for row in found["gate"]:
        print(
            f"{row['distribution']:13}  {row['seeds']:5}  {row['false_alarms']:12.1%}  {row['at_the_tolerance']:16.1%}"
            f"  {row['effect']:16.1f}  {row['power']:5.1%}"
        )
    print(f"\n{MANY} environments, all with the loss\ndistribution   seeds  nothing  at the tolerance  1.2 spreads")
    for row in found["together"]:
        numbers = f"{row['nothing']:7.1%}  {row['limit']:16.1%}  {row['all']:11.1%}"
        print(f"{row['distribution']:13}  {row['seeds']:5}  {numbers}")
    print("\npasses although a share of the candidate's seeds collapses")
    print("scores       seeds    30 %    20 %    10 %    none")
    for row in found["collapses"]:
        print(f"{row['scores']:11}  {row['seeds']:5}  " + "  ".join(f"{share:6.1%}" for share in row["passed"]))
    print("\nsuccesses and failures\nrates       seeds  PASS  REGRESSION  INCONCLUSIVE")
    for row in found["counted"]:
        rates = f"{row['rates'][0]} to {row['rates'][1]}"
        print(f"{rates}  {row['seeds']:5}  {row['PASS']:4.0%}  {row['REGRESSION']:10.1%}  {row['INCONCLUSIVE']:12.1%}")
    print("\ninconclusive comparisons with a number of further seeds, and of those the settled ones (one environment)")
    print("distribution  seeds  no difference  a loss")
    for row in found["named"]:
        words = [f"{share:5.0%} {settled:5.0%}" for share, settled in (row["nothing"], row["lost"])]
        print(f"{row['distribution']:12}  {row['seeds']:5}  {words[0]:>13}  {words[1]}")


if __name__ == "__main__":
    main()
