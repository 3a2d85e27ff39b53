"""A participant that would harm its host: device files, set-ID files, locks, kernel resources, processors, sockets."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from a2perf.sandbox import Limits, SandboxSpec, get_sandbox, host_id, seccomp
from a2perf.sandbox import limits as control_groups
from a2perf.sandbox.guard.entry import RLIMITS, SYSCTLS
from a2perf.sandbox.guard.tree import descendants
from a2perf.storage import read_json
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from tests.attacks.conftest import OBEYS
from tests.commands import flags, run_python
from tests.made_submissions import TROT, gin, write_submission
from tests.participants import make_participant
from tests.waiting import PATIENCE_S, Child, until

CONFINED = ("bubblewrap", "docker")
TRY = """
import ctypes, errno, os
result = []
def attempt(call, *values, **names):
    try:
        call(*values, **names)
        result.append("done")
    except OSError as error:
        result.append(errno.errorcode[error.errno])
kernel = ctypes.CDLL(None, use_errno=True)
def syscall(number, *values):
    if kernel.syscall(number, *values) < 0:
        raise OSError(ctypes.get_errno(), "")
artifacts = os.environ.get("A2PERF_ARTIFACTS", "")
"""


@pytest.fixture
def participant(stage, available) -> Iterator[Callable[..., ParticipantProcess]]:
    """Starts a participant that runs what it is sent; its files are those of an evaluator that shares nothing."""
    running: list[ParticipantProcess] = []
    (stage.entry / "inference.py").write_text(OBEYS)

    def start(level: str, **changes: Any) -> ParticipantProcess:
        available(level)
        settings = {"artifacts": stage.artifacts, "limits": Limits(processes=64), **changes}
        process = make_participant(stage.entry, sandbox=level, logs=stage.folder / "logs", **settings)
        running.append(process)
        process.start()
        process.load_policy({})
        return process

    yield start
    for process in running:
        process.kill()


def ask(process: ParticipantProcess, code: str) -> Any:
    return eval(str(process.infer({"code": TRY + code}, 60).action))


def tree_of(process: ParticipantProcess) -> list[int]:
    return descendants(process.tree.tree_root)


def host_ids(pid: int) -> set[int]:
    """The user ids, saved and effective ones too, that a process has on this host."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {int(word) for line in lines if line.startswith("Uid:") for word in line.split()[1:]}


@pytest.mark.parametrize("level", CONFINED)
def test_no_process_of_it_is_root_on_the_host(level: str, participant, stage, noted) -> None:
    process = participant(level)
    ids = {number for pid in tree_of(process) for number in host_ids(pid)}
    expected = host_id.RANGE if os.getuid() == 0 else range(os.getuid(), os.getuid() + 1)
    assert len(ids) == 1
    assert all(number in expected for number in ids)
    if os.getuid() == 0:
        other = participant(level, artifacts=None)
        assert ids.isdisjoint(number for pid in tree_of(other) for number in host_ids(pid))
    noted("be root on the host behind the sandbox", "a separate id", [level])


@pytest.mark.parametrize("level", CONFINED)
def test_modes_of_the_hosts_device_files_stay(level: str, participant, noted) -> None:
    names = [name for name in ("null", "zero", "full", "random", "urandom", "tty") if os.path.exists(f"/dev/{name}")]
    before = [(os.stat(f"/dev/{name}").st_mode, os.stat(f"/dev/{name}").st_uid) for name in names]
    process = participant(level)
    tried = ask(
        process,
        f"""
for name in {names!r}:
    path = "/dev/" + name
    attempt(os.chmod, path, 0)
    attempt(os.utime, path, (0, 0))
    attempt(os.chown, path, os.getuid(), os.getgid())
    attempt(os.setxattr, path, "user.mark", b"1")
    attempt(os.unlink, path)
""",
    )
    after = [(os.stat(f"/dev/{name}").st_mode, os.stat(f"/dev/{name}").st_uid) for name in names]
    assert after == before
    assert all(os.stat(f"/dev/{name}").st_mtime > 0 for name in names)
    assert "done" not in tried
    noted("change the mode of the host's device files", "stopped: PermissionError", [level])


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives device files of its own")
def test_device_that_is_given_is_a_node_of_its_own(participant, stage) -> None:
    device = Path("/dev/fuse")
    if not device.exists():
        pytest.skip("no /dev/fuse")
    before = device.stat()
    process = participant("bubblewrap", devices=(device,))
    assert ask(process, "attempt(os.chmod, '/dev/fuse', 0o777); attempt(os.open, '/dev/fuse', os.O_RDWR)") == [
        "done",
        "done",
    ]
    assert (device.stat().st_mode, device.stat().st_ctime_ns) == (before.st_mode, before.st_ctime_ns)


