"""``tracking.json``: the costs of one run. Units are part of every name; percentages are 0..100.

``method`` names the source of a number (``"rapl"``, ``"nvml"``, ``"tdp_model:<source>"``, ...); ``quality`` is
``"measured"`` (by a counter or sensor) or ``"estimated"`` (by a model). Trackers write these records and
``read_tracking`` reads them. Files of older versions have fewer fields: in a record that was read, missing and damaged
values are NaN (a float), 0 (a count), ``""`` or empty.
"""

from __future__ import annotations

import functools
import math
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

JOULES_PER_KWH = 3.6e6


class EnergyUncertainty(msgspec.Struct, kw_only=True):
    """Uncertainty of an energy after the GUM (JCGM 100:2008); all values include the PUE.

    The contributions are standard uncertainties. In a record of an older version all values are NaN: unknown, not 0.

    Attributes:
        expanded_kwh: the coverage factor times the root of the sum of squares of the contributions.
        coverage_factor: 2, about 95 % of a normal distribution.
        resolution_kwh: of one step of the counter or clock.
        sampling_kwh: of delays between a counter's update and its reading, and of time without a reading.
        attribution_kwh: of the process tree's share in the energy of a machine or device, and of its idle draw.
        model_kwh: of the instrument or power model itself. This contribution and ``attribution_kwh`` are taken as
            common to all runs on the same instrument: a mean over runs does not reduce them.
    """

    expanded_kwh: float = 0.0
    coverage_factor: float = 2.0
    resolution_kwh: float = 0.0
    sampling_kwh: float = 0.0
    attribution_kwh: float = 0.0
    model_kwh: float = 0.0


class ComponentEnergy(msgspec.Struct, kw_only=True):
    """Energy and power of one component (processor, GPUs, memory); all values include the PUE.

    Attributes:
        net_kwh: energy above idle; if the gross covers the whole machine, only the tree's share by processor time.
        power_peak_w: highest mean over one sampling interval.
        idle_w: power of the idle baseline; 0 if the model attributes nothing to an idle tree.
        scope: ``"tree"``, ``"machine"`` or ``"device"``: the extent of the gross energy.
        account: source of the tree's share: ``"control group"``, ``"kernel task clock"``,
            ``"process tree sampling"`` or ``"device"``.
    """

    gross_kwh: float = 0.0
    net_kwh: float = 0.0
    power_mean_w: float = 0.0
    power_peak_w: float = 0.0
    idle_w: float = 0.0
    method: str = "none"
    quality: str = "none"
    scope: str = "none"
    account: str = ""
    gross_uncertainty: EnergyUncertainty = msgspec.field(default_factory=EnergyUncertainty)
    net_uncertainty: EnergyUncertainty = msgspec.field(default_factory=EnergyUncertainty)


class TrackedEnergy(msgspec.Struct, kw_only=True):
    """Energy of the run by component and in total.

    Attributes:
        method: the components' methods, ``"cpu=rapl;gpu=nvml;ram=ram_model:rss"``.
        quality: ``"measured"`` if every component that drew power was measured, otherwise ``"estimated"``.
        gross_uncertainty: of ``gross_kwh``; those of the components, taken as independent.
    """

    cpu: ComponentEnergy = msgspec.field(default_factory=ComponentEnergy)
    gpu: ComponentEnergy = msgspec.field(default_factory=ComponentEnergy)
    ram: ComponentEnergy = msgspec.field(default_factory=ComponentEnergy)
    gross_kwh: float = 0.0
    net_kwh: float = 0.0
    power_mean_w: float = 0.0
    power_peak_w: float = 0.0
    pue: float = 1.0
    method: str = "none"
    quality: str = "none"
    gross_uncertainty: EnergyUncertainty = msgspec.field(default_factory=EnergyUncertainty)
    net_uncertainty: EnergyUncertainty = msgspec.field(default_factory=EnergyUncertainty)


class IdleBaseline(msgspec.Struct, kw_only=True):
    """Power of the machine without the participant, measured while the run is set up.

    Attributes:
        taken: ``"before the participant process started"`` or ``"while the participant process started up"``.
    """

    window_s: float = 0.0
    taken: str = "not taken"
    cpu_utilization_percent: float = 0.0
    cpu_w: float = 0.0
    gpu_w: float = 0.0
    ram_w: float = 0.0


class Emissions(msgspec.Struct, kw_only=True):
    """Emissions of the run: the gross energy times the carbon intensity of its place.

    Attributes:
        method: ``"a2perf:<energy method>+factor:<place>"``, with the factor from codecarbon's data files. Records
            of older versions also have ``"a2perf:<energy method>+codecarbon"``.
        factor_source: the place of the factor, ``"USA/Massachusetts"``.
        note: why a coarser factor than the requested one was used.
    """

    kg_co2eq: float = 0.0
    kg_per_kwh: float = 0.0
    method: str = "none"
    quality: str = "none"
    country_name: str = ""
    country_iso_code: str = ""
    region: str = ""
    factor_source: str = ""
    note: str = ""


