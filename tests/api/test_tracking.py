"""a2perf.track: costs of blocks of code, in every form, with real processes and real records."""

from __future__ import annotations

import json
import logging
import pickle
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import a2perf
from a2perf.errors import ConfigError, UserError
from a2perf.metrics.trackers.sampler import Sampler
from a2perf.runs.bundles.bundle import validate
from a2perf.runs.reading import read_runs
from tests.commands import run_command, run_python


def work(seconds: float) -> None:
    """Uses processor time of this process."""
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass


def test_the_costs_of_a_block_are_those_of_its_work() -> None:
    work(0.3)  # before the block: not counted
    with a2perf.track("work") as tracked:
        work(0.4)
    assert tracked.elapsed_s >= 0.4
    assert tracked.wall_clock.value == tracked.elapsed_s
    assert 0.39 < tracked.cpu_time.value < 0.65
    assert tracked.cpu_time.unit == "s"
    energy = tracked.energy
    assert energy.unit == "kWh"
    assert energy.value > 0
    assert energy.provenance in ("measured", "estimated")
    assert energy.method
    assert tracked.power.value == pytest.approx(3.6e6 * energy.value / tracked.elapsed_s, rel=0.01)
    assert tracked.memory.value > 20 << 20


def test_child_processes_count() -> None:
    code = "import time\nt = time.process_time()\nwhile time.process_time() - t < 0.5: pass"
    with a2perf.track() as tracked:
        run_command([sys.executable, "-S", "-c", code], check=True)
    assert 0.48 < tracked.cpu_time.value < 1.0
    assert tracked.report.processes_peak >= 2


def test_memory_of_the_time_before_the_block_does_not_count() -> None:
    code = """
        import a2perf
        held = bytearray(300 << 20)
        held[:: 4096] = b"x" * len(held[:: 4096])
        del held
        with a2perf.track() as before:
            pass
        with a2perf.track() as inside:
            held = bytearray(300 << 20)
            held[:: 4096] = b"x" * len(held[:: 4096])
            del held
        again = bytearray(400 << 20)
        again[:: 4096] = b"x" * len(again[:: 4096])
        print(before.memory.value, inside.memory.value)
    """
    done = run_python(code, check=True)
    before, inside = map(float, done.stdout.split())
    assert before < 200 << 20
    # the block frees it between samples; the kernel's high-water mark only rose in the first block of the process
    assert inside < 400 << 20


def test_a_peak_between_two_samples_is_seen() -> None:
    code = """
        import a2perf, time
        with a2perf.track() as tracked:
            time.sleep(0.6)
            held = bytearray(300 << 20)
            held[:: 4096] = b"x" * len(held[:: 4096])
            del held
        print(tracked.memory.value)
    """
    done = run_python(code, check=True)
    assert float(done.stdout) > 300 << 20