@pytest.mark.skipif(sys.platform != "linux", reason="the scheduler's counters of threads")
def test_processes_of_others_do_not_use_up_the_limit_of_a_call(participant, noted) -> None:
    process = participant("process")
    processor = min(os.sched_getaffinity(0))
    for pid in tree_of(process):
        os.sched_setaffinity(pid, {processor})
    spins = f"import os\nos.sched_setaffinity(0, {{{processor}}})\nprint(flush=True)\nwhile True: pass"
    works = "import time\nwhile time.thread_time() < before + 0.2: pass\n"
    with contextlib.ExitStack() as others:
        for _ in range(8):
            other = others.enter_context(
                Child([sys.executable, "-S", "-c", spins], stdout=subprocess.PIPE, start_new_session=True)
            )
            others.callback(other.end)
            assert other.stdout.readline()
        answer = process.infer({"code": "import time\nbefore = time.thread_time()\n" + works + "result = 1"}, 0.4)
        assert answer.action == "1"
        with pytest.raises(ParticipantFailure, match=r"infer_once \(call 2\).* limit of 0.4 s"):
            process.infer({"code": "import time\ntime.sleep(60)\nresult = 1"}, 0.4)
    noted("let a call of another run reach its limit", "its waits for a processor do not count", ["process"])


SET_ID = """
path = artifacts + "/shell"
open(path, "wb").write(open("/bin/sh", "rb").read())
os.mkdir(artifacts + "/folder")
for mode in (0o4755, 0o2755, 0o6755):
    attempt(os.chmod, path, mode)
    attempt(os.chmod, artifacts + "/folder", mode)
    with open(path) as file:
        attempt(os.chmod, file.fileno(), mode)
    attempt(os.chmod, "shell", mode, dir_fd=os.open(artifacts, os.O_RDONLY))
    attempt(os.open, f"{artifacts}/created-{mode}", os.O_CREAT | os.O_WRONLY, mode)
    attempt(os.open, artifacts, os.O_TMPFILE | os.O_WRONLY, mode)
    attempt(os.mknod, f"{artifacts}/made-{mode}", 0o100000 | mode)
    attempt(syscall, 452, -100, path.encode(), mode, 0)  # fchmodat2
attempt(os.setxattr, path, "security.capability", bytes.fromhex("0100000200ffffff00000000ffffff0000000000"))
attempt(os.link, "/usr/bin/passwd", artifacts + "/passwd")
"""


@pytest.mark.parametrize("level", CONFINED)
def test_no_set_id_file_appears(level: str, participant, stage, noted) -> None:
    process = participant(level)
    tried = ask(process, SET_ID)
    seen = [*stage.artifacts.rglob("*")]
    assert stage.artifacts / "shell" in seen
    assert [path for path in seen if path.stat().st_mode & 0o6000] == []  # while it runs
    process.close()
    assert [path for path in stage.artifacts.rglob("*") if path.stat().st_mode & 0o7000] == []
    assert {path.stat().st_uid for path in [stage.artifacts, *stage.artifacts.rglob("*")]} == {os.getuid()}
    assert "security.capability" not in os.listxattr(stage.artifacts / "shell")
    assert "EPERM" in tried
    noted("leave a set-user-ID file behind", "stopped: PermissionError", [level])


ODD_FILES = """
import socket
os.chdir(artifacts)
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("door")
attempt(os.mknod, "whiteout", 0o020644, 0)
attempt(os.mknod, "disk", 0o060644, os.makedev(8, 0))
os.mkdir("closed"); open("closed/inner", "w").write("kept"); os.mkfifo("closed/pipe"); os.chmod("closed", 0)
open("unreadable", "w").write("kept"); os.chmod("unreadable", 0)
os.mkdir("sticky"); os.chmod("sticky", 0o1777)
os.symlink("/etc/passwd", "link")
attempt(os.setxattr, "unreadable", "system.posix_acl_access", bytes.fromhex(
    "0200000001000600ffffffff02000700feff000004000400ffffffff10000700ffffffff20000400ffffffff"))
os.mkdir("pit"); os.chdir("pit")
for _ in range(400):
    os.mkdir("pit"); os.chdir("pit"); open("file", "w").close()
"""


