"""Energy: counters with their wrap-around and idle draw, devices through the real pynvml, and the stated models."""

from __future__ import annotations

import shutil
import threading
import time

import pytest

from a2perf.metrics.trackers import energy as energy_module
from a2perf.metrics.trackers.energy import CpuEnergy, GpuEnergy, RamEnergy
from a2perf.metrics.trackers.host import describe_host
from a2perf.metrics.trackers.nvml import Nvml
from a2perf.metrics.trackers.power_model import CPUS, choose_cpu_power, plain_cpu_name
from a2perf.metrics.trackers.process_tree import TreeSample
from a2perf.metrics.trackers.rapl import Rapl
from a2perf.metrics.trackers.tick import Tick

from .fake_nvml import FakeGpu, FakeNvml

KWH = 3.6e6
RANGE_UJ = 262_143_328_850


def zone(folder, name, energy_uj, *, range_uj=RANGE_UJ):
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
    return folder / "energy_uj"


def tick(elapsed, interval, *, cpu=0.0, busy=None, rss=0, pss=None, pids=()):
    tree = TreeSample(frozenset(pids), cpu, "proc_stat", 1, rss, pss, None, 0, 0, True)
    return Tick(elapsed, interval, "", tree, cpu, cpu, busy)


# --- RAPL


def test_rapl_counts_each_package_once_and_survives_the_wrap_around(tmp_path):
    first = zone(tmp_path / "intel-rapl:0", "package-0", RANGE_UJ - 1_000_000)
    zone(tmp_path / "intel-rapl:0" / "intel-rapl:0:0", "core", 5)
    memory = zone(tmp_path / "intel-rapl:0" / "intel-rapl:0:1", "dram", 100)
    zone(tmp_path / "intel-rapl:0:1", "dram", 100)  # the same again, as sysfs links it
    second = zone(tmp_path / "intel-rapl:1", "package-1", 0)
    zone(tmp_path / "intel-rapl:2", "psys", 0)
    zone(tmp_path / "intel-rapl-mmio:0", "package-0", 0)
    rapl = Rapl.open(tmp_path)
    assert (len(rapl.packages), len(rapl.dram)) == (2, 1)
    first.write_text("2000000\n")
    second.write_text("500000\n")
    memory.write_text("250100\n")
    assert rapl.package_joules() == pytest.approx(1.0 + 2.0 + 0.5)
    assert rapl.dram_joules() == pytest.approx(0.25)
    assert rapl.package_joules() == pytest.approx(3.5)


def test_rapl_that_may_not_be_read_is_not_there(tmp_path):
    zone(tmp_path / "intel-rapl:0", "package-0", 1).unlink()
    assert Rapl.open(tmp_path).packages == []
    assert Rapl.open(tmp_path / "nothing").packages == []


def test_measured_energy_is_gross_of_the_machine_and_net_of_idle_and_others(tmp_path, monkeypatch):
    clock = iter([0.0, 2.0, 3.0, 3.0, 4.0, 5.0, 6.0])
    monkeypatch.setattr(energy_module.time, "perf_counter", lambda: next(clock))
    counter = zone(tmp_path / "intel-rapl:0", "package-0", 0)
    cpu = CpuEnergy(powercap=tmp_path, pue=1.5)
    cpu.start()
    counter.write_text("20000000\n")  # 20 J in 2 s before the run: 10 W idle
    cpu.attach()
    counter.write_text("60000000\n")  # 40 J in the first second
    cpu.sample(tick(1.0, 1.0, cpu=1.0, busy=2.0))
    counter.write_text("80000000\n")  # 20 J in the next
    cpu.sample(tick(2.0, 1.0, cpu=1.0, busy=2.0))
    account = cpu.energy()
    assert (account.method, account.quality, account.scope) == ("rapl", "measured", "machine")
    assert account.gross_kwh == pytest.approx(1.5 * 60 / KWH)
    # 60 J less 2 s at 10 W, and the tree did half of all the work.
    assert account.net_kwh == pytest.approx(1.5 * 40 / 2 / KWH)
    assert account.idle_w == pytest.approx(1.5 * 10)
    assert account.power_mean_w == pytest.approx(1.5 * 30)
    assert account.power_peak_w == pytest.approx(1.5 * 40)
    assert cpu.baseline_s == pytest.approx(2.0)


def test_idle_draw_is_not_above_the_lowest_interval(tmp_path, monkeypatch):
    clock = iter([0.0, 0.01, 1.0, 2.0, 3.0])
    monkeypatch.setattr(energy_module.time, "perf_counter", lambda: next(clock))
    counter = zone(tmp_path / "intel-rapl:0", "package-0", 0)
    cpu = CpuEnergy(powercap=tmp_path)
    cpu.start()
    cpu.attach()  # too soon for a baseline
    counter.write_text("50000000\n")  # the start-up at 50 W is all there is
    cpu.sample(tick(1.0, 1.0, cpu=1.0, busy=1.0))
    assert cpu.baseline_taken == "while the participant process started up"
    counter.write_text("60000000\n")
    cpu.sample(tick(2.0, 1.0, cpu=1.0, busy=1.0))
    assert cpu.energy().idle_w == pytest.approx(10)
    assert cpu.energy().net_kwh == pytest.approx((60 - 20) / KWH)


