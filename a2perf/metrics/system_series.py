"""Rows of emissions tables turned into numbers: energy by interval and in total, and memory merged over processes.

Both generations of the table are read: the earlier platform's (and a2perf's) with one row per interval, cumulative
energy and ``ram_process``; and stock codecarbon's with one row per run. Columns come as mappings of name to values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from a2perf.arrays import Values
from a2perf.runs.tracking_record import COMPONENTS, TrackingReport, nothing_tracked

TOLERANCE_S = 10.0
# codecarbon, its fork and a2perf call 2**30 bytes a GB
BYTES_PER_GB = 2**30


class EnergyCourse(msgspec.Struct, kw_only=True, frozen=True):
    """Energy of a run up to each moment, all its processes together.

    Attributes:
        elapsed_s: seconds since the first process was started, from 0 and not decreasing.
        kwh: cumulative, as long as ``elapsed_s``.
        started_s: seconds since the epoch of the start; NaN where the table has no timestamps.
        quality: ``"measured"``, ``"estimated"`` or ``"mixed"``.
    """

    elapsed_s: Values
    kwh: Values
    started_s: float
    quality: str


def energy_course(columns: Mapping[str, Any]) -> EnergyCourse | None:
    """Returns the course of the energy in an emissions table, None where it names neither energy nor time."""
    rows = len(next(iter(columns.values()), ()))
    energy, duration = _numbers(columns, "energy_consumed", rows), _numbers(columns, "duration", rows)
    if energy is None or duration is None:
        return None
    stamps = seconds_of(list(columns["timestamp"])) if "timestamp" in columns else np.full(rows, np.nan)
    series, starts = [], []
    for group in _by_process(columns, rows):
        group = _forward_only(group, duration)
        known = group[np.isfinite(energy[group]) & np.isfinite(duration[group])]
        if known.size:
            series.append((duration[known], energy[known]))
            starts.append(float(stamps[known[0]] - duration[known[0]]))
    if not series:
        return None
    # without timestamps all processes are taken to have started together
    first = min(starts) if np.isfinite(starts).all() else float("nan")
    shifts = [start - first if np.isfinite(first) else 0.0 for start in starts]
    elapsed = np.unique(np.concatenate([[0.0], *(own + shift for (own, _), shift in zip(series, shifts, strict=True))]))
    total = np.zeros(elapsed.size)
    for (own, kwh), shift in zip(series, shifts, strict=True):
        total += np.interp(elapsed - shift, np.append(0.0, own), np.append(0.0, kwh))
    return EnergyCourse(elapsed_s=elapsed, kwh=total, started_s=first, quality=_quality(columns)[0])


def report_of_table(columns: Mapping[str, Any]) -> TrackingReport:
    """Returns what an emissions table says about one run; numbers of missing columns stay unknown.

    Energy and emissions are sums over processes of their last cumulative values. Powers are means over rows, added up
    over processes that ran at the same time; sessions one after the other add up their wall times instead. Memory is
    that of all processes at the times of the first. A table that does not name a quality is estimated.
    """
    report = nothing_tracked()
    rows = len(next(iter(columns.values()), ()))
    if rows == 0:
        return report
    duration = _numbers(columns, "duration", rows)
    groups = [_forward_only(group, duration) for group in _by_process(columns, rows)]
    energy, (quality, method) = report.energy, _quality(columns)
    parts = {"energy_consumed": energy} | {f"{name}_energy": getattr(energy, name) for name in COMPONENTS}
    for name, part in parts.items():
        part.gross_kwh, part.quality, part.method = _last_sum(columns, name, groups, rows), quality, method
    sessions = _sessions(columns, groups, duration)
    walls = [_wall_clock(columns, session, duration) for session in sessions]
    for name in COMPONENTS:
        watts = _numbers(columns, f"{name}_power", rows)
        if watts is not None and np.isfinite(watts).any():
            getattr(energy, name).power_mean_w = _mean_power(watts, sessions, walls)
    report.emissions.kg_co2eq, report.emissions.method = _last_sum(columns, "emissions", groups, rows), method
    report.emissions.factor_source = _word(columns, "region") or _word(columns, "country_name")
    report.wall_s = math.fsum(walls)
    memory = _memory(columns, groups, rows)
    if memory is not None:
        report.rss_mean_bytes = float(memory.mean()) * BYTES_PER_GB
        report.rss_peak_bytes = float(memory.max()) * BYTES_PER_GB
    report.processes_peak = max(map(len, sessions))
    return report


def merge_on_time(series: Sequence[tuple[Any, Any]]) -> Values:
    """Sums at least one series of a process, ``(times in seconds, values)``, at the times of the first.

    Each further series contributes its latest value not older than ``TOLERANCE_S``; none contributes 0. That is how
    the earlier platform added up distributed collectors.
    """
    times, total = (np.array(column, dtype=np.float64) for column in series[0])
    for other in series[1:]:
        own, values = (np.asarray(column, dtype=np.float64) for column in other)
        if not own.size:
            continue
        # Before the first own time the index is -1, which would wrap to the last value; the mask leaves it out.
        latest = np.searchsorted(own, times, side="right") - 1
        known = (latest >= 0) & (times - own[np.maximum(latest, 0)] <= TOLERANCE_S)
        total[known] += values[latest[known]]
    return total


def seconds_of(stamps: Sequence[Any]) -> Values:
    """Returns ISO 8601 timestamps as seconds since the epoch (without a zone: UTC); NaN where one cannot be read."""
    return np.array([_seconds(stamp) for stamp in stamps], dtype=np.float64)


def _seconds(stamp: Any) -> float:
    if isinstance(stamp, int | float):
        return float(stamp)
    try:
        read = datetime.fromisoformat(str(stamp))
    except ValueError:
        return float("nan")
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def _numbers(columns: Mapping[str, Any], name: str, rows: int) -> Values | None:
    if name not in columns:
        return None
    values = columns[name]
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values.astype(np.float64)
    numbers = np.full(rows, np.nan)
    for place, value in enumerate(values):
        try:
            numbers[place] = float(value)
        except (TypeError, ValueError):
            continue
    return numbers


def _by_process(columns: Mapping[str, Any], rows: int) -> list[Any]:
    """Returns the row numbers of each ``run_id``, in the order of their first rows."""
    groups: dict[str, list[int]] = {}
    for row, process in enumerate(columns.get("run_id", ["" for _ in range(rows)])):
        groups.setdefault(str(process), []).append(row)
    return [np.array(group, dtype=np.intp) for group in groups.values()]


def _forward_only(group: Any, duration: Values | None) -> Any:
    """Leaves out rows with a clock that ran backwards, as the upstream platform did."""
    if duration is None or group.size < 2:
        return group
    own = duration[group]
    # fmax ignores NaN, which maximum would carry through all later rows.
    return group[np.isnan(own) | (own >= np.fmax.accumulate(own))]


def _last_sum(columns: Mapping[str, Any], name: str, groups: Sequence[Any], rows: int) -> float:
    values = _numbers(columns, name, rows)
    if values is None:
        return math.nan
    last = [finite[-1] for group in groups if (finite := values[group][np.isfinite(values[group])]).size]
    return float(sum(last)) if last else math.nan


def _sessions(columns: Mapping[str, Any], groups: Sequence[Any], duration: Values | None) -> list[list[Any]]:
    """Returns the groups that overlap in time together, in the order of their starts; without times all overlap."""
    if "timestamp" not in columns or duration is None or len(groups) == 1:
        return [list(groups)]
    stamps = seconds_of(list(columns["timestamp"]))
    spans = [(float(stamps[group[0]] - duration[group[0]]), float(np.max(stamps[group]))) for group in groups]
    if not np.isfinite(spans).all():
        return [list(groups)]
    found: list[list[Any]] = []
    end = -math.inf
    for (start, last), group in sorted(zip(spans, groups, strict=True), key=lambda pair: pair[0]):
        if start >= end:
            found.append([])
        found[-1].append(group)
        end = max(end, last)
    return found


def _mean_power(watts: Values, sessions: Sequence[Sequence[Any]], walls: Sequence[float]) -> float:
    """Returns the mean power in watts: added up over the processes of a session, weighted by time over sessions."""
    of_sessions = [
        (sum(np.nanmean(watts[group]) for group in session if np.isfinite(watts[group]).any()), wall)
        for session, wall in zip(sessions, walls, strict=True)
        if any(np.isfinite(watts[group]).any() for group in session)
    ]
    power, weights = np.array(of_sessions, np.float64).T
    if not (np.isfinite(weights).all() and weights.sum() > 0.0):
        weights = np.ones_like(power)
    return float(np.average(power, weights=weights))


def _wall_clock(columns: Mapping[str, Any], groups: Sequence[Any], duration: Values | None) -> float:
    """Returns the wall time of processes that ran at the same time; NaN if it is not known."""
    if "timestamp" in columns and all(group.size > 1 for group in groups):
        times = seconds_of(list(columns["timestamp"]))
        if np.isfinite(times).all():
            first = max(float(times[group].min()) for group in groups)
            last = min(float(times[group].max()) for group in groups)
            return last - first if last > first else math.nan
    own = np.empty(0) if duration is None else duration[np.concatenate(groups)]
    return float(np.nanmax(own)) if np.isfinite(own).any() else math.nan


def _memory(columns: Mapping[str, Any], groups: Sequence[Any], rows: int) -> Values | None:
    values = _numbers(columns, "ram_process", rows)
    if values is None or not np.isfinite(values).any():
        return None
    times = seconds_of(list(columns["timestamp"])) if "timestamp" in columns else np.full(rows, np.nan)
    series = []
    for group in groups:
        known = group[np.isfinite(values[group]) & (np.isfinite(times[group]) | (len(groups) == 1))]
        if known.size:
            # merge_on_time searches the times, so they must ascend.
            known = known[np.argsort(times[known], kind="stable")]
            series.append((times[known], values[known]))
    return merge_on_time(series) if series else None


def _quality(columns: Mapping[str, Any]) -> tuple[str, str]:
    said = {str(word) for word in columns.get("quality", ()) if str(word)} - {"none"}
    quality = (said.pop() if len(said) == 1 else "mixed") if said else "estimated"
    version = _word(columns, "codecarbon_version")
    method = _word(columns, "method") or (f"codecarbon {version}, source of power not recorded" if version else "")
    return quality, method or "not recorded"


def _word(columns: Mapping[str, Any], name: str) -> str:
    return next((str(word) for word in columns.get(name, ()) if word is not None and str(word)), "")
