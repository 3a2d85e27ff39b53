"""Costs of a run with several tasks, combined from the tracking report of each task.

Energy, emissions, processor time and traffic are sums over the tasks; memory is the maximum. Tasks that ran at the same
time share counters of the whole machine; ``method`` then contains a remark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from a2perf.runs.tracking_record import (
    COMPONENTS,
    ComponentEnergy,
    Emissions,
    TrackedEnergy,
    TrackingReport,
    combined_uncertainty,
    nothing_tracked,
)


def summed(reports: Sequence[TrackingReport]) -> TrackingReport | None:
    """Returns one report for the tasks of one run; None without reports.

    Power and wall time of the result are unknown, because tasks may have run at the same time.
    """
    if not reports:
        return None
    total = nothing_tracked()
    for name in ("cpu_seconds", "io_read_bytes", "io_write_bytes", "own_cpu_seconds"):
        _put(total, name, reports, sum)
    for name in ("rss_peak_bytes", "pss_peak_bytes", "processes_peak", "threads_peak"):
        _put(total, name, reports, max)
    methods = {report.cpu_method for report in reports}
    total.cpu_method = methods.pop() if len(methods) == 1 else "several"
    energies = [report.energy for report in reports]
    machine_wide = any(getattr(energy, part).scope == "machine" for energy in energies for part in COMPONENTS)
    _sum_energy(total.energy, energies, "; tasks side by side share machine-wide counters" if machine_wide else "")
    for part in COMPONENTS:
        _sum_energy(getattr(total.energy, part), [getattr(energy, part) for energy in energies], "")
    _sum_emissions(total.emissions, [report.emissions for report in reports])
    return total


Energies = Sequence[TrackedEnergy] | Sequence[ComponentEnergy]


def _sum_energy(total: TrackedEnergy | ComponentEnergy, energies: Energies, remark: str) -> None:
    known = [energy for energy in energies if energy.quality not in ("", "none")]
    if not known:
        total.quality = "none"
        return
    qualities = {energy.quality for energy in known}
    methods = dict.fromkeys(energy.method for energy in known)
    total.quality = qualities.pop() if len(qualities) == 1 else "mixed"
    total.method = f"{' | '.join(methods)}; sum over {len(known)} tasks{remark}"
    for name in ("gross_kwh", "net_kwh"):
        _put(total, name, known, sum)
    total.gross_uncertainty = combined_uncertainty([energy.gross_uncertainty for energy in known], same_instrument=True)
    total.net_uncertainty = combined_uncertainty([energy.net_uncertainty for energy in known], same_instrument=True)


def _sum_emissions(total: Emissions, tasks: Sequence[Emissions]) -> None:
    for name in msgspec.structs.asdict(total):
        first = getattr(tasks[0], name)
        if all(getattr(other, name) == first for other in tasks):
            setattr(total, name, first)
    _put(total, "kg_co2eq", tasks, sum)


def _put(
    total: msgspec.Struct, name: str, parts: Iterable[msgspec.Struct], combine: Callable[[list[float]], float]
) -> None:
    values = [value for part in parts if (value := getattr(part, name)) is not None and math.isfinite(value)]
    if values:
        setattr(total, name, combine(values))