@pytest.mark.parametrize("level", ["none", "process", *CONFINED])
def test_what_it_leaves_is_plain_files(level: str, participant, stage, noted) -> None:
    process = participant(level)
    ask(process, ODD_FILES)
    process.close()
    kinds = {stat.S_IFMT(path.lstat().st_mode) for path in stage.artifacts.rglob("*")}
    assert kinds == {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}
    assert (stage.artifacts / "closed" / "inner").read_text() == "kept"
    unreadable = stage.artifacts / "unreadable"
    assert unreadable.read_text() == "kept"
    assert not [name for name in os.listxattr(unreadable) if name.startswith("system.")]
    assert stat.S_IMODE((stage.artifacts / "sticky").stat().st_mode) == 0o777
    assert max(len(path.relative_to(stage.artifacts).parts) for path in stage.artifacts.rglob("*")) < 200
    assert any("turned into plain files" in warning for warning in process.warnings)
    noted("leave pipes, sockets and closed folders behind", "turned into plain files", [level])


LOCKS = """
import fcntl
held = []
for path in PATHS:
    file = open(path, "rb")
    attempt(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    attempt(fcntl.lockf, file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    attempt(fcntl.fcntl, file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    held.append(file)
import builtins; builtins.held = held
"""


def test_its_locks_do_not_reach_shared_files(participant, stage, noted) -> None:
    shared = stage.folder / "shared"
    shared.mkdir()
    paths = [shared / "dataset.hdf5", stage.folder / "one.hdf5", stage.entry / "inference.py"]
    for path in paths[:2]:
        path.write_text("numbers")
    process = participant("bubblewrap", readable=(shared, paths[1]))
    other = participant("bubblewrap", readable=(shared, paths[1]), artifacts=None)
    code = LOCKS.replace("PATHS", repr([str(path) for path in paths]))
    tried = ask(process, code)
    for path in paths:
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert tried == ["done", "done", "EPERM"] * len(paths)  # its own processes can agree by locks
    assert ask(other, code) == tried
    noted("lock shared files", "kept inside", ["bubblewrap"])


INOTIFY = """
instances = []
while len(instances) < 100000:
    descriptor = kernel.inotify_init1(0)
    if descriptor < 0:
        break
    instances.append(descriptor)
result = len(instances), ctypes.get_errno()
import builtins; builtins.instances = instances
"""


def test_inotify_stays_for_others(participant, noted) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    for artifacts in (None, None):
        count, number = ask(participant("bubblewrap", artifacts=artifacts), INOTIFY)
        assert count <= SYSCTLS["max_inotify_instances"]
        assert number != 0
    descriptor = library.inotify_init1(0)
    assert descriptor >= 0
    os.close(descriptor)
    noted("use up the user's inotify instances", "bounded apart", ["bubblewrap"])


@pytest.mark.parametrize("level", ["process", *CONFINED])
def test_kernel_resources_have_bounds(level: str, participant, noted) -> None:
    process = participant(level)
    bounds = ask(
        process,
        f"import resource as r\nresult = [r.getrlimit(getattr(r, kind))[1] for kind in {[*RLIMITS]!r}]",
    )
    assert all(0 <= bound <= most for bound, most in zip(bounds, RLIMITS.values(), strict=True))
    noted("use up descriptors, signals, timers and queues", "bounded per participant", [level])


def test_its_processes_are_counted_by_the_kernel(participant) -> None:
    process = participant("bubblewrap", artifacts=None)
    (soft, hard) = ask(process, "import resource; result = resource.getrlimit(resource.RLIMIT_NPROC)")
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    if release < (5, 14):
        pytest.skip("this kernel counts all processes of the user")
    assert soft == hard == control_groups.most_tasks(64) + 2


@pytest.mark.parametrize("level", CONFINED)
def test_only_sockets_of_unix_and_the_internet(level: str, participant, noted) -> None:
    process = participant(level)
    tried = ask(
        process,
        """
import socket
for family in range(64):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            socket.socket(family, kind).close()
            result.append(family)
        except OSError:
            pass
""",
    )
    assert set(tried) <= {1, 2, 10, 16}
    assert {1, 2} <= set(tried)
    noted("reach the hypervisor or odd protocols by a socket", "stopped: OSError", [level])


