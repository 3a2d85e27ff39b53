"""Holding more than the limits on disk and memory allow, and using processor time that nobody counts.

Each attack holds a bounded amount and then waits, so that one that is not stopped ends as a ``timeout`` and not in a
full disk. The levels at which it runs are those that claim the limit.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from a2perf.metrics.trackers.sampler import Sampler
from a2perf.records import FailureKind
from a2perf.sandbox import Limits, SandboxSpec, get_sandbox, limits, task_clock
from a2perf.sandbox.limits import GroupParent
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from tests.attacks.conftest import OBEYS
from tests.commands import run_command
from tests.made_submissions import write_submission
from tests.ordinary_user import way_to_the_interpreter
from tests.waiting import until

MIB = 2**20
MAPPED = """
for number in range(4):
    descriptor = nameless(str(number))
    keep.append(mmap.mmap(descriptor, 6 * 2**20))
    os.close(descriptor)
"""
CONFINED = ("process", "bubblewrap", "docker")
OWN_MEMORY = ("bubblewrap", "docker")
TIMEOUT_S = 300.0

PRELUDE = """
import ctypes, fcntl, mmap, os, socket, threading, time
here = os.environ["A2PERF_ARTIFACTS"]
block = bytes(2**20)
keep = []
def fill(descriptor, count=24):
    for _ in range(count): os.write(descriptor, block)
    return descriptor
def create(name): return os.open(os.path.join(here, name), os.O_CREAT | os.O_RDWR)
def nameless(name, count=6):
    descriptor = fill(create(name), count)
    os.unlink(os.path.join(here, name))
    return descriptor
