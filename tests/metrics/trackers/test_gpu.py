"""Power, memory and utilisation of a real NVIDIA GPU, which a real child process keeps busy through the driver."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

import a2perf
from tests.commands import run_command
from tests.waiting import Child

pytestmark = pytest.mark.group("nvml")

SAMPLES = 20
HELD_BYTES = 4 << 30
# Writes to device memory through libcuda alone, so that the test needs a driver and no framework.
BUSY = f"""
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t({HELD_BYTES}))
print(flush=True)
while True:
    for round in range(200):
        call("cuMemsetD32_v2", memory, round, ctypes.c_size_t({HELD_BYTES // 4}))
    call("cuCtxSynchronize")
"""


def watts() -> float:
    """Power of the first device by the driver's own tool."""
    query = ["nvidia-smi", "--id=0", "--query-gpu=power.draw", "--format=csv,noheader,nounits"]
    return float(run_command(query, check=True).stdout)


def test_a_busy_device_is_measured(tmp_path) -> None:
    idle = watts()
    with Child([sys.executable, "-S", "-c", BUSY], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"\n"
        with a2perf.track("busy", folder=tmp_path / "seed_0") as tracked:
            drawn = []
            for _ in range(SAMPLES):
                time.sleep(0.2)
                drawn.append(watts())
        child.end()
    report = tracked.report
    account = report.energy.gpu
    assert (account.method, account.quality, account.scope) == ("nvml", "measured", "device")
    busy = sum(drawn) / SAMPLES
    assert busy > 1.2 * idle
    assert account.power_mean_w == pytest.approx(busy, rel=0.15)
    assert report.gpu.integral_over_counter == pytest.approx(1.0, abs=0.1)
    assert report.gpu.count == 1
    assert report.gpu.model.startswith("1 x NVIDIA")
    assert report.gpu.utilization_peak_percent > 50
    if report.gpu.memory_peak_bytes:  # the driver names no process of another pid namespace
        assert HELD_BYTES <= report.gpu.memory_peak_bytes < HELD_BYTES + (2 << 30)
