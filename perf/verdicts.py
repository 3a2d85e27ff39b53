"""Coverage of intervals, and error rates and power of comparisons, over synthetic experiments from fixed seeds.

An experiment draws one score per seed, for candidate and baseline. ``python perf/verdicts.py [--experiments 300]
[--write]`` prints the tables of ``docs/explanation/statistics.md``, or writes them there:

* coverage: how often the 95 % interval of a mean (``bootstrap.mean_interval``) and of the interquartile mean over five
  tasks holds the true value, and its width in widths of the percentile bootstrap;
* looks: how often sides without a difference are called better or worse at any of six looks at growing data, and how
  often a difference of one standard deviation is found with 15 seeds; and the same of the regression gate.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import stdtr

from a2perf.metrics.bootstrap import aggregate_iqm, aggregate_mean, bootstrap, mean_interval
from a2perf.metrics.difference import Sign, at_any_look, difference
from a2perf.rlops.compare.verdict import Tolerance, Verdict, corrected, judge, overall

Draw = Callable[[np.random.Generator, int], np.ndarray]
PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "statistics.md"
BEGIN, END = "<!-- made by perf/verdicts.py --write -->\n", "<!-- end of the tables of perf/verdicts.py -->\n"
DISTRIBUTIONS: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, size: rng.standard_normal(size), 0.0),
    "bimodal, half fail": (
        lambda rng, size: np.where(rng.random(size) < 0.5, -1.0, 1.0) + 0.25 * rng.standard_normal(size),
        0.0,
    ),
    "bimodal, a fifth fails": (
        lambda rng, size: np.where(rng.random(size) < 0.2, -2.0, 0.5) + 0.25 * rng.standard_normal(size),
        0.0,
    ),
    "lognormal, sigma 0.5": (lambda rng, size: rng.lognormal(0.0, 0.5, size), float(np.exp(0.125))),
    "lognormal, sigma 1": (lambda rng, size: rng.lognormal(size=size), float(np.exp(0.5))),
    "Student's t, 3 degrees": (lambda rng, size: rng.standard_t(3, size), 0.0),
    "success 0.8": (lambda rng, size: 1.0 * (rng.random(size) < 0.8), 0.8),
    "success 0.5": (lambda rng, size: 1.0 * (rng.random(size) < 0.5), 0.5),
    "tied (rounded)": (lambda rng, size: np.round(10.0 + rng.standard_normal(size)), 10.0),
}
"""How scores are drawn, and their mean."""
SEEDS, LOOKS = (3, 5, 10), (5, 10, 15, 20, 25, 30)
MEAN, SPREAD, TOLERANCE = 100.0, 10.0, Tolerance(relative=0.05)
ENVIRONMENTS = 3


def share_held(ends: np.ndarray, truth: float) -> float:
    """Returns how often intervals, shape ``(n, 2)``, hold a value; ends within rounding hold it."""
    return float(((ends[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= ends[:, 1])).mean())


def coverage(experiments: int) -> list[list[str]]:
    """Coverage and relative width of the interval of a mean, by distribution."""
    rows = []
    for name, (draw, truth) in DISTRIBUTIONS.items():
        row = [name]
        for seeds in SEEDS:
            rng = np.random.default_rng([1, seeds])
            drawn = [draw(rng, seeds) for _ in range(10 * experiments)]
            ends = np.array([mean_interval(scores) for scores in drawn])
            resampled = [bootstrap(scores, aggregate_mean, repetitions=200) for scores in drawn[:experiments]]
            narrow = np.mean([one.high - one.low for one in resampled])
            row += [f"{share_held(ends, truth):.1%}", f"{np.diff(ends, axis=1).mean() / narrow:.1f}"]
        rows.append(row)
    row = ["normal, IQM of five tasks"]
    for seeds in SEEDS:
        rng = np.random.default_rng([2, seeds])
        drawn = [rng.standard_normal((seeds, 5)) for _ in range(2 * experiments)]
        small, plain = (
            [bootstrap(one, aggregate_iqm, repetitions=300, method=method) for one in drawn]
            for method in ("small", "percentile")
        )
        ends = np.array([(one.low, one.high) for one in small])
        narrow = np.mean([one.high - one.low for one in plain])
        row += [f"{share_held(ends, 0.0):.1%}", f"{np.diff(ends, axis=1).mean() / narrow:.1f}"]
    return [*rows, row]


def looks(experiments: int) -> list[list[str]]:
    """False results at any of six looks, and power with 15 seeds, by distribution."""
    rows = []
    for name, (draw, _) in DISTRIBUTIONS.items():
        rng = np.random.default_rng(3)
        spread = draw(rng, 100_000).std()
        false = found = 0
        for _ in range(experiments):
            ours, theirs = draw(rng, LOOKS[-1]), draw(rng, LOOKS[-1])
            signs = {difference([(ours[:n], theirs[:n])], confidence=at_any_look(0.95, n)).sign for n in LOOKS}
            false += signs != {Sign.NOT_SEPARATED}
            moved = difference([(ours[:15] + spread, theirs[:15])], confidence=at_any_look(0.95, 15))
            found += moved.sign is Sign.BETTER
        rows.append([name, f"{false / experiments:.1%}", f"{found / experiments:.0%}"])
    return rows


def every_look(experiments: int, most: int = 600) -> float:
    """Returns how often Welch's interval of normal scores excludes 0 at any number of seeds from 3 to ``most``."""
    scores = np.random.default_rng(4).standard_normal((2, experiments, most))
    count = np.arange(1, most + 1)
    sums, squares = scores.cumsum(axis=2), (scores**2).cumsum(axis=2)
    variances = ((squares - sums**2 / count) / np.maximum(count - 1, 1))[..., 2:]
    count, total = count[2:], variances.sum(axis=0)
    statistic = np.abs(sums[0] - sums[1])[:, 2:] / np.sqrt(total * count)
    freedom = (count - 1) / ((variances / total) ** 2).sum(axis=0)
    levels = np.array([1.0 - at_any_look(0.95, int(seeds)) for seeds in count])
    return float((2.0 * stdtr(freedom, -statistic) <= levels).any(axis=1).mean())


