"""What a whole run costs: energy, power, memory and time, from what trackers recorded.

A number is measured or estimated; runs of both kinds together make a ``"mixed"`` value, which is never ranked. Runs
without tracked energy fall back to their emissions table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from a2perf.metrics import per_decision
from a2perf.metrics.definition import Metric, cost_metric, with_uncertainty
from a2perf.metrics.runs_in_mode import once_per_run
from a2perf.metrics.system_series import report_of_table
from a2perf.metrics.values import Lead, RunNumber
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import (
    ComponentEnergy,
    TrackedEnergy,
    TrackingReport,
    nothing_tracked,
    recorded,
)


@once_per_run
def _table(run: Run) -> TrackingReport:
    """Returns what the emissions table says: nothing if the energy was tracked, to count nothing twice."""
    return nothing_tracked() if run.tracking.energy.quality else report_of_table(run.emissions.get(run.mode, {}))


# --- energy and power -------------------------------------------------------------------------------------------------

_Energy = TrackedEnergy | ComponentEnergy
_Quantity = Literal["gross", "net", "mean", "peak"]
_Part = Literal["", "cpu", "gpu", "ram"]
_DRAWN: dict[_Quantity, tuple[str, str, Callable[[_Energy], float]]] = {
    "gross": ("kWh", "cumulative energy at the end of the run", lambda energy: energy.gross_kwh),
    "net": ("kWh", "energy less the idle baseline's", lambda energy: energy.net_kwh),
    "mean": ("W", "energy over wall time", lambda energy: energy.power_mean_w),
    "peak": ("W", "highest mean over one interval", lambda energy: energy.power_peak_w),
}


def _drawn_by(part: _Part, quantity: _Quantity) -> Callable[[Run], RunNumber]:
    read = _DRAWN[quantity][2]

    def number(run: Run) -> RunNumber:
        whole = run.tracking.energy if run.tracking.energy.quality else _table(run).energy
        energy: _Energy = getattr(whole, part) if part else whole
        account = energy.account if isinstance(energy, ComponentEnergy) else ""
        method = "; ".join(words for words in (energy.method, account) if words)
        value = RunNumber(None if energy.quality in ("", "none") else recorded(read(energy)), energy.quality, method)
        if quantity == "peak":  # of one interval: no uncertainty is recorded for it
            return value
        if quantity == "net":
            return with_uncertainty(value, energy.net_uncertainty, energy.net_kwh)
        return with_uncertainty(value, energy.gross_uncertainty, energy.gross_kwh)

    return number


def _drawn(name: str, label: str, quantity: _Quantity, part: _Part = "", **more: Any) -> Metric:
    """Returns a metric of energy or power, of the whole or of one component."""
    unit, formula, _ = _DRAWN[quantity]
    return cost_metric(unit, label, formula, name=name, whole_run=True, **more)(_drawn_by(part, quantity))


@cost_metric("kg CO2eq", "Emissions", "energy times the carbon intensity of the region", whole_run=True)
def emissions(run: Run) -> RunNumber:
    """Carbon intensity is a yearly mean of a region: always an estimate, whatever measured the energy."""
    tracked = run.tracking.emissions if run.tracking.emissions.method else _table(run).emissions
    method = "; ".join(words for words in (tracked.method, tracked.factor_source) if words)
    return RunNumber(None if tracked.method == "none" else recorded(tracked.kg_co2eq), "estimated", method)


# --- memory and time --------------------------------------------------------------------------------------------------


_SETS = {"rss": "resident", "pss": "proportional"}
_STATISTICS = {"peak": "highest", "mean": "mean"}


def _memory(name: str, title: str, sets: str, statistic: str, **more: Any) -> Metric:
    """Returns a metric of the tracking report; for resident sets, else of the emissions table."""

    def number(run: Run) -> RunNumber:
        value = recorded(getattr(run.tracking, f"{sets}_{statistic}_bytes"))
        if value is not None or sets == "pss":
            at_least = ", at least" if "at least" in run.tracking.account.memory and statistic == "peak" else ""
            return RunNumber(value or None, "measured", f"process tree{at_least}")
        table = _table(run)
        method = f"process tree, {table.processes_peak} process(es) merged on time"
        return RunNumber(recorded(getattr(table, f"rss_{statistic}_bytes")), "measured", method)

    formula = f"{_STATISTICS[statistic]} sum of {_SETS[sets]} sets over the process tree"
    return cost_metric("bytes", f"{title} ({sets.upper()})", formula, name=name, title=title, **more)(number)


@cost_metric("bytes", "Peak GPU memory", "highest use of memory of the selected GPUs", lead=Lead.TABLE)
def memory_gpu_peak(run: Run) -> RunNumber:
    """Of a run with a GPU."""
    gpu = run.tracking.gpu
    return RunNumber(recorded(gpu.memory_peak_bytes) if gpu.count else None, "measured", gpu.model or "GPU")


@cost_metric("%", "GPU utilisation", "mean utilisation of the selected GPUs", direction="none")
def gpu_utilization_mean(run: Run) -> RunNumber:
    """Of a run with a GPU."""
    gpu = run.tracking.gpu
    return RunNumber(recorded(gpu.utilization_mean_percent) if gpu.count else None, "measured", gpu.model or "GPU")


@cost_metric("s", "CPU time", "processor time of the process tree, its dead processes included", whole_run=True)
def cpu_time(run: Run) -> RunNumber:
    """Of the tracking report."""
    method = f"process tree; counted by {run.tracking.cpu_method}"
    return RunNumber(recorded(run.tracking.cpu_seconds), "measured", method)


@cost_metric(
    "s",
    "Wall clock",
    "wall time of the participant's phase",
    whole_run=True,
    lead={"train": Lead.TEXT, "generalization": Lead.TEXT},
    words=("time", "wall time", "duration"),
)
def wall_clock(run: Run) -> RunNumber:
    """By the evaluator's clock, else of the tracking report, else of the emissions table."""
    given = recorded(run.wall_clock_s)
    if given is not None:
        return RunNumber(given, "measured", "the participant's phase, by the evaluator's clock")
    if tracked := recorded(run.tracking.wall_s):
        return RunNumber(tracked, "measured", "life of the participant process")
    method = "time that all processes of the emissions table share"
    return RunNumber(recorded(_table(run).wall_s), "measured", method)