SPIKES = """
    import a2perf, sys, time
    from a2perf.metrics.trackers import procfs
    if "refused" in sys.argv:
        procfs.reset_rss_high_water = lambda pid: False  # as on kernels without clear_refs
    def spike(mebibytes):
        time.sleep(0.6)
        held = bytearray(mebibytes << 20)
        held[:: 4096] = b"x" * len(held[:: 4096])
    with a2perf.track() as outer:
        spike(400)
        with a2perf.track() as second:
            spike(200)
        with a2perf.track() as third:
            time.sleep(0.6)
    print(outer.memory.value, second.memory.value, third.memory.value)
    print(second)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has marks of resident memory that can be reset")
def test_each_block_has_its_own_peak() -> None:
    done = run_python(SPIKES, check=True)
    outer, second, third = (float(text) / 2**20 for text in done.stdout.split()[:3])
    assert outer > 400
    assert 200 < second < 400
    assert third < 200
    assert "at least" not in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has marks of resident memory that can be reset")
def test_a_peak_that_an_earlier_one_may_hide_is_a_lower_bound() -> None:
    done = run_python(SPIKES, "refused", check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.strip().startswith("peak memory")]
    assert "at least" in line


def test_the_live_block_reads_the_costs_so_far() -> None:
    with a2perf.track() as tracked:
        assert tracked.is_running
        work(0.3)
        first = (tracked.cpu_time.value, tracked.energy.value, tracked.elapsed_s)
        work(0.3)
        second = (tracked.cpu_time.value, tracked.energy.value, tracked.elapsed_s)
        assert "running" in str(tracked)
    assert 0.2 < first[0] < second[0] <= tracked.cpu_time.value
    assert 0 < first[1] < second[1] <= tracked.energy.value
    assert first[2] < second[2] <= tracked.elapsed_s
    assert not tracked.is_running
    assert "running" not in str(tracked)


def test_phases_share_the_costs_and_sum_to_the_whole() -> None:
    with a2perf.track("training") as tracked:
        time.sleep(0.15)
        tracked.mark("busy")
        work(0.4)
        tracked.mark("idle")
        time.sleep(0.3)
        tracked.mark("busy")
        work(0.2)
    assert list(tracked.phases) == ["busy", "idle"]
    busy, idle = tracked.phases["busy"], tracked.phases["idle"]
    assert busy.cpu_seconds == pytest.approx(0.6, abs=0.15)
    assert idle.cpu_seconds < 0.15
    assert idle.wall_s >= 0.3
    frame = tracked.to_pandas()
    assert frame["phase"].tolist() == ["busy", "idle", None]
    assert frame["wall_clock"].sum() == pytest.approx(tracked.elapsed_s)
    assert frame["energy"].sum() == pytest.approx(tracked.energy.value)
    assert frame["cpu_time"].sum() == pytest.approx(tracked.cpu_time.value)
    assert frame.attrs["units"]["energy"] == "kWh"
    assert "busy" in str(tracked)


def test_a_block_without_phases_is_one_row_and_a_run_for_exporters() -> None:
    with a2perf.track("one", task="dog_pace", seed=4) as tracked:
        pass
    run = tracked.run
    assert (run.algorithm, run.identity.task, run.identity.seed, run.mode) == ("one", "dog_pace", 4, "train")
    assert run.tracking is tracked.report
    (row,) = tracked.table().rows()
    assert row["phase"] is None
    assert row["wall_clock"] == tracked.elapsed_s
    assert row["memory_peak"] == tracked.memory.value
    frame = tracked.to_pandas()
    assert frame.shape == (1, 6)
    assert frame.attrs["units"]["energy"] == "kWh"


def test_nested_blocks_each_count_the_whole_process() -> None:
    with a2perf.track("outer") as outer:
        work(0.2)
        with a2perf.track("inner") as inner:
            work(0.2)
    assert inner.cpu_time.value == pytest.approx(0.2, abs=0.08)
    assert outer.cpu_time.value == pytest.approx(0.4, abs=0.12)
    assert outer.energy.value > inner.energy.value


def test_blocks_in_threads_each_count_the_whole_process() -> None:
    found: dict[str, a2perf.Tracked] = {}
    inside, worked = threading.Barrier(2, timeout=300), threading.Event()

    def run(name: str) -> None:
        with a2perf.track(name) as tracked:
            inside.wait(300)  # entering a block takes a while, and the blocks must overlap
            if name == "waits":
                worked.wait(300)
            else:
                work(0.3)
                worked.set()
        found[name] = tracked

    threads = [threading.Thread(target=run, args=(name,)) for name in ("waits", "works")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert found["works"].cpu_time.value > 0.25
    assert found["waits"].cpu_time.value > 0.25  # of the other thread
    assert not [thread for thread in threading.enumerate() if thread.name == "a2perf-sampler"]


def test_the_decorator_keeps_one_result_per_call() -> None:
    @a2perf.track
    def plain(value: int) -> int:
        """Doubles."""
        return 2 * value

    @a2perf.track("named")
    def named() -> None:
        raise KeyError("x")

    assert [plain(1), plain(2)] == [2, 4]
    assert plain.__doc__ == "Doubles."
    assert len(plain.tracked) == 2
    assert plain.tracked[0].name.endswith("plain")
    with pytest.raises(KeyError):
        named()
    assert named.tracked[-1].name == "named"
    assert named.tracked[-1].failure == "KeyError: 'x'"


def test_a_generator_is_tracked_by_a_block_in_it() -> None:
    def numbers():
        with a2perf.track("generator") as tracked:
            yield tracked

    running = numbers()
    tracked = next(running)
    running.close()
    assert tracked.failure == ""
    assert not tracked.is_running
    with pytest.raises(ConfigError, match="a generator or coroutine cannot be decorated"):
        a2perf.track(numbers)


def test_pickle_and_equality_use_the_values() -> None:
    with a2perf.track("a") as tracked:
        tracked.mark("phase")
        live = pickle.loads(pickle.dumps(tracked))
    copy = pickle.loads(pickle.dumps(tracked))
    assert copy == tracked
    assert hash(copy) == hash(tracked)
    assert str(copy) == str(tracked)
    assert live != tracked
    with a2perf.track("a") as other:
        pass
    assert other != tracked
    assert tracked != "a"


def test_a_recorded_block_is_a_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        with a2perf.track("ppo", folder=tmp_path / f"seed_{seed}", task="dog_pace", seed=seed) as tracked:
            work(0.1)
            (tracked.artifacts / "note.txt").write_text("kept")
        assert tracked.bundle == tmp_path / f"seed_{seed}" / "train"
        assert validate(tracked.bundle) == []
    first, second = read_runs([tmp_path])
    assert (first.algorithm, first.identity.task, first.identity.domain) == ("ppo", "dog_pace", "quadruped_locomotion")
    assert (first.state, first.identity.seed, second.identity.seed) == ("finished", 0, 1)
    assert second.tracking.energy.gross_kwh == tracked.energy.value
    assert second.wall_clock_s == tracked.elapsed_s
    assert (tracked.bundle / "artifacts" / "note.txt").read_text() == "kept"
    scores = a2perf.score(tmp_path).document
    (group,) = scores["groups"]
    assert group["seeds"] == [0, 1]
    assert group["scores"]["cpu_time"]["n"] == 2


def test_a_second_record_keeps_the_first_one(tmp_path: Path) -> None:
    for name in ("first", "second"):
        with a2perf.track(name, folder=tmp_path):
            pass
    (run,) = read_runs([tmp_path])
    assert run.algorithm == "second"
    (archived,) = (tmp_path / "attic").iterdir()
    assert json.loads((archived / "manifest.json").read_text())["submission"]["name"] == "first"


def test_a_failure_passes_and_is_recorded_with_the_numbers_and_its_traceback(tmp_path: Path) -> None:
    def diverge() -> None:
        work(0.1)
        1 / 0  # noqa: B018

    with pytest.raises(ZeroDivisionError), a2perf.track(folder=tmp_path / "bad") as tracked:
        diverge()
    assert tracked.failure == "ZeroDivisionError: division by zero"
    assert tracked.cpu_time.value > 0.09
    assert "ended by ZeroDivisionError: division by zero" in str(tracked)
    (run,) = read_runs([tmp_path / "bad"])
    assert run.state == "failed"
    assert run.manifest.failure.message == "ZeroDivisionError: division by zero"
    assert "1 / 0" in run.manifest.failure.traceback
    with pytest.raises(KeyboardInterrupt), a2perf.track(folder=tmp_path / "stopped"):
        raise KeyboardInterrupt
    (run,) = read_runs([tmp_path / "stopped"])
    assert run.state == "interrupted"
    with pytest.raises(SystemExit), a2perf.track(folder=tmp_path / "done"):
        sys.exit(0)
    (run,) = read_runs([tmp_path / "done"])
    assert run.state == "finished"


def test_a_killed_block_leaves_a_readable_record(tmp_path: Path) -> None:
    code = f"""
        import a2perf, os, signal, time
        with a2perf.track("killed", folder={str(tmp_path)!r}):
            time.sleep(0.7)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    done = run_python(code)
    assert done.returncode == -9
    (run,) = read_runs([tmp_path])
    assert run.state == "unfinished"
    assert run.tracking.wall_s >= 0.5