class Gpu(msgspec.Struct, kw_only=True):
    """The selected GPUs together.

    Attributes:
        tree_share: part of the devices' energy above idle that the tree's processes caused, 0..1; None if unknown.
        integral_over_counter: the integral of the power sensors over the energy counters, 1 if both agree; None
            if the devices do not have both.
    """

    count: int = 0
    model: str = ""
    memory_peak_bytes: float = 0
    memory_mean_bytes: float = 0.0
    utilization_mean_percent: float = 0.0
    utilization_peak_percent: float = 0.0
    tree_utilization_mean_percent: float | None = None
    tree_share: float | None = None
    integral_over_counter: float | None = None


class HostConditions(msgspec.Struct, kw_only=True):
    """Disturbance by other load of the machine.

    Attributes:
        other_cpu_percent: processor time of all other processes than the tree and the evaluator, over all processors.
        steal_percent: processor time that the hypervisor gave to other machines.
        noisy: whether times and energies of this run are unreliable; ``reasons`` lists the causes.
    """

    load_1m_start: float = 0.0
    load_1m_peak: float = 0.0
    cpu_count: int = 0
    busy_percent: float = 0.0
    other_cpu_percent: float = 0.0
    steal_percent: float = 0.0
    cpu_mhz_min: float = 0.0
    cpu_mhz_max: float = 0.0
    noisy: bool = False
    reasons: list[str] = msgspec.field(default_factory=list)


class Account(msgspec.Struct, kw_only=True):
    """How the costs of the process tree were counted, and how much may be missing.

    Attributes:
        cpu: ``"control group"``, ``"kernel task clock"`` or ``"process tree sampling"``.
        memory: ``"control group"`` (peak with file cache, shared memory and buffers) or ``"resident sets, sampled"``.
        complete: whether the kernel's account covers every process of the tree.
        cpu_not_accounted_max_s: upper bound of the tree's processor time that ``cpu_seconds`` may miss, in seconds;
            ``None`` if the account is complete or the machine's total is unknown.
        processes_started: processes and threads that the whole host started during the run.
        processes_adopted: processes at the end that were started during the run and belong to the host's first
            process: some may have left the tree. ``cpu_not_accounted_max_s`` contains their time.
    """

    cpu: str = ""
    memory: str = ""
    complete: bool = False
    cpu_not_accounted_max_s: float | None = None
    processes_started: int | None = None
    processes_adopted: int | None = None
    warning: str = ""


class PhaseCost(msgspec.Struct, kw_only=True):
    """Duration and cost of one phase of the run."""

    wall_s: float = 0.0
    cpu_seconds: float = 0.0
    energy_gross_kwh: float = 0.0
    rss_peak_bytes: float = 0


class TrackerFailure(msgspec.Struct, kw_only=True):
    """A tracker that was disabled because it raised an exception."""

    tracker: str
    error: str


class TrackingReport(msgspec.Struct, kw_only=True):
    """All results of the trackers for one run.

    Attributes:
        wall_s: from ``attach`` to ``stop``.
        cpu_seconds: processor time of the tree, including ended processes; ``cpu_method`` names the method.
        rss_peak_bytes: highest observed sum over the tree, or the kernel's peak if higher; see ``account.memory``.
        pss_peak_bytes: ``None`` if no proportional set size could be read.
        phases: cost of each phase, in the order of their first mark.
        own_cpu_seconds: processor time of the sampling in the evaluator.
        own_cpu_percent: the same in percent of one core over the wall time.
    """

    schema: int = 1
    mode: str = ""
    run_id: str = ""
    started_at: str = ""
    wall_s: float = 0.0
    interval_s: float = 0.0
    samples: int = 0
    cpu_seconds: float = 0.0
    cpu_method: str = "none"
    account: Account = msgspec.field(default_factory=Account)
    cpu_utilization_mean_percent: float = 0.0
    rss_peak_bytes: float = 0
    rss_mean_bytes: float = 0.0
    pss_peak_bytes: float | None = None
    pss_mean_bytes: float | None = None
    processes_peak: float = 0
    threads_peak: float = 0
    io_read_bytes: float = 0
    io_write_bytes: float = 0
    energy: TrackedEnergy = msgspec.field(default_factory=TrackedEnergy)
    idle: IdleBaseline = msgspec.field(default_factory=IdleBaseline)
    emissions: Emissions = msgspec.field(default_factory=Emissions)
    gpu: Gpu = msgspec.field(default_factory=Gpu)
    host: HostConditions = msgspec.field(default_factory=HostConditions)
    phases: dict[str, PhaseCost] = msgspec.field(default_factory=dict)
    failures: list[TrackerFailure] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    own_cpu_seconds: float = 0.0
    own_cpu_percent: float = 0.0
    files: dict[str, str] = msgspec.field(default_factory=dict)