"""
WAIT = "\ntime.sleep(900)\n"

# Under a limit of 8 MiB; no single file is larger, so that the limit on one file stops none of them.
DISK = {
    "hold unlinked files open": "for number in range(4): keep.append(nameless(str(number)))",
    "hold unlinked files in a thread's private table": """
        def other():
            ctypes.CDLL(None).unshare(0x400)
            for number in range(4): keep.append(nameless(str(number)))
            time.sleep(900)
        threading.Thread(target=other, daemon=True).start()
    """,
    "write below the longest path": """
        os.chdir(here)
        for _ in range(25):
            os.mkdir("d" * 200); os.chdir("d" * 200)
        here = "."
        for number in range(4): fill(create(str(number)), 6)
    """,
    "nest folders without end": """
        os.chdir(here)
        for _ in range(1000):
            os.mkdir("d"); os.chdir("d")
    """,
    "make files of holes": "for number in range(4): os.ftruncate(create(str(number)), 6 * 2**20)",
    "reserve space without writing": "for number in range(4): os.posix_fallocate(create(str(number)), 0, 6 * 2**20)",
    "write through mappings": """
        for number in range(4):
            descriptor = create(str(number))
            os.ftruncate(descriptor, 6 * 2**20)
            keep.append(mmap.mmap(descriptor, 6 * 2**20))
            keep[-1][:] = bytes(6 * 2**20)
    """,
    "write behind a closed folder": """
        os.mkdir(here + "/closed")
        keep += [create(f"closed/{number}") for number in range(4)]
        os.chmod(here + "/closed", 0)
        for descriptor in keep: fill(descriptor, 6)
    """,
    "give one file many names": """
        os.close(fill(create("file"), 2))
        for number in range(12): os.link(here + "/file", f"{here}/{number}")
    """,
    "write in many processes at once": """
        for number in range(6):
            if os.fork() == 0:
                fill(create(str(number)), 4)
                time.sleep(900)
                os._exit(0)
    """,
    "make very many empty files": "for number in range(3000): os.close(create(str(number)))",
    "write right before the end": """
        import atexit
        atexit.register(lambda: [fill(create(str(number)), 6) for number in range(4)])
    """,
}


def started(stage, level: str, **bounds: float) -> ParticipantProcess:
    """Starts the submission that runs what it is told."""
    (stage.entry / "inference.py").write_text(OBEYS)
    stage.words["files"] = stage.files()
    participant = stage.process(level, **bounds)
    participant.start()
    participant.load_policy({})
    return participant


def outcome_of(stage, level: str, code: str, wait: str = WAIT, **bounds: float) -> FailureKind | None:
    """Runs an attack; returns the kind of failure that is recorded, or None when it was let be."""
    try:
        with started(stage, level, **bounds) as participant:
            participant.infer({"code": PRELUDE + textwrap.dedent(code) + wait}, timeout_s=TIMEOUT_S)
    except ParticipantFailure as error:
        return error.failure.kind
    return None


@pytest.mark.parametrize("level", CONFINED)
@pytest.mark.parametrize("what", DISK)
def test_no_way_of_writing_escapes_the_limit(what: str, level: str, stage, available, noted) -> None:
    available(level)
    wait = "" if what == "write right before the end" else WAIT
    outcome = outcome_of(stage, level, DISK[what], wait, artifact_bytes=8 * MIB, artifact_entries=1000)
    noted(what, outcome.value if outcome else "came through", [level])
    assert outcome is FailureKind.OUTPUT_LIMIT
    shutil.rmtree(stage.artifacts)  # by descriptors: some of these paths are too long for the next line
    assert stage.untouched()


@pytest.mark.group("root")  # others see such files by the space that is gone, which is not theirs alone here
@pytest.mark.parametrize("level", ["process", "bubblewrap"])
def test_mapping_without_a_descriptor_does_not_escape_the_limit(level: str, stage, available, noted) -> None:
    available(level)
    outcome = outcome_of(stage, level, MAPPED, artifact_bytes=8 * MIB)
    noted("hold unlinked files by mappings alone", str(outcome and outcome.value), [level])
    assert outcome is FailureKind.OUTPUT_LIMIT


@pytest.mark.parametrize("level", CONFINED)
def test_one_file_stays_below_the_limit_by_the_kernel(level: str, stage, available, noted) -> None:
    available(level)
    code = """
    try:
        os.ftruncate(create("holes"), 8 * 2**40)
    except OSError as error:
        result = type(error).__name__
    """
    with started(stage, level, artifact_bytes=8 * MIB) as participant:
        answer = participant.infer({"code": PRELUDE + textwrap.dedent(code)}, timeout_s=TIMEOUT_S).action.strip("'")
    noted("make a file of 8 TiB of holes", f"stopped: {answer}", [level])
    assert answer == "OSError"
    assert max(path.stat().st_size for path in stage.artifacts.rglob("*")) <= 8 * MIB


@pytest.mark.parametrize("level", CONFINED)
def test_what_stays_below_the_limits_is_let_be(level: str, stage, available) -> None:
    available(level)
    code = """
    os.close(fill(create("file"), 3))
    keep.append(nameless("other", 2))
    os.mkdir(here + "/folder")
    for number in range(100): os.close(create(f"folder/{number}"))
    time.sleep(2.5)
    result = "done"
    """
    with started(stage, level, artifact_bytes=8 * MIB) as participant:
        answer = participant.infer({"code": PRELUDE + textwrap.dedent(code)}, timeout_s=TIMEOUT_S).action.strip("'")
    assert answer == "done"
    assert (stage.artifacts / "file").stat().st_size == 3 * MIB


MEMORY_BOUNDS = {"memory_bytes": 256 * MIB, "scratch_bytes": 512 * MIB}
# Under these limits: 512 MiB outside of every resident set.
MEMORY = {
    "hold anonymous memory files": """
        for _ in range(8): keep.append(fill(os.memfd_create("m"), 64))
    """,
    "fill its private tmpfs": """
        for folder in ("/tmp", "/dev/shm"):
            descriptor = os.open(folder + "/file", os.O_CREAT | os.O_WRONLY)
            fill(descriptor, 256)
    """,
    "fill the buffers of sockets": """
        total = 0
        while total < 512 * 2**20 and len(keep) < 4000:
            keep.append(socket.socketpair())
            for end in keep[-1]:
                end.setblocking(False)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**21)
                try:
                    while True: total += end.send(block[:65536])
                except BlockingIOError: pass
    """,
}


@pytest.mark.parametrize("level", OWN_MEMORY)
@pytest.mark.parametrize("what", MEMORY)
def test_no_way_of_holding_memory_escapes_the_limit(what: str, level: str, stage, available, noted) -> None:
    available(level)
    outcome = outcome_of(stage, level, MEMORY[what], **MEMORY_BOUNDS)
    noted(what, outcome.value if outcome else "came through", [level])
    assert outcome is FailureKind.MEMORY


@pytest.mark.group("bwrap")
@pytest.mark.parametrize("what", MEMORY)
def test_memory_outside_of_processes_counts_without_a_control_group(
    what: str, stage, available, noted, monkeypatch
) -> None:
    available("bubblewrap")
    monkeypatch.setattr(limits, "place", lambda: GroupParent(2, {}))
    outcome = outcome_of(stage, "bubblewrap", MEMORY[what], **MEMORY_BOUNDS)
    noted(f"{what}, without control groups", outcome.value if outcome else "-", ["bubblewrap"])
    assert outcome is FailureKind.MEMORY


WORK = """
import os, signal, time
def burn(seconds):
    while time.process_time() < seconds: pass
"""
PLAIN = f"{WORK}burn(1)"
UNHEARD = f"""{WORK}
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(20):
    if os.fork() == 0:
        burn(0.05)
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass
"""
DAEMONS = f"""{WORK}
for _ in range(20):
    read, end = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            burn(0.05)
            os._exit(0)
        os._exit(0)
    os.close(end)
    os.wait()
    os.read(read, 1)
    os.close(read)