def test_a_record_that_cannot_be_completed_is_a_warning(tmp_path: Path) -> None:
    def obstruct(bundle: Path) -> None:
        for attempt in range(100):
            (bundle / "metrics").rename(tmp_path / f"gone_{attempt}")
            try:
                (bundle / "metrics").write_text("in the way")
            except IsADirectoryError:  # a sample was written in between
                continue
            return

    with pytest.warns(UserWarning, match="is not complete"), a2perf.track(folder=tmp_path) as tracked:
        obstruct(tracked.bundle)
    assert tracked.energy.value is not None


def test_calls_of_a_decorated_function_have_their_own_records(tmp_path: Path) -> None:
    @a2perf.track("fit", folder=tmp_path)
    def fit() -> None:
        pass

    fit()
    fit()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["call_0", "call_1"]
    assert len(read_runs([tmp_path])) == 2


def test_a_fork_inside_of_the_block_does_not_end_it(tmp_path: Path) -> None:
    code = f"""
        import a2perf, os, sys, time
        with a2perf.track("fork", folder={str(tmp_path)!r}) as tracked:
            pid = os.fork()
            if pid == 0:
                sys.exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            time.sleep(0.1)
        print(tracked.elapsed_s)
    """
    done = run_python(code, check=True)
    assert float(done.stdout) >= 0.1
    (run,) = read_runs([tmp_path])
    assert run.state == "finished"