def gate(experiments: int) -> list[list[str]]:
    """Regressions that the gate calls at any of six looks, and with 15 seeds if one environment has lost 1.5 SD."""
    rows = []
    for name in ("normal", "bimodal, a fifth fails"):
        draw = DISTRIBUTIONS[name][0]
        rng = np.random.default_rng(5)
        limit = TOLERANCE.of(MEAN)
        counted = dict.fromkeys(("nothing", "limit", "loss"), 0)
        for _ in range(experiments):
            sides = MEAN + SPREAD * np.array([[draw(rng, LOOKS[-1]) for _ in range(ENVIRONMENTS)] for _ in range(2)])
            for case, losses, seen in (
                ("nothing", (0.0,) * ENVIRONMENTS, LOOKS),
                ("limit", (limit,) * ENVIRONMENTS, LOOKS),
                ("loss", (limit + 1.5 * SPREAD, *(0.0,) * (ENVIRONMENTS - 1)), (15,)),
            ):
                counted[case] += any(is_regression(sides[..., :n], losses) for n in seen)
        rows.append([name, *(f"{count / experiments:.1%}" for count in counted.values())])
    return rows


def is_regression(sides: np.ndarray, losses: tuple[float, ...]) -> bool:
    """Returns whether the gate calls a regression; ``sides`` has the shape (2, environments, seeds)."""
    judgements = [
        judge("", ours - loss, theirs, TOLERANCE, further=False)
        for ours, theirs, loss in zip(*sides, losses, strict=True)
    ]
    return overall(corrected(judgements, further=False)) is Verdict.REGRESSION


def as_table(head: list[str], rows: list[list[str]]) -> str:
    """Returns a Markdown table, all columns but the first aligned to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def tables(experiments: int) -> str:
    """Simulates and returns the tables as Markdown."""
    widths = [text for seeds in SEEDS for text in (f"{seeds} seeds", "width")]
    return "\n".join(
        (
            as_table(["scores", *widths], coverage(experiments)),
            as_table(["scores", "false, six looks", "1 SD found, 15 seeds"], looks(experiments)),
            f"At every number of seeds from 3 to 600, normal scores: {every_look(20 * experiments):.1%} false.\n",
            as_table(
                [
                    "gate, three environments",
                    "no loss, six looks",
                    "loss at the limit, six looks",
                    "1.5 SD more, 15 seeds",
                ],
                gate(experiments // 2),
            ),
        )
    )


def main() -> None:
    """Prints the tables or writes them into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=300)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/explanation/statistics.md")
    given = parser.parse_args()
    text = tables(given.experiments)
    if not given.write:
        print(text)
        return
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