COMPONENTS = ("cpu", "gpu", "ram")
"""Fields of ``TrackedEnergy`` that hold a ``ComponentEnergy``."""

T = TypeVar("T", bound=msgspec.Struct)


def read_tracking(content: Any, problems: list[str] | None = None) -> TrackingReport:
    """Returns the content of ``tracking.json`` of any version as a record.

    Args:
        problems: receives one sentence per value that was left out because of its type.
    """
    return _lenient(content, TrackingReport, "", [] if problems is None else problems)


CONTRIBUTIONS = ("resolution_kwh", "sampling_kwh", "attribution_kwh", "model_kwh")
"""Fields of ``EnergyUncertainty`` that are standard uncertainties by cause."""
_COMMON = ("attribution_kwh", "model_kwh")


def combined_uncertainty(parts: Sequence[EnergyUncertainty], *, same_instrument: bool = False) -> EnergyUncertainty:
    """Returns the uncertainty of a sum of energies.

    Args:
        same_instrument: the energies are of one instrument at different times. What it gets wrong is then wrong in all
            of them and adds up; different instruments are taken as independent.
    """
    total = EnergyUncertainty()
    for name in CONTRIBUTIONS:
        values = [getattr(part, name) for part in parts]
        setattr(total, name, sum(values) if same_instrument and name in _COMMON else math.hypot(*values))
    if len(parts) == 1:
        total.coverage_factor = parts[0].coverage_factor
    total.expanded_kwh = total.coverage_factor * math.hypot(*(getattr(total, name) for name in CONTRIBUTIONS))
    return total


def nothing_tracked() -> TrackingReport:
    """Returns the record of a run without a tracking report."""
    return msgspec.msgpack.decode(_nothing_tracked(), type=TrackingReport)


@functools.cache
def _nothing_tracked() -> bytes:
    # decoding is ten times as fast as building the record field by field, and reading a run needs one every time
    return msgspec.msgpack.encode(_lenient({}, TrackingReport, "", []))


def recorded(value: float | None) -> float | None:
    """Returns a number of a record that was read; None if it is unknown."""
    return float(value) if value is not None and math.isfinite(value) else None


def _lenient(content: Any, kind: type[T], place: str, problems: list[str]) -> T:
    given = content if isinstance(content, dict) else {}
    if given is not content and content is not None:
        problems.append(f"{place.rstrip('.') or 'the document'} is not a JSON object")
    values: dict[str, Any] = {}
    for name, wanted, inner, absent in _fields(kind):
        value = given.get(name)
        if inner is not None:
            values[name] = _lenient(value, inner, f"{place}{name}.", problems)
        elif value is None:
            values[name] = absent() if callable(absent) else absent
        elif wanted is float and type(value) in (float, int):
            values[name] = value
            if not -_LARGEST < value < _LARGEST:
                problems.append(f"{place}{name}: not a finite number")
                values[name] = math.nan
        elif name == "phases" and isinstance(value, dict):
            values[name] = {
                str(phase): _lenient(cost, PhaseCost, f"{place}{name}.{phase}.", problems)
                for phase, cost in value.items()
                if isinstance(cost, dict)
            }
        else:
            try:
                values[name] = msgspec.convert(value, wanted)
            except (msgspec.ValidationError, OverflowError) as error:
                problems.append(f"{place}{name}: {error}")
                values[name] = absent() if callable(absent) else absent
    return kind(**values)


_LARGEST = 1.7e308


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any, type[msgspec.Struct] | None, Any], ...]:
    """Returns name, type, record type (None for other types) and the value that stands for a missing one."""
    found = []
    for name, wanted in typing.get_type_hints(kind).items():
        inner = wanted if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct) else None
        optional = isinstance(wanted, types.UnionType)
        absent: Any = None if optional else {float: math.nan, int: 0, str: "", bool: False}.get(wanted)
        if absent is None and not optional:
            absent = typing.get_origin(wanted)  # list or dict
        found.append((name, float if wanted == float | None else wanted, inner, absent))
    return tuple(found)


def summed(reports: Sequence[TrackingReport]) -> TrackingReport | None:
    """Returns one report for the tasks of one run; None without reports.

    Energy, emissions, processor time and traffic are sums over the tasks; memory is the maximum. Tasks that ran at the
    same time share counters of the whole machine; ``method`` then contains a remark.

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
    emissions = [report.emissions for report in reports]
    for name in msgspec.structs.asdict(total.emissions):
        first = getattr(emissions[0], name)
        if all(getattr(other, name) == first for other in emissions):
            setattr(total.emissions, name, first)
    _put(total.emissions, "kg_co2eq", emissions, sum)
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


def _put(
    total: msgspec.Struct, name: str, parts: Iterable[msgspec.Struct], combine: Callable[[list[float]], float]
) -> None:
    values = [value for part in parts if (value := getattr(part, name)) is not None and math.isfinite(value)]
    if values:
        setattr(total, name, combine(values))