class _Recorder:
    """A logger of values by name."""

    def __init__(self) -> None:
        self.logged: list[tuple[int, dict[str, float]]] = []

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.logged.append((step, dict(values)))

    def close(self) -> None:
        raise AssertionError("the logger belongs to the caller")


def test_the_costs_go_to_a_logger_of_values() -> None:
    recorder = _Recorder()
    with a2perf.track("a", logger=recorder) as tracked:
        sum(range(1000))
    ((step, values),) = recorder.logged
    assert step == 0
    assert values == {f"a2perf/{name}": cost.value for name, cost in tracked.costs.items()}
    assert values["a2perf/wall_clock"] > 0


def test_a_logger_that_fails_is_a_warning() -> None:
    def broken(tracked: a2perf.Tracked) -> None:
        raise RuntimeError("the tracker is down")

    expected = pytest.warns(UserWarning, match="the costs of a were not logged: the tracker is down")
    with expected, a2perf.track("a", logger=broken) as tracked:
        sum(range(1000))
    assert tracked.wall_clock.value is not None


def test_the_result_goes_to_a_logger_or_a_function(caplog: pytest.LogCaptureFixture) -> None:
    received: list[a2perf.Tracked] = []
    with a2perf.track("a", logger=received.append) as tracked:
        pass
    assert received == [tracked]
    with caplog.at_level(logging.INFO), a2perf.track("b", logger=logging.getLogger("mine")):
        pass
    (record,) = caplog.records
    assert record.name == "mine"
    assert record.getMessage().startswith("b: ")


def test_idle_power_is_measured_on_request() -> None:
    began = time.perf_counter()
    with a2perf.track(idle_s=0.3) as tracked:
        work(0.1)
    took = time.perf_counter() - began
    assert took - tracked.elapsed_s >= 0.3  # it is no part of the block
    assert tracked.report.idle.taken.startswith("before")
    with a2perf.track() as tracked:
        work(0.2)
    assert tracked.report.idle.taken == "not taken"


def test_a_slow_start_is_no_idle_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine the counters open late; without a request that time must not become the idle draw."""
    monkeypatch.setattr(Sampler, "wait_opened", lambda self, timeout: time.sleep(0.3))
    with a2perf.track() as tracked:
        work(0.2)
    assert tracked.report.idle.taken == "not taken"
    assert tracked.energy_net.value == pytest.approx(tracked.energy.value)


def test_texts_of_strangers_are_escaped() -> None:
    with a2perf.track("<script>alert(1)</script>\x1b[31m") as tracked:
        tracked.mark("\x1b[1mb")
    assert "\x1b" not in str(tracked)
    assert max(map(len, str(tracked).splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": 3}, "the name of a block is text, not int"),
        ({"interval_s": 0}, "interval_s = 0 is not a positive number"),
        ({"idle_s": -1}, "idle_s = -1 is negative"),
        ({"logger": "stdout"}, "a str cannot receive the result"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        a2perf.track(**arguments)


def test_a_block_is_entered_once(tmp_path: Path) -> None:
    block = a2perf.track()
    with block:
        pass
    with pytest.raises(UserError, match="has been entered before"), block:
        pass
    with pytest.raises(ConfigError, match="cannot be written"), a2perf.track(folder="/proc/no"):
        pass
