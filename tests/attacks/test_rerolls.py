"""A participant that wants another run with the same seeds, because it does not like this one: each is started once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from a2perf.launch.conductor import QUEUE_FILE
from a2perf.launch.queue import Queue
from a2perf.runs.bundles.bundle import validate
from a2perf.sandbox import Limits, SandboxSpec, get_sandbox, limits, strongest_level
from tests.commands import command, flags, run_command
from tests.made_submissions import TROT, gin, policy, write_submission

INFERENCE = policy(
    top="""
    import gc, os, signal, socket, struct, time

    class Policy:
        calls, held = 0, None
    """,
    load="return Policy",
    infer="""
    policy.calls += 1
    if policy.calls == 3:
        spoil(policy)
    return np.zeros(12, np.float32)
    """,
)
BREAK_THE_WIRE = """
def spoil(policy):
    import msgpack
    pair = np.array([1, 2])
    body = msgpack.packb([msgpack.ExtType(1, b"\\x03<i8\\x01" + struct.pack("<Q", 2) + pair.tobytes())])
    wire = next(found for found in gc.get_objects() if isinstance(found, socket.socket) and found.fileno() > 2)
    wire.sendall(struct.pack("<III", len(body), 0, 0) + body)
    time.sleep(60)
"""
KILL_ITSELF = """
def spoil(policy):
    os.kill(os.getpid(), signal.SIGKILL)
"""
FILL_THE_DISK = """
def spoil(policy):
    policy.held = os.open(os.environ["A2PERF_ARTIFACTS"] + "/x", os.O_CREAT | os.O_RDWR)
    os.unlink(os.environ["A2PERF_ARTIFACTS"] + "/x")
    try:
        while True:
            os.write(policy.held, bytes(65536))
    except OSError:
        pass
"""
KILL_THE_EVALUATOR = """
def spoil(policy):
    pid, names = os.getppid(), (b"main_submission", b"launch_main")
    while not any(name in open(f"/proc/{pid}/cmdline", "rb").read() for name in names) or pid == os.getpid():
        pid = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
    os.kill(pid, signal.SIGNAL)
    time.sleep(60)
"""
ODD_NAME = """
import os, time

def train(**kwargs):
    folder = os.environ["A2PERF_ARTIFACTS"]
    open(os.fsencode(folder) + b"/\\xff", "w").close()
    state = open(folder + "/starts", "a")
    state.write("x")
