"""Energy of processor and memory: counted where a counter can be read, else modelled, and always labelled.

One tracker per component: if one fails, the others still measure. Net energy takes, of a machine's counter, the tree's
share of processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from math import hypot
from pathlib import Path
from typing import Literal

from a2perf.metrics.trackers import procfs
from a2perf.metrics.trackers.energy_component import Component
from a2perf.metrics.trackers.host import describe_host
from a2perf.metrics.trackers.power_domains import POWERCAP, PowerDomains, Reading
from a2perf.metrics.trackers.power_model import RAM_WATTS_PER_GB, CpuPower, choose_cpu_power, ram_watts
from a2perf.metrics.trackers.tick import BASELINES, Tick
from a2perf.metrics.trackers.uncertainty import MODEL_ERRORS, Contributions, of_two_readings, rectangular

MOST_ASSUMED = 0.05
"""If a larger share of an energy was not counted, it is an estimate."""


class _Counted(Component):
    """A component with counters of the powercap tree, or a model where none counts.

    Args:
        force_watts: constant power, as configured; used where nothing counts.
        machine: charge the model with the whole machine and not with the tree alone.
        settle: waits so many seconds between the first readings.
        amd: whether the processor is AMD's, with counters computed from events; by default that of this host.
    """

    _reads: Literal["processor", "memory"]

    def __init__(
        self,
        *,
        force_watts: float | None = None,
        machine: bool = False,
        pue: float = 1.0,
        powercap: Path = POWERCAP,
        baselines: Collection[str] = BASELINES,
        clock: Callable[[], float] = time.perf_counter,
        settle: Callable[[float], None] = time.sleep,
        amd: bool | None = None,
    ) -> None:
        super().__init__(pue, baselines=baselines, clock=clock)
        self._force_watts = force_watts
        self._machine = machine
        self._powercap = powercap
        self._settle = settle
        self._amd = amd
        self._domains: PowerDomains | None = None

    @property
    def polled(self) -> bool:
        """Whether there are counters to read between two samples."""
        return self._domains is not None

    def poll(self) -> None:
        """Reads the counters once."""
        if self._domains is not None:
            self._domains.read()

    def start(self) -> None:
        """Chooses the source and begins the baseline."""
        self._domains = PowerDomains(self._powercap, clock=self._clock, reads=self._reads)
        if self._reading() is None:
            self._domains = None
            self._take_model()
            return
        self._domains.settle(self._settle)
        self._begin_counter(self._read_domains)
        self._label()

    def _take_model(self) -> None:
        raise NotImplementedError

    def _reading(self) -> Reading | None:
        if self._domains is None:
            return None
        return self._domains.processor() if self._reads == "processor" else self._domains.memory()

    def _read_domains(self) -> float:
        assert self._domains is not None
        self._domains.rescan()
        self._domains.read()
        reading = self._reading()
        return self._last_joules if reading is None else reading.joules

    def _forget_counters(self) -> None:
        """Takes the model in place of dead counters; the caller charges it with the time so far."""
        self._domains = self._read = None
        self.idle_w = self.baseline_s = 0.0
        self._peak_w, self._lowest_w = 0.0, float("inf")
        self._take_model()

    def _label(self) -> bool:
        reading = self._reading()
        if reading is None or self._domains is None:
            return False
        mirrors = self._domains.mirrors
        self.method = f"{reading.source}:{'; '.join(mirrors)}" if mirrors else reading.source
        self.quality = "measured" if reading.assumed_j <= MOST_ASSUMED * reading.joules else "estimated"
        self.scope = "machine"
        return True

    def _counter_contributions(self, reading: Reading, relative: float) -> Contributions:
        return Contributions(
            resolution=of_two_readings(reading.tick_j),
            sampling=hypot(self._lateness(), rectangular(reading.assumed_j)),
            model=hypot(rectangular(relative * self.joules), rectangular(reading.undecided_j)),
        )


class CpuEnergy(_Counted):
    """Processor energy: counters of the power domains, else thermal design power times processor time.

    Counters that do not advance, as some virtual machines show them, are not believed: the model takes over. A power in
    ``force_watts`` is that of all visible processors at full load.
    """

    name = "cpu_energy"
    model: CpuPower | None = None
    _reads = "processor"
    _tick_s = 0.0

    def sample(self, tick: Tick) -> None:
        """Charges the interval."""
        if tick.tree is not None and tick.tree.cpu_method in ("proc_stat", "psutil"):
            self._tick_s = 1 / procfs.CLOCK_TICKS_PER_S
        if self._read is not None:
            self._sample_counter(tick)
            if self._domains is not None and not self._label():
                self._abandon_counters()
        elif self.model is not None:
            self._charge(self.model.watts_per_thread * tick.cpu_interval_s, tick)
        tick.values["cpu_power_w"] = round(self.watts, 4)

    def _take_model(self) -> None:
        host = describe_host()
        self.model = choose_cpu_power(
            host.cpu_model, host.cpu_count, family=host.cpu_family, force_watts=self._force_watts
        )
        self.method, self.quality = self.model.method, "estimated"
        self.scope = "machine" if self._machine else "tree"
        if self._machine:
            watts = self.model.watts_per_thread
            self._begin_counter(lambda: watts * _machine_busy_s())

    def _abandon_counters(self) -> None:
        """Replaces what dead counters gave by the model of the same time."""
        self._forget_counters()
        assert self.model is not None
        self.joules = self.model.watts_per_thread * (self._busy_s if self._machine else self._tree_s)
        self.power_w = self.joules / self._elapsed_s if self._elapsed_s > 0 else 0.0

    def _gross_contributions(self, unaccounted_s: float) -> Contributions:
        reading = self._reading()
        if reading is not None:
            amd = "AMD" in describe_host().cpu_model if self._amd is None else self._amd
            source = "rapl amd" if amd and reading.source == "rapl" else reading.source
            return self._counter_contributions(reading, MODEL_ERRORS[source])
        if self.model is None:
            return Contributions()
        watts = self.model.watts_per_thread
        return Contributions(
            resolution=of_two_readings(watts * self._tick_s),
            attribution=rectangular(watts * unaccounted_s) if self.scope == "tree" else 0.0,
            model=rectangular(MODEL_ERRORS["tdp_model"] * self.joules),
        )


class RamEnergy(_Counted):
    """Memory energy: counters of the memory domains, else watts per gigabyte held.

    Where only the counter of the platform exists, it includes the memory, which then has no energy beside it.
    """

    name = "ram_energy"
    _reads = "memory"
    _pss_share = 1.0
    _bytes = 0
    _model_w = 0.0
    _changed_j = 0.0
    _platform: PowerDomains | None = None

    def start(self) -> None:
        """Chooses the source and begins the baseline."""
        domains = PowerDomains(self._powercap, clock=self._clock, reads="processor")
        processor = domains.processor()
        if processor is not None and processor.source == "rapl_psys":
            self.method, self._platform = "rapl_psys:part of the platform", domains
        else:
            super().start()

    def _take_model(self) -> None:
        self.quality = "estimated"
        if self._force_watts is not None:
            self.method, self.scope = "ram_model:force_ram_power", "machine"
            self.idle_w = self._force_watts
        else:
            held = "machine" if self._machine else "tree"
            self.method, self.scope = f"ram_model:{RAM_WATTS_PER_GB:g}_w_per_gb_of_{held}", held
            # A model that is constant draws the same from an idle machine.
            self.idle_w = ram_watts(describe_host().memory_bytes) if self._machine else 0.0

    def sample(self, tick: Tick) -> None:
        """Charges the interval."""
        if self._domains is not None:
            self._sample_counter(tick)
            if not self._label():
                self._abandon_counters(tick)
        elif self._platform is not None:
            self._platform.read()
            if self._platform.processor() is None:
                self._elapsed_s = tick.elapsed_s
                self._abandon_counters(tick)
        else:
            watts = self._model_watts(tick)
            if self._elapsed_s > 0:
                self._changed_j += abs(watts - self._model_w) * tick.interval_s / 2
            self._model_w = watts
            self._charge(watts * tick.interval_s, tick)
        tick.values["ram_power_w"] = round(self.watts, 4)

    def _abandon_counters(self, tick: Tick) -> None:
        self._platform = None
        self._forget_counters()
        self._model_w = self._model_watts(tick)
        self.joules, self.power_w = self._model_w * self._elapsed_s, self._model_w

    def _gross_contributions(self, unaccounted_s: float) -> Contributions:
        reading = self._reading()
        if reading is not None:
            return self._counter_contributions(reading, MODEL_ERRORS["rapl dram"])
        error = MODEL_ERRORS["force_ram_power" if self._force_watts is not None else "ram_model"]
        # Between two samples the memory is one of their two sizes.
        return Contributions(sampling=rectangular(self._changed_j), model=rectangular(error * self.joules))

    def _model_watts(self, tick: Tick) -> float:
        if self._force_watts is not None:
            return self._force_watts
        if self._machine:
            return ram_watts(describe_host().memory_bytes)
        if tick.tree is None:
            return 0.0
        if tick.tree.pss_bytes is not None and tick.tree.rss_bytes > 0:
            # Shared pages are there once; between the rare readings of the PSS its share of the RSS is kept.
            self._pss_share = min(1.0, tick.tree.pss_bytes / tick.tree.rss_bytes)
        # At the end of a run the tree is gone, but it held its memory for most of the interval.
        self._bytes = tick.tree.rss_bytes or self._bytes
        return ram_watts(self._bytes * self._pss_share)


def _machine_busy_s() -> float:
    cpu = procfs.read_machine_cpu()
    return cpu.busy_s if cpu is not None else 0.0