"""


def tracked(level: str, code: str, folder: Path):
    """Runs work to its end and stops tracking while its last process still lives."""
    folder.mkdir()
    sampler = Sampler(mode="train", with_codecarbon=False)
    sampler.prepare()
    code += "\nopen('done', 'w').close()\ntime.sleep(600)"
    spec = SandboxSpec(
        argv=(sys.executable, "-I", "-S", "-c", code),
        cwd=folder,
        env={},
        writable=(folder,),
        limits=Limits(processes=64),
    )
    confined = get_sandbox(level).start(spec)
    try:
        sampler.attach(confined.tree_root, cgroup=confined.cgroups, clock=confined.cpu_clock, root_is_guard=True)
        until(lambda: (folder / "done").exists() or confined.poll())
        assert confined.poll() is None
    finally:
        report = sampler.stop()
        ending = confined.kill_tree()
    return ending, report


@pytest.mark.parametrize("groups", [True, False], ids=["control groups", "kernel clock"])
@pytest.mark.parametrize("level", ["process", "bubblewrap"])
def test_work_costs_the_same_in_children_that_nobody_waits_for(
    level: str, groups: bool, available: Callable[[str], None], tmp_path: Path, noted, monkeypatch
) -> None:
    available(level)
    where = limits.place()
    if groups and not ("cpuacct" in where.parents or (where.version == 2 and where.parents)):
        pytest.skip("no control group that counts processor time can be made here")
    if not groups:
        if task_clock.why_unavailable() is not None:
            pytest.skip(str(task_clock.why_unavailable()))
        monkeypatch.setattr(limits, "place", lambda: GroupParent(2, {}))
    plain = tracked(level, PLAIN, tmp_path / "plain")
    for name, code in (("unheard", UNHEARD), ("daemons", DAEMONS)):
        ending, report = tracked(level, code, tmp_path / name)
        # what 20 more processes cost themselves comes on top
        assert ending.cpu_s > 0.9 * plain[0].cpu_s
        assert report.cpu_seconds > 0.9 * plain[1].cpu_seconds
        assert report.energy.cpu.net_kwh > 0.8 * plain[1].energy.cpu.net_kwh
        assert report.account.complete == groups
        assert report.energy.cpu.account == ("control group" if groups else "kernel task clock")
    words = "counted in full" if groups else "counted in full (kernel clock)"
    what = "work in children that no process waits for" + ("" if groups else ", without control groups")
    noted(what, words, [level])


CLOSED_TO_USERS = ("write behind a closed folder", "hold unlinked files open")
AS_USER = """
import os, sys
os.setgroups([]); os.setresgid(4242, 4242, 4242); os.setresuid(4242, 4242, 4242)
from pathlib import Path
from a2perf.sandbox import Limits, get_sandbox, limits
from a2perf.submission.evaluator.process.confinement import ProvidedConfinement
from a2perf.submission.evaluator.process.failures import ParticipantFailure
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess
from a2perf.submission.evaluator.process.participant_spec import ParticipantSpec
assert not limits.place().enforces
top = Path(sys.argv[1])
bounds = eval(sys.argv[3])
try:
    spec = ParticipantSpec(submission=top / "entry", artifacts=top / "artifacts", logs=top / "logs")
    how = ProvidedConfinement(sandbox=get_sandbox("bubblewrap"), limits=Limits(**bounds))
    with ParticipantProcess(spec, how) as participant:
        participant.start()
        participant.load_policy({})
        print(participant.infer({"code": sys.argv[2]}, 60).action)
except ParticipantFailure as error:
    print(error.failure.kind.value)
"""


@pytest.fixture
def user_folder() -> Iterator[Path]:
    """A folder that every user can reach, as pytest's own is closed."""
    with tempfile.TemporaryDirectory(prefix="a2perf-test-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.group("bwrap")
@pytest.mark.group("root")
@pytest.mark.parametrize(
    ("what", "code", "bounds", "outcome"),
    [
        *((what, code, MEMORY_BOUNDS, "memory") for what, code in MEMORY.items()),
        *((what, DISK[what], {"artifact_bytes": 8 * MIB}, "output_limit") for what in CLOSED_TO_USERS),
    ],
)
def test_limits_hold_for_an_ordinary_user(
    what: str, code: str, bounds: dict[str, int], outcome: str, available, user_folder: Path
) -> None:
    available("bubblewrap")
    write_submission(user_folder / "entry", OBEYS)
    for name in ("artifacts", "logs"):
        (user_folder / name).mkdir()
    for path in (user_folder, *user_folder.rglob("*")):
        os.chown(path, 4242, 4242)
    arguments = (str(user_folder), PRELUDE + textwrap.dedent(code) + WAIT, repr(bounds))
    with way_to_the_interpreter() as way:
        done = run_command(
            [*way, sys.executable, "-c", AS_USER, *arguments],
            "/",
            env={**os.environ, "HOME": str(user_folder), "TMPDIR": str(user_folder)},
        )
    assert done.stdout.strip() == outcome, done.stderr[-2000:]
