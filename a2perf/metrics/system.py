"""What it costs: energy, power, memory, time and latency, from what trackers recorded.

Each run's number first, then the mean over runs. A number is measured or estimated; runs of both kinds together make a
``"mixed"`` value, which says so and is never ranked. Runs without a tracking report fall back to their emissions table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from a2perf.metrics.bootstrap import mean_interval
from a2perf.metrics.system_series import EmissionsSummary, from_emissions, merge_on_time
from a2perf.metrics.values import Direction, Metric, MetricValue, Profile, RunData, as_finite, not_enough

__all__ = ["METRICS", "EmissionsSummary", "from_emissions", "merge_on_time", "provenance_over_runs"]

CALLS = ("infer_once", "round_trip", "preprocess_observation", "processor_time")
COMPONENTS = ("cpu", "gpu", "ram")
RUN_SPREAD = "standard deviation over runs, ddof 1"
_LATENCY: dict[str, tuple[str, Callable[[Any], float]]] = {
    "median": ("median", lambda s: float(np.median(s))),
    "mean": ("mean", lambda s: float(s.mean())),
    "p90": ("90th percentile", lambda s: float(np.percentile(s, 90))),
    "p99": ("99th percentile", lambda s: float(np.percentile(s, 99))),
    "max": ("slowest", lambda s: float(s.max())),
    "throughput": ("calls per second", lambda s: float(1.0 / s.mean()) if s.mean() > 0 else np.inf),
}
_COVERS = {
    "infer_once": "infer_once only; clock of the participant process",
    "preprocess_observation": "preprocess_observation only; clock of the participant process",
    "round_trip": "with transport; clock of the evaluator",
    "processor_time": "processor time of the whole process tree per step, the time between calls included; kernel",
}


def provenance_over_runs(qualities: Sequence[str]) -> str:
    """Returns the provenance of numbers taken together: theirs where they agree, else ``"mixed"``."""
    kinds = {"measured" if quality == "measured" else quality or "estimated" for quality in qualities}
    return kinds.pop() if len(kinds) == 1 else "mixed"


def system_values(data: RunData, profile: Profile) -> dict[str, MetricValue]:
    """Computes every system metric."""
    runs = max(len(data.tracking), len(data.emissions))
    reports = [data.tracking[run] if run < len(data.tracking) else {} for run in range(runs)]
    # A table is only looked at where the tracking report has no energy, so that nothing counts twice.
    tables = [
        from_emissions(data.emissions[run])
        if run < len(data.emissions) and "energy" not in reports[run]
        else EmissionsSummary()
        for run in range(runs)
    ]
    found = {}
    for metric in METRICS:
        if metric.name.startswith("latency_"):
            found[metric.name] = _latency(metric, data, profile)
        elif metric.name == "wall_clock":
            found[metric.name] = _wall_clock(metric, data, reports, tables, profile)
        else:
            numbers = [_of_run(metric.name, report, table) for report, table in zip(reports, tables, strict=True)]
            found[metric.name] = _over_runs(metric, numbers, profile)
    return found


Number = tuple[float | None, str, str]


def _of_run(name: str, report: Mapping[str, Any], table: EmissionsSummary) -> Number:
    """Returns one run's number with its quality and method."""
    place, key = _PLACES[name]
    if (place[0] if place else key) not in report:
        return _of_table(name, table)
    section: Mapping[str, Any] = report
    for step in place:
        inner = section.get(step)
        section = inner if isinstance(inner, Mapping) else {}
    value = _number(section.get(key))
    if name.startswith(("memory_gpu", "gpu_")):
        return (value if _number(section.get("count")) else None), "measured", str(section.get("model") or "GPU")
    if place and place[0] in ("energy", "emissions"):
        quality = str(section.get("quality") or "none")
        # carbon intensity is a yearly mean of a region, whatever measured the energy
        if place[0] == "emissions":
            quality = "estimated" if section.get("method") not in (None, "none") else "none"
        words = ("method", "factor_source", "account")
        method = "; ".join(str(section[word]) for word in words if section.get(word))
        return (None if quality == "none" else value), quality, method
    method = "process tree" + (f"; counted by {report.get('cpu_method')}" if name == "cpu_time" else "")
    return (value if value or name == "cpu_time" else None), "measured", method


