"""The numbers of one run, each with unit, spread, sample size and provenance.

Nothing is computed here beyond summaries of recorded values (mean, standard deviation, median, integral of a trace);
scores that compare runs belong to ``a2perf.metrics``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from a2perf.records import Episode, LatencySummary
from a2perf.report.columns import Columns, Values
from a2perf.report.experiment import Bundle
from a2perf.report.numbers_text import shown
from a2perf.report.tables import Provenance, Quantity

EPISODE_SPREAD = "standard deviation over episodes, ddof 0"
CALL_SPREAD = "standard deviation over calls"
COMPONENTS = ("cpu", "gpu", "ram")
JOULES_PER_KWH = 3.6e6


class Measure(msgspec.Struct, kw_only=True, frozen=True):
    """One named number of a run.

    Attributes:
        key: stable name, in CSV and JSON.
        label: name for people.
        category: ``application`` or ``system``.
        task: the task it belongs to, where a run has several.
    """

    key: str
    label: str
    category: str
    quantity: Quantity
    task: str | None = None


def measures(bundle: Bundle) -> list[Measure]:
    """Returns every number that the bundle holds, application first."""
    return [*_application(bundle), *_latency(bundle), *_time(bundle), *_costs(bundle)]


def find(found: list[Measure], key: str) -> Quantity | None:
    """Returns the quantity with this key, that of the whole run before that of one task."""
    named = [measure for measure in found if measure.key == key]
    return next((m.quantity for m in sorted(named, key=lambda m: m.task is not None)), None)


def mean_of(values: Values, unit: str, *, spread_kind: str = EPISODE_SPREAD, **more: Any) -> Quantity:
    """Returns mean ± standard deviation (ddof 0) of the finite values, with their number."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return Quantity(value=None, unit=unit, note="no values")
    return Quantity(
        value=float(finite.mean()),
        unit=unit,
        spread=float(finite.std()) if finite.size > 1 else None,
        spread_kind=spread_kind if finite.size > 1 else None,
        n=int(finite.size),
        **more,
    )


def episode_values(episodes: list[Episode], name: str) -> Values:
    """Returns one number per episode: an attribute of the record."""
    return np.array([float(getattr(episode, name)) for episode in episodes], dtype=np.float64)


def reward_terms(episodes: list[Episode]) -> dict[str, Values]:
    """Returns the mean reward per step of each term, one value an episode, terms in the environment's order."""
    names = dict.fromkeys(name for episode in episodes for name in episode.reward_terms)
    return {
        name: np.array([episode.reward_terms[name] for episode in episodes if name in episode.reward_terms])
        for name in names
    }


def _application(bundle: Bundle) -> Iterator[Measure]:
    several = len(bundle.rollouts) > 1
    for task, results in bundle.rollouts.items():
        named = task if several or bundle.mode == "generalization" else None
        episodes = results.episodes
        if not episodes:
            none = Quantity(value=None, note="no finished episode")
            yield Measure(key="return", label="Return", category="application", quantity=none, task=named)
            continue
        for key, label, attribute, unit in (
            ("return", "Return", "episode_return", ""),
            ("episode_length", "Episode length", "length", "steps"),
        ):
            quantity = mean_of(episode_values(episodes, attribute), unit, provenance="measured")
            yield Measure(key=key, label=label, category="application", quantity=quantity, task=named)
        known = [float(episode.success) for episode in episodes if episode.success is not None]
        if known:
            rate = Quantity(value=100 * float(np.mean(known)), unit="%", n=len(known), provenance="measured")
            yield Measure(key="success_rate", label="Success rate", category="application", quantity=rate, task=named)
    if several:
        played = [results.episodes for results in bundle.rollouts.values() if results.episodes]
        means = np.array([episode_values(episodes, "episode_return").mean() for episodes in played])
        overall = mean_of(means, "", spread_kind="standard deviation over tasks, ddof 0", note="over tasks")
        yield Measure(key="return_over_tasks", label="Return over tasks", category="application", quantity=overall)


def _latency(bundle: Bundle) -> Iterator[Measure]:
    if bundle.latency is None:
        return
    for call in ("infer_once", "round_trip", "preprocess_observation"):
        summary = getattr(bundle.latency, call)
        if summary is not None:
            yield from _latency_of(call, summary, bundle.latency.observations)


