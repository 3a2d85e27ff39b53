"""The level 'docker' against a real engine: what its program finds, and that nothing is left of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from a2perf.errors import InfrastructureError
from a2perf.runs.bundles.process_identity import mark
from a2perf.sandbox import Limits, SandboxSpec, get_sandbox
from a2perf.sandbox.container import LABEL, why_unavailable
from tests.launch.docker_engine import DockerEngine
from tests.waiting import Child, until

pytestmark = [pytest.mark.group("docker"), pytest.mark.usefixtures("docker_engine")]
MIB = 2**20


def left(docker_engine: DockerEngine) -> list[str]:
    client = docker_engine.client()
    try:
        # The list as the engine gives it: asking for each container by name fails for one that ends in between.
        return [found["State"] for found in client.api.containers(all=True, filters={"label": LABEL})]
    finally:
        client.close()


def test_program_runs_contained_and_writes_for_the_evaluator(
    start, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    read, write = os.pipe()
    code = f"""
    import os, socket
    status = open("/proc/self/status").read()
    print(os.getuid() != 0, os.environ["ONLY"], "HOME" in os.environ, end=" ")
    print("NoNewPrivs:\\t1" in status, "Seccomp:\\t2" in status)
    print([name for _, name in socket.if_nameindex()], os.path.exists({str(tmp_path / "logs")!r}))
    try:
        open("/usr/planted", "w")
    except OSError as error:
        print(error.errno)
    os.mkdir("deep")
    open("deep/file", "w").write("x")
    os.write({write}, b"through")
    raise SystemExit(7)
    """
    (tmp_path / "work").mkdir()
    home = tmp_path / "home"
    home.mkdir()
    confined = start(code, "docker", fds=(write,), writable=[tmp_path / "work", home], temporary=(home,))
    os.close(write)
    assert os.read(read, 100) == b"through"
    ending = confined.wait(300)
    os.close(read)
    assert (ending.exit_code, ending.signal, ending.killed) == (7, None, False)
    assert (tmp_path / "logs" / "out").read_text().splitlines() == ["True this False True True", "['lo'] False", "30"]
    written = tmp_path / "work" / "deep" / "file"
    assert (written.stat().st_uid, written.parent.stat().st_uid) == (os.getuid(), os.getuid())
    assert left(docker_engine) == []
    assert not home.exists()
    assert ending.cpu_s > 0
    assert ending.peak_memory_bytes


def test_tree_is_known_by_the_hosts_process_ids(start, tmp_path: Path) -> None:
    confined = start("import time; time.sleep(600)", "docker")
    try:
        assert "sleep(600)" in Path(f"/proc/{confined.pid}/cmdline").read_text()
        parent = Path(f"/proc/{confined.pid}/stat").read_text().rpartition(")")[2].split()[1]
        assert int(parent) == confined.tree_root
        assert confined.cgroups
        assert str(confined.pid) in (confined.cgroups[0] / "cgroup.procs").read_text().split()
    finally:
        ending = confined.kill_tree()
    assert ending.killed


def test_signal_and_memory_limit_are_told(start, tmp_path: Path) -> None:
    code = "import mmap\nblock = mmap.mmap(-1, 100 * 2**20)\nfor at in range(0, len(block), 4096): block[at] = 1"
    ending = start(code, "docker", limits=Limits(memory_bytes=64 * MIB)).wait(300)
    assert (ending.signal, ending.oom_kills) == (signal.SIGKILL, 1)


def test_link_that_it_leaves_is_not_followed_when_its_files_are_handed_over(start, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.touch()
    before = outside.stat()
    code = f"import os; os.symlink({str(outside)!r}, 'link')"
    start(code, "docker").wait(300)
    assert (outside.stat().st_uid, outside.stat().st_ctime_ns) == (before.st_uid, before.st_ctime_ns)


def test_path_that_is_missing_is_the_hosts_fault(start, docker_engine: DockerEngine, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="nothing"):
        start("pass", "docker", readable=[tmp_path / "nothing"])
    assert left(docker_engine) == []


def test_interpreter_that_does_not_run_says_why(docker_engine: DockerEngine, tmp_path: Path) -> None:
    broken = tmp_path / "env" / "bin" / "python"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho no library >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(InfrastructureError, match="no library"):
        get_sandbox("docker").start(SandboxSpec(argv=(str(broken),), cwd=tmp_path, env={}))
    assert left(docker_engine) == []


EVALUATOR = """
import sys, time
from pathlib import Path
from a2perf.sandbox import SandboxSpec, get_sandbox

spec = SandboxSpec(argv=(sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"), cwd=Path("/tmp"), env={})
print(get_sandbox("docker").start(spec).pid, flush=True)
time.sleep(600)
"""


def test_container_ends_with_an_evaluator_that_is_killed(docker_engine: DockerEngine) -> None:
    evaluator = Child([sys.executable, "-c", EVALUATOR], stdout=subprocess.PIPE, text=True)
    assert evaluator.stdout is not None
    with evaluator, evaluator.stdout:
        pid = int(evaluator.stdout.readline())
        evaluator.kill()
        evaluator.wait(300)
    until(lambda: not left(docker_engine) and not os.path.exists(f"/proc/{pid}"))


def test_container_that_was_made_and_forgotten_is_removed_by_the_next(
    start, docker_engine: DockerEngine, tmp_path: Path
) -> None:
    client = docker_engine.client()
    client.containers.create(docker_engine.image, ["/bin/true"], labels={LABEL: f"{mark().partition('-')[0]}-1-5"})
    client.close()
    assert left(docker_engine) == ["created"]
    start("pass", "docker").wait(300)
    assert left(docker_engine) == []


def test_engine_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    assert "/nowhere/docker.sock" in str(why_unavailable("unix:///nowhere/docker.sock"))