def _of_table(name: str, table: EmissionsSummary) -> Number:
    values: dict[str, float | None] = {
        "energy_gross": table.energy_kwh,
        "memory_rss_mean": table.memory_mean_bytes,
        "memory_rss_peak": table.memory_peak_bytes,
        "emissions": table.emissions_kg,
    }
    for part in COMPONENTS:
        values[f"energy_{part}_gross"] = table.component_kwh.get(part)
        values[f"power_{part}_mean"] = table.power_mean_w.get(part)
    if name.startswith("memory_"):
        return values.get(name), "measured", f"process tree, {table.processes} process(es) merged on time"
    if name == "emissions":
        return values[name], "estimated", "; ".join(word for word in (table.method, table.region) if word)
    return values.get(name), table.quality, table.method


def _over_runs(metric: Metric, numbers: Sequence[Number], profile: Profile) -> MetricValue:
    made: dict[str, Any] = {
        "name": metric.name, "unit": metric.unit, "direction": metric.direction, "profile": profile,
    }  # fmt: skip
    known = [(value, quality, method) for value, quality, method in numbers if value is not None]
    if not known:
        why = "not recorded by any run" if numbers else not_enough(0, 1)
        return MetricValue(**made, provenance="measured", condition=why)
    values = np.array([value for value, _, _ in known], dtype=np.float64)
    provenance = provenance_over_runs([quality for _, quality, _ in known])
    notes = []
    if len(known) < len(numbers):
        notes.append(f"{len(numbers) - len(known)} of {len(numbers)} runs did not record it")
    if provenance == "mixed":
        measured = sum(quality == "measured" for _, quality, _ in known)
        notes.append(f"MIXED: {measured} of {len(known)} runs measured, the others estimated; not to be ranked")
    several = values.size > 1
    return MetricValue(
        **made,
        value=float(values.mean()),
        spread=float(values.std(ddof=1)) if several else None,
        spread_kind=RUN_SPREAD if several else None,
        interval=mean_interval(values) if several and profile == "corrected" else None,
        per_run=[value for value, _, _ in numbers],
        n=int(values.size),
        provenance=provenance,
        method=" | ".join(dict.fromkeys(method for _, _, method in known if method)) or None,
        notes=notes,
    )


def _latency(metric: Metric, data: RunData, profile: Profile) -> MetricValue:
    call = next(call for call in CALLS if metric.name.startswith(f"latency_{call}_"))
    kind = metric.name.removeprefix(f"latency_{call}_")
    method = _COVERS[call]
    if kind == "first":
        firsts = [_number(value) for value in data.latency_first.get(call, ())]
        return _over_runs(metric, [(value, "measured", method) for value in firsts], profile)
    runs = [as_finite(run)[0] for run in data.latency.get(call, ())]
    runs = [run for run in runs if run.size]
    formula = _LATENCY[kind][1]
    value = _over_runs(metric, [(formula(run), "measured", method) for run in runs], profile)
    if kind == "mean" and profile == "a2perf" and runs:
        # the earlier platform pooled the calls of all runs
        pooled = np.concatenate(runs)
        return MetricValue(
            name=metric.name, value=float(pooled.mean()), spread=float(pooled.std()),
            spread_kind="standard deviation over the calls of all runs, ddof 0", per_run=value.per_run, n=value.n,
            unit=metric.unit, direction=metric.direction, profile=profile, provenance="measured", method=method,
        )  # fmt: skip
    return value


def _wall_clock(
    metric: Metric,
    data: RunData,
    reports: Sequence[Mapping[str, Any]],
    tables: Sequence[EmissionsSummary],
    profile: Profile,
) -> MetricValue:
    numbers: list[Number] = []
    for run in range(max(len(data.wall_clock), len(reports))):
        given = _number(data.wall_clock[run]) if run < len(data.wall_clock) else None
        if given is not None:
            numbers.append((given, "measured", "the participant's phase, by the evaluator's clock"))
        elif run < len(reports) and _number(reports[run].get("wall_s")):
            numbers.append((_number(reports[run]["wall_s"]), "measured", "life of the participant process"))
        else:
            seconds = tables[run].wall_clock_s if run < len(tables) else None
            numbers.append((seconds, "measured", "time that all processes of the emissions table share"))
    return _over_runs(metric, numbers, profile)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        return None
    return float(value)


