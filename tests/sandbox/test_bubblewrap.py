"""The level 'bubblewrap': what its program finds around itself, and how little of it outlives anybody."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from a2perf.errors import InfrastructureError
from a2perf.sandbox import Limits, SandboxSpec, bubblewrap, get_sandbox
from tests.killed_python import kill_first_starts

pytestmark = pytest.mark.group("bwrap")
MIB = 2**20


def test_program_is_nobody_special_in_a_world_of_its_own(run) -> None:
    ending, lines, _ = run(
        """
        import os, socket
        status = open("/proc/self/status").read()
        print(os.getuid(), os.getgid(), socket.gethostname(), os.environ["ONLY"], len(os.environ))
        print(*(word for word in status.split() if set(word) == {"0"} and len(word) == 16))
        print("NoNewPrivs:\\t1" in status, "Seccomp:\\t2" in status)
        print(sorted(name for name in os.listdir("/proc") if name.isdigit()))
        print([name for _, name in socket.if_nameindex()])
        print(sorted(set(os.listdir("/")) - {"bin", "sbin", "lib", "lib32", "lib64"}))
        print(os.listdir("/etc/ssh") if os.path.exists("/etc/ssh") else "no /etc/ssh")
        """,
        "bubblewrap",
    )
    assert ending.exit_code == 0
    assert lines[0].startswith("1000 1000 a2perf this")
    assert lines[1].split().count("0" * 16) >= 5  # every set of capabilities
    assert lines[2] == "True True"
    assert len(eval(lines[3])) <= 3  # bubblewrap's own, and the program
    assert lines[4] == "['lo']"
    assert not {"root", "home", "var", "mnt", "srv", "boot"} & set(eval(lines[5])) - {
        Path(sys.base_prefix).parts[1],
        Path(sys.prefix).parts[1],
    }
    assert lines[6] == "no /etc/ssh"


def test_a_probe_that_is_killed_from_outside_does_not_hide_the_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_first_starts(monkeypatch, tmp_path, 2)
    program = shutil.which("bwrap")
    assert program is not None
    assert bubblewrap._probe.__wrapped__(program).refusal == ""


def test_scratch_space_is_its_own_limited_and_gone_afterwards(run) -> None:
    mark = f"/tmp/a2perf-mark-{os.getpid()}"
    _, lines, _ = run(
        f"""
        open({mark!r}, "w").write("x")
        for folder in ("/tmp", "/dev/shm"):
            try:
                open(folder + "/large", "wb", 0).write(bytes(2 * 2**20)) == 2 * 2**20 or print(folder, "full")
            except OSError as error:
                print(folder, error.errno)
        try:
            open("/elsewhere", "w")
        except OSError as error:
            print(error.errno)
        """,
        "bubblewrap",
        limits=Limits(scratch_bytes=MIB),
    )
    assert lines == ["/tmp full", "/dev/shm full", "30"]
    assert not os.path.exists(mark)


def test_what_it_writes_belongs_to_the_evaluator(run, tmp_path: Path) -> None:
    run("import os; os.mkdir('deep'); open('deep/file', 'w').write('x'); os.chmod('deep', 0o700)", "bubblewrap")
    written = tmp_path / "work" / "deep" / "file"
    assert written.stat().st_uid == os.getuid()
    written.unlink()
    written.parent.rmdir()


def test_network_is_there_when_it_was_asked_for(run) -> None:
    _, lines, _ = run("import socket; print(len(socket.if_nameindex()))", "bubblewrap", network=True)
    outside = len(os.listdir("/sys/class/net"))
    assert lines == [str(outside)]


def test_device_is_there_only_when_it_was_given(run) -> None:
    code = "import os; print(os.path.exists('/dev/full'), os.listdir('/sys/devices')[:0])"
    _, lines, _ = run(code, "bubblewrap")
    assert lines[:1] == ["True []"]
    code = "print(open('/dev/mem', 'rb').name)" if not os.path.exists("/dev/fuse") else "print(open('/dev/fuse').name)"
    _, lines, error = run(code, "bubblewrap")
    assert lines == []
    assert "Error" in error
    if os.path.exists("/dev/fuse") and os.access("/dev/fuse", os.R_OK):
        _, lines, _ = run(code, "bubblewrap", devices=[Path("/dev/fuse")])
        assert lines == ["/dev/fuse"]


def test_path_that_is_missing_is_the_hosts_fault(run, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="nothing does not exist"):
        run("pass", "bubblewrap", readable=[tmp_path / "nothing"])


def test_program_that_is_missing_ends_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "err").touch()
    spec = SandboxSpec(argv=("/usr/bin/no-such-program",), cwd=tmp_path, env={}, stderr=tmp_path / "err")
    with pytest.raises(InfrastructureError, match="no-such-program"):
        get_sandbox("bubblewrap").start(spec)


@pytest.mark.parametrize("status", [0, 1, 127, 255])
def test_status_is_that_of_the_program(run, status: int) -> None:
    ending, _, _ = run(f"raise SystemExit({status})", "bubblewrap")
    assert (ending.exit_code, ending.signal) == (status, None)
