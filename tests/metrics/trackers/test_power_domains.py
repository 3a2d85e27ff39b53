"""Power domains: truth against result on machines of every topology, and the rules behind them."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path

import pytest

from a2perf.metrics.trackers.energy import CpuEnergy, RamEnergy
from a2perf.metrics.trackers.power_domains import MIRROR_READINGS, PowerDomains
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.metrics.trackers.uncertainty import short_run_notes
from a2perf.runs.tracking_record import TrackedEnergy, TrackingReport
from tests.waiting import until

from .fake_powercap import FakePowercap
from .power_topologies import KWH, MACHINES, outcome, table, tick

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "energy.md"


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.title.replace(" ", "-"))
def test_result_is_the_truth_within_the_stated_uncertainty(tmp_path, machine) -> None:
    found = outcome(machine, tmp_path)
    assert found.truth > 10
    assert abs(found.result - found.truth) <= found.expanded
    assert found.record.quality == machine.quality
    assert found.record.scope == "machine"
    if machine.exact:
        # nothing but the counters' own steps may separate them, and that is less than two per mille
        assert abs(found.result - found.truth) <= found.without_model <= 0.002 * found.truth
    else:
        assert found.without_model > 0.02 * found.truth


def test_page_shows_rows_of_the_table_of_topologies() -> None:
    shown = {line for line in PAGE.read_text().splitlines() if " J | ± " in line}
    assert len(shown) > 5
    assert shown <= set(table().splitlines())


def test_wrong_sums_of_the_same_trees_are_outside_the_uncertainty(tmp_path) -> None:
    """The uncertainty is narrow enough to tell two mirrored dies from two real ones."""
    machines = {machine.title: machine for machine in MACHINES}
    mirrored = outcome(machines["two dies that mirror one counter (AMD)"], tmp_path / "mirrored")
    assert mirrored.record.method == "rapl:package-0-die-1 mirrors package-0-die-0"
    assert mirrored.result + mirrored.expanded < 2 * mirrored.truth - mirrored.expanded
    platform = outcome(machines["psys alone"], tmp_path / "psys")
    assert platform.record.method == "rapl_psys"
    assert platform.result - platform.expanded > 0


def test_counters_that_agree_are_undecided_until_they_have_advanced(tmp_path) -> None:
    fake = FakePowercap(tmp_path)
    package = fake.register(34.0)
    for die in range(2):
        fake.zone(f"intel-rapl:{die}", f"package-0-die-{die}", package)
    domains = PowerDomains(tmp_path, clock=fake.clock)
    for reading in range(1, MIRROR_READINGS + 1):
        fake.run(0.1)
        domains.read()
        found = domains.processor()
        assert found is not None
        assert found.joules == pytest.approx(3.4 * reading, abs=0.05)
        assert found.undecided_j == (0.0 if reading == MIRROR_READINGS else found.joules)
    assert domains.readable == {"package": 1}


def test_standing_counter_is_not_believed(tmp_path) -> None:
    """A virtual machine may show zones whose counters never move: 0 J measured would be wrong."""
    fake = FakePowercap(tmp_path)
    register = fake.register(60.0, start_uj=5_000_000)
    register.frozen = True
    fake.zone("intel-rapl:0", "package-0", register)
    fake.zone("intel-rapl:0/intel-rapl:0:0", "dram", register)
    shared = {"powercap": tmp_path, "clock": fake.clock, "settle": fake.run}
    cpu, ram = CpuEnergy(force_watts=100.0, **shared), RamEnergy(**shared)
    for tracker in (cpu, ram):
        tracker.start()
        tracker.attach()
    for place in range(1, 6):
        fake.run(0.2)
        for tracker in (cpu, ram):
            tracker.sample(tick(0.2 * place, 0.2))
    account = cpu.energy()
    assert account.method == "tdp_model:force_cpu_power"
    assert account.quality == "estimated"
    assert cpu.model is not None
    assert account.gross_kwh * KWH == pytest.approx(cpu.model.watts_per_thread * 1.0)
    assert not cpu.polled
    assert ram.energy().method.startswith("ram_model:")
    assert ram.energy().gross_kwh * KWH == pytest.approx(0.375 * 1.0)


def test_memory_is_part_of_a_platform_counter(tmp_path) -> None:
    fake = FakePowercap(tmp_path)
    fake.zone("intel-rapl:0", "psys", fake.register(22.0))
    ram = RamEnergy(powercap=tmp_path, clock=fake.clock, settle=fake.run)
    ram.start()
    ram.attach()
    fake.run(1.0)
    ram.sample(tick(1.0, 1.0))
    account = ram.energy()
    assert (account.gross_kwh, account.quality) == (0.0, "none")
    assert account.method == "rapl_psys:part of the platform"


def test_nothing_readable_is_not_measured(tmp_path) -> None:
    fake = FakePowercap(tmp_path)
    fake.zone("intel-rapl:0", "package-0", fake.register(60.0), readable=False)
    domains = PowerDomains(tmp_path, clock=fake.clock)
    assert domains.readable == {}
    assert domains.processor() is None
    assert PowerDomains(tmp_path / "nothing").processor() is None


def test_share_and_idle_draw_of_the_net_are_part_of_its_uncertainty(tmp_path) -> None:
    fake = FakePowercap(tmp_path)
    register = fake.register(10.0)
    fake.zone("intel-rapl:0", "package-0", register)
    cpu = CpuEnergy(powercap=tmp_path, clock=fake.clock, settle=fake.run, amd=False)
    cpu.start()
    fake.run(2.0)
    cpu.attach()
    register.watts = 50.0
    for place in range(1, 11):
        fake.run(1.0)
        sample = tick(float(place), 1.0)
        sample.machine_busy_s = 2.0  # the tree did half of the work
        cpu.sample(sample)
    account = cpu.energy()
    assert account.net_kwh * KWH == pytest.approx((500 - 100) / 2, abs=0.1)
    unsure = account.net_uncertainty
    # IDLE_DRIFT of 100 J and the ratio of powers, both rectangular
    expected = math.hypot(0.5 * 0.1 * 100 / math.sqrt(3), 400 * 0.25 * math.log(2) / math.sqrt(3))
    assert unsure.attribution_kwh * KWH == pytest.approx(expected, rel=0.01)
    assert unsure.model_kwh * KWH == pytest.approx(0.05 * 200 / math.sqrt(3), rel=0.01)
    whole = math.hypot(unsure.attribution_kwh, unsure.model_kwh, unsure.resolution_kwh, unsure.sampling_kwh)
    assert unsure.expanded_kwh == pytest.approx(2 * whole)
    # two seconds of the tree's that may be missing: a tenth of the machine's time
    missing = cpu.energy(unaccounted_s=2.0).net_uncertainty.attribution_kwh * KWH
    assert missing == pytest.approx(math.hypot(expected, 400 * 0.1 / math.sqrt(3)), rel=0.01)


def test_sampler_reads_moving_counters_between_its_samples(tmp_path, spawn) -> None:
    """Files that move in real time, a real process, the real thread: the report holds what the counters counted."""
    fake = FakePowercap(tmp_path / "powercap")
    package = fake.register(60.0, start_uj=5_000_000)
    fake.zone("intel-rapl:0", "package-0", package)
    process = spawn("import sys; sys.stdin.read()")
    ended = threading.Event()

    def move() -> None:
        last_s = time.perf_counter()
        while not ended.wait(0.004):
            now_s = time.perf_counter()
            fake.run(now_s - last_s)
            last_s = now_s

    hardware = threading.Thread(target=move)
    hardware.start()
    try:
        sampler = Sampler(mode="train", with_codecarbon=False, interval_s=60.0, powercap=fake.root)
        sampler.prepare()
        sampler.wait_opened(30.0)
        before_j = fake.true_joules()
        sampler.attach(process.pid)
        inside_j = -fake.true_joules()
        counts = until(lambda: sampler._readings.counts)  # of its thread
        until(lambda: fake.true_joules() + inside_j > 40 and counts[0] > 5)
        inside_j += fake.true_joules()
        report = sampler.stop()
        whole_j = fake.true_joules() - before_j
    finally:
        ended.set()
        hardware.join(300)
    cpu = report.energy.cpu
    assert (cpu.method, cpu.quality, cpu.scope) == ("rapl", "measured", "machine")
    tick_j = 60.0 * 0.05  # counters move in ticks
    assert inside_j - tick_j <= cpu.gross_kwh * KWH <= whole_j + tick_j
    assert cpu.gross_uncertainty.expanded_kwh > 0
    assert report.energy.gross_uncertainty.expanded_kwh >= cpu.gross_uncertainty.expanded_kwh
    assert counts[0] > report.samples


def test_run_that_is_too_short_for_its_counters_says_so(tmp_path) -> None:
    fake = FakePowercap(tmp_path)
    fake.zone("intel-rapl:0", "package-0", fake.register(60.0, start_uj=5_000_000))
    cpu = CpuEnergy(powercap=tmp_path, clock=fake.clock, settle=fake.run, amd=False)
    cpu.start()
    fake.run(0.5)
    cpu.attach()
    notes = {}
    for seconds in (0.004, 1.0):
        fake.run(seconds)
        cpu.sample(tick(seconds, seconds))
        report = TrackingReport(wall_s=seconds, samples=1, energy=TrackedEnergy(cpu=cpu.energy()))
        notes[seconds] = short_run_notes(report)
    assert notes[1.0] == []
    (note,) = notes[0.004]
    assert note.startswith("the run of 0.004 s with 1 sample(s) is too short for its CPU energy")
