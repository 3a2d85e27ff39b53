"""Costs of scoring, each number with its baseline from the same run.

    python perf/metrics.py [--json] [--repetitions 50000] [--coverage]

Reliability of 3 algorithms x 10 seeds x 10,000 points in processor seconds, beside the same formulas in plain loops on
a tenth of the points, and on ten times the points; bootstrap of the interquartile mean, performance profile and
probability of improvement beside one resample at a time (SciPy's ``trim_mean``), and beside rliable where that can be
imported. ``--coverage`` adds how often nominal 95 % intervals cover the truth.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from a2perf.metrics.bootstrap import (
    Method,
    aggregate_mean,
    bootstrap,
    mean_interval,
    performance_profile,
    probability_of_improvement,
)
from a2perf.metrics.profiles.reliability import rollouts, training
from a2perf.metrics.statistics import iqm

RUNS, TASKS = 10, 26


def cpu_seconds(action: Callable[[], Any], repeats: int = 3) -> float:
    """Least processor seconds of an action."""
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        action()
        taken.append(time.process_time() - began)
    return min(taken)


def reliability() -> dict[str, float]:
    """Processor seconds of all reliability metrics, training and rollouts, of three algorithms."""

    def algorithms(points: int) -> list[list[Any]]:
        generator = np.random.default_rng(0)
        steps = np.arange(1, points + 1) * 100
        return [[(steps, np.cumsum(generator.normal(size=points))) for _ in range(10)] for _ in range(3)]

    returns = [np.random.default_rng(run).normal(size=100) for run in range(10)]

    def scored(data: list[list[Any]], profile: Any) -> Callable[[], None]:
        def action() -> None:
            for curves in data:
                training(curves, profile)
                rollouts(returns, profile)

        return action

    data, ten_fold = algorithms(10_000), algorithms(100_000)
    found = {
        "a2perf_profile_s": cpu_seconds(scored(data, "upstream")),
        "corrected_profile_s": cpu_seconds(scored(data, "corrected")),
        "a2perf_ten_times_the_points_s": cpu_seconds(scored(ten_fold, "upstream"), repeats=1),
        "corrected_ten_times_the_points_s": cpu_seconds(scored(ten_fold, "corrected"), repeats=1),
    }
    found["a2perf_growth"] = found["a2perf_ten_times_the_points_s"] / found["a2perf_profile_s"]
    found["corrected_growth"] = found["corrected_ten_times_the_points_s"] / found["corrected_profile_s"]
    from tests.metrics import plain_reliability

    small = algorithms(500)
    plain_s = cpu_seconds(lambda: [plain_reliability.a2perf(curves) for curves in small], repeats=1)
    ours_s = cpu_seconds(scored(small, "upstream"))
    return found | {"plain_loops_500_points_s": plain_s, "a2perf_500_points_s": ours_s, "ratio": plain_s / ours_s}


def one_at_a_time(scores: Any, repetitions: int) -> list[float]:
    """The interquartile mean of resamples, one after another."""
    from scipy.stats import trim_mean

    generator = np.random.default_rng(0)
    draws = []
    for _ in range(repetitions):
        rows = generator.integers(0, scores.shape[0], size=scores.shape)
        draws.append(trim_mean(scores[rows, np.arange(scores.shape[1])], proportiontocut=0.25, axis=None))
    return draws


def intervals(repetitions: int) -> dict[str, float]:
    """Seconds of bootstrap intervals, and how many times faster than the alternatives."""
    scores = np.random.default_rng(0).normal(size=(RUNS, TASKS))
    other = scores + np.random.default_rng(1).normal(0.1, 0.5, size=scores.shape)
    thresholds = np.linspace(-2, 2, 81)
    found = {"repetitions": float(repetitions)}
    found["iqm_s"] = cpu_seconds(lambda: bootstrap(scores, repetitions=repetitions))
    found["profile_500_s"] = cpu_seconds(lambda: performance_profile(scores, thresholds, repetitions=500))
    found["improvement_100_s"] = cpu_seconds(lambda: probability_of_improvement(scores, other, repetitions=100))
    if importlib.util.find_spec("scipy"):
        few = min(repetitions, 5000)
        one = cpu_seconds(lambda: one_at_a_time(scores, few), repeats=1) * repetitions / few
        found |= {"iqm_one_at_a_time_s": one, "iqm_ratio_one_at_a_time": one / found["iqm_s"]}
    if importlib.util.find_spec("rliable"):
        found |= _rliable(scores, other, thresholds, repetitions)
        found["iqm_ratio_rliable"] = found["iqm_rliable_s"] / found["iqm_s"]
        found["profile_ratio_rliable"] = found["profile_500_rliable_s"] / found["profile_500_s"]
        found["improvement_ratio_rliable"] = found["improvement_100_rliable_s"] / found["improvement_100_s"]
    return found


def _rliable(scores: Any, other: Any, thresholds: Any, repetitions: int) -> dict[str, float]:
    from rliable import library, metrics

    # rliable 1.2 still passes an argument that arch 7 dropped
    for kind in (library.arch_bs.IIDBootstrap, library.arch_bs.IndependentSamplesBootstrap):
        _without_random_state(kind)

    def quiet(action: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            with contextlib.redirect_stdout(io.StringIO()):
                return action()

        return run

    def aggregate(data: Any) -> Any:
        return np.array([metrics.aggregate_iqm(data)])

    assert np.isclose(aggregate(scores)[0], iqm(np.ravel(scores)))
    return {
        "iqm_rliable_s": cpu_seconds(
            quiet(lambda: library.get_interval_estimates({"a": scores}, aggregate, reps=repetitions)), repeats=1
        ),
        "profile_500_rliable_s": cpu_seconds(
            quiet(lambda: library.create_performance_profile({"a": scores}, thresholds, reps=500))
        ),
        "improvement_100_rliable_s": cpu_seconds(
            quiet(
                lambda: library.get_interval_estimates(
                    {"a,b": (scores, other)}, metrics.probability_of_improvement, reps=100
                )
            )
        ),
    }


def _without_random_state(kind: Any) -> None:
    initialise = kind.__init__

    def without(self: Any, *args: Any, random_state: Any = None, **kwargs: Any) -> None:
        initialise(self, *args, **kwargs)

    kind.__init__ = without


def coverage(trials: int = 1500) -> dict[str, float]:
    """Percent of nominal 95 % intervals that hold the truth, 10 seeds."""
    draws: dict[str, tuple[Callable[..., Any], float]] = {
        "normal": (lambda g, size: g.normal(size=size), 0.0),
        "gamma(4), skewness 1": (lambda g, size: g.gamma(4.0, size=size), 4.0),
        "exponential, skewness 2": (lambda g, size: g.exponential(size=size), 1.0),
    }
    methods: tuple[Method, ...] = ("percentile", "small")
    found = {}
    for kind, (draw, mean) in draws.items():
        middle = iqm(draw(np.random.default_rng(0), 4_000_000))
        hits: dict[str, int] = dict.fromkeys(
            ("iqm, 26 tasks, percentile", "mean, 1 task, widened", *(f"mean, 1 task, {m}" for m in methods)), 0
        )
        for trial in range(trials):
            generator = np.random.default_rng([9, trial])
            few, many = draw(generator, RUNS), draw(generator, (RUNS, TASKS))
            low, high = mean_interval(few)
            hits["mean, 1 task, widened"] += low <= mean <= high
            for method in methods:
                one = bootstrap(few, aggregate_mean, repetitions=1000, method=method, seed=trial)
                hits[f"mean, 1 task, {method}"] += one.low <= mean <= one.high
            estimate = bootstrap(many, repetitions=500, seed=trial)
            hits["iqm, 26 tasks, percentile"] += estimate.low <= middle <= estimate.high
        found |= {f"{name}, {kind}": 100.0 * count / trials for name, count in hits.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repetitions", type=int, default=50_000)
    parser.add_argument("--coverage", action="store_true")
    arguments = parser.parse_args()
    found = {"reliability": reliability(), "bootstrap": intervals(arguments.repetitions)}
    if arguments.coverage:
        found["coverage_percent"] = coverage()
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for title, rows in found.items():
        print(title)
        for name, value in rows.items():
            print(f"  {name:<60} {value:12.4g}")


if __name__ == "__main__":
    main()
