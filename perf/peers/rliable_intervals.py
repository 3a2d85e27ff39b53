"""The interval of an interquartile mean of 10 runs on 26 tasks from 5,000 resamples: rliable and a2perf.

pip install rliable && python perf/peers/rliable_intervals.py
"""

from __future__ import annotations

import numpy as np
from rliable import library, metrics
from turns import in_turns

from a2perf.metrics.bootstrap import aggregate_iqm, bootstrap

SCORES = np.random.default_rng(0).normal(size=(10, 26))
REPETITIONS = 5_000


def of_peer() -> tuple[float, float, float]:
    value, interval = library.get_interval_estimates(
        {"a": SCORES}, lambda scores: np.array([metrics.aggregate_iqm(scores)]), reps=REPETITIONS
    )
    return float(value["a"][0]), float(interval["a"][0, 0]), float(interval["a"][1, 0])


def own() -> tuple[float, float, float]:
    found = bootstrap(SCORES, aggregate_iqm, repetitions=REPETITIONS)
    return found.value, found.low, found.high


if __name__ == "__main__":
    (value, *interval), (own_value, *own_interval) = of_peer(), own()
    assert abs(value - own_value) < 1e-12, (value, own_value)
    assert np.allclose(interval, own_interval, atol=0.05 * (interval[1] - interval[0])), (interval, own_interval)
    in_turns({"rliable": lambda: bool(of_peer()), "a2perf": lambda: bool(own())})