def _latency_of(call: str, summary: LatencySummary, observations: str) -> Iterator[Measure]:
    method = f"{summary.includes}; clock of the {summary.clock}; {observations} observations"
    if summary.warmup_count:
        method += f"; {summary.warmup_count} warm-up calls apart"

    def made(suffix: str, label: str, value: float, unit: str = "s", **more: Any) -> Measure:
        quantity = Quantity(value=value, unit=unit, provenance="measured", method=method, **more)
        return Measure(key=f"latency_{call}_{suffix}", label=f"{call} {label}", category="system", quantity=quantity)

    yield made("median", "median", summary.median_s, n=summary.count)
    yield made("mean", "mean", summary.mean_s, spread=summary.std_s, spread_kind=CALL_SPREAD, n=summary.count)
    yield made("p90", "90th percentile", summary.p90_s, n=summary.count)
    yield made("p99", "99th percentile", summary.p99_s, n=summary.count)
    yield made("max", "slowest", summary.max_s, n=summary.count)
    yield made("first", "first call", summary.first_s, n=1)
    yield made("throughput", "throughput", summary.throughput_hz, "calls/s", n=summary.count)


def _costs(bundle: Bundle) -> Iterator[Measure]:
    """Yields the cost of the run; a run of several tasks has totals first, then each task's own."""
    tracked = bundle.tracking
    if len(tracked) > 1:
        yield from _totals(list(tracked.values()))
    for task, report in tracked.items():
        for measure in (*_energy(report), *_memory(report), *_processor(report)):
            yield msgspec.structs.replace(measure, task=task or None)
    if not tracked and bundle.emissions is not None:
        yield from _energy_of_csv(bundle.emissions)


def _totals(reports: list[dict[str, Any]]) -> Iterator[Measure]:
    energies = [section(report, "energy") for report in reports]
    gross = [number(energy, "gross_kwh") for energy in energies]
    known = [value for value in gross if value is not None]
    qualities = {str(energy.get("quality")) for energy in energies} - {"none"}
    machine_wide = any(section(energy, part).get("scope") == "machine" for energy in energies for part in COMPONENTS)
    if known and qualities:
        method = "sum over tasks" + ("; tasks side by side share machine-wide counters" if machine_wide else "")
        provenance = provenance_of(qualities.pop() if len(qualities) == 1 else "mixed")
        total = sum(known)
        yield _system("energy_gross", "Energy, gross", total, "kWh", provenance, method, _joules(total))
    for kind in ("rss", "pss"):
        peaks = [peak for report in reports if (peak := number(report, f"{kind}_peak_bytes")) is not None]
        if peaks:
            label = f"Memory, peak {kind.upper()}"
            yield _system(f"memory_{kind}_peak", label, max(peaks), "bytes", "measured", "highest of the tasks")


def _energy(report: dict[str, Any]) -> Iterator[Measure]:
    energy = section(report, "energy")
    if provenance_of(energy.get("quality")) is None:
        return
    yield from _energy_of(energy, "energy", "Energy", "")
    for part in COMPONENTS:
        component = section(energy, part)
        if provenance_of(component.get("quality")) is not None:
            yield from _energy_of(component, f"energy_{part}", f"Energy, {part.upper()}", f"_{part}")
    emissions = section(report, "emissions")
    if (emitted := number(emissions, "kg_co2eq")) is not None and emissions.get("method") != "none":
        intensity = number(emissions, "kg_per_kwh")
        words = [str(emissions.get(name) or "") for name in ("method", "factor_source", "note")]
        words += [] if intensity is None else [f"{intensity:.3g} kg CO₂e/kWh"]
        method = "; ".join(word for word in words if word)
        # the grid's carbon intensity is a yearly mean of a region, whatever measured the energy
        yield _system("emissions", "Emissions", emitted, "kg CO₂e", "estimated", method)


def _energy_of(record: dict[str, Any], key: str, label: str, part: str) -> Iterator[Measure]:
    provenance = provenance_of(record.get("quality"))
    scope = record.get("scope")
    method = str(record.get("method") or "method not recorded")
    if scope and scope != "none":
        method += f"; of the {scope}"
    power = label.replace("Energy", "Power")
    for suffix, words, name, unit in (
        ("gross", f"{label}, gross", "gross_kwh", "kWh"),
        ("net", f"{label}, net of idle", "net_kwh", "kWh"),
        ("mean", f"{power}, mean", "power_mean_w", "W"),
        ("peak", f"{power}, peak", "power_peak_w", "W"),
        ("idle", f"{power}, idle", "idle_w", "W"),
    ):
        value = number(record, name)
        if value is not None:
            named = f"{key}_{suffix}" if unit == "kWh" else f"power{part}_{suffix}"
            note = _joules(value) if unit == "kWh" else None
            yield _system(named, words, value, unit, provenance, method, note)


def _energy_of_csv(columns: Columns) -> Iterator[Measure]:
    """Yields energy and emissions of a run that died before its tracking report was written."""
    provenance, method = provenance_of(columns.word("quality")), columns.word("method")
    gross = _last_cumulative(columns, "energy_consumed")
    if gross is not None:
        yield _system("energy_gross", "Energy, gross", gross, "kWh", provenance, method, _joules(gross))
    emitted = _last_cumulative(columns, "emissions")
    if emitted is not None:
        yield _system("emissions", "Emissions", emitted, "kg CO₂e", "estimated", columns.word("region"))


