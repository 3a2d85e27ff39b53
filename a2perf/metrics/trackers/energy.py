"""Energy of processor, GPUs and memory: counted where a counter can be read, else modelled, and always labelled.

One tracker per component: if one fails, the others still measure. Gross energy is that of the whole machine or
device if a counter is read, and that of the process tree alone if it is modelled. Net energy
leaves out the idle draw and takes, of a machine's counter, the tree's share of processor time.
The idle draw is read between ``start`` (before the participant process exists) and ``attach``; when that is too short,
up to the first sample while the participant starts up. A counter's idle draw is never above the lowest interval seen.
Joules become kilowatt-hours, multiplied by the power usage effectiveness (PUE), here and nowhere else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from a2perf.metrics.trackers import procfs
from a2perf.metrics.trackers.host import describe_host
from a2perf.metrics.trackers.nvml import Nvml
from a2perf.metrics.trackers.power_model import RAM_WATTS_PER_GB, CpuPower, choose_cpu_power, ram_watts
from a2perf.metrics.trackers.rapl import POWERCAP, Rapl
from a2perf.metrics.trackers.tick import BEFORE, DURING, MIN_BASELINE_S, Tick
from a2perf.runs.tracking_record import ComponentEnergy, Gpu

JOULES_PER_KWH = 3.6e6
OPEN_WAIT_S = 0.2
MAX_START_UP_S = 1.0


class _Component:
    """What the three components share: the account in joules, and the idle baseline.

    Args:
        pue: power usage effectiveness, the factor from a device's energy to the data centre's.
        starts_idle: whether the first moments of the tree may serve as its idle baseline.
    """

    name = ""

    def __init__(self, pue: float = 1.0, *, starts_idle: bool = True) -> None:
        self._pue = pue
        self._starts_idle = starts_idle
        self.method = "none"
        self.quality = "none"
        self.scope = "none"
        self.joules = 0.0
        self.power_w = 0.0
        self.idle_w = 0.0
        self.baseline_s = 0.0
        self.baseline_taken = "not taken"
        self._peak_w = 0.0
        self._lowest_w = float("inf")
        self._elapsed_s = 0.0
        self._tree_s = 0.0
        self._busy_s = 0.0
        self._started_s = 0.0
        self._read: Callable[[], float] | None = None
        self._start_joules = 0.0
        self._last_joules = 0.0

    @property
    def kwh(self) -> float:
        """Gross energy so far, PUE included."""
        return self.joules * self._pue / JOULES_PER_KWH

    @property
    def watts(self) -> float:
        """Mean power of the last interval, PUE included."""
        return self.power_w * self._pue

    def attach(self) -> None:
        """Ends the idle baseline if it has been long enough."""
        if self._read is not None:
            self._last_joules = self._read()
            self._end_baseline(self._last_joules, BEFORE)

    def stop(self) -> None:
        """Has nothing to close."""

    def _begin_counter(self, read: Callable[[], float]) -> None:
        self._read = read
        self._started_s = time.perf_counter()
        self._start_joules = self._last_joules = read()

    def _end_baseline(self, joules: float, taken: str, elapsed_s: float = 0.0) -> None:
        window = time.perf_counter() - self._started_s
        if taken == DURING and not self._starts_idle:
            return
        # A device that came up late has only ever been seen at work.
        if self.baseline_s == 0 and window >= MIN_BASELINE_S and elapsed_s <= MAX_START_UP_S:
            self.baseline_s, self.baseline_taken = window, taken
            self.idle_w = (joules - self._start_joules) / window

    def _sample_counter(self, tick: Tick) -> None:
        assert self._read is not None
        now = self._read()
        self._end_baseline(now, DURING, tick.elapsed_s)
        self._charge(now - self._last_joules, tick)
        self._last_joules = now

    def _charge(self, joules: float, tick: Tick) -> None:
        self.joules += joules
        self._elapsed_s = tick.elapsed_s
        self._tree_s += tick.cpu_interval_s
        # The ticks of the machine are coarse: it can seem less busy than its tree, which cannot be.
        self._busy_s += max(tick.machine_busy_s or 0.0, tick.cpu_interval_s)
        if tick.interval_s > 0:
            self.power_w = joules / tick.interval_s
        # Counters advance in steps (RAPL 1 ms, processor time 10 ms): a short interval says little about power.
        if tick.interval_s >= MIN_BASELINE_S:
            self._peak_w = max(self._peak_w, self.power_w)
            self._lowest_w = min(self._lowest_w, self.power_w)

    def energy(self) -> ComponentEnergy:
        """The account so far."""
        idle_w = min(self.idle_w, self._lowest_w)
        net = max(0.0, self.joules - idle_w * self._elapsed_s)
        if self.scope == "machine" and self._busy_s > 0:
            net *= min(1.0, self._tree_s / self._busy_s)
        mean_w = self.joules / self._elapsed_s if self._elapsed_s > 0 else 0.0
        return ComponentEnergy(
            gross_kwh=self.kwh,
            net_kwh=net * self._pue / JOULES_PER_KWH,
            power_mean_w=mean_w * self._pue,
            power_peak_w=max(self._peak_w, mean_w) * self._pue,
            idle_w=idle_w * self._pue,
            method=self.method,
            quality=self.quality,
            scope=self.scope,
        )


class CpuEnergy(_Component):
    """Processor energy: RAPL counters, else thermal design power times processor time.

    Args:
        force_watts: power of all visible processors at full load; used where nothing counts.
        machine: charge the model with the whole machine's processor time and not the tree's alone.
        powercap: where the counters are.
    """

    name = "cpu_energy"

    def __init__(
        self, *, force_watts: float | None = None, machine: bool = False, pue: float = 1.0,
        powercap: Path = POWERCAP, starts_idle: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(pue, starts_idle=starts_idle)
        self._force_watts = force_watts
        self._machine = machine
        self._powercap = powercap
        self.model: CpuPower | None = None

    def start(self) -> None:
        """Chooses the source and begins the baseline."""
        rapl = Rapl.open(self._powercap)
        if rapl.packages:
            self.method, self.quality, self.scope = "rapl", "measured", "machine"
            self._begin_counter(rapl.package_joules)
            return
        host = describe_host()
        self.model = choose_cpu_power(
            host.cpu_model, host.cpu_count, family=host.cpu_family, force_watts=self._force_watts
        )
        self.method, self.quality = self.model.method, "estimated"
        self.scope = "machine" if self._machine else "tree"
        if self._machine:
            watts = self.model.watts_per_thread
            self._begin_counter(lambda: watts * _machine_busy_s())

    def sample(self, tick: Tick) -> None:
        """Charges the interval."""
        if self._read is not None:
            self._sample_counter(tick)
        elif self.model is not None:
            self._charge(self.model.watts_per_thread * tick.cpu_interval_s, tick)
        tick.values["cpu_power_w"] = round(self.watts, 4)


class RamEnergy(_Component):
    """Memory energy: RAPL ``dram`` counters, else watts per gigabyte held.

    Args:
        force_watts: constant power of the memory, as configured; used where nothing counts.
        machine: charge the model with all memory of the machine and not with what the tree holds.
        powercap: where the counters are.
    """

    name = "ram_energy"

    def __init__(
        self, *, force_watts: float | None = None, machine: bool = False, pue: float = 1.0,
        powercap: Path = POWERCAP, starts_idle: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(pue, starts_idle=starts_idle)
        self._force_watts = force_watts
        self._machine = machine
        self._powercap = powercap
        self._pss_share = 1.0
        self._bytes = 0

    def start(self) -> None:
        """Chooses the source and begins the baseline."""
        rapl = Rapl.open(self._powercap)
        if rapl.dram:
            self.method, self.quality, self.scope = "rapl", "measured", "machine"
            self._begin_counter(rapl.dram_joules)
            return
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
        if self._read is not None:
            self._sample_counter(tick)
        else:
            self._charge(self._model_watts(tick) * tick.interval_s, tick)
        tick.values["ram_power_w"] = round(self.watts, 4)

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


class GpuEnergy(_Component):
    """Energy of the selected NVIDIA GPUs, whole devices.

    Args:
        gpu_ids: indices or UUIDs; ``None`` selects all.
    """

    name = "gpu_energy"

    def __init__(
        self, *, gpu_ids: Sequence[int | str] | str | None = None, pue: float = 1.0, starts_idle: bool = True
    ) -> None:
        super().__init__(pue, starts_idle=starts_idle)
        self._gpu_ids = gpu_ids
        self._nvml: Nvml | None = None
        self._found: Nvml | None = None
        self._error: Exception | None = None
        self._opening: threading.Thread | None = None
        self._pids: frozenset[int] = frozenset()
        self._gpu = Gpu()
        self._memory_sum = 0.0
        self._utilization_sum = 0.0
        self._tree_utilization: list[float] = []
        self._samples = 0

    def start(self) -> None:
        """Opens the devices and begins the baseline.

        An idle driver may take seconds to start. The run does not wait; accounting begins when the driver is ready.
        """
        self._opening = threading.Thread(target=self._open, name="a2perf-nvml", daemon=True)
        self._opening.start()
        self._opening.join(OPEN_WAIT_S)
        self._adopt()

    def attach(self) -> None:
        """Ends the idle baseline if it has been long enough."""
        self._adopt()
        super().attach()

    def _open(self) -> None:
        try:
            self._found = Nvml.open(self._gpu_ids)
        except Exception as error:
            self._error = error

    def _adopt(self) -> None:
        if self._opening is None or self._opening.is_alive():
            return
        self._opening = None
        if self._error is not None:
            # Raised in the sampler's thread, which reports it; the opening thread would only print it.
            raise self._error
        nvml = self._found
        if nvml is None or not nvml.devices:
            return
        self._nvml = nvml
        self._gpu.count, self._gpu.model = len(nvml.devices), nvml.model
        self.method, self.quality, self.scope = nvml.method, "measured", "device"
        self._begin_counter(lambda: nvml.sample(()).joules)

    def sample(self, tick: Tick) -> None:
        """Charges the interval and reads memory and utilisation."""
        self._adopt()
        if self._nvml is None:
            tick.values["gpu_power_w"] = 0.0
            return
        seen = self._nvml.sample(tick.tree.pids if tick.tree is not None else ())
        self._end_baseline(seen.joules, DURING, tick.elapsed_s)
        self._charge(seen.joules - self._last_joules, tick)
        self._last_joules = seen.joules
        gpu = self._gpu
        gpu.memory_peak_bytes = max(gpu.memory_peak_bytes, seen.memory_bytes)
        gpu.utilization_peak_percent = max(gpu.utilization_peak_percent, seen.utilization_percent)
        self._memory_sum += seen.memory_bytes
        self._utilization_sum += seen.utilization_percent
        self._samples += 1
        if seen.tree_utilization_percent is not None:
            self._tree_utilization.append(seen.tree_utilization_percent)
        tick.values["gpu_power_w"] = round(self.watts, 3)
        tick.values["gpu_memory_bytes"] = seen.memory_bytes
        tick.values["gpu_utilization_percent"] = seen.utilization_percent

    def stop(self) -> None:
        """Closes the devices."""
        if self._nvml is not None:
            self._nvml.close()

    def gpu(self) -> Gpu:
        """Memory and utilisation so far."""
        if self._samples:
            self._gpu.memory_mean_bytes = self._memory_sum / self._samples
            self._gpu.utilization_mean_percent = self._utilization_sum / self._samples
        if self._tree_utilization:
            self._gpu.tree_utilization_mean_percent = sum(self._tree_utilization) / len(self._tree_utilization)
        return self._gpu


def _machine_busy_s() -> float:
    cpu = procfs.read_machine_cpu()
    return cpu.busy_s if cpu is not None else 0.0
