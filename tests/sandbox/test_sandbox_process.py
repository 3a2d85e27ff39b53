"""One confined tree: how it ends is told truly, and nothing of it is left, whoever dies first."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from a2perf.errors import InfrastructureError
from a2perf.sandbox import Limits, SandboxSpec, get_sandbox
from a2perf.sandbox.guard.tree import descendants
from a2perf.sandbox.limits import place
from tests.waiting import Child, is_alive, until

MIB = 1024 * 1024

# A grandchild that is hard to end: of its own session, orphaned by a double fork, deaf to every polite signal.
DAEMON = """
import os, pathlib, signal, sys, time

def daemon(marker):
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pathlib.Path(marker + ".part").write_text(str(os.getpid()))
    os.rename(marker + ".part", marker)
    while True:
        time.sleep(600)
"""


LEVELS = ["none", "process", pytest.param("bubblewrap", marks=pytest.mark.group("bwrap"))]


@pytest.mark.parametrize("level", LEVELS)
def test_exit_status_and_output_are_those_of_the_program(run, level: str) -> None:
    ending, out, err = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)", level)
    assert (ending.exit_code, ending.signal, ending.killed) == (7, None, False)
    assert (out, err) == (["out"], "err\n")


@pytest.mark.parametrize("level", LEVELS)
def test_signal_that_ended_it_is_told(start, level: str) -> None:
    ending = start("import os; os.kill(os.getpid(), 11)", level=level).wait(300)
    assert (ending.exit_code, ending.signal) == (None, signal.SIGSEGV)


def test_environment_descriptors_and_session_are_its_own(run, tmp_path: Path) -> None:
    secret = os.open(tmp_path / "secret", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(secret, True)
    try:
        _, lines, _ = run(
            """
            import os, signal
            print(dict(os.environ)["ONLY"], len([name for name in os.environ if not name.startswith("LC_")]))
            print(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")))
            print(os.getsid(0) == os.getpid(), os.read(0, 1))
            status = open("/proc/self/status").read()
            ignored = int(status.split("SigIgn:")[1].split()[0], 16)
            print("NoNewPrivs:\\t1" in status, [number for number in (1, 2, 15, 17) if ignored >> (number - 1) & 1])
            """
        )
    finally:
        os.close(secret)
    assert lines[0] == "this 2"
    assert lines[1] == "['0', '1', '2'] 4"  # the fourth is that of the listing
    assert lines[2] == "True b''"
    assert lines[3] == "True []"  # none of SIGHUP, SIGINT, SIGTERM, SIGCHLD, whatever the guard ignores


@pytest.mark.parametrize("level", LEVELS)
def test_given_descriptor_stays_open_under_its_number(start, tmp_path: Path, level: str) -> None:
    read, write = os.pipe()
    confined = start(f"import os; os.write({write}, b'through')", fds=(write,), level=level)
    os.close(write)
    confined.wait(300)
    assert os.read(read, 100) == b"through"
    assert os.read(read, 100) == b""  # neither the guard nor anybody else holds the other end
    os.close(read)


def test_missing_program_is_the_hosts_fault(tmp_path: Path) -> None:
    spec = SandboxSpec(argv=("/no/such/program",), cwd=tmp_path, env={})
    with pytest.raises(InfrastructureError, match="/no/such/program could not be started"):
        get_sandbox("process").start(spec)


def test_hundred_megabytes_of_output_are_cut_and_block_nobody(start, tmp_path: Path) -> None:
    limits = Limits(output_bytes=MIB)
    ending = start("import os\nfor _ in range(1000): os.write(1, bytes(100_000))", limits=limits).wait(300)
    assert ending.exit_code == 0
    assert ending.dropped_bytes == {"stdout": 100_000_000 - MIB, "stderr": 0}
    log = (tmp_path / "logs" / "out").read_bytes()
    assert len(log) < MIB + 100
    assert f"{100_000_000 - MIB} further bytes of output were dropped".encode() in log[-100:]


def test_full_disk_under_the_log_does_not_end_the_program(tmp_path: Path) -> None:
    spec = SandboxSpec(
        argv=(sys.executable, "-I", "-S", "-c", "print('x' * 100)"),
        cwd=tmp_path,
        env={},
        stdout=Path("/dev/full"),
    )
    ending = get_sandbox("process").start(spec).wait(300)
    assert ending is not None
    assert (ending.exit_code, ending.dropped_bytes["stdout"]) == (0, 101)


def test_memory_of_one_process_is_limited(run) -> None:
    code = "try: block = bytearray(300 * 2**20)\nexcept MemoryError: print('refused')"
    assert run(code, limits=Limits(memory_bytes=128 * MIB))[1] == ["refused"]


FAMILY = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        block = bytearray(b"x") * (60 * 2**20)
        time.sleep(600)
time.sleep(600)
"""
FORKS = "import os, time\nwhile os.getpid():\n    if os.fork() == 0: time.sleep(600)\n    time.sleep(0.02)"


@pytest.mark.parametrize(
    ("code", "limit", "value"),
    [(FAMILY, "memory_bytes", 128 * MIB), (FORKS, "processes", 5), ("import time; time.sleep(600)", "wall_s", 0.3)],
    ids=["memory", "processes", "wall time"],
)
def test_tree_over_a_limit_is_ended_and_the_limit_named(start, code: str, limit: str, value: float) -> None:
    ending = start(code, limits=Limits(**{limit: value})).wait(300)
    assert ending.limit == limit
    assert ending.limit_value >= value


def test_processor_time_is_limited(start) -> None:
    ending = start("while True: pass", limits=Limits(cpu_s=1)).wait(300)
    assert ending.signal == signal.SIGXCPU
    assert ending.cpu_s > 0.5  # the kernel enforces the limit by its clock ticks, and reports exactly


def test_size_of_a_file_is_limited(run) -> None:
    code = """
    file = open("big", "wb", 0)
    file.write(bytes(2**20))
    try:
        file.write(b"x")
    except OSError as error:
        print(error.errno)
    """
    assert run(code, limits=Limits(file_size_bytes=MIB))[1] == ["27"]  # EFBIG


def test_none_enforces_no_limit(run) -> None:
    code = "block = bytearray(100 * 2**20); print('given')"
    ending, lines, _ = run(code, "none", limits=Limits(memory_bytes=64 * MIB, wall_s=0.001))
    assert ending.exit_code == 0
    assert lines == ["given"]


@pytest.mark.parametrize("level", LEVELS)
def test_processor_time_counts_children_that_are_long_dead(start, level: str) -> None:
    code = """
    import os, time
    for _ in range(4):
        if os.fork() == 0:
            started = time.process_time()
            while time.process_time() - started < 0.15: pass
            os._exit(0)
        os.wait()
    """
    ending = start(code, level=level).wait(300)
    assert ending.cpu_s >= 0.6


def test_orphans_end_with_the_program(start, tmp_path: Path) -> None:
    marker = str(tmp_path / "daemon")
    code = f"{DAEMON}\ndaemon({marker!r})\nwhile not os.path.exists({marker!r}): time.sleep(0.01)"
    ending = start(code).wait(300)
    assert ending.exit_code == 0
    assert not is_alive(int(Path(marker).read_text()))


def test_kill_tree_ends_daemons_too(start, tmp_path: Path) -> None:
    marker = tmp_path / "daemon"
    confined = start(f"{DAEMON}\ndaemon({str(marker)!r})\ntime.sleep(600)")
    until(marker.exists)
    daemon = int(marker.read_text())
    assert is_alive(daemon)
    ending = confined.kill_tree()
    assert ending.killed
    assert not is_alive(daemon)
    assert not is_alive(confined.pid)
    assert confined.kill_tree() == ending


def test_kill_tree_wins_against_a_fork_bomb(start) -> None:
    code = """
    import os, time
    for _ in range(60):  # bounded, so that a failing test does not take the machine along
        if os.fork() == 0:
            for _ in range(20):
                time.sleep(0.01)
                if os.fork() == 0: time.sleep(30)
            os._exit(0)
        time.sleep(0.002)
    """
    confined = start(code)
    time.sleep(0.2)
    confined.kill_tree()
    assert not is_alive(confined.pid)
    assert not os.path.exists(f"/proc/{confined.tree_root}")


def test_stopped_guard_does_not_save_the_tree(start, monkeypatch: pytest.MonkeyPatch) -> None:
    from a2perf.sandbox import guarded

    monkeypatch.setattr(guarded, "KILL_TIMEOUT_S", 0.3)
    confined = start("import time; time.sleep(600)")
    os.kill(confined.tree_root, signal.SIGSTOP)
    confined.kill_tree()
    until(lambda: not is_alive(confined.pid))


@pytest.mark.group("bwrap")
@pytest.mark.skipif(not place().parents, reason="no control group can be made here")
def test_what_bubblewrap_was_setting_up_dies_with_the_guard_too(start) -> None:
    for _ in range(5):  # at various moments of the set-up, in which nothing binds the new processes to their parent
        confined = start("import time; time.sleep(600)", level="bubblewrap")
        os.kill(confined.tree_root, signal.SIGKILL)
        confined.wait(300)
        assert not any(folder.exists() for folder in confined.cgroups)  # a group with processes cannot be removed


@pytest.mark.parametrize("level", LEVELS)
def test_program_dies_when_its_guard_is_killed(start, tmp_path: Path, level: str) -> None:
    confined = start("open('ready', 'w').close(); import time; time.sleep(600)", level=level)
    until((tmp_path / "work" / "ready").exists)
    tree = descendants(confined.tree_root)
    os.kill(confined.tree_root, signal.SIGKILL)
    until(lambda: not any(map(is_alive, tree)))
    ending = confined.wait(300)
    assert (ending.exit_code, ending.signal) == (None, None)


def test_temporary_folder_is_deleted_at_the_end(start, tmp_path: Path) -> None:
    scratch = tmp_path / "work" / "scratch"
    scratch.mkdir(parents=True)
    start("open('scratch/left', 'w').write('over')", temporary=(scratch,)).wait(300)
    assert not scratch.exists()


def test_guard_can_be_neither_traced_nor_read(run) -> None:
    # as another user than root, whose privileges no process of root can keep from it
    code = """
    import ctypes, os
    if os.geteuid() == 0:
        os.setgroups([]), os.setgid(65534), os.setuid(65534)
    print(ctypes.CDLL(None).ptrace(16, os.getppid(), None, None))
    try:
        print(open(f"/proc/{os.getppid()}/mem", "rb"))
    except PermissionError as error:
        print("refused")
    """
    assert run(code)[1] == ["-1", "refused"]


def test_wait_returns_none_while_it_runs(start) -> None:
    confined = start("import time; time.sleep(600)")
    assert confined.wait(0.05) is None
    assert confined.poll() is None


EVALUATOR = """
import sys, threading, time
from pathlib import Path
from a2perf.sandbox import SandboxSpec, get_sandbox

folder, level = Path(sys.argv[1]), sys.argv[2]
spec = SandboxSpec(
    argv=(sys.executable, "-I", "-S", "-c", (folder / "program.py").read_text()), cwd=folder, env={},
    writable=[folder, folder / "scratch"], temporary=(folder / "scratch",),
)
started = []
thread = threading.Thread(target=lambda: started.append(get_sandbox(level).start(spec)))
thread.start()
thread.join()  # a thread that starts a tree and ends must not take the tree along
time.sleep(0.2)
assert started[0].poll() is None
print(started[0].tree_root, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_an_evaluator_that_is_killed(tmp_path: Path, number: signal.Signals, level: str) -> None:
    (tmp_path / "scratch").mkdir()
    daemons = "\n".join(f"daemon('daemon{index}')" for index in range(3))
    (tmp_path / "program.py").write_text(
        f"{DAEMON}\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{daemons}\ntime.sleep(600)"
    )
    argv = [sys.executable, "-c", EVALUATOR, str(tmp_path), level]
    evaluator = Child(argv, stdout=subprocess.PIPE, text=True)
    assert evaluator.stdout is not None
    with evaluator, evaluator.stdout:
        root = int(evaluator.stdout.readline())
        until(lambda: all((tmp_path / f"daemon{index}").exists() for index in range(3)))
        tree = [pid for pid in (root, *descendants(root)) if is_alive(pid)]
        assert len(tree) >= (7 if level == "bubblewrap" else 5)  # the guard, bubblewrap twice, the program, its daemons
        evaluator.send_signal(number)
        evaluator.wait(300)
        until(lambda: not any(map(is_alive, tree)) and not (tmp_path / "scratch").exists())