# --- what the metrics are ---------------------------------------------------------------------------------------------

_PLACES: dict[str, tuple[tuple[str, ...], str]] = {
    "emissions": (("emissions",), "kg_co2eq"),
    "memory_rss_peak": ((), "rss_peak_bytes"),
    "memory_rss_mean": ((), "rss_mean_bytes"),
    "memory_pss_peak": ((), "pss_peak_bytes"),
    "memory_pss_mean": ((), "pss_mean_bytes"),
    "memory_gpu_peak": (("gpu",), "memory_peak_bytes"),
    "gpu_utilization_mean": (("gpu",), "utilization_mean_percent"),
    "cpu_time": ((), "cpu_seconds"),
}


def _metric(name: str, label: str, unit: str, formula: str, direction: Direction = "min", needs: str = "") -> Metric:
    return Metric(
        name=name, label=label, category="system", unit=unit, direction=direction, provenance="as recorded",
        formula=formula + ", mean over runs", source="recorded by the trackers; earlier public platform",
        needs=needs or "1 run with a tracking report or an emissions table", compute=system_values,
    )  # fmt: skip


def _energy_and_power() -> list[Metric]:
    made = []
    for part in ("", *COMPONENTS):
        infix, words, place = (f"_{part}", f", {part.upper()}", ("energy", part)) if part else ("", "", ("energy",))
        for suffix, key, label, unit, formula in (
            (f"energy{infix}_gross", "gross_kwh", f"Energy{words}", "kWh", "cumulative energy at the end of the run"),
            (f"energy{infix}_net", "net_kwh", f"Energy{words}, net of idle", "kWh", "energy less the idle baseline's"),
            (f"power{infix}_mean", "power_mean_w", f"Power{words}, mean", "W", "energy over wall time"),
            (f"power{infix}_peak", "power_peak_w", f"Power{words}, peak", "W", "highest mean over one interval"),
        ):
            _PLACES[suffix] = (place, key)
            made.append(_metric(suffix, label, unit, formula))
    return made


def _latencies() -> list[Metric]:
    made = []
    for call in CALLS:
        needs = "1 timed call"
        made.append(
            _metric(f"latency_{call}_first", f"{call}, first call", "s", "the very first call", needs="1 first call")
        )
        for kind, (words, _) in _LATENCY.items():
            if (call, kind) == ("processor_time", "throughput"):
                continue
            unit, direction = ("calls/s", "max") if kind == "throughput" else ("s", "min")
            name = f"latency_{call}_{kind}"
            made.append(_metric(name, f"{call}, {words}", unit, f"{words} of a run's calls", direction, needs))  # type: ignore[arg-type]
    return made


METRICS: tuple[Metric, ...] = (
    *_energy_and_power(),
    _metric("emissions", "Emissions", "kg CO2eq", "energy times the carbon intensity of the region"),
    _metric("memory_rss_peak", "Peak memory (RSS)", "bytes", "highest sum of resident sets over the process tree"),
    _metric("memory_rss_mean", "Mean memory (RSS)", "bytes", "mean sum of resident sets over the process tree"),
    _metric("memory_pss_peak", "Peak memory (PSS)", "bytes", "highest sum of proportional sets over the process tree"),
    _metric("memory_pss_mean", "Mean memory (PSS)", "bytes", "mean sum of proportional sets over the process tree"),
    _metric("memory_gpu_peak", "Peak GPU memory", "bytes", "highest use of memory of the selected GPUs"),
    _metric("gpu_utilization_mean", "GPU utilisation", "%", "mean utilisation of the selected GPUs", "none"),
    _metric("cpu_time", "CPU time", "s", "processor time of the process tree, its dead processes included"),
    _metric("wall_clock", "Wall clock", "s", "wall time of the participant's phase"),
    *_latencies(),
)
