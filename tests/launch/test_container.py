"""The docker launcher on a real engine: what a run sees and may do, how it ends, and what is left of it: nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from a2perf.errors import InfrastructureError, UserError
from a2perf.launch import QUEUE_FILE, Conductor, ExitStatus, Resources, RunCommand, RunSpec, get_launcher
from a2perf.launch.container import OWNER_LABEL, ContainerLauncher
from tests.launch.docker_engine import DockerEngine
from tests.launch.toy_run import check_same_returns
from tests.launch.waiting import end_of, shell, text_of
from tests.waiting import Child, until

pytestmark = pytest.mark.group("docker")


def _options(engine: DockerEngine) -> dict[str, str]:
    return {"image": engine.image, "python": sys.executable, "mounts": ":".join(map(str, engine.mounts))}


@pytest.fixture
def launcher(docker_engine: DockerEngine) -> Iterator[ContainerLauncher]:
    made = get_launcher("docker", **_options(docker_engine))
    assert isinstance(made, ContainerLauncher)
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def _command(folder: Path, script: str, **resources: Any) -> RunCommand:
    return replace(shell(folder, script, resources=Resources(**resources)), writable=(folder,))


def _output(folder: Path) -> str:
    return text_of(folder / "job" / "run.log")


def _containers(engine: DockerEngine) -> list[str]:
    return [str(container.name) for container in engine.client().containers.list(all=True)]


@pytest.mark.parametrize(("memory", "workers"), [(None, "2"), (2 << 30, "none")])
def test_runs_share_the_memory_of_the_host_unless_each_has_its_own(
    docker_engine: DockerEngine, folder: Path, memory: int | None, workers: str
) -> None:
    command = _command(folder, "echo parallel ${A2PERF_PARALLEL_RUNS:-none}", memory_bytes=memory)
    with Conductor(get_launcher("docker", **_options(docker_engine)), workers=2) as conductor:
        conductor.run([RunSpec("job", command)], folder / QUEUE_FILE)
    assert f"parallel {workers}" in _output(folder)


PROBE = """
import json, os, pathlib, socket, sys

def refused(action):
    try:
        action()
    except OSError as error:
        return error.strerror
    return "allowed"

def line(name):
    status = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(row.split()[1] for row in status if row.startswith(name))

