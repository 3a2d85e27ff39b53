"""The sampler over real processes: the report, its files, and what happens when a part of it fails."""

from __future__ import annotations

import csv
import itertools
import os
import threading
import time
from importlib import metadata

import msgspec
import pytest

from a2perf.metrics.trackers import sampler as sampler_module
from a2perf.metrics.trackers.emissions import EmissionsSettings
from a2perf.metrics.trackers.host import describe_host
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.metrics.trackers.tick import GROUP
from a2perf.runs.tracking_record import TrackingReport
from tests.commands import run_python

BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"
WAIT = "print('up', flush=True)\nimport sys\nsys.stdin.read()"
PLACE = EmissionsSettings(
    country_iso_code="USA", region="Massachusetts", project_name="mine", force_cpu_power=100.0, measure_power_secs=0.2
)
# The columns of the earlier platform's files, as its analysis reads them, and the three that came since.
FORK_COLUMNS = (
    "timestamp,project_name,run_id,duration,emissions,emissions_rate,cpu_power,gpu_power,ram_power,cpu_energy,"
    "gpu_energy,ram_energy,energy_consumed,country_name,country_iso_code,region,cloud_provider,cloud_region,os,"
    "python_version,codecarbon_version,cpu_count,cpu_model,gpu_count,gpu_model,longitude,latitude,ram_total_size,"
    "ram_process,tracking_mode,on_cloud,pue,method,quality"
)


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def end(process):
    """Waits for a process without reaping it."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def run(spawn, tmp_path, code, **options):
    """Samples a process from its start to its end, as the platform does."""
    options.setdefault("settings", PLACE)
    sampler = Sampler(directory=tmp_path, with_codecarbon=False, **options)
    sampler.prepare()
    process = spawn(code)
    sampler.attach(process.pid)
    sampler.mark("work")
    end(process)
    return sampler.stop()


def test_a_run_of_a_moment_has_a_report_and_a_row(spawn, tmp_path):
    report = run(spawn, tmp_path, "pass", mode="inference")
    assert report.failures == []
    assert 0.001 < report.cpu_seconds < 5
    assert report.emissions.kg_co2eq == pytest.approx(report.energy.gross_kwh * 0.3765, rel=1e-3)
    (row,) = rows(tmp_path / "inference_emissions.csv")
    assert float(row["energy_consumed"]) == pytest.approx(report.energy.gross_kwh)
    assert float(row["duration"]) == pytest.approx(report.wall_s)
    assert row["run_id"] == report.run_id
    assert report.files == {"emissions": "inference_emissions.csv", "system_trace": "system_trace.csv"}


def test_numbers_of_a_run_agree_with_each_other_and_with_the_kernel(spawn, tmp_path):
    code = "block = bytearray(30_000_000); block[::4096] = b'x' * len(block[::4096])\n" + BURN.format(seconds=0.9)
    sampler = Sampler(directory=tmp_path, settings=PLACE, with_codecarbon=False)
    sampler.prepare()
    process = spawn(code)
    sampler.attach(process.pid)
    end(process)
    report = sampler.stop()
    assert sampler.stop() is report
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    assert report.cpu_seconds == pytest.approx(usage.ru_utime + usage.ru_stime, abs=0.001)
    watts_per_thread = 100.0 / describe_host().cpu_count
    assert report.energy.cpu.gross_kwh == pytest.approx(report.cpu_seconds * watts_per_thread / 3.6e6)
    assert report.energy.gross_kwh == pytest.approx(report.energy.cpu.gross_kwh + report.energy.ram.gross_kwh)
    assert report.energy.power_mean_w == pytest.approx(report.energy.gross_kwh * 3.6e6 / report.wall_s)
    assert report.energy.quality == "estimated"
    assert report.energy.cpu.method == "tdp_model:force_cpu_power"
    assert report.emissions.method == "a2perf:tdp_model+factor:USA/Massachusetts"
    assert 36e6 < report.rss_peak_bytes < 60e6
    assert 0 < report.rss_mean_bytes <= report.rss_peak_bytes
    assert report.pss_peak_bytes is not None
    assert 28e6 < report.pss_peak_bytes <= report.rss_peak_bytes
    assert (report.processes_peak, report.threads_peak) == (1, 1)
    assert 0 < report.own_cpu_seconds < report.wall_s
    assert msgspec.json.decode(msgspec.json.encode(report), type=TrackingReport) == report


def test_files_have_the_columns_of_the_earlier_platform_and_a_row_for_every_interval(spawn, tmp_path):
    report = run(spawn, tmp_path, BURN.format(seconds=0.7))
    path = tmp_path / "train_emissions.csv"
    assert path.read_text().splitlines()[0] == FORK_COLUMNS
    lines = rows(path)
    assert len(lines) >= 3
    for name in ("duration", "emissions", "energy_consumed", "cpu_energy", "ram_energy"):
        values = [float(line[name]) for line in lines]
        assert values == sorted(values)
        assert values[-1] > 0
    assert {line["project_name"] for line in lines} == {"mine"}
    assert {line["pue"] for line in lines} == {"1.0"}
    last = lines[-1]
    assert (last["country_name"], last["country_iso_code"], last["region"]) == ("United States", "USA", "Massachusetts")
    assert float(last["emissions"]) == pytest.approx(report.emissions.kg_co2eq)
    assert float(last["ram_process"]) * 2**30 > 5e6
    assert last["method"] == f"{report.energy.method};emissions={report.emissions.method}"
    assert last["quality"] == "estimated"
    # Power is the mean since the row before, so that power times time adds up to the energy.
    steps = [(float(b["duration"]) - float(a["duration"]), float(b["cpu_power"])) for a, b in itertools.pairwise(lines)]
    energy = float(lines[0]["cpu_power"]) * float(lines[0]["duration"]) + sum(s * w for s, w in steps)
    assert energy / 3.6e6 == pytest.approx(report.energy.cpu.gross_kwh, rel=0.25)
    trace = rows(tmp_path / "system_trace.csv")
    assert len(trace) == report.samples
    seconds = [float(row["cpu_seconds"]) for row in trace]
    assert seconds == sorted(seconds)
    assert seconds[-1] == pytest.approx(report.cpu_seconds, abs=1e-3)
    assert max(int(row["rss_bytes"]) for row in trace if row["rss_bytes"]) > 5e6
    assert max(float(row["cpu_power_w"]) for row in trace) > 0
    assert all(row["load_1m"] for row in trace)
    assert trace[-1]["phase"] == "work"


def test_a_resumed_run_appends_with_its_own_id_and_its_own_zero(spawn, tmp_path):
    first = run(spawn, tmp_path, BURN.format(seconds=0.3))
    path = tmp_path / "train_emissions.csv"
    complete = len(rows(path))
    with path.open("a") as file:
        file.write("2026-01-01T00:00:00,mine,torn")  # a killed writer's last words
    second = run(spawn, tmp_path, "pass")
    lines = rows(path)
    assert len(lines) == complete + 1
    assert {line["run_id"] for line in lines} == {first.run_id, second.run_id}
    assert float(lines[-1]["energy_consumed"]) == pytest.approx(second.energy.gross_kwh)
    assert second.energy.gross_kwh < first.energy.gross_kwh


def test_a_file_with_other_columns_is_set_aside(spawn, tmp_path):
    (tmp_path / "train_emissions.csv").write_text("a,b\n1,2\n")
    run(spawn, tmp_path, "pass")
    assert (tmp_path / "train_emissions.1.csv").read_text() == "a,b\n1,2\n"
    assert len(rows(tmp_path / "train_emissions.csv")) == 1


def test_the_past_of_an_older_process_is_not_the_runs(spawn):
    process = spawn(BURN.format(seconds=0.6) + WAIT)
    assert process.stdout.readline() == b"up\n"
    time.sleep(max(0.0, 1.1 - 0.6))
    sampler = Sampler()
    sampler.attach(process.pid)
    time.sleep(0.05)
    assert sampler.stop().cpu_seconds < 0.1


class Odd:
    """A tracker that fails when told to."""

    name = "odd"
    columns: tuple[str, ...] = ("never",)

    def __init__(self, failing=None):
        self.failing = failing
        self.calls = []

    def _call(self, name):
        self.calls.append(name)
        if name == self.failing:
            raise RuntimeError("no such sensor")

    def start(self):
        self._call("start")

    def attach(self):
        self._call("attach")

    def sample(self, tick):
        tick.values["odd"] = 1
        self._call("sample")

    def stop(self):
        self._call("stop")


@pytest.mark.parametrize("failing", ["start", "attach", "sample", "stop"])
def test_a_tracker_that_raises_is_named_and_the_run_goes_on(spawn, tmp_path, failing):
    odd = Odd(failing)
    report = run(spawn, tmp_path, BURN.format(seconds=0.2), trackers=[odd])
    assert [(failure.tracker, failure.error) for failure in report.failures] == [
        ("odd", "RuntimeError: no such sensor")
    ]
    assert odd.calls.count(failing) == 1
    assert odd.calls[-1] == failing
    assert report.cpu_seconds >= 0.18
    assert len(rows(tmp_path / "train_emissions.csv")) >= 1


def test_a_tracker_of_the_caller_sees_every_sample(spawn, tmp_path):
    odd = Odd()
    report = run(spawn, tmp_path, BURN.format(seconds=0.2), trackers=[odd])
    assert odd.calls == ["start", "attach", *["sample"] * report.samples, "stop"]


class Processes(Odd):
    """Counts the processes of the tree."""

    columns = ("tree_processes",)

    def sample(self, tick):
        tick.values["tree_processes"] = tick.tree.processes


class Taken(Odd):
    columns = ("elapsed_s",)


class Raises(Odd):
    def sample(self, tick):
        raise RuntimeError("no device")


def test_column_of_an_installed_tracker_is_in_the_trace(monkeypatch, spawn, tmp_path):
    points = [
        metadata.EntryPoint(kind.__name__.lower(), f"{kind.__module__}:{kind.__name__}", GROUP)
        for kind in (Processes, Taken, Raises, int)
    ]
    monkeypatch.setattr("a2perf.plugins.entry_points", lambda group: points if group == GROUP else [])
    report = run(spawn, tmp_path, BURN.format(seconds=0.4), interval_s=0.1)
    trace = rows(tmp_path / "system_trace.csv")
    assert "1" in [row["tree_processes"] for row in trace]
    assert all(row["never"] == "" for row in trace)
    failures = {failure.tracker: failure.error for failure in report.failures}
    assert failures["odd"] == "RuntimeError: no device"
    assert "the column 'elapsed_s' is taken" in failures["taken"]
    assert "no method start()" in failures["int"]


def test_a_tracker_that_hangs_does_not_hold_the_run_up(spawn, tmp_path, monkeypatch):
    monkeypatch.setattr(sampler_module, "STOP_TIMEOUT_S", 0.3)
    release = threading.Event()
    hanging = Odd()
    calls = itertools.count()
    hanging.sample = lambda tick: release.wait(300) if next(calls) else None
    report = run(spawn, tmp_path, BURN.format(seconds=0.3), trackers=[hanging])
    assert [failure.tracker for failure in report.failures] == ["sampler"]
    assert report.samples >= 1
    before = (tmp_path / "system_trace.csv").read_bytes()
    release.set()
    for thread in threading.enumerate():
        if thread.name == "a2perf-sampler":
            thread.join(300)
    assert (tmp_path / "system_trace.csv").read_bytes() == before


def test_a_process_tree_that_cannot_be_read_leaves_the_rest(spawn, tmp_path, monkeypatch):
    def broken(self, *, thorough=False):
        raise PermissionError("/proc")

    monkeypatch.setattr("a2perf.metrics.trackers.process_tree.ProcTree.sample", broken)
    report = run(spawn, tmp_path, BURN.format(seconds=0.2))
    assert [failure.tracker for failure in report.failures] == ["process_tree"]
    assert report.cpu_seconds == 0
    assert report.wall_s > 0
    assert len(rows(tmp_path / "train_emissions.csv")) >= 1


@pytest.mark.parametrize("obstacle", ["no folder", "full"])
def test_files_that_cannot_be_written_leave_the_report(spawn, tmp_path, obstacle):
    folder = tmp_path / "metrics"
    if obstacle == "no folder":
        folder.write_text("a file where the folder should be")
    else:
        folder.mkdir()
        (folder / "train_emissions.csv").symlink_to("/dev/full")
    report = run(spawn, folder, BURN.format(seconds=0.2))
    assert [failure.tracker for failure in report.failures] == ["files"]
    assert report.files == {}
    assert report.cpu_seconds >= 0.18


def test_a_sampler_that_was_never_attached_stops_with_an_empty_report():
    sampler = Sampler()
    sampler.prepare()
    report = sampler.stop()
    assert (report.samples, report.wall_s, report.failures) == (0, 0.0, [])
    assert sampler.stop() is report


def test_a_pid_that_is_gone_already_is_an_empty_run(spawn, tmp_path):
    process = spawn("pass")
    process.wait(300)
    sampler = Sampler(directory=tmp_path, with_codecarbon=False)
    sampler.attach(process.pid)
    report = sampler.stop()
    assert report.failures == []
    assert (report.cpu_seconds, report.processes_peak) == (0.0, 0)
    assert len(rows(tmp_path / "train_emissions.csv")) == 1


def test_devices_behind_the_real_pynvml_appear_in_report_and_rows(spawn, tmp_path, nvml):
    from .fake_nvml import FakeGpu

    gpu = FakeGpu(power_mw=250_000)
    nvml([gpu])
    process = spawn(WAIT)
    sampler = Sampler(directory=tmp_path, settings=PLACE, with_codecarbon=False)
    sampler.prepare()
    assert process.stdout.readline() == b"up\n"
    gpu.processes[process.pid] = 7_000_000_000
    sampler.attach(process.pid)
    time.sleep(0.15)
    gpu.energy_mj += 36_000
    process.stdin.close()
    end(process)
    report = sampler.stop()
    assert report.energy.gpu.gross_kwh == pytest.approx(36 / 3.6e6)
    assert report.energy.gpu.method == "nvml"
    assert report.energy.quality == "estimated"  # the processor's is
    assert report.gpu.memory_peak_bytes == 7_000_000_000
    last = rows(tmp_path / "train_emissions.csv")[-1]
    assert (last["gpu_count"], last["gpu_model"]) == ("1", "1 x NVIDIA H200")
    assert float(last["gpu_energy"]) == pytest.approx(36 / 3.6e6)


SCRIPT = """
import os, subprocess, sys, time
from pathlib import Path
from a2perf.metrics.trackers.emissions import EmissionsSettings
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.metrics.trackers.tick import GROUP
folder, own, wait_s = Path(sys.argv[1]), sys.argv[2] or None, float(sys.argv[3])
place = {"country_iso_code": "USA", "region": "Massachusetts"}
settings = EmissionsSettings(**place, log_level="debug", save_to_file=True, output_dir=own)
sampler = Sampler(directory=folder, settings=settings)
process = subprocess.Popen(["sleep", "600"])
sampler.attach(process.pid)
deadline = time.monotonic() + wait_s
tracker = sampler._recorder._emissions
while time.monotonic() < deadline and not (tracker._outputs and tracker._outputs._running):
    time.sleep(0.02)
