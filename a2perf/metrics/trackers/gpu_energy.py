"""Energy of the selected NVIDIA GPUs: whole devices as gross, the tree's share of the draw above idle as net.

The share is that of the tree's processes in the time that kernels ran, by the driver's account of each process. Where
the driver shows no process of this pid namespace, net energy keeps the whole device and its uncertainty covers any
share.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from math import hypot

from a2perf.metrics.trackers.energy_component import Component
from a2perf.metrics.trackers.nvml import Nvml
from a2perf.metrics.trackers.tick import BASELINES, DURING, Tick
from a2perf.metrics.trackers.uncertainty import (
    MODEL_ERRORS,
    Contributions,
    of_share,
    of_two_readings,
    rectangular,
)
from a2perf.runs.tracking_record import Gpu

OPEN_WAIT_S = 0.2
UPDATE_S = 0.1
"""Longest period in which devices update their counter and their power sensor."""
_TICK_J = 1e-3


class GpuEnergy(Component):
    """Energy of the selected NVIDIA GPUs by index or UUID; ``None`` selects all."""

    name = "gpu_energy"

    def __init__(
        self,
        *,
        gpu_ids: Sequence[int | str] | str | None = None,
        pue: float = 1.0,
        baselines: Collection[str] = BASELINES,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(pue, baselines=baselines, clock=clock)
        self._update_s = UPDATE_S
        self._gpu_ids = gpu_ids
        self._nvml: Nvml | None = None
        self._found: Nvml | None = None
        self._error: Exception | None = None
        self._opening: threading.Thread | None = None
        self._gpu = Gpu()
        self._memory_sum = 0.0
        self._utilization_sum = 0.0
        self._tree_utilization: list[float] = []
        self._samples = 0
        self._shared_j = self._known_j = 0.0

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
            self._found = Nvml.open(self._gpu_ids, clock=self._clock)
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
        self._begin_counter(nvml.read)

    @property
    def polled(self) -> bool:
        """Whether there are devices to read between two samples."""
        return self._nvml is not None

    def poll(self) -> None:
        """Reads counters and power sensors once."""
        if self._nvml is not None:
            self._nvml.read()

    def sample(self, tick: Tick) -> None:
        """Charges the interval and reads memory and utilisation."""
        self._adopt()
        if self._nvml is None:
            tick.values["gpu_power_w"] = 0.0
            return
        seen = self._nvml.sample(tick.tree.pids if tick.tree is not None else ())
        self._end_baseline(seen.joules, DURING, tick.elapsed_s)
        joules = seen.joules - self._last_joules
        self._charge(joules, tick)
        self._last_joules = seen.joules
        if seen.tree_share is not None:
            self._shared_j += joules * seen.tree_share
            self._known_j += joules
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
        if self._nvml is not None:
            self._gpu.integral_over_counter = self._nvml.integral_over_counter()
        if self._known_j > 0:
            self._gpu.tree_share = self._shared_j / self._known_j
        return self._gpu

    def _share(self) -> float:
        """The tree's share in each interval, weighted by its energy; all of it where no interval has one."""
        unknown = max(0.0, self.joules - self._known_j)
        return min(1.0, (self._shared_j + unknown) / self.joules) if self.joules > 0 else 1.0

    def _share_error(self) -> float:
        """Anything from none to all in the energy of which no share is known."""
        known = min(1.0, self._known_j / self.joules) if self.joules > 0 else 0.0
        return hypot(
            known * of_share(self._shared_j / self._known_j if self._known_j > 0 else 1.0), rectangular(1.0 - known)
        )

    def _gross_contributions(self, unaccounted_s: float) -> Contributions:
        if self._nvml is None:
            return Contributions()
        ratio = self._nvml.integral_over_counter()
        difference = abs(ratio - 1.0) * self.joules if ratio is not None else 0.0
        return Contributions(
            resolution=of_two_readings(_TICK_J * len(self._nvml.devices) ** 0.5),
            sampling=hypot(self._lateness(), rectangular(self._nvml.integral_error_j)),
            # Counter and sensor are two accounts of one energy: what they disagree by, one of them gets wrong.
            model=rectangular(max(MODEL_ERRORS["nvml"] * self.joules, difference)),
        )
