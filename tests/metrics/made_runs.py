"""Runs made in memory, for metrics."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from a2perf.metrics.runs_in_mode import ScoredRuns
from a2perf.runs.dataset_notes import DatasetNote
from a2perf.runs.run import Run, RunIdentity
from a2perf.runs.series import Series
from a2perf.runs.tracking_record import read_tracking


def runs_of(
    *,
    curves: Sequence[tuple[Any, Any] | None] = (),
    curve_times: Sequence[tuple[Any, Any] | None] = (),
    returns: Mapping[str, Sequence[Any]] | None = None,
    successes: Mapping[str, Sequence[Any]] | None = None,
    tracking: Sequence[Any] = (),
    emissions: Sequence[Mapping[str, Any]] = (),
    latency: Mapping[str, Sequence[Any]] | None = None,
    latency_first: Mapping[str, Sequence[float]] | None = None,
    wall_clock: Sequence[float | None] = (),
    datasets: Sequence[Sequence[DatasetNote]] = (),
    threshold: float | None = None,
) -> ScoredRuns:
    """Makes as many runs as the longest list has entries; the n-th entry of each list is the n-th run's."""
    returns, successes, latency, first = returns or {}, successes or {}, latency or {}, latency_first or {}
    lists = [curves, tracking, emissions, wall_clock, datasets]
    lists += [*returns.values(), *successes.values(), *latency.values(), *first.values()]
    runs = [Run(RunIdentity()) for _ in range(max(map(len, lists), default=0))]
    for run, curve, times in itertools.zip_longest(runs, curves, curve_times):
        if curve is not None:
            at, since = times or (None, "epoch")
            steps, values = (np.asarray(column, np.float64) for column in curve)
            run.curve = Series("made", "made", steps, values, None if at is None else np.asarray(at, np.float64), since)
    for run, content in zip(runs, tracking, strict=False):
        run.tracking = read_tracking(content)
    for run, table in zip(runs, emissions, strict=False):
        run.emissions = {"": dict(table)}
    for run, seconds in zip(runs, wall_clock, strict=False):
        run.wall_clock_s = seconds
    for run, notes in zip(runs, datasets, strict=False):
        run.datasets = list(notes)
    for field, by_task in (("returns", returns), ("successes", successes)):
        for task, of_runs in by_task.items():
            for run, values in zip(runs, of_runs, strict=False):
                getattr(run, field).setdefault("", {})[task] = np.asarray(values, np.float64)
    for call, of_calls in latency.items():
        for run, values in zip(runs, of_calls, strict=False):
            run.latency_s[call] = np.asarray(values, np.float64)
    for call, of_first in first.items():
        for run, value in zip(runs, of_first, strict=False):
            run.latency_first_s[call] = value
    return ScoredRuns(runs, threshold=threshold)
