"""Energy: counters with their wrap-around and idle draw, devices through the real pynvml, and the stated models."""

from __future__ import annotations

import math
import threading
import time

import pytest

from a2perf.metrics.trackers import gpu_energy
from a2perf.metrics.trackers import nvml as nvml_module
from a2perf.metrics.trackers.energy import CpuEnergy, RamEnergy
from a2perf.metrics.trackers.gpu_energy import GpuEnergy
from a2perf.metrics.trackers.host import describe_host
from a2perf.metrics.trackers.nvml import Nvml
from a2perf.metrics.trackers.power_model import choose_cpu_power, cpus, plain_cpu_name
from a2perf.metrics.trackers.process_tree import TreeSample
from a2perf.metrics.trackers.tick import Tick

from .fake_nvml import FakeGpu, FakeNvml
from .fake_powercap import FakePowercap

KWH = 3.6e6


def tick(elapsed, interval, *, cpu=0.0, busy=None, rss=0, pss=None, pids=()):
    tree = TreeSample(frozenset(pids), cpu, "proc_stat", 1, rss, pss, None, 0, 0)
    return Tick(elapsed, interval, "", tree, cpu, cpu, busy)


def attached(tracker):
    """Starts a tracker and begins its account at once; returns it."""
    tracker.start()
    tracker.attach()
    return tracker