CALLS = """
for number, *values in CALLS:
    attempt(syscall, number, *map(ctypes.c_long, values))
import fcntl, pty
master, slave = pty.openpty()
for request in (0x5412, 0x541C, 0x541D, 0x7FFFFFFF00005412):
    attempt(syscall, IOCTL, ctypes.c_long(slave), ctypes.c_long(request), ctypes.c_long(0))
"""


@pytest.mark.parametrize("level", CONFINED)
def test_calls_that_reach_the_host_are_refused(level: str, participant, noted) -> None:
    column = ["x86_64", "aarch64"].index(os.uname().machine)
    tables = {**seccomp.REFUSED, **seccomp.ABSENT}
    calls = [(numbers[column],) for numbers in tables.values() if numbers[column] >= 0]
    process = participant(level)
    code = CALLS.replace("IOCTL", str(seccomp._IOCTL[column])).replace("CALLS", repr(calls))
    tried = ask(process, code)
    assert set(tried) <= {"EPERM", "ENOSYS"}
    assert len(tried) == len(calls) + 4
    noted("kernel calls that reach beyond namespaces", "stopped: OSError", [level])


@pytest.mark.parametrize("level", ["process", *CONFINED])
def test_it_stays_on_the_processors_that_it_was_given(level: str, participant, noted) -> None:
    usable = os.sched_getaffinity(0)
    if len(usable) < 2:
        pytest.skip("one processor")
    given = {min(usable)}
    os.sched_setaffinity(0, given)
    try:
        process = participant(level)
        ask(process, "attempt(os.sched_setaffinity, 0, range(os.cpu_count()))")
        ask(process, "import os\nif os.fork() == 0: os.sched_setaffinity(0, range(os.cpu_count())); os._exit(0)")
        assert all(os.sched_getaffinity(pid) == given for pid in tree_of(process))
        assert any("processors" in sentence for sentence in process.confinement.record.guarantees)
    finally:
        os.sched_setaffinity(0, usable)
    noted("use more processors than it was given", "kept inside", [level])


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's files are the participant's user's already")
def test_files_that_only_root_may_read_stay_readable_and_outside_ones_closed(participant, stage) -> None:
    (stage.entry / "weights").write_text("private")
    (stage.entry / "weights").chmod(0o600)
    stage.entry.chmod(0o700)
    process = participant("bubblewrap")
    assert ask(process, "result = open('weights').read()") == "private"
    assert (stage.entry / "weights").stat().st_uid == 0
    assert ask(process, f"attempt(open, {str(stage.canary)!r})") == ["ENOENT"]


def test_a_folder_with_a_set_group_id_bit_can_be_copied(participant, stage) -> None:
    (stage.entry / "data").mkdir()
    (stage.entry / "data").chmod(0o2755)
    process = participant("bubblewrap")
    ask(process, "import shutil; shutil.copytree('data', artifacts + '/data')")
    assert stat.S_IMODE((stage.artifacts / "data").stat().st_mode) == 0o755


EVALUATOR = """
import sys, time
from pathlib import Path
from a2perf.sandbox import Limits, SandboxSpec, get_sandbox

folder = Path(sys.argv[1])
spec = SandboxSpec(
    argv=(sys.executable, "-I", "-S", "-c", (folder / "program.py").read_text()), cwd=folder, env={},
    writable=[folder], limits=Limits(memory_bytes=2**30, processes=20),
)
confined = get_sandbox("bubblewrap").start(spec)
print(confined.tree_root, *confined.cgroups, flush=True)
time.sleep(600)
"""
LEAVES = """
import os, time
os.mkfifo("pipe"); os.mkdir("closed"); os.chmod("closed", 0)
open("file", "w").close()
open("ready", "w").close()
time.sleep(600)
"""


