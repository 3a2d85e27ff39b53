"""NVIDIA GPUs through the management library (NVML): energy, power, memory and utilisation.

Energy comes from the counter of the device (Volta and later), else from its power sensor, integrated over time;
both are measured, and both are of the whole device. Memory and utilisation are also read for the tree's own
processes, as far as the driver shows their pids in this pid namespace.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from a2perf.errors import MissingDependency


@dataclass(frozen=True, slots=True)
class GpuSample:
    """The selected devices together.

    Attributes:
        joules: energy since opening.
        power_w: draw now, by the sensors.
        memory_bytes: device memory held by the tree's processes.
        memory_used_bytes: device memory in use by anyone.
        utilization_percent: mean over devices of the share of time that a kernel ran, 0..100.
        tree_utilization_percent: the part of it by the tree's processes, ``None`` where not known.
    """

    joules: float
    power_w: float
    memory_bytes: int
    memory_used_bytes: int
    utilization_percent: float
    tree_utilization_percent: float | None


@dataclass
class Device:
    """One open device."""

    index: int
    uuid: str
    name: str
    handle: Any
    counter: bool
    last_mj: int = 0
    last_time_s: float = 0.0
    last_power_w: float = 0.0
    joules: float = 0.0
    utilization_since_us: int = 0


@dataclass
class Nvml:
    """The selected devices of this machine.

    Attributes:
        devices: open devices; empty where none is selected.
    """

    library: Any
    devices: list[Device] = field(default_factory=list)
    clock: Callable[[], float] = time.perf_counter

    @classmethod
    def open(cls, gpu_ids: Sequence[int | str] | str | None = None) -> Nvml | None:
        """Opens the library and the devices.

        Args:
            gpu_ids: indices or (starts of) UUIDs, as a sequence or comma-separated; ``None`` selects all.

        Returns:
            ``None`` without an NVIDIA driver.

        Raises:
            MissingDependency: ``nvidia-ml-py`` is not installed.
        """
        if "pynvml" not in sys.modules and not _has_driver():
            return None
        try:
            import pynvml
        except ImportError as error:
            raise MissingDependency("nvidia-ml-py is not installed", hint="pip install nvidia-ml-py") from error
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return None
        nvml = cls(pynvml)
        wanted = _wanted(gpu_ids)
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
            if wanted is None or any(_selects(entry, index, uuid) for entry in wanted):
                nvml.devices.append(nvml._open_device(index, uuid, handle))
        return nvml

    def _open_device(self, index: int, uuid: str, handle: Any) -> Device:
        device = Device(index, uuid, _text(self.library.nvmlDeviceGetName(handle)), handle, counter=True)
        device.last_time_s = self.clock()
        try:
            device.last_mj = int(self.library.nvmlDeviceGetTotalEnergyConsumption(handle))
        except self.library.NVMLError:
            device.counter = False
        device.last_power_w = self._power_w(device)
        return device

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
        """Reads the devices.

        Args:
            pids: processes of the tree.

        Raises:
            pynvml.NVMLError: a device has gone.
        """
        tree = frozenset(pids)
        power = memory = used = 0.0
        utilization: list[float] = []
        tree_utilization: list[float] = []
        for device in self.devices:
            power += self._advance(device)
            used += self._optional("nvmlDeviceGetMemoryInfo", device, lambda info: float(info.used))
            utilization.append(self._optional("nvmlDeviceGetUtilizationRates", device, lambda rates: float(rates.gpu)))
            memory += self._tree_memory(device, tree)
            share = self._tree_utilization(device, tree)
            if share is not None:
                tree_utilization.append(share)
        count = max(1, len(self.devices))
        return GpuSample(
            joules=sum(device.joules for device in self.devices),
            power_w=power,
            memory_bytes=int(memory),
            memory_used_bytes=int(used),
            utilization_percent=sum(utilization) / count,
            tree_utilization_percent=sum(tree_utilization) / count if tree_utilization else None,
        )

    def close(self) -> None:
        """Gives the library back."""
        try:
            self.library.nvmlShutdown()
        except self.library.NVMLError:
            return

    def _advance(self, device: Device) -> float:
        now, power = self.clock(), self._power_w(device)
        if device.counter:
            total = int(self.library.nvmlDeviceGetTotalEnergyConsumption(device.handle))
            # The counter starts over when the driver is loaded again.
            device.joules += max(0, total - device.last_mj) / 1e3
            device.last_mj = total
        else:
            device.joules += (now - device.last_time_s) * (power + device.last_power_w) / 2
        device.last_time_s, device.last_power_w = now, power
        return power

    def _power_w(self, device: Device) -> float:
        return self._optional("nvmlDeviceGetPowerUsage", device, float) / 1e3

    def _tree_memory(self, device: Device, tree: frozenset[int]) -> int:
        held: dict[int, int] = {}
        for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
            try:
                processes = getattr(self.library, name)(device.handle)
            except self.library.NVMLError:
                continue
            for process in processes:
                if process.pid in tree:
                    # usedGpuMemory is None where the driver does not know it.
                    held[process.pid] = max(held.get(process.pid, 0), process.usedGpuMemory or 0)
        return sum(held.values())

    def _tree_utilization(self, device: Device, tree: frozenset[int]) -> float | None:
        try:
            samples = self.library.nvmlDeviceGetProcessUtilization(device.handle, device.utilization_since_us)
        except self.library.NVMLError:
            return None
        device.utilization_since_us = max([device.utilization_since_us, *(int(s.timeStamp) for s in samples)])
        latest = {int(sample.pid): float(sample.smUtil) for sample in samples}
        return sum(percent for pid, percent in latest.items() if pid in tree)

    def _optional(self, query: str, device: Device, convert: Callable[[Any], float]) -> float:
        """Asks what not every device answers; 0 where it does not."""
        try:
            return convert(getattr(self.library, query)(device.handle))
        except self.library.NVMLError:
            return 0.0


def _has_driver() -> bool:
    # Without a driver, loading its library fails in microseconds; importing pynvml would take 50 ms.
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _wanted(gpu_ids: Sequence[int | str] | str | None) -> list[str] | None:
    if gpu_ids is None:
        return None
    entries = gpu_ids.split(",") if isinstance(gpu_ids, str) else gpu_ids
    return [str(entry).strip() for entry in entries if str(entry).strip()]


def _selects(entry: str, index: int, uuid: str) -> bool:
    return entry == str(index) or (not entry.isdigit() and uuid.startswith(entry))
