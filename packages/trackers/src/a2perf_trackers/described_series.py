"""The series of a run as trackers store them: integer steps, values, times, and names that every tracker accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from a2perf.arrays import Values
from a2perf.records import Episode
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import COMPONENTS

MAX_CHARACTERS = 200
"""Longest name; MLflow accepts 250 characters, and a number or a suffix may follow."""

_OUTSIDE = re.compile(r"[^\w\-./ ]", re.ASCII)
TRACE = "trace"
"""First part of the name of every series of the trackers' samples."""

_UNITS = {"_w": "W", "_bytes": "bytes", "_percent": "%", "_seconds": "s"}
_SAMPLED = (
    "cpu_power_w",
    "gpu_power_w",
    "ram_power_w",
    "cpu_percent",
    "cpu_seconds",
    "rss_bytes",
    "pss_bytes",
    "gpu_memory_bytes",
    "gpu_utilization_percent",
    "processes",
)


@dataclass(frozen=True)
class DescribedSeries:
    """One series of a run.

    Attributes:
        name: the curve keeps the name of its writer; ``inference/episode_return``; ``trace/cpu_power_w``.
        counts: what a step counts: ``"environment step"``, ``"episode"`` or ``"sample"``.
        steps: int64, shape ``(n,)``.
        values: float64, shape ``(n,)``, in ``unit``; may hold NaN and infinities.
        times_s: float64, shape ``(n,)``: seconds since the epoch, or since the start of the run if that is unknown.
        unit: ``""`` for the unit of the reward and for counts.
        provenance: ``"recorded"``, ``"measured"`` or ``"estimated"``.
    """

    name: str
    counts: str
    steps: NDArray[np.int64]
    values: Values
    times_s: Values
    unit: str = ""
    provenance: str = "recorded"


def series_of(run: Run, started_s: float | None, *, trace: bool = True) -> tuple[DescribedSeries, ...]:
    """Returns the series of a run: its learning curve, its episodes, and the samples of the trackers.

    Args:
        started_s: start of the run, seconds since the epoch; None if unknown.
    """
    began = started_s or 0.0
    found = [*_curve(run, began), *_episodes(run, began), *(_samples(run, began) if trace else ())]
    kept = [series for series in found if series.steps.size]
    names = unique_names(series.name for series in kept)
    return tuple(replace(series, name=name) for name, series in zip(names, kept, strict=True))


def _curve(run: Run, began: float) -> Iterator[DescribedSeries]:
    curve = run.curve
    if curve is None:
        return
    kept = np.isfinite(curve.steps)
    if curve.times_since == "epoch" and curve.times_s is not None:
        times = curve.times_s
    else:
        times = began + curve.elapsed_s()
    # An unknown time is the start: trackers have no value for it.
    times = np.where(np.isfinite(times), times, began)
    steps = np.rint(curve.steps[kept]).astype(np.int64)
    yield DescribedSeries(curve.name, "environment step", steps, curve.values[kept], times[kept])


def _episodes(run: Run, began: float) -> Iterator[DescribedSeries]:
    """Yields return, length and success per episode; the time of an episode is its end."""
    for mode, by_task in run.returns.items():
        for task, returns in by_task.items():
            records = run.episodes.get(task, []) if mode == run.identity.mode else []
            place = f"{mode}/{task.replace('/', '_')}" if len(by_task) > 1 else mode
            complete = len(records) == returns.size
            times = began + np.cumsum([episode.wall_s for episode in records]) if complete else _at(began, returns)
            columns = {"episode_return": (returns, ""), **(_of_records(records) if complete else {})}
            successes = run.successes.get(mode, {}).get(task)
            if successes is not None:
                columns["episode_success"] = (successes, "")
            for name, (values, unit) in columns.items():
                steps = np.arange(values.size, dtype=np.int64)
                yield DescribedSeries(f"{place}/{name}", "episode", steps, values, times, unit)


def _of_records(records: list[Episode]) -> dict[str, tuple[Values, str]]:
    found = {"episode_length": (np.array([float(episode.length) for episode in records]), "steps")}
    wall_s = np.array([episode.wall_s for episode in records])
    # Records of older versions have no times.
    return {**found, "episode_wall_s": (wall_s, "s")} if wall_s.any() else found


def _samples(run: Run, began: float) -> Iterator[DescribedSeries]:
    table = run.details.trace
    if table is None:
        return
    clock = run.details.clock()
    for column in _SAMPLED:
        values = table.numbers(column)
        # A machine without GPU records zeros or nothing.
        if values is None or not np.isfinite(values).any() or (column.startswith("gpu") and not values.any()):
            continue
        known = np.isfinite(values)
        times = _at(began, values) if clock is None else began + clock
        steps = np.flatnonzero(known).astype(np.int64)
        unit = next((unit for ending, unit in _UNITS.items() if column.endswith(ending)), "")
        yield DescribedSeries(
            f"{TRACE}/{column}", "sample", steps, values[known], times[known], unit, _provenance(run, column)
        )


def _provenance(run: Run, column: str) -> str:
    """Returns whether an instrument measured a column; power is estimated where a model gives it."""
    component = next((name for name in COMPONENTS if column == f"{name}_power_w"), None)
    if component is None:
        return "measured"
    quality: str = getattr(run.tracking.energy, component).quality
    return "measured" if quality == "measured" else "estimated"


def _at(moment: float, values: Values) -> Values:
    return np.full(values.size, moment)


def safe_name(text: str) -> str:
    """Returns a name of ASCII letters, digits and ``_-. /``; every other character becomes ``_``.

    Empty and relative parts of a path become ``_``, because MLflow stores each metric in a file of its name.
    """
    parts = [part.strip() for part in _OUTSIDE.sub("_", text).split("/")]
    return "/".join("_" if part in ("", ".", "..") else part for part in parts)


def unique_names(names: Iterable[str]) -> list[str]:
    """Returns safe names in the given order; a name that is already taken gets a number."""
    found: dict[str, None] = {}
    for name in names:
        wanted = candidate = safe_name(name)[:MAX_CHARACTERS].rstrip("/ ")
        count = 1
        while candidate in found:
            count += 1
            candidate = f"{wanted}_{count}"
        found[candidate] = None
    return list(found)
