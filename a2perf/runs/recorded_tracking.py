"""Costs of a run of several tasks, put together from the tracking report of each.

Energy, emissions, processor time and traffic are sums over the tasks; memory is the highest of them. Tasks that ran
side by side share counters of the whole machine; ``method`` then says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

COMPONENTS = ("cpu", "gpu", "ram")


def summed(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns one report for tasks that belong to one run.

    Args:
        reports: contents of ``tracking.json``, one a task.

    Returns:
        The fields that sum or have a highest value; empty without reports. There is no power and no wall clock: tasks
        may have run at the same time.
    """
    if not reports:
        return {}
    total: dict[str, Any] = {}
    for name in ("cpu_seconds", "io_read_bytes", "io_write_bytes", "own_cpu_seconds"):
        _put(total, name, reports, sum)
    for name in ("rss_peak_bytes", "pss_peak_bytes", "processes_peak", "threads_peak"):
        _put(total, name, reports, max)
    methods = {str(report.get("cpu_method")) for report in reports}
    total["cpu_method"] = methods.pop() if len(methods) == 1 else "several"
    energies = [_section(report, "energy") for report in reports]
    machine_wide = any(_section(energy, part).get("scope") == "machine" for energy in energies for part in COMPONENTS)
    total["energy"] = _energy(energies, "; tasks side by side share machine-wide counters" if machine_wide else "")
    for part in COMPONENTS:
        total["energy"][part] = _energy([_section(energy, part) for energy in energies], "")
    emissions = [_section(report, "emissions") for report in reports]
    total["emissions"] = {
        name: value for name, value in emissions[0].items() if all(other.get(name) == value for other in emissions)
    }
    _put(total["emissions"], "kg_co2eq", emissions, sum)
    return total


def _energy(energies: Sequence[Mapping[str, Any]], remark: str) -> dict[str, Any]:
    known = [energy for energy in energies if energy.get("quality") not in (None, "none")]
    if not known:
        return {"quality": "none"}
    qualities = {str(energy["quality"]) for energy in known}
    methods = dict.fromkeys(str(energy.get("method")) for energy in known)
    made: dict[str, Any] = {
        "quality": qualities.pop() if len(qualities) == 1 else "mixed",
        "method": f"{' | '.join(methods)}; sum over {len(known)} tasks{remark}",
    }
    for name in ("gross_kwh", "net_kwh"):
        _put(made, name, known, sum)
    return made


def _put(total: dict[str, Any], name: str, reports: Iterable[Mapping[str, Any]], combine: Any) -> None:
    values = [value for report in reports if _is_number(value := report.get(name))]
    if values:
        total[name] = combine(values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _section(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = report.get(name)
    return value if isinstance(value, Mapping) else {}
