"""A stand-in for ``libnvidia-ml.so.1`` at the ctypes boundary: the real pynvml runs on top of it."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

SUCCESS, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE, GPU_IS_LOST = 0, 3, 6, 7, 15


@dataclass
class FakeGpu:
    """What one device answers; ``energy_mj`` is ``None`` where the device does not count."""

    name: str = "NVIDIA H200"
    uuid: str = "GPU-0000"
    energy_mj: int | None = 1_000_000
    power_mw: int = 100_000
    utilization: int = 50
    processes: dict[int, int] = field(default_factory=dict)
    process_utilization: dict[int, int] = field(default_factory=dict)
    lost: bool = False


class FakeNvml:
    """The library's functions by their C names. A handle is the address of a one-based index."""

    def __init__(self, gpus: list[FakeGpu]) -> None:
        self.gpus = gpus
        self.open = 0

    def nvmlInitWithFlags(self, flags: int) -> int:  # noqa: N802
        self.open += 1
        return SUCCESS

    def nvmlShutdown(self) -> int:  # noqa: N802
        self.open -= 1
        return SUCCESS

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        count._obj.value = len(self.gpus)
        return SUCCESS

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:  # noqa: N802
        ctypes.cast(handle, ctypes.POINTER(ctypes.c_void_p))[0] = index.value + 1
        return SUCCESS

    def _gpu(self, handle: Any) -> FakeGpu:
        return self.gpus[ctypes.cast(handle, ctypes.c_void_p).value - 1]

    def nvmlDeviceGetUUID(self, handle: Any, buffer: Any, size: Any) -> int:  # noqa: N802
        buffer.value = self._gpu(handle).uuid.encode()
        return SUCCESS

    def nvmlDeviceGetName(self, handle: Any, buffer: Any, size: Any) -> int:  # noqa: N802
        buffer.value = self._gpu(handle).name.encode()
        return SUCCESS

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, millijoules: Any) -> int:  # noqa: N802
        gpu = self._gpu(handle)
        if gpu.lost:
            return GPU_IS_LOST
        if gpu.energy_mj is None:
            return NOT_SUPPORTED
        millijoules._obj.value = gpu.energy_mj
        return SUCCESS

    def nvmlDeviceGetPowerUsage(self, handle: Any, milliwatts: Any) -> int:  # noqa: N802
        milliwatts._obj.value = self._gpu(handle).power_mw
        return SUCCESS

    def nvmlDeviceGetUtilizationRates(self, handle: Any, rates: Any) -> int:  # noqa: N802
        rates._obj.gpu = self._gpu(handle).utilization
        return SUCCESS

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, processes: Any) -> int:  # noqa: N802
        held = self._gpu(handle).processes
        if not held:
            count._obj.value = 0
            return SUCCESS
        if processes is None:
            count._obj.value = len(held)
            return INSUFFICIENT_SIZE
        for place, (pid, used) in enumerate(held.items()):
            processes[place].pid, processes[place].usedGpuMemory = pid, used
        count._obj.value = len(held)
        return SUCCESS

    def nvmlDeviceGetGraphicsRunningProcesses_v3(self, handle: Any, count: Any, processes: Any) -> int:  # noqa: N802
        return NOT_SUPPORTED

    def nvmlDeviceGetProcessUtilization(self, handle: Any, samples: Any, count: Any, since: Any) -> int:  # noqa: N802
        shares = self._gpu(handle).process_utilization
        if not shares:
            return NOT_FOUND
        if samples is None:
            count._obj.value = len(shares)
            return INSUFFICIENT_SIZE
        for place, (pid, percent) in enumerate(shares.items()):
            samples[place].pid, samples[place].smUtil, samples[place].timeStamp = pid, percent, since.value + 1
        return SUCCESS