def test_a_counter_that_goes_away_raises(tmp_path):
    zone(tmp_path / "intel-rapl:0", "package-0", 0)
    cpu = CpuEnergy(powercap=tmp_path)
    cpu.start()
    cpu.attach()
    shutil.rmtree(tmp_path / "intel-rapl:0")
    with pytest.raises(OSError, match="energy_uj"):
        cpu.sample(tick(1.0, 1.0))


def test_memory_counters_are_used_where_there_are_some(tmp_path):
    zone(tmp_path / "intel-rapl:0", "package-0", 0)
    counter = zone(tmp_path / "intel-rapl:0" / "intel-rapl:0:0", "dram", 0)
    ram = RamEnergy(powercap=tmp_path)
    ram.start()
    ram.attach()
    counter.write_text("7200000\n")
    ram.sample(tick(1.0, 1.0))
    assert ram.energy().gross_kwh == pytest.approx(7.2 / KWH)
    assert (ram.method, ram.quality) == ("rapl", "measured")


# --- models


def test_configured_cpu_power_times_processor_time(tmp_path):
    cpu = CpuEnergy(force_watts=100.0, powercap=tmp_path)
    cpu.start()
    cpu.attach()
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
    cpu = CpuEnergy(force_watts=100.0, machine=True, powercap=tmp_path)
    cpu.start()
    cpu.attach()
    deadline = time.process_time() + 0.3
    while time.process_time() < deadline:
        pass
    cpu.sample(tick(0.3, 0.3, cpu=0.0, busy=0.3))
    assert cpu.energy().gross_kwh >= 0.25 * 100.0 / describe_host().cpu_count / KWH
    assert cpu.energy().scope == "machine"
    assert cpu.energy().net_kwh == 0.0


def test_memory_model_follows_the_proportional_set_size(tmp_path):
    ram = RamEnergy(powercap=tmp_path)
    ram.start()
    ram.attach()
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
    assert [name for name in CPUS if plain_cpu_name(name) != name] == []
    assert all(5 <= watts <= 500 and 2 <= threads <= 256 for watts, threads in CPUS.values())


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
    tracker = GpuEnergy(pue=2.0)
    tracker.start()
    tracker.attach()
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
    now = 0.0
    opened = Nvml.open()
    opened.clock = lambda: now
    opened.devices[0].last_time_s = 0.0
    now, gpu.power_mw = 2.0, 300_000
    assert opened.sample(()).joules == pytest.approx(2 * (100 + 300) / 2)
    assert opened.method == "nvml_power"


def test_idle_gpu_draw_is_left_out_of_the_net(nvml, monkeypatch):
    gpu = FakeGpu(energy_mj=0)
    nvml([gpu])
    clock = iter([0.0, 1.0, 2.0, 3.0])
    tracker = GpuEnergy()
    monkeypatch.setattr(energy_module.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(Nvml, "clock", staticmethod(lambda: 0.0))
    tracker.start()
    gpu.energy_mj = 50_000
    tracker.attach()
    gpu.energy_mj = 50_000 + 2 * 400_000
    tracker.sample(tick(2.0, 2.0))
    assert tracker.idle_w == pytest.approx(50.0)
    assert tracker.energy().gross_kwh == pytest.approx(800 / KWH)
    assert tracker.energy().net_kwh == pytest.approx(700 / KWH)


def test_a_lost_gpu_raises(nvml):
    import pynvml

    gpu = FakeGpu()
    nvml([gpu])
    tracker = GpuEnergy()
    tracker.start()
    tracker.attach()
    gpu.lost = True
    with pytest.raises(pynvml.NVMLError):
        tracker.sample(tick(1.0, 1.0))


def test_without_a_driver_there_is_no_gpu(monkeypatch):
    import pynvml

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", missing)
    tracker = GpuEnergy()
    tracker.start()
    tracker.attach()
    seen = tick(1.0, 1.0)
    tracker.sample(seen)
    tracker.stop()
    assert tracker.energy().method == "none"
    assert seen.values == {"gpu_power_w": 0.0}
    assert tracker.gpu().count == 0


def test_a_driver_that_is_slow_to_come_up_is_taken_when_it_is_there(nvml, monkeypatch):
    monkeypatch.setattr(energy_module, "OPEN_WAIT_S", 0.01)
    gpu = FakeGpu(energy_mj=0)
    library = nvml([gpu])
    up = threading.Event()
    library.nvmlDeviceGetCount_v2 = lambda count: (up.wait(30), FakeNvml.nvmlDeviceGetCount_v2(library, count))[1]
    tracker = GpuEnergy()
    tracker.start()
    tracker.attach()
    tracker.sample(tick(1.0, 1.0))
    assert tracker.energy().method == "none"
    up.set()
    tracker._opening.join(30)
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