"""
SETTINGS = {"num_inference_episodes": 1, "time_participant_code": False, "record_frames": 0}
SMALL_DISK = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'


@dataclass
class Experiment:
    """Two seeds of a submission.

    Attributes:
        root: output folder.
        before: a command in front of the launcher's.
    """

    folder: Path
    mode: str
    level: str
    root: Path
    before: tuple[str, ...] = ()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        given = flags(submission="entry", gin_config=f"{self.mode}.gin", seeds=(1, 2), sandbox=self.level)
        argv = command(*given, "--root_dir", self.root, *arguments)
        return run_command([*self.before, *argv], self.folder, timeout=400)

    def jobs(self, *arguments: str) -> tuple[int, int]:
        """Returns the status of the same command and how many runs it started."""
        ended = self.run("--json", *arguments)
        return ended.returncode, json.loads(ended.stdout)["jobs_started"]

    def manifests(self) -> list[dict]:
        return [
            json.loads(path.read_text()) for path in sorted(self.root.glob(f"entry/*/seed_*/{self.mode}/manifest.json"))
        ]

    def attic(self) -> list[Path]:
        return list(self.root.glob("entry/*/seed_*/attic/*"))


@pytest.fixture
def memory_killer():
    """Lets the kernel kill processes of another control group, again and again, because it is at its own limit."""
    if "memory_bytes" not in limits.place().enforces:
        pytest.skip("no control group with a memory limit can be made here")
    over, sandbox = threading.Event(), get_sandbox("process")
    spec = SandboxSpec(
        (sys.executable, "-I", "-c", "b'x' * 2**28"),
        cwd=Path("/"),
        env={},
        limits=Limits(memory_bytes=24 * 2**20, memory_shares=1),
    )
    kills = []

    def kill() -> None:
        while not over.is_set():
            kills.append(sandbox.start(spec).wait(60).oom_kills)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(kill)
        yield kills
        over.set()
        done.result()


def experiment(folder: Path, mode: str, code: str, level: str, before: tuple[str, ...] = ()) -> Experiment:
    sources = {"inference": INFERENCE + code} if mode == "inference" else {"train": code}
    entry = write_submission(folder / "entry", **sources)
    (entry / f"{mode}.gin").write_text(gin(TROT, mode, **SETTINGS))
    return Experiment(folder, mode, level, folder / "root", before)


@pytest.mark.parametrize(
    ("what", "code", "kind"),
    [
        ("reroll: break the wire after a bad start", BREAK_THE_WIRE, "bad_output"),
        ("reroll: end by SIGKILL after a bad start", KILL_ITSELF, "signal"),
    ],
    ids=["wire", "signal"],
)
def test_a_participant_that_ends_its_run_has_ended_it(what: str, code: str, kind: str, tmp_path: Path, noted) -> None:
    level = strongest_level()
    made = experiment(tmp_path, "inference", code, level)
    ended = made.run()
    assert ended.returncode == 1, ended.stderr
    assert [(found["exit_reason"], len(found["attempts"])) for found in made.manifests()] == [(kind, 1)] * 2
    assert made.jobs() == (1, 0), "the same command starts it again"
    assert made.attic() == []
    noted(what, kind, [level])


def test_a_kill_is_not_one_for_memory_because_another_group_is_at_its_limit(
    tmp_path: Path, memory_killer, noted
) -> None:
    made = experiment(tmp_path, "inference", KILL_ITSELF, strongest_level())
    before = len(memory_killer)
    ended = made.run()
    assert sum(memory_killer[before:]) > 1, "the other group has to meet its limit during the run"
    assert ended.returncode == 1, ended.stderr
    assert [found["failure"]["kind"] for found in made.manifests()] == ["signal"] * 2
    noted("blame: end by SIGKILL beside a process at its memory limit", "signal", [strongest_level()])


@pytest.mark.parametrize("sent", ["KILL", *(pytest.param(name, marks=pytest.mark.slow) for name in ("TERM", "SEGV"))])
def test_an_evaluator_that_its_participant_ended_is_not_started_again(sent: str, tmp_path: Path, noted) -> None:
    made = experiment(tmp_path, "inference", KILL_THE_EVALUATOR.replace("SIGNAL", f"SIG{sent}"), "process")
    ended = made.run()
    assert ended.returncode == 3, ended.stderr
    assert ended.stderr.count("not retried automatically") == 2
    for found in made.manifests():
        assert (found["state"], found["failure"]["kind"], len(found["attempts"])) == ("failed", "infrastructure", 1)
    for bundle in made.root.glob("entry/*/seed_*/inference"):
        assert [words for words in validate(bundle) if not words.startswith("the run failed")] == []
    assert made.jobs() == (3, 0)
    if sent == "KILL":
        assert made.jobs("--retry", "infrastructure") == (3, 2)
        for found in made.manifests():
            assert [attempt["reason"] for attempt in found["attempts"]] == ["", "--retry infrastructure"]
            assert [bool(attempt["archived"]) for attempt in found["attempts"]] == [True, False]
    noted(f"reroll: end the evaluator with SIG{sent}", "once, then infrastructure", ["process"])


@pytest.mark.parametrize(
    ("code", "level", "status", "option"),
    [
        (KILL_ITSELF, "", 1, "failed"),
        (KILL_THE_EVALUATOR.replace("SIGNAL", "SIGKILL"), "process", 3, "infrastructure"),
    ],
    ids=["itself", "evaluator"],
)
def test_a_single_run_is_not_started_again_either(
    code: str, level: str, status: int, option: str, tmp_path: Path, noted
) -> None:
    level = level or strongest_level()
    made = experiment(tmp_path, "inference", code, level)
    own = ("--submission", "entry", "--gin_config", "inference.gin", "--seed", "1", "--sandbox", level)

    def run(*more: str) -> tuple[int, list[str]]:
        ended = run_command(command(*own, "--root_dir", made.root, *more), tmp_path, timeout=400)
        manifest = json.loads((made.root / "inference" / "manifest.json").read_text())
        assert manifest["state"] == "failed", ended.stderr
        return ended.returncode, [attempt["reason"] for attempt in manifest["attempts"]]

    assert run() == run() == (status, [""])
    assert run("--retry", option) == (status, ["", f"--retry {option}"])
    noted(f"reroll: repeat a single run, --retry {option}", "once, then as recorded", [level])


def test_an_evaluator_out_of_reach_is_not_ended(tmp_path: Path, available, noted) -> None:
    available("bubblewrap")
    made = experiment(tmp_path, "inference", KILL_THE_EVALUATOR.replace("SIGNAL", "SIGKILL"), "bubblewrap")
    assert made.run().returncode == 1
    assert [(found["exit_reason"], len(found["attempts"])) for found in made.manifests()] == [("exception", 1)] * 2
    noted("reroll: end the evaluator with SIGKILL", "exception", ["bubblewrap"])


@pytest.fixture
def small_disk(tmp_path: Path):
    """Returns what runs a command with a small file system on a folder; ordinary users need namespaces for that."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def before(size: str) -> tuple[str, ...]:
        wrap = ("unshare", "--map-root-user", "--mount") if os.geteuid() else ("unshare", "--mount")
        probe = (*wrap, "sh", "-c", SMALL_DISK, "sh", "64k", str(folder), "true")
        if shutil.which("unshare") is None or run_command(probe).returncode:
            pytest.skip("this user cannot mount a file system in a namespace")
        return (*wrap, "sh", "-c", SMALL_DISK, "sh", size, str(folder))

    return before


