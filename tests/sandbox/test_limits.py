"""Control groups of both versions: found, made, set, read and removed; on this host and in trees of files."""

import os
import signal
import tempfile
import threading
from pathlib import Path

import pytest

from a2perf.runs.bundles import process_identity
from a2perf.sandbox import Limits, limits
from a2perf.sandbox.guard.accounts import Accounts
from a2perf.sandbox.limits import ControlGroup, GroupParent, counters, find_place, most_tasks
from a2perf.submission.evaluator.process import participant_home
from tests.waiting import Child

MIB = 2**20
SECOND = "35 25 0:30 {root} {point} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
FIRST = "{id} 25 0:3{id} / {point} rw,nosuid shared:{id} - cgroup cgroup rw,{options}\n"


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """A tree of files with the names of version 2."""
    base = tmp_path / "cgroup" / "user.slice" / "run.scope"
    base.mkdir(parents=True)
    (base / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (base / "cgroup.subtree_control").write_text("memory pids cpu\n")
    (base / "cgroup.procs").write_text("")
    return base


def test_version_2_is_found_below_the_own_group(tmp_path: Path, second: Path) -> None:
    place = find_place(SECOND.format(root="/", point=tmp_path / "cgroup"), "0::/user.slice/run.scope\n")
    assert place == GroupParent(2, dict.fromkeys(("memory", "pids", "cpu"), second))
    assert place.enforces == {"memory_bytes", "processes", "cpus"}


def test_version_2_in_a_container_starts_at_the_root_that_it_sees(tmp_path: Path, second: Path) -> None:
    mounted = SECOND.format(root="/user.slice", point=tmp_path / "cgroup" / "user.slice")
    assert find_place(mounted, "0::/user.slice/run.scope\n").parents["memory"] == second


def test_evaluator_that_was_moved_aside_makes_groups_beside_itself(tmp_path: Path, second: Path) -> None:
    mounted = SECOND.format(root="/", point=tmp_path / "cgroup")
    assert find_place(mounted, "0::/user.slice/run.scope/a2perf-evaluators\n").parents["pids"] == second


def test_version_1_wins_beside_an_empty_version_2(tmp_path: Path) -> None:
    for name in ("memory/job", "pids", "unified"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "unified" / "cgroup.controllers").write_text("hugetlb\n")
    mounted = "".join(
        FIRST.format(id=number, point=tmp_path / name, options=name) for number, name in enumerate(("memory", "pids"))
    )
    mounted += SECOND.format(root="/", point=tmp_path / "unified")
    place = find_place(mounted, "8:pids:/\n4:memory:/job\n0::/\n")
    assert place == GroupParent(1, {"memory": tmp_path / "memory" / "job", "pids": tmp_path / "pids"})
    assert place.enforces == {"memory_bytes", "processes"}


def test_host_without_control_groups_enforces_nothing() -> None:
    assert find_place("22 1 8:1 / / rw - ext4 /dev/root rw\n", "0::/\n").enforces == frozenset()


def test_limits_are_written_in_the_words_of_version_2(second: Path) -> None:
    place = GroupParent(2, dict.fromkeys(("memory", "pids", "cpu"), second))
    made = _prepared(second)
    group = ControlGroup(place, Limits(memory_bytes=64 * MIB, processes=10, cpus=1.5))
    (folder,) = group.paths
    assert folder.parent == second
    assert {name: (folder / name).read_text() for name in ("memory.max", "pids.max", "cpu.max")} == {
        "memory.max": str(64 * MIB),
        "pids.max": str(most_tasks(10)),
        "cpu.max": "150000 100000",
    }
    assert group.document()["join"] == [str(folder / "cgroup.procs")]
    assert made == folder.name


def _prepared(base: Path) -> str:
    """Makes the folder that the next group will have, with the one file that decides about swap."""
    name = f"a2perf-run-{process_identity.mark()}-{next(limits._numbers) + 1}"
    (base / name).mkdir()
    (base / name / "memory.swap.max").write_text("max")
    return name


def test_swap_is_closed_in_version_2(second: Path) -> None:
    name = _prepared(second)
    ControlGroup(GroupParent(2, {"memory": second}), Limits(memory_bytes=MIB))
    assert (second / name / "memory.swap.max").read_text() == "0"


def test_processes_of_the_own_group_move_aside_when_version_2_demands_it(second: Path, monkeypatch) -> None:
    (second / "cgroup.subtree_control").write_text("")
    (second / "cgroup.procs").write_text("17\n18\n")
    moved: list[str] = []
    write = Path.write_text

    def kernel(self: Path, text: str, **rest) -> int:
        if self == second / "cgroup.subtree_control" and not moved:
            raise OSError(16, "Device or resource busy")  # what the kernel says while the group has processes
        if self == second / "a2perf-evaluators" / "cgroup.procs":
            moved.append(text)
        return write(self, text, **rest)

    monkeypatch.setattr(Path, "write_text", kernel)
    ControlGroup(GroupParent(2, {"memory": second, "pids": second}), Limits())
    assert moved == ["17", "18"]
    assert (second / "cgroup.subtree_control").read_text() == "+memory +pids"


@pytest.mark.parametrize(
    ("version", "files", "expected"),
    [
        (
            1,
            {
                "memory.max_usage_in_bytes": "4096\n",
                "memory.oom_control": "under_oom 0\noom_kill 3\n",
                "cpuacct.usage": "2500000000\n",
                "pids.current": "7\n",
                "pids.events": "max 5\n",
            },
            {"memory_peak": 4096, "oom_kills": 3, "cpu": 2_500_000_000, "tasks": 7, "refused_forks": 5},
        ),
        (
            2,
            {
                "memory.peak": "8192\n",
                "memory.events": "low 0\noom 1\noom_kill 2\n",
                "cpu.stat": "usage_usec 1500000\nuser_usec 1\n",
                "pids.current": "9\n",
                "pids.events": "max 4\n",
            },
            {"memory_peak": 8192, "oom_kills": 2, "cpu": 1_500_000, "tasks": 9, "refused_forks": 4},
        ),
    ],
)
def test_counters_are_read_in_both_versions(tmp_path: Path, version: int, files, expected) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    folders = dict.fromkeys(limits.CONTROLLERS, tmp_path)
    accounts = Accounts({"counters": counters(version, folders)})
    assert {name: accounts.read(name) for name in expected} == expected


def test_counter_that_the_host_does_not_keep_is_zero() -> None:
    assert Accounts({}).read("memory_peak") == 0


def test_group_of_an_evaluator_that_is_gone_is_removed_at_once(tmp_path: Path) -> None:
    here, _, own = f"{process_identity.mark()}-0".partition("-")
    names = (f"{here}-1-5-0", f"{here}-{own}", f"7-{own}", "7-1-5-0", "1-5-0", "of-somebody-else")
    for name in names:
        (tmp_path / f"a2perf-run-{name}").mkdir()
    limits.sweep(GroupParent(2, {"pids": tmp_path}))
    assert sorted(folder.name.removeprefix("a2perf-run-") for folder in tmp_path.iterdir()) == sorted(names[1:])


def test_processes_in_the_group_of_an_evaluator_that_is_gone_end_with_it(tmp_path: Path) -> None:
    folder = tmp_path / f"a2perf-run-{process_identity.mark().partition('-')[0]}-1-5-0"
    folder.mkdir()
    with Child(["/bin/sleep", "60"]) as left:
        (folder / "cgroup.procs").write_text(f"0\n{left.pid}\n")
        sweeper = threading.Thread(target=limits.sweep, args=(GroupParent(2, {"pids": tmp_path}),))
        sweeper.start()
        os.waitid(os.P_PID, left.pid, os.WEXITED | os.WNOWAIT)  # its process id stays taken
        (folder / "cgroup.procs").write_text("")  # as the kernel does
        sweeper.join(300)
        assert left.wait(300) == -signal.SIGKILL


def test_killed_process_that_nobody_has_reaped_keeps_neither_group_nor_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Child(["/bin/sleep", "60"]) as maker:
        here = process_identity.mark().partition("-")[0]
        mark = f"{here}-{maker.pid}-{process_identity.start_ticks(maker.pid)}"
        group = tmp_path / f"a2perf-run-{mark}-0"
        home = tmp_path / f"a2perf-home-{mark}-x"
        for folder in (group, home):
            folder.mkdir()
        limits.sweep(GroupParent(2, {"pids": tmp_path}))
        participant_home.sweep()
        assert sorted(tmp_path.iterdir()) == sorted([group, home])
        maker.kill()
        os.waitid(os.P_PID, maker.pid, os.WEXITED | os.WNOWAIT)
        limits.sweep(GroupParent(2, {"pids": tmp_path}))
        participant_home.sweep()
        assert list(tmp_path.iterdir()) == []


def test_group_that_the_host_refuses_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    place = GroupParent(1, {"memory": tmp_path / "memory", "pids": tmp_path / "missing"})
    with pytest.raises(FileNotFoundError):
        ControlGroup(place, Limits())
    assert list((tmp_path / "memory").iterdir()) == []


def test_tree_without_a_processor_limit_stays_in_its_scheduling_group(tmp_path: Path) -> None:
    for name in ("memory", "cpu,cpuacct"):
        (tmp_path / name).mkdir()
    together = tmp_path / "cpu,cpuacct"
    place = GroupParent(1, {"memory": tmp_path / "memory", "cpu": together, "cpuacct": together})
    assert set(ControlGroup(place, Limits()).folders) == {"memory"}
    assert set(ControlGroup(place, Limits(cpus=1)).folders) == {"memory", "cpu", "cpuacct"}


needs_groups = pytest.mark.skipif(
    not {"memory_bytes", "processes", "cpus"} <= limits.place().enforces, reason="no control group can be made here"
)


@needs_groups
def test_share_of_a_processor_is_enforced_by_the_kernel(start) -> None:
    code = "import time\nstart = time.time()\nwhile time.time() - start < 1.5: pass"
    ending = start(code, limits=Limits(cpus=0.2)).wait(300)
    assert ending.exit_code == 0
    assert ending.cpu_s < 0.6  # of 1.5 s


@needs_groups
def test_runs_at_the_same_time_have_equal_shares_of_a_processor_however_many_processes_they_start(
    start, monkeypatch
) -> None:
    monkeypatch.setenv(limits.PARALLEL_RUNS_VARIABLE, "2")
    code = """
        import os, time
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        end = time.monotonic() + 3
        for _ in range(%d):
            if os.fork() == 0:
                os.setsid()  # the kernel may give each session its own share
                break
        while time.monotonic() < end: pass
    """
    crowd, single = start(code % 20), start(code % 0)
    many, one = (confined.wait(300).cpu_s for confined in (crowd, single))
    assert one / (one + many) > 0.3  # 1 of 21 processes or more would have less than 0.05


@needs_groups
def test_peak_memory_and_kills_come_from_the_kernel_and_the_group_is_gone(start) -> None:
    code = "import os, mmap\nblock = mmap.mmap(-1, 100 * 2**20)\nfor at in range(0, len(block), 4096): block[at] = 1"
    confined = start(code, limits=Limits(memory_bytes=64 * MIB))
    assert confined.cgroups
    ending = confined.wait(300)
    assert ending.oom_kills == 1
    assert 50 * MIB < ending.peak_memory_bytes <= 64 * MIB
    assert not any(folder.exists() for folder in confined.cgroups)


@needs_groups
def test_forks_beyond_the_groups_bound_are_refused_and_counted(start, tmp_path: Path) -> None:
    code = """
import os, time
for _ in range(200):
    try:
        if os.fork() == 0:
            time.sleep(30)
    except OSError as error:
        print(error.errno, flush=True)
        time.sleep(30)
"""
    ending = start(code, limits=Limits(processes=1)).wait(300)
    assert (tmp_path / "logs" / "out").read_text() == "11\n"  # EAGAIN
    assert ending.limit == "processes"
    assert ending.refused_forks >= 1


def second_version() -> Path | None:
    """A real tree of version 2 in which this user may make groups."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup2 " in line and os.access(line.split()[4], os.W_OK):
            return Path(line.split()[4])
    return None


@pytest.mark.skipif(second_version() is None, reason="no tree of version 2 that this user may write")
def test_tree_joins_a_real_group_of_version_2_that_counts_its_time_and_is_removed(
    start, tmp_path: Path, monkeypatch
) -> None:
    base = second_version()
    assert base is not None
    monkeypatch.setattr(limits, "place", lambda: GroupParent(2, {"memory": base}))
    monkeypatch.setattr(limits, "_delegate", lambda where: None)  # the host's controllers may all be in version 1
    code = """
import time
print(open("/proc/self/cgroup").read(), flush=True)
while time.process_time() < 0.3: pass
"""
    confined = start(code, limits=Limits())
    (folder,) = confined.cgroups
    ending = confined.wait(300)
    assert folder.name in (tmp_path / "logs" / "out").read_text()
    assert ending.cpu_s >= 0.3
    assert not folder.exists()