class Clock:
    """Seconds that a test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


# --- counters; the topologies are in test_power_domains.py


def test_measured_energy_is_gross_of_the_machine_and_net_of_idle_and_others(tmp_path):
    fake = FakePowercap(tmp_path)
    package = fake.register(10.0)
    fake.zone("intel-rapl:0", "package-0", package)
    cpu = CpuEnergy(powercap=tmp_path, pue=1.5, clock=fake.clock)
    cpu.start()
    fake.run(2.0)  # before the run: 10 W idle
    cpu.attach()
    package.watts = 40.0
    fake.run(1.0)
    cpu.sample(tick(1.0, 1.0, cpu=1.0, busy=2.0))
    package.watts = 20.0
    fake.run(1.0)
    cpu.sample(tick(2.0, 1.0, cpu=1.0, busy=2.0))
    account = cpu.energy()
    assert (account.method, account.quality, account.scope) == ("rapl", "measured", "machine")
    assert account.gross_kwh == pytest.approx(1.5 * 60 / KWH, rel=1e-3)
    # 60 J less 2 s at 10 W, and the tree did half of all the work.
    assert account.net_kwh == pytest.approx(1.5 * 40 / 2 / KWH, rel=2e-3)
    assert account.idle_w == pytest.approx(1.5 * 10, rel=1e-3)
    assert account.power_mean_w == pytest.approx(1.5 * 30, rel=1e-3)
    assert account.power_peak_w == pytest.approx(1.5 * 40, rel=1e-3)
    assert cpu.baseline_s == pytest.approx(2.0)


def test_idle_draw_is_not_above_the_lowest_interval(tmp_path):
    fake = FakePowercap(tmp_path)
    package = fake.register(50.0)
    fake.zone("intel-rapl:0", "package-0", package)
    cpu = CpuEnergy(powercap=tmp_path, clock=fake.clock)
    cpu.start()
    fake.run(0.01)
    cpu.attach()  # too soon for a baseline
    fake.run(0.99)  # the start-up at 50 W is all there is
    cpu.sample(tick(1.0, 1.0, cpu=1.0, busy=1.0))
    assert cpu.baseline_taken == "while the participant process started up"
    package.watts = 10.0
    fake.run(1.0)
    cpu.sample(tick(2.0, 1.0, cpu=1.0, busy=1.0))
    assert cpu.energy().idle_w == pytest.approx(10, rel=0.01)
    assert cpu.energy().net_kwh == pytest.approx((0.99 * 50 + 10 - 20) / KWH, rel=5e-3)


# --- models


def test_configured_cpu_power_times_processor_time(tmp_path):
    cpu = attached(CpuEnergy(force_watts=100.0, powercap=tmp_path))
    seen = tick(2.0, 2.0, cpu=1.0)
    cpu.sample(seen)
    account = cpu.energy()
    joules = 100.0 / describe_host().cpu_count * 1.0
    assert account.gross_kwh == pytest.approx(joules / KWH)
    assert account.net_kwh == pytest.approx(account.gross_kwh)
    assert account.power_mean_w == pytest.approx(joules / 2)
    assert (account.method, account.quality, account.scope) == ("tdp_model:force_cpu_power", "estimated", "tree")
    assert seen.values["cpu_power_w"] == pytest.approx(joules / 2)


def test_machine_mode_charges_everybody(tmp_path):
    cpu = attached(CpuEnergy(force_watts=100.0, machine=True, powercap=tmp_path))
    deadline = time.process_time() + 0.3
    while time.process_time() < deadline:
        pass
    cpu.sample(tick(0.3, 0.3, cpu=0.0, busy=0.3))
    assert cpu.energy().gross_kwh >= 0.25 * 100.0 / describe_host().cpu_count / KWH
    assert cpu.energy().scope == "machine"
    assert cpu.energy().net_kwh == 0.0


def test_memory_model_follows_the_proportional_set_size(tmp_path):
    ram = attached(RamEnergy(powercap=tmp_path))
    ram.sample(tick(1.0, 1.0, rss=8_000_000_000))
    assert ram.energy().gross_kwh == pytest.approx(3.0 / KWH)
    ram.sample(tick(2.0, 1.0, rss=8_000_000_000, pss=4_000_000_000))
    ram.sample(tick(3.0, 1.0, rss=16_000_000_000))
    ram.sample(tick(4.0, 1.0, rss=0))  # the tree is gone; it held its memory until a moment ago
    assert ram.energy().gross_kwh == pytest.approx((3.0 + 1.5 + 3.0 + 3.0) / KWH)
    assert ram.energy().quality == "estimated"


def test_constant_memory_power_has_no_net(tmp_path):
    ram = RamEnergy(force_watts=20.0, powercap=tmp_path)
    ram.start()
    ram.sample(tick(10.0, 10.0, cpu=1.0, rss=1))
    assert ram.energy().gross_kwh == pytest.approx(200 / KWH)
    assert ram.energy().net_kwh == 0.0
    assert ram.energy().method == "ram_model:force_ram_power"


@pytest.mark.parametrize(
    ("model", "threads", "family", "watts", "source"),
    [
        ("AMD EPYC 7763 64-Core Processor", 2, None, 280 / 128, "table:amd epyc 7763"),
        ("Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz", 4, None, 210 / 48, "table:intel xeon platinum 8259cl"),
        ("Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz", 8, None, 15 / 8, "table:intel core i7-8550u"),
        ("AMD EPYC", 2, (25, 1), 280 / 128, "table:amd epyc 7763 (for an EPYC of family 25 model 1)"),
        ("AMD EPYC 9124 16-Core Processor", 2, None, 200 / 32, "codecarbon:AMD EPYC 9124"),
        ("Nobody's 1 GHz", 2, None, 4.0, "default_4w_per_thread"),
        ("", 2, None, 4.0, "default_4w_per_thread"),
    ],
)
def test_power_model_of_a_processor(model, threads, family, watts, source):
    chosen = choose_cpu_power(model, threads, family=family)
    assert chosen.source == source
    assert chosen.watts_per_thread == pytest.approx(watts)


def test_table_of_processors_is_keyed_by_plain_names():
    assert len(cpus()) > 50
    assert [name for name in cpus() if plain_cpu_name(name) != name] == []
    assert all(5 <= watts <= 500 and 2 <= threads <= 256 for watts, threads in cpus().values())


# --- NVML


def test_devices_are_selected_by_index_or_uuid(nvml):
    library = nvml([FakeGpu(uuid="GPU-aa11"), FakeGpu(uuid="GPU-bb22"), FakeGpu(uuid="GPU-cc33", name="NVIDIA L4")])
    for given, chosen in [(None, [0, 1, 2]), ([1], [1]), ("0,2", [0, 2]), (["GPU-bb"], [1]), ([7], []), ([], [])]:
        opened = Nvml.open(given)
        assert [device.index for device in opened.devices] == chosen
        opened.close()
    assert Nvml.open().model == "2 x NVIDIA H200, 1 x NVIDIA L4"
    assert library.open == 1


def test_gpu_energy_is_the_devices_counter(nvml):
    gpu = FakeGpu(processes={10: 3_000_000_000, 99: 5_000_000_000}, process_utilization={10: 40, 99: 10})
    library = nvml([gpu])
    tracker = attached(GpuEnergy(pue=2.0))
    gpu.energy_mj += 360_000  # 360 J
    seen = tick(2.0, 2.0, pids=(10, 11))
    tracker.sample(seen)
    account, devices = tracker.energy(), tracker.gpu()
    assert (account.method, account.quality, account.scope) == ("nvml", "measured", "device")
    assert account.gross_kwh == pytest.approx(2 * 360 / KWH)
    assert account.power_mean_w == pytest.approx(2 * 180)
    assert seen.values == {
        "gpu_power_w": pytest.approx(360.0),
        "gpu_memory_bytes": 3_000_000_000,
        "gpu_utilization_percent": 50.0,
    }
    assert (devices.count, devices.model, devices.memory_peak_bytes) == (1, "1 x NVIDIA H200", 3_000_000_000)
    assert devices.utilization_mean_percent == 50.0
    assert devices.tree_utilization_mean_percent == 40.0
    tracker.stop()
    assert library.open == 0


def test_gpu_without_a_counter_has_its_power_integrated(nvml):
    gpu = FakeGpu(energy_mj=None, power_mw=100_000)
    nvml([gpu])
    clock = Clock()
    tracker = attached(GpuEnergy(clock=clock))
    clock.now_s, gpu.power_mw = 2.0, 300_000
    tracker.sample(tick(2.0, 2.0))
    account = tracker.energy()
    assert (account.method, account.quality) == ("nvml_power", "measured")
    assert account.gross_kwh == pytest.approx(2 * (100 + 300) / 2 / KWH)
    # the power may have risen at any moment of the interval: 400 J +- 200 J
    late = 200 * 0.1 / math.sqrt(6)
    assert account.gross_uncertainty.sampling_kwh * KWH == pytest.approx(math.hypot(200 / math.sqrt(3), late))
    assert tracker.gpu().integral_over_counter is None


def test_counter_is_checked_against_the_integral_of_power(nvml):
    gpu = FakeGpu(energy_mj=0, power_mw=200_000)
    nvml([gpu])
    clock = Clock()
    tracker = attached(GpuEnergy(clock=clock))
    for reading in range(1, 101):  # 10 s at 200 W; the counter sees a tenth less
        clock.now_s, gpu.energy_mj = reading / 10, reading * 18_000
        tracker.poll()
    tracker.sample(tick(10.0, 10.0))
    account = tracker.energy()
    assert account.gross_kwh * KWH == pytest.approx(1800)
    assert tracker.gpu().integral_over_counter == pytest.approx(2000 / 1800)
    assert account.gross_uncertainty.model_kwh * KWH == pytest.approx(200 / math.sqrt(3))
    assert account.gross_uncertainty.expanded_kwh * KWH > 2000 - 1800


def test_net_gpu_energy_is_the_share_of_the_trees_processes(nvml, monkeypatch):
    monkeypatch.setattr(nvml_module, "_in_first_pid_namespace", lambda: True)
    gpu = FakeGpu(energy_mj=0, process_utilization={10: 40, 99: 10})
    nvml([gpu])
    clock = Clock()
    tracker = GpuEnergy(clock=clock)
    tracker.start()
    clock.now_s, gpu.energy_mj = 1.0, 50_000
    tracker.attach()  # 50 W idle
    gpu.energy_mj += 400_000
    tracker.sample(tick(1.0, 1.0, pids=(10,)))
    gpu.energy_mj, gpu.process_utilization = gpu.energy_mj + 200_000, {99: 50}
    tracker.sample(tick(2.0, 1.0, pids=(10,)))
    account = tracker.energy()
    # 600 J less 100 J of idle draw; the tree did 0.8 of the first 400 J and nothing of the other 200 J
    assert tracker.gpu().tree_share == pytest.approx(320 / 600)
    assert account.net_kwh * KWH == pytest.approx(500 * 320 / 600)
    assert account.gross_kwh * KWH == pytest.approx(600)
    # IDLE_DRIFT of 100 J, and the ratio of powers of 500 J
    share = 320 / 600
    expected = math.hypot(share * 0.1 * 100, 500 * share * (1 - share) * math.log(2)) / math.sqrt(3)
    assert account.net_uncertainty.attribution_kwh * KWH == pytest.approx(expected)


@pytest.mark.parametrize(
    ("holders", "visible", "share"),
    [
        ({10: 1}, True, 1.0),
        ({99: 1}, True, 0.0),
        ({10: 1, 99: 1}, True, None),
        ({10: 1}, False, None),
        ({}, True, None),
    ],
)
def test_share_of_a_device_without_an_account_of_its_processes(nvml, monkeypatch, holders, visible, share):
    monkeypatch.setattr(nvml_module, "_in_first_pid_namespace", lambda: visible)
    gpu = FakeGpu(energy_mj=0, processes=holders)
    nvml([gpu])
    tracker = attached(GpuEnergy(clock=Clock()))
    gpu.energy_mj = 100_000
    tracker.sample(tick(1.0, 1.0, pids=(10, 11)))
    account = tracker.energy()
    assert tracker.gpu().tree_share == share
    assert account.net_kwh * KWH == pytest.approx(0.0 if share == 0.0 else 100)
    # the idle draw is not known either, so without a share twice anything from none to all of it
    unknown = math.hypot(share if share is not None else 1.0, share is None) * 100 / math.sqrt(3)
    assert account.net_uncertainty.attribution_kwh * KWH == pytest.approx(unknown)


def test_a_lost_gpu_raises(nvml):
    import pynvml

    gpu = FakeGpu()
    nvml([gpu])
    tracker = attached(GpuEnergy())
    gpu.lost = True
    with pytest.raises(pynvml.NVMLError):
        tracker.sample(tick(1.0, 1.0))


def test_without_a_driver_there_is_no_gpu(monkeypatch):
    import pynvml

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", missing)
    tracker = attached(GpuEnergy())
    seen = tick(1.0, 1.0)
    tracker.sample(seen)
    tracker.stop()
    assert tracker.energy().method == "none"
    assert seen.values == {"gpu_power_w": 0.0}
    assert tracker.gpu().count == 0


def test_a_driver_that_is_slow_to_come_up_is_taken_when_it_is_there(nvml, monkeypatch):
    monkeypatch.setattr(gpu_energy, "OPEN_WAIT_S", 0.01)
    gpu = FakeGpu(energy_mj=0)
    library = nvml([gpu])
    up = threading.Event()
    library.nvmlDeviceGetCount_v2 = lambda count: (up.wait(300), FakeNvml.nvmlDeviceGetCount_v2(library, count))[1]
    tracker = attached(GpuEnergy())
    tracker.sample(tick(1.0, 1.0))
    assert tracker.energy().method == "none"
    up.set()
    tracker._opening.join(300)
    tracker.sample(tick(2.0, 1.0))
    gpu.energy_mj += 5_000
    tracker.sample(tick(3.0, 1.0))
    assert tracker.energy().method == "nvml"
    assert tracker.energy().gross_kwh == pytest.approx(5 / KWH)


def test_a_driver_that_fails_to_open_raises(nvml):
    import pynvml

    library = nvml([FakeGpu()])
    library.nvmlDeviceGetUUID = lambda handle, buffer, size: 999
    with pytest.raises(pynvml.NVMLError):
        GpuEnergy().start()
