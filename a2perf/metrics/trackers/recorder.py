"""Puts the samples together: rows for the files while the run lasts, one report at its end."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import uuid
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from a2perf.metrics.trackers.emissions import EmissionsSettings
from a2perf.metrics.trackers.emissions_tracker import EmissionsTracker
from a2perf.metrics.trackers.energy import CpuEnergy, RamEnergy
from a2perf.metrics.trackers.gpu_energy import GpuEnergy
from a2perf.metrics.trackers.host import HostTracker, describe_host
from a2perf.metrics.trackers.power_domains import POWERCAP
from a2perf.metrics.trackers.process_tree import TreeSample
from a2perf.metrics.trackers.row_files import EMISSIONS_COLUMNS, TRACE_COLUMNS, RowFile
from a2perf.metrics.trackers.tick import BEFORE, DURING, MIN_BASELINE_S, Tick, Tracker
from a2perf.metrics.trackers.unaccounted import ACCOUNTS, Unaccounted
from a2perf.metrics.trackers.uncertainty import short_run_notes
from a2perf.runs.bundles.layout import TRACE_FILE, emissions_file
from a2perf.runs.tracking_record import (
    COMPONENTS,
    JOULES_PER_KWH,
    Account,
    IdleBaseline,
    PhaseCost,
    TrackedEnergy,
    TrackerFailure,
    TrackingReport,
    combined_uncertainty,
)

Shares = list[tuple[str, float]]
_OF_TREE = ("processes", "threads", "rss_bytes", "pss_bytes", "io_read_bytes", "io_write_bytes")
"""Columns of the system trace that are fields of a ``TreeSample``."""


class Recorder:
    """Holds a2perf's own trackers and what they have found so far; arguments as for ``Sampler``.

    ``columns`` are those of the system trace beside a2perf's own.
    """

    def __init__(
        self,
        directory: Path | None,
        *,
        mode: str,
        settings: EmissionsSettings,
        with_codecarbon: bool = False,
        columns: tuple[str, ...] = (),
        own_process: bool = False,
        idle: bool = True,
        powercap: Path = POWERCAP,
    ) -> None:
        machine = settings.tracking_mode == "machine"
        self._settings = settings
        self._directory = directory
        self._columns = (*TRACE_COLUMNS, *columns)
        # this process has been working all along, so its first moments are not idle
        baselines = tuple(when for when, taken in ((BEFORE, idle), (DURING, not own_process)) if taken)
        self._host = HostTracker(own_process=own_process, baselines=baselines)
        shared: dict[str, Any] = {"pue": settings.pue, "baselines": baselines}
        self._cpu = CpuEnergy(force_watts=settings.force_cpu_power, machine=machine, powercap=powercap, **shared)
        self._gpu = GpuEnergy(gpu_ids=settings.gpu_ids, **shared)
        self._ram = RamEnergy(force_watts=settings.force_ram_power, machine=machine, powercap=powercap, **shared)
        self._emissions = EmissionsTracker(settings, directory if with_codecarbon else None, self._cpu)
        # The host comes first: the energy trackers divide by machine_busy_s, which it fills in.
        self.trackers: list[Tracker] = [self._host, self._cpu, self._ram, self._gpu, self._emissions]
        self.failures: list[TrackerFailure] = []
        self.elapsed_s = 0.0
        self._files: dict[str, RowFile] = {}
        self._last: Tick | None = None
        self._report = TrackingReport(mode=mode, run_id=str(uuid.uuid4()))
        self._rss_seconds = self._pss_sum = 0.0
        self._pss_count = 0
        self._kwh = 0.0
        self._power_peak_w = 0.0
        self._past = (0.0, 0, 0)
        self._rss_bytes = 0
        self._unaccounted: Unaccounted | None = None
        self._memory_method = "resident sets"
        self._last_row = (0.0, {"cpu": 0.0, "gpu": 0.0, "ram": 0.0})

    @property
    def polled(self) -> list[Callable[[], None]]:
        """What reads the counters between two samples, one function per component that has some."""
        return [part.poll for part in (self._cpu, self._ram, self._gpu) if part.polled]

    @property
    def net_kwh(self) -> float:
        """Energy above idle as of the last sample, kWh."""
        return sum(part.energy().net_kwh for part in (self._cpu, self._gpu, self._ram))

    def ignore(self, tree: TreeSample) -> None:
        """Leaves out what a tree has used before the run."""
        self._past = (tree.cpu_seconds, tree.io_read_bytes, tree.io_write_bytes)

    def bound_unaccounted(self, root: int) -> None:
        """Begins to bound the unaccounted processor time of a tree without a control group."""
        self._unaccounted = Unaccounted(root)

    def tick(self, tree: TreeSample | None, elapsed_s: float, phase: str) -> Tick:
        """Begins a sample, ``elapsed_s`` after ``attach``."""
        last = self._last
        before_s = last.cpu_seconds if last is not None else 0.0
        cpu_seconds = max(before_s, tree.cpu_seconds - self._past[0] if tree is not None else 0.0)
        return Tick(
            elapsed_s=elapsed_s,
            interval_s=elapsed_s - (last.elapsed_s if last is not None else 0.0),
            phase=phase,
            tree=tree,
            cpu_seconds=cpu_seconds,
            cpu_interval_s=cpu_seconds - before_s,
        )

    def record(self, tick: Tick, shares: Shares, *, timestamp: str, reporting: bool) -> None:
        """Adds a sample that all trackers have seen, with the phases of its interval and their seconds.

        ``reporting`` adds a row to the emissions file.
        """
        report, tree = self._report, tick.tree
        if self._last is None:
            report.started_at = timestamp
            self._open_files()
        report.samples += 1
        report.cpu_seconds = tick.cpu_seconds
        self.elapsed_s = report.wall_s = tick.elapsed_s
        if tree is not None:
            self._record_tree(tick, tree)
        kwh = self._cpu.kwh + self._gpu.kwh + self._ram.kwh
        if tick.interval_s >= MIN_BASELINE_S:
            self._power_peak_w = max(self._power_peak_w, self._cpu.watts + self._gpu.watts + self._ram.watts)
        self._record_phases(tick, shares, kwh - self._kwh)
        self._kwh, self._last = kwh, tick
        self._write_trace(tick, timestamp)
        if reporting:
            self._write_emissions(timestamp)

    def _record_tree(self, tick: Tick, tree: TreeSample) -> None:
        report = self._report
        report.cpu_method = tree.cpu_method
        if self._memory_method != "cgroup":  # the group of a tree that has ended is gone
            self._memory_method = tree.memory_method
        if self._unaccounted is not None:
            self._unaccounted.saw(tree.pids)
        # A sample stands for the interval before it; the last one of a run often finds an empty tree.
        self._rss_bytes = tree.rss_bytes or self._rss_bytes
        self._rss_seconds += self._rss_bytes * tick.interval_s
        report.rss_peak_bytes = max(report.rss_peak_bytes, tree.rss_bytes, tree.memory_peak_bytes or 0)
        report.processes_peak = max(report.processes_peak, tree.processes)
        report.threads_peak = max(report.threads_peak, tree.threads)
        report.io_read_bytes = max(report.io_read_bytes, tree.io_read_bytes - self._past[1])
        report.io_write_bytes = max(report.io_write_bytes, tree.io_write_bytes - self._past[2])
        if tree.pss_bytes is not None:
            self._pss_sum += tree.pss_bytes
            self._pss_count += 1
            report.pss_peak_bytes = max(report.pss_peak_bytes or 0, tree.pss_bytes)

    def _record_phases(self, tick: Tick, shares: Shares, kwh: float) -> None:
        whole = sum(seconds for _, seconds in shares)
        for phase, seconds in shares:
            if not phase:
                continue
            # Within one interval nothing is known of when the time was spent: it is spread evenly.
            share = seconds / whole if whole > 0 else 0.0
            cost = self._report.phases.setdefault(phase, PhaseCost())
            cost.wall_s += seconds
            cost.cpu_seconds += share * tick.cpu_interval_s
            cost.energy_gross_kwh += share * kwh
            if tick.tree is not None:
                cost.rss_peak_bytes = max(cost.rss_peak_bytes, tick.tree.rss_bytes)

    def finish(self) -> None:
        """Writes the last row, which every run has, and closes the files. Comes after the trackers' ``stop``."""
        self._report.account = self._account()
        if self._last is not None:
            self._write_emissions(datetime.now().isoformat(timespec="milliseconds"))
        for file in self._files.values():
            file.close()

    def _account(self) -> Account:
        report = self._report
        if self._unaccounted is not None:
            account = self._unaccounted.account(report.cpu_seconds, report.cpu_method)
        else:
            name = ACCOUNTS.get(report.cpu_method, report.cpu_method)
            account = Account(cpu=name, complete=name == "control group")
        account.memory = "control group" if self._memory_method == "cgroup" else f"{self._memory_method}, sampled"
        return account

    def report(self, *, wall_s: float, interval_s: float) -> TrackingReport:
        """The report as of the last sample."""
        report = self._report
        report.wall_s, report.interval_s = wall_s, interval_s
        if wall_s > 0:
            report.rss_mean_bytes = self._rss_seconds / wall_s
            report.cpu_utilization_mean_percent = 100 * report.cpu_seconds / wall_s
        if self._pss_count:
            report.pss_mean_bytes = self._pss_sum / self._pss_count
        report.energy = self._energy(wall_s)
        report.idle = self._idle()
        report.emissions = self._emissions.emissions(report.energy)
        report.gpu = self._gpu.gpu()
        report.host = self._host.conditions()
        report.files = {name: file.path.name for name, file in self._files.items()} | self._emissions.log_files
        report.notes = [note for note in (report.emissions.note, *short_run_notes(report)) if note]
        return report

    def copy(self, *, wall_s: float, interval_s: float) -> TrackingReport:
        """Returns a copy of the report that later samples do not change."""
        report = self.report(wall_s=wall_s, interval_s=interval_s)
        return msgspec.msgpack.decode(msgspec.msgpack.encode(report), type=TrackingReport)

    def _energy(self, wall_s: float) -> TrackedEnergy:
        missing_s = self._report.account.cpu_not_accounted_max_s or 0.0
        cpu = self._cpu.energy(unaccounted_s=missing_s)
        parts = {"cpu": cpu, "gpu": self._gpu.energy(), "ram": self._ram.energy()}
        parts["cpu"].account = ACCOUNTS.get(self._report.cpu_method, "")
        parts["ram"].account = "machine" if parts["ram"].scope == "machine" else "resident sets, sampled"
        parts["gpu"].account = "device"
        gross = sum(part.gross_kwh for part in parts.values())
        mean_w = gross * JOULES_PER_KWH / wall_s if wall_s > 0 else 0.0
        drawing = [part for part in parts.values() if part.gross_kwh > 0]
        return TrackedEnergy(
            **parts,
            gross_kwh=gross,
            net_kwh=sum(part.net_kwh for part in parts.values()),
            power_mean_w=mean_w,
            power_peak_w=max(self._power_peak_w, mean_w),
            pue=self._settings.pue,
            method=";".join(f"{name}={part.method}" for name, part in parts.items()),
            quality="measured" if drawing and all(part.quality == "measured" for part in drawing) else "estimated",
            gross_uncertainty=combined_uncertainty([part.gross_uncertainty for part in parts.values()]),
            net_uncertainty=combined_uncertainty([part.net_uncertainty for part in parts.values()]),
        )

    def _idle(self) -> IdleBaseline:
        parts = (self._cpu, self._gpu, self._ram)
        longest = max(parts, key=lambda part: part.baseline_s)
        host = self._host.baseline
        return IdleBaseline(
            window_s=longest.baseline_s or host[0],
            taken=longest.baseline_taken if longest.baseline_s else host[2],
            cpu_utilization_percent=host[1],
            cpu_w=self._cpu.idle_w,
            gpu_w=self._gpu.idle_w,
            ram_w=self._ram.idle_w,
        )

    def _open_files(self) -> None:
        if self._directory is None:
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            name = emissions_file(self._report.mode)
            self._files["emissions"] = RowFile(self._directory / name, EMISSIONS_COLUMNS)
            self._files["system_trace"] = RowFile(self._directory / TRACE_FILE, self._columns)
        except OSError as error:
            self._drop_files(error)

    def _drop_files(self, error: OSError) -> None:
        self.failures.append(TrackerFailure(tracker="files", error=f"{type(error).__name__}: {error}"))
        for file in self._files.values():
            file.close()
        self._files = {}

    def _write(self, name: str, row: dict[str, object]) -> None:
        if name not in self._files:
            return
        try:
            self._files[name].append(row)
        except OSError as error:
            self._drop_files(error)

    def _write_trace(self, tick: Tick, timestamp: str) -> None:
        tree, power = tick.tree, tick.interval_s > 0
        row: dict[str, object] = {
            "timestamp": timestamp,
            "run_id": self._report.run_id,
            "elapsed_s": round(tick.elapsed_s, 4),
            "phase": tick.phase,
            "cpu_seconds": round(tick.cpu_seconds, 3),
            "cpu_percent": round(100 * tick.cpu_interval_s / tick.interval_s, 1) if power else 0.0,
        }
        if tree is not None:
            row |= {name: getattr(tree, name) for name in _OF_TREE}
        self._write("system_trace", row | tick.values)

    def _row_watts(self, energy: TrackedEnergy) -> dict[str, float]:
        """Mean power since the row before; the run's mean when that was a moment ago."""
        parts = {name: getattr(energy, name) for name in COMPONENTS}
        now = {name: part.gross_kwh for name, part in parts.items()}
        since_s, before = self._last_row
        seconds = self.elapsed_s - since_s
        self._last_row = (self.elapsed_s, now)
        if seconds < MIN_BASELINE_S:
            return {name: part.power_mean_w for name, part in parts.items()}
        return {name: (now[name] - before[name]) * JOULES_PER_KWH / seconds for name in now}

    def _write_emissions(self, timestamp: str) -> None:
        host, factor, report = describe_host(), self._emissions.factor, self._report
        energy = self._energy(self.elapsed_s)
        emissions, gpu = self._emissions.emissions(energy), self._gpu.gpu()
        watts = self._row_watts(energy)
        self._write(
            "emissions",
            {
                "timestamp": timestamp,
                "project_name": self._settings.project_name or "a2perf",
                "run_id": report.run_id,
                "duration": self.elapsed_s,
                "emissions": emissions.kg_co2eq,
                "emissions_rate": emissions.kg_co2eq / self.elapsed_s if self.elapsed_s > 0 else 0.0,
                **{f"{name}_power": watts[name] for name in COMPONENTS},
                **{f"{name}_energy": getattr(energy, name).gross_kwh for name in COMPONENTS},
                "energy_consumed": energy.gross_kwh,
                **asdict(factor),  # its place; the file has no column for the rest
                "os": host.os,
                "python_version": platform.python_version(),
                "codecarbon_version": _codecarbon_version(),
                "cpu_count": host.cpu_count,
                "cpu_model": host.cpu_model,
                "gpu_count": gpu.count,
                "gpu_model": gpu.model,
                "ram_total_size": host.memory_bytes / 2**30,
                "ram_process": self._rss_bytes / 2**30,
                "tracking_mode": self._settings.tracking_mode or "process",
                "on_cloud": "Y" if factor.cloud_provider else "N",
                "pue": self._settings.pue,
                "method": f"{energy.method};emissions={emissions.method}",
                "quality": energy.quality,
            },
        )


@functools.cache
def _codecarbon_version() -> str:
    """Returns the version; to look it up costs as much as a row with all its numbers."""
    return importlib.metadata.version("codecarbon")