def test_a_disk_that_fills_during_a_run_starts_nothing_again(tmp_path: Path, small_disk, noted) -> None:
    made = experiment(tmp_path, "inference", FILL_THE_DISK, "process", small_disk("64m"))
    kept = tmp_path / "kept"
    # what lies on the small disk is gone with its namespace, so it is copied before
    made.before = (*made.before, "sh", "-c", f'"$@"; status=$?; cp -r {tmp_path}/disk {kept}; exit $status', "sh")
    made.root = tmp_path / "disk" / "root"
    ended = made.run()
    assert ended.returncode in (1, 3), ended.stderr
    assert "Traceback" not in ended.stderr
    manifests = [json.loads(path.read_text()) for path in sorted(kept.rglob("inference/manifest.json"))]
    assert [(found["state"], len(found["attempts"])) for found in manifests] == [("failed", 1)] * 2
    assert {found["failure"]["kind"] for found in manifests} <= {"disk", "infrastructure", "output_limit"}
    assert list(kept.rglob("attic")) == []
    with contextlib.closing(Queue(next(kept.rglob(QUEUE_FILE)))) as queue:
        assert [(found.attempts, found.retries) for found in queue.entries()] == [(1, 0)] * 2
    noted("reroll: fill the disk through a deleted file", "once, then failed", ["process"])


def test_a_disk_that_is_full_before_is_said_without_a_traceback(tmp_path: Path, small_disk) -> None:
    made = experiment(tmp_path, "inference", BREAK_THE_WIRE, "process", small_disk("48k"))
    entry = made.folder / "entry"
    given = ("--submission", entry, "--gin_config", entry / "inference.gin", "--seeds", "0-199")
    ended = run_command([*made.before, *command(*given, "--root_dir", tmp_path / "disk" / "root")], tmp_path)
    assert ended.returncode == 3, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "free some space" in ended.stderr


def test_an_odd_name_does_not_give_a_training_budget_again(tmp_path: Path, noted) -> None:
    level = strongest_level()
    made = experiment(tmp_path, "train", ODD_NAME, level)
    ended = made.run()
    assert ended.returncode == 0, ended.stderr
    for bundle in made.root.glob("entry/*/seed_*/train"):
        assert (bundle / "artifacts" / "starts").read_text() == "x"
        assert validate(bundle) == []
    assert [len(found["attempts"]) for found in made.manifests()] == [1, 1]
    assert all("artifacts/\\xff" in found["files"] for found in made.manifests())
    noted("reroll: a file name that is not UTF-8", "recorded, finished once", [level])