@pytest.mark.parametrize("guard_too", [False, True])
def test_nothing_is_left_when_the_evaluator_is_killed(guard_too: bool, tmp_path: Path, available, noted) -> None:
    available("bubblewrap")
    folder = tmp_path / "artifacts"
    folder.mkdir()
    (folder / "program.py").write_text(LEAVES)
    with Child([sys.executable, "-c", EVALUATOR, str(folder)], stdout=subprocess.PIPE, text=True) as evaluator:
        assert evaluator.stdout is not None
        guard, *groups = evaluator.stdout.readline().split()
        until((folder / "ready").exists)
        evaluator.kill()
        if guard_too:
            os.kill(int(guard), signal.SIGKILL)
        evaluator.wait(PATIENCE_S)
    until(lambda: not Path("/proc", guard).exists() or Path("/proc", guard, "stat").read_text().split()[2] == "Z")
    if guard_too:  # then the next run does it
        spec = SandboxSpec(argv=("/bin/true",), cwd=folder, env={}, writable=[folder], limits=Limits(processes=20))
        ending = get_sandbox("bubblewrap").start(spec).wait(PATIENCE_S)
        assert ending is not None
    assert not [group for group in groups if Path(group).exists()]
    left = {path.name: path.lstat() for path in folder.iterdir()}
    assert sorted(left) == ["closed", "file", "program.py", "ready"]
    assert {status.st_uid for status in left.values()} == {os.getuid()}
    assert stat.S_IMODE(left["closed"].st_mode) == 0o700
    noted("outlive a killed evaluator in files and groups", "cleared", ["bubblewrap"])


FAMILY = """
import os, time

def train():
    for _ in range(400):
        if os.fork() == 0:
            held = bytearray(os.urandom(4_000_000))
            time.sleep(600)
    time.sleep(600)
"""
SMALL_HOST_BYTES = 2**30


@pytest.mark.parametrize("level", ["process", "bubblewrap"])
def test_many_small_processes_end_their_run_and_no_evaluator(level: str, tmp_path: Path, available, noted) -> None:
    available(level)
    if "memory_bytes" not in control_groups.place().enforces:
        pytest.skip("no control group limits memory here")
    entry = write_submission(tmp_path / "entry", train=FAMILY)
    (tmp_path / "train.gin").write_text(gin(TROT, "train"))
    host = control_groups.ControlGroup(control_groups.place(), Limits(memory_bytes=SMALL_HOST_BYTES))
    code = (
        f"import os\nfor folder in {list(map(str, host.paths))!r}:\n"
        "    with open(folder + '/cgroup.procs', 'w') as file: file.write(str(os.getpid()))\n"
        "from a2perf.cli import launch_main; launch_main()"
    )
    try:
        given = flags(submission=entry, gin_config="train.gin", sandbox=level, root_dir=tmp_path / "root")
        done = run_python(code, *given, cwd=tmp_path)
    finally:
        for folder in host.paths:  # the group that the evaluator made for its participants
            for inner in filter(Path.is_dir, folder.iterdir()):
                inner.rmdir()
        host.remove()
    assert done.returncode == 1, done.stdout + done.stderr
    manifest = read_json(tmp_path / "root" / "train" / "manifest.json")
    assert (manifest["state"], manifest["failure"]["kind"]) == ("failed", "memory"), manifest["failure"]
    assert manifest["sandbox"]["limits"]["memory_bytes"] == int(0.75 * SMALL_HOST_BYTES)
    assert not [path for path in host.paths if path.exists()]
    noted("use up the host's memory in many small processes", "memory", [level])


@pytest.mark.parametrize("level", ["process", "bubblewrap"])
def test_the_kernel_ends_a_participant_before_an_evaluator(level: str, participant) -> None:
    process = participant(level)
    assert {Path(f"/proc/{pid}/oom_score_adj").read_text().strip() for pid in tree_of(process)} == {"1000"}
    assert Path("/proc/self/oom_score_adj").read_text().strip() != "1000"


@pytest.mark.parametrize("level", CONFINED)
def test_no_page_of_it_is_merged_with_those_of_others(level: str, participant, noted) -> None:
    process = participant(level)
    code = "import mmap\nattempt(mmap.mmap(-1, 4096).madvise, 12)\nresult.append(kernel.prctl(67, 1, 0, 0, 0))"
    assert ask(process, code) == ["EPERM", -1]
    noted("have its pages merged with those of others", "stopped: PermissionError", [level])


def test_levels_say_exactly_who_the_participant_is(available) -> None:
    for level in ("none", "process"):
        as_root = [sentence for sentence in get_sandbox(level).missing() if "as root" in sentence]
        assert len(as_root) == (os.getuid() == 0)
    available("bubblewrap")
    sandbox = get_sandbox("bubblewrap")
    identity = [sentence for sentence in sandbox.guarantees() if sentence.startswith("it is user 1000 inside")]
    assert len(identity) == 1
    assert ("drawn for this run" in identity[0]) == (os.getuid() == 0)
    shared = any("together with that of the evaluator's user" in phrase for phrase in sandbox.missing())
    assert shared == (os.getuid() != 0)