root, submission, outside = map(pathlib.Path, sys.argv[1:])
(root / "written").write_text("by the run")
print(json.dumps({
    "uid": os.getuid(),
    "capabilities": line("CapEff"),
    "no_new_privileges": line("NoNewPrivs"),
    "seccomp": line("Seccomp"),
    "interfaces": sorted(os.listdir("/sys/class/net")),
    "submission": (submission / "file").read_text(),
    "write_submission": refused(lambda: (submission / "file").write_text("x")),
    "write_system": refused(lambda: pathlib.Path("/etc/x").write_text("x")),
    "outside": refused(lambda: outside.read_text()),
    "scratch": refused(lambda: pathlib.Path("/tmp/x").write_text("x")),
    "secret": os.environ.get("SECRET"),
    "passed": os.environ.get("PASSED"),
    "colour": os.environ.get("COLOUR"),
}))
"""


def test_a_run_sees_its_submission_read_only_and_writes_its_root_alone(
    docker_engine: DockerEngine, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "entry").mkdir()
    (tmp_path / "entry" / "file").write_text("the submission")
    (tmp_path / "canary").write_text("secret")
    monkeypatch.setenv("SECRET", "of the host")
    monkeypatch.setenv("PASSED", "on purpose")
    launcher = get_launcher("docker", pass_env="PASSED", **_options(docker_engine))
    paths = (str(folder), str(tmp_path / "entry"), str(tmp_path / "canary"))
    command = RunCommand(
        (sys.executable, "-c", PROBE, *paths),
        cwd=folder,
        env={"COLOUR": "blue"},
        log=folder / "run.log",
        readable=(tmp_path / "entry",),
        writable=(folder,),
    )
    assert end_of(launcher.start(command)) == ExitStatus(0)
    assert json.loads((folder / "run.log").read_text()) == {
        "uid": 1000,
        "capabilities": "0000000000000000",
        "no_new_privileges": "1",
        "seccomp": "2",
        "interfaces": ["lo"],
        "submission": "the submission",
        "write_submission": "Read-only file system",
        "write_system": "Read-only file system",
        "outside": "No such file or directory",
        "scratch": "allowed",
        "secret": None,
        "passed": "on purpose",
        "colour": "blue",
    }
    assert (folder / "written").read_text() == "by the run"
    assert folder.stat().st_uid == os.geteuid()
    assert _containers(docker_engine) == []


def test_output_arrives_as_it_is_made_and_the_status_comes_back(
    launcher: ContainerLauncher, docker_engine: DockerEngine, folder: Path
) -> None:
    job = launcher.start(_command(folder, "echo out; echo err >&2; until test -e go; do sleep 0.05; done; exit 7"))
    until(lambda: len(_output(folder).splitlines()) == 2)
    assert job.poll() is None
    (folder / "go").touch()
    assert end_of(job) == ExitStatus(7)
    assert sorted(_output(folder).splitlines()) == ["err", "out"]
    assert _containers(docker_engine) == []


def test_memory_processes_processors_and_wall_time_are_bounded(launcher: ContainerLauncher, folder: Path) -> None:
    eater = f"exec {sys.executable} -c 'x = bytearray(1 << 30); print(len(x))'"
    ended = end_of(launcher.start(_command(folder, eater, memory_bytes=100 * 2**20)))
    assert (ended.exit_code, ended.lost) == (None, False)
    assert "more than 100 MiB" in ended.reason
    script = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max 2>/dev/null; exec sleep 600"
    job = launcher.start(_command(folder, script, cpus=0.5, wall_s=2))
    ended = end_of(job)
    assert (ended.timed_out, ended.lost) == (True, False)
    assert "2 s" in ended.reason
    assert _output(folder).split()[0] == "50000"  # microseconds of every 100 ms


def test_a_fork_bomb_hits_the_bound_on_processes(docker_engine: DockerEngine, folder: Path) -> None:
    launcher = get_launcher("docker", pids=24, **_options(docker_engine))
    script = "for i in $(seq 60); do sleep 30 & done; echo started"
    end_of(launcher.start(_command(folder, script)))
    assert "annot fork" in _output(folder)
    assert _containers(docker_engine) == []


def test_a_cancelled_run_ends_politely(launcher: ContainerLauncher, folder: Path) -> None:
    job = launcher.start(_command(folder, "trap 'echo bye; exit 130' TERM; echo up; while :; do sleep 0.05; done"))
    until(lambda: "up" in _output(folder))
    job.cancel()
    assert end_of(job) == ExitStatus(130)
    assert "bye" in _output(folder)


@pytest.mark.parametrize("how", ["kill", "remove"])
def test_a_container_that_somebody_ends_is_lost(
    how: str, launcher: ContainerLauncher, docker_engine: DockerEngine, folder: Path
) -> None:
    job = launcher.start(_command(folder, "echo up; exec sleep 600"))
    until(lambda: "up" in _output(folder))
    container = docker_engine.client().containers.get(job.identity)
    if how == "kill":
        container.kill()
    else:
        container.remove(force=True)
    assert end_of(job).lost


STARTER = """
import sys
from pathlib import Path
from a2perf.launch import RunCommand, get_launcher
folder, image, mounts = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
launcher = get_launcher("docker", image=image, python=sys.executable, mounts=mounts)
script, log = "setsid sleep 98765 & echo up; while :; do sleep 0.05; done", folder / "job" / "run.log"
job = launcher.start(RunCommand(("/bin/sh", "-c", script), cwd=folder, log=log, writable=(folder,)))
print(job.identity, flush=True)
sys.stdin.read()
"""


def test_a_killed_launcher_leaves_no_process_and_the_next_one_removes_its_container(
    docker_engine: DockerEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = _options(docker_engine)
    with Child(
        [sys.executable, "-c", STARTER, str(folder), options["image"], options["mounts"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as dying:
        assert dying.stdout is not None
        identity = dying.stdout.readline().strip()
        until(lambda: "up" in _output(folder))
        living = get_launcher("docker", **options)  # leaves the container of a living launcher alone
        assert identity in [container.id for container in docker_engine.client().containers.list()]
        living.close()
        dying.send_signal(signal.SIGKILL)
    container = docker_engine.client().containers.get(identity)
    assert container.labels[OWNER_LABEL]

    def stopped() -> bool:
        container.reload()
        return bool(container.status == "exited")

    until(stopped)
    launcher = get_launcher("docker", **options)
    assert identity not in [left.id for left in docker_engine.client().containers.list(all=True)]
    assert launcher.adopt(identity) is None


def test_what_the_engine_cannot_give_is_said_in_its_words(
    launcher: ContainerLauncher, docker_engine: DockerEngine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InfrastructureError, match="could not select device driver"):
        launcher.start(_command(folder, "true", gpus=1))
    assert _containers(docker_engine) == []
    assert folder.stat().st_uid == os.geteuid()
    with pytest.raises(UserError, match="does not exist"):
        launcher.start(replace(_command(folder, "true"), readable=(folder / "nothing",)))
    (folder / "private").touch(mode=0o600)
    if os.geteuid() == 0:
        with pytest.raises(UserError, match=r"cannot read .*private"):
            launcher.start(replace(_command(folder, "true"), readable=(folder / "private",)))
    assert _containers(docker_engine) == []
    monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/no.sock")
    with pytest.raises(UserError, match="no Docker engine answers"):
        get_launcher("docker")


def test_the_evaluator_runs_in_a_container_as_it_does_here(
    docker_engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A new container has compiled nothing, and that takes longer than a run.
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    chosen = {**_options(docker_engine), "pass_env": "NUMBA_DISABLE_JIT"}
    check_same_returns(tmp_path, "docker", ",".join(f"{name}={value}" for name, value in chosen.items()))
    manifest = json.loads((tmp_path / "docker" / "inference" / "manifest.json").read_text())
    assert manifest["sandbox"]["level"] == "process"
    assert manifest["host"]["container"]["network"] == "none"
    assert {path.stat().st_uid for path in (tmp_path / "docker").rglob("*")} == {os.geteuid()}
    assert _containers(docker_engine) == []