energy_gross_of = _drawn_by("", "gross")
"""Gross energy of a run in kWh, with provenance and uncertainty."""
energy_gross = _drawn(
    "energy_gross",
    "Energy",
    "gross",
    lead={"train": Lead.CHART, "generalization": Lead.TEXT},
    words=("energy gross", "training energy", "evaluation energy"),
)
power_mean = _drawn("power_mean", "Power, mean", "mean", lead=Lead.TABLE, words=("power",))
memory_rss_peak = _memory(
    "memory_rss_peak",
    "Peak memory",
    "rss",
    "peak",
    words=("memory",),
    lead={"inference": Lead.COLUMN, "generalization": Lead.TEXT, "train": Lead.TEXT},
)
memory_pss_peak = _memory("memory_pss_peak", "Peak memory", "pss", "peak")

METRICS: tuple[Metric, ...] = (
    energy_gross,
    *per_decision.PARTS,
    power_mean,
    _drawn("power_gpu_mean", "Power, GPU, mean", "mean", "gpu", lead=Lead.TABLE),
    wall_clock,
    _memory("memory_rss_mean", "Mean memory", "rss", "mean", lead=Lead.TABLE),
    memory_rss_peak,
    memory_gpu_peak,
    _drawn("energy_net", "Energy, net of idle", "net"),
    _drawn("power_peak", "Power, peak", "peak"),
    _drawn("energy_cpu_gross", "Energy, CPU", "gross", "cpu"),
    _drawn("energy_cpu_net", "Energy, CPU, net of idle", "net", "cpu"),
    _drawn("power_cpu_mean", "Power, CPU, mean", "mean", "cpu"),
    _drawn("power_cpu_peak", "Power, CPU, peak", "peak", "cpu"),
    _drawn("energy_gpu_gross", "Energy, GPU", "gross", "gpu"),
    _drawn("energy_gpu_net", "Energy, GPU, net of idle", "net", "gpu"),
    _drawn("power_gpu_peak", "Power, GPU, peak", "peak", "gpu"),
    _drawn("energy_ram_gross", "Energy, RAM", "gross", "ram"),
    _drawn("energy_ram_net", "Energy, RAM, net of idle", "net", "ram"),
    _drawn("power_ram_mean", "Power, RAM, mean", "mean", "ram"),
    _drawn("power_ram_peak", "Power, RAM, peak", "peak", "ram"),
    emissions,
    memory_pss_peak,
    _memory("memory_pss_mean", "Mean memory", "pss", "mean"),
    gpu_utilization_mean,
    cpu_time,
)