def _memory(report: dict[str, Any]) -> Iterator[Measure]:
    for kind, words in (("rss", "resident set of the process tree"), ("pss", "proportional set of the process tree")):
        for which in ("peak", "mean"):
            value = number(report, f"{kind}_{which}_bytes")
            if value is not None and value > 0:
                label = f"Memory, {which} {kind.upper()}"
                yield _system(f"memory_{kind}_{which}", label, value, "bytes", "measured", words)
    gpu = section(report, "gpu")
    if (number(gpu, "count") or 0) > 0:
        for key, label, name, unit in (
            ("memory_gpu_peak", "Memory, peak GPU", "memory_peak_bytes", "bytes"),
            ("gpu_utilization_mean", "GPU utilisation, mean", "utilization_mean_percent", "%"),
            ("gpu_utilization_peak", "GPU utilisation, peak", "utilization_peak_percent", "%"),
        ):
            value = number(gpu, name)
            if value is not None:
                yield _system(key, label, value, unit, "measured", str(gpu.get("model") or "GPU"))


def _processor(report: dict[str, Any]) -> Iterator[Measure]:
    counted = str(report.get("cpu_method") or "none")
    for key, label, name, unit, words in (
        ("cpu_time", "CPU time", "cpu_seconds", "s", f"of the process tree; counted by {counted}"),
        ("cpu_mean", "CPU use, mean", "cpu_utilization_mean_percent", "%", "of one core, process tree"),
        ("processes_peak", "Processes, peak", "processes_peak", "", "in the tree"),
        ("threads_peak", "Threads, peak", "threads_peak", "", "in the tree"),
        ("io_read", "Read from storage", "io_read_bytes", "bytes", "by the process tree"),
        ("io_write", "Written to storage", "io_write_bytes", "bytes", "by the process tree"),
        ("tracker_cpu", "Trackers' own CPU time", "own_cpu_seconds", "s", "of the sampling, in the evaluator"),
        ("tracker_share", "Trackers' own share", "own_cpu_percent", "%", "of one core"),
    ):
        value = number(report, name)
        if value is not None:
            yield _system(key, label, value, unit, "measured", words)


def _time(bundle: Bundle) -> Iterator[Measure]:
    seconds, words = wall_clock(bundle)
    if seconds is not None:
        yield _system("wall_clock", "Wall clock", seconds, "s", "measured", words)
    if bundle.train is not None:
        size = float(bundle.train.artifact_bytes)
        files = f"{bundle.train.artifact_files} file(s)"
        yield _system("artifacts", "Artefacts written", size, "bytes", "measured", files)


def wall_clock(bundle: Bundle) -> tuple[float | None, str]:
    """Returns the seconds of the participant's phase, or of the whole attempt, and what they cover."""
    if bundle.train is not None:
        return bundle.train.wall_s, "train() alone"
    tracked = number(bundle.tracking.get("", {}), "wall_s")
    if tracked is not None and tracked > 0:
        return tracked, "life of the participant process"
    timings = {} if bundle.manifest is None else bundle.manifest.timings_s
    attempt = number(timings, "attempt")
    return (attempt, "the last attempt, evaluator included") if attempt is not None else (None, "")


def section(tracking: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns a nested mapping, empty when it is not there."""
    value = tracking.get(name)
    return value if isinstance(value, dict) else {}


def number(mapping: dict[str, Any], *names: str) -> float | None:
    """Returns the first of the named entries that is a finite number."""
    for name in names:
        value = mapping.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value):
            return float(value)
    return None


def provenance_of(quality: object) -> Provenance | None:
    """Maps a recorded quality to a provenance; anything that is not measured throughout counts as estimated."""
    if not quality or quality == "none":
        return None
    return "measured" if str(quality).strip().lower() == "measured" else "estimated"


def _system(
    key: str,
    label: str,
    value: float,
    unit: str,
    provenance: Provenance | None,
    method: str | None,
    note: str | None = None,
) -> Measure:
    quantity = Quantity(value=value, unit=unit, provenance=provenance, method=method, note=note)
    return Measure(key=key, label=label, category="system", quantity=quantity)


def _last_cumulative(columns: Columns, name: str) -> float | None:
    """Sums the last value of a cumulative column over the attempts (``run_id``) that wrote it."""
    values = columns.first(name)
    if values is None:
        return None
    run_ids = columns.words.get("run_id") or [""] * values.size
    last = {run: value for run, value in zip(run_ids, values, strict=True) if np.isfinite(value)}
    return float(sum(last.values()))


def _joules(kwh: float) -> str:
    number_shown = shown(kwh * JOULES_PER_KWH, "J")
    return f"{number_shown.value} {number_shown.unit}"
