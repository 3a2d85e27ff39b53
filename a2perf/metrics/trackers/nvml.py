"""NVIDIA GPUs through the management library (NVML): energy, power, memory and utilisation.

Energy comes from the counter of the device (Volta and later), else from its power sensor, integrated over time;
both are measured, and both are of the whole device. Where both exist, the integral checks the counter. Memory and
utilisation are also read for the tree's own processes, as far as the driver shows their pids in this pid namespace.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

_COMPUTE = "nvmlDeviceGetComputeRunningProcesses"
_FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""Inode of the host's first pid namespace (PROC_PID_INIT_INO of linux/proc_ns.h)."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """The selected devices together: energy since opening, and device memory held by the tree's processes.

    Attributes:
        utilization_percent: mean over devices of the share of time that a kernel ran, 0..100.
        tree_utilization_percent: the part of it by the tree's processes, ``None`` where not known.
        tree_share: part of the devices' work since the last sample that the tree did, 0..1; ``None`` where not known.
    """

    joules: float
    memory_bytes: int
    utilization_percent: float
    tree_utilization_percent: float | None
    tree_share: float | None = None


@dataclass
class Device:
    """One open device.

    Attributes:
        counted_j: energy by the counter since opening.
        integral_j: energy by the trapezoids under the power sensor since opening.
        changed_j: half of the area between the largest and the smallest power of each trapezoid.
        sampled_j: ``joules`` at the last sample.
    """

    index: int
    name: str
    handle: Any
    counter: bool
    last_mj: int = 0
    last_time_s: float = 0.0
    last_power_w: float = 0.0
    counted_j: float = 0.0
    integral_j: float = 0.0
    changed_j: float = 0.0
    sampled_j: float = 0.0
    sensor: bool = True
    utilization_since_us: int = 0

    @property
    def joules(self) -> float:
        """Energy since opening, by the counter if the device has one."""
        return self.counted_j if self.counter else self.integral_j


@dataclass
class Nvml:
    """The selected devices of this machine."""

    library: Any
    devices: list[Device] = field(default_factory=list)
    clock: Callable[[], float] = time.perf_counter
    shows_pids: bool = True

    @classmethod
    def open(
        cls, gpu_ids: Sequence[int | str] | str | None = None, *, clock: Callable[[], float] = time.perf_counter
    ) -> Nvml | None:
        """Opens the library and the devices; returns ``None`` without an NVIDIA driver.

        Devices are selected by indices or (starts of) UUIDs, as a sequence or comma-separated; ``None`` selects all.
        """
        if "pynvml" not in sys.modules and not _has_driver():
            return None
        import pynvml

        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return None
        nvml = cls(pynvml, clock=clock, shows_pids=_in_first_pid_namespace())
        wanted = _wanted(gpu_ids)
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
            if wanted is None or any(
                entry == str(index) or (not entry.isdigit() and uuid.startswith(entry)) for entry in wanted
            ):
                nvml.devices.append(nvml._open_device(index, handle))
        return nvml

    def _open_device(self, index: int, handle: Any) -> Device:
        device = Device(index, _text(self.library.nvmlDeviceGetName(handle)), handle, counter=True)
        device.last_time_s = self.clock()
        total, power = self._ask("nvmlDeviceGetTotalEnergyConsumption", device), self._sensor_w(device)
        device.counter, device.last_mj = total is not None, int(total or 0)
        device.sensor, device.last_power_w = power is not None, power or 0.0
        return device

    def _ask(self, query: str, device: Device, *more: Any) -> Any:
        """Asks what not every device answers; None where it does not."""
        try:
            return getattr(self.library, query)(device.handle, *more)
        except self.library.NVMLError:
            return None

    @property
    def method(self) -> str:
        """``"nvml"`` where every device counts its energy, ``"nvml_power"`` where a power sensor is integrated."""
        return "nvml" if all(device.counter for device in self.devices) else "nvml_power"

    @property
    def model(self) -> str:
        """Names of the devices, ``"2 x NVIDIA H200"``."""
        names = [device.name for device in self.devices]
        return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))

    def sample(self, pids: Iterable[int]) -> GpuSample:
        """Reads the devices; raises ``pynvml.NVMLError`` if one has gone."""
        tree = frozenset(pids)
        memory = 0
        utilization: list[float] = []
        tree_utilization: list[float] = []
        shares: list[tuple[float, float | None]] = []
        for device in self.devices:
            before = device.sampled_j
            self._advance(device)
            device.sampled_j = device.joules
            rates = self._ask("nvmlDeviceGetUtilizationRates", device)
            utilization.append(0.0 if rates is None else float(rates.gpu))
            held: dict[int, int] = {}
            for query in (_COMPUTE, "nvmlDeviceGetGraphicsRunningProcesses"):
                for process in self._ask(query, device) or ():
                    if process.pid in tree:
                        # usedGpuMemory is None where the driver does not know it.
                        held[process.pid] = max(held.get(process.pid, 0), process.usedGpuMemory or 0)
            memory += sum(held.values())
            busy = self._process_utilization(device)
            own = None if busy is None else sum(percent for pid, percent in busy.items() if pid in tree)
            if own is not None:
                tree_utilization.append(own)
            shares.append((device.joules - before, self._share(device, busy, own, tree)))
        count = max(1, len(self.devices))
        return GpuSample(
            joules=self.joules,
            memory_bytes=memory,
            utilization_percent=sum(utilization) / count,
            tree_utilization_percent=sum(tree_utilization) / count if tree_utilization else None,
            tree_share=_weighted(shares),
        )

    def read(self) -> float:
        """Reads counters and power sensors alone and returns ``joules``; raises what ``sample`` raises."""
        for device in self.devices:
            self._advance(device)
        return self.joules

    @property
    def joules(self) -> float:
        """Energy of all devices since opening."""
        return sum(device.joules for device in self.devices)

    @property
    def integral_error_j(self) -> float:
        """What the trapezoids may miss on devices without a counter, as a half-width in joules."""
        return sum(device.changed_j for device in self.devices if not device.counter)

    def integral_over_counter(self) -> float | None:
        """Returns the integral of power over the energy counted, ``None`` if no device has counter and sensor."""
        both = [device for device in self.devices if device.counter and device.sensor]
        counted = sum(device.counted_j for device in both)
        return sum(device.integral_j for device in both) / counted if counted > 0 else None

    def close(self) -> None:
        """Gives the library back."""
        try:
            self.library.nvmlShutdown()
        except self.library.NVMLError:
            return

    def _advance(self, device: Device) -> None:
        now, power = self.clock(), self._sensor_w(device) or 0.0
        if device.counter:
            total = int(self.library.nvmlDeviceGetTotalEnergyConsumption(device.handle))
            # The counter starts over when the driver is loaded again.
            device.counted_j += max(0, total - device.last_mj) / 1e3
            device.last_mj = total
        elapsed = now - device.last_time_s
        device.integral_j += elapsed * (power + device.last_power_w) / 2
        device.changed_j += elapsed * abs(power - device.last_power_w) / 2
        device.last_time_s, device.last_power_w = now, power

    def _sensor_w(self, device: Device) -> float | None:
        milliwatts = self._ask("nvmlDeviceGetPowerUsage", device)
        return None if milliwatts is None else int(milliwatts) / 1e3

    def _process_utilization(self, device: Device) -> dict[int, float] | None:
        """Returns the share of time in percent that kernels of each process ran since the last call."""
        samples = self._ask("nvmlDeviceGetProcessUtilization", device, device.utilization_since_us)
        if samples is None:
            return None
        device.utilization_since_us = max([device.utilization_since_us, *(int(s.timeStamp) for s in samples)])
        by_pid: dict[int, list[float]] = {}
        for sample in samples:
            by_pid.setdefault(int(sample.pid), []).append(float(sample.smUtil))
        return {pid: sum(values) / len(values) for pid, values in by_pid.items()}

    def _share(
        self, device: Device, busy: dict[int, float] | None, own: float | None, tree: frozenset[int]
    ) -> float | None:
        if not self.shows_pids:
            return None
        everyone = sum(busy.values()) if busy is not None else 0.0
        if own is not None and everyone > 0:
            return min(1.0, own / everyone)
        # Without an account of their work: all of it to the only ones on the device, nothing to those who are not.
        holders = {int(process.pid) for process in self._ask(_COMPUTE, device) or ()}
        if not holders:
            return None
        return 1.0 if holders <= tree else None if holders & tree else 0.0


def _has_driver() -> bool:
    # Without a driver, loading its library fails in microseconds; importing pynvml would take 50 ms.
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def _in_first_pid_namespace() -> bool:
    """Whether the driver's pids, which are those of the host, mean anything here."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE
    except OSError:
        return False


def _weighted(shares: Sequence[tuple[float, float | None]]) -> float | None:
    """Returns the mean share weighted by energy, ``None`` if that of a device that drew energy is not known."""
    drawn = [(joules, share) for joules, share in shares if joules > 0] or list(shares)
    known = [(joules, share) for joules, share in drawn if share is not None]
    if not known or len(known) < len(drawn):
        return None
    whole = sum(joules for joules, _ in known)
    return sum(joules * share for joules, share in known) / whole if whole > 0 else known[0][1]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _wanted(gpu_ids: Sequence[int | str] | str | None) -> list[str] | None:
    if gpu_ids is None:
        return None
    entries = gpu_ids.split(",") if isinstance(gpu_ids, str) else gpu_ids
    return [str(entry).strip() for entry in entries if str(entry).strip()]