report = sampler.stop()
process.kill(); process.wait()
import msgspec
Path(folder, "report.json").write_bytes(msgspec.json.encode(report))
Path(folder, "imported").write_text(str("codecarbon" in sys.modules))
"""


def script(tmp_path, own, wait_s):
    done = run_python(SCRIPT, tmp_path, own, wait_s)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    report = msgspec.json.decode((tmp_path / "report.json").read_bytes(), type=TrackingReport)
    assert report.emissions.method == "a2perf:tdp_model+factor:USA/Massachusetts"
    assert report.emissions.kg_per_kwh == pytest.approx(0.3765, abs=5e-5)
    assert report.emissions.kg_co2eq == pytest.approx(report.energy.gross_kwh * report.emissions.kg_per_kwh)
    assert rows(tmp_path / "train_emissions.csv")[-1]["method"].endswith("+factor:USA/Massachusetts")
    return report


def test_a_run_never_imports_codecarbon_unless_its_outputs_are_wanted(tmp_path):
    report = script(tmp_path, "", 1.5)
    assert report.failures == []
    assert (tmp_path / "imported").read_text() == "False"
    assert "codecarbon_log" not in report.files


def test_codecarbon_writes_its_own_file_quietly_where_it_is_told_to(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    report = script(tmp_path, str(own), 300)
    assert report.failures == []
    assert "Tracker's metadata" in (tmp_path / "codecarbon.log").read_text()
    assert report.files["codecarbon_log"] == "codecarbon.log"
    (row,) = rows(own / "emissions.csv")
    assert row["country_iso_code"] == "USA"
    assert not (tmp_path / "emissions.csv").exists()


@pytest.mark.parametrize("wait_s", [0.02, 0.6])
def test_leaving_while_codecarbon_is_still_starting_is_clean_and_said(tmp_path, wait_s):
    (failure,) = script(tmp_path, str(tmp_path), wait_s).failures
    assert "the run ended before it had started" in failure.error
