"""A confined program finds what every Linux machine has, at every level."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from a2perf.sandbox import SandboxSpec, get_sandbox, why_unavailable

LEVELS = ["none", "process", pytest.param("bubblewrap", marks=pytest.mark.group("bwrap"))]
ITEMS = {
    "own host name": "from socket import *\nfor name in (gethostname(), getfqdn()): getaddrinfo(name, 80)",
    "rendezvous on the own host name": """
import os, socket
with socket.socket() as server:
    server.bind(("", 0))
    server.listen()
    port = server.getsockname()[1]
    if os.fork() == 0:
        with socket.create_connection((socket.gethostname(), port), timeout=20) as rank:
            rank.sendall(b"rank 1")
        os._exit(0)
    server.settimeout(20)
    peer, _ = server.accept()
    assert peer.recv(6) == b"rank 1"
assert os.wait()[1] == 0
""",
    "loopback interface": """
import socket
assert "lo" in [name for _, name in socket.if_nameindex()]
assert socket.gethostbyname("localhost") == "127.0.0.1"
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname(), timeout=20).close()
""",
    "passwd entry": """
import getpass, grp, os, pwd
entry = pwd.getpwuid(os.getuid())
assert os.path.isdir(entry.pw_dir) and entry.pw_name == getpass.getuser()
grp.getgrgid(os.getgid())
""",
    "time zone": "import time, zoneinfo; time.localtime(); assert time.tzname[0]; zoneinfo.ZoneInfo('UTC')",
    "locale": "import locale; assert 'UTF-8' in locale.setlocale(locale.LC_ALL, '')",
    "/dev/shm": """
import multiprocessing
from multiprocessing import shared_memory
multiprocessing.Lock()
segment = shared_memory.SharedMemory(create=True, size=4096)
segment.close(); segment.unlink()
""",
    "/tmp": "import tempfile; tempfile.TemporaryFile(dir='/tmp').write(b'x')",
    "release of the system": "import platform; assert platform.freedesktop_os_release()['ID']",
    "memory and load": """
import os
names = dict(line.split(":") for line in open("/proc/meminfo"))
assert int(names["MemTotal"].split()[0]) >= int(names["MemAvailable"].split()[0]) > 0
assert open("/proc/stat").readline().startswith("cpu ")
assert len(os.getloadavg()) == 3
""",
}


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str, str], str]:
    """Runs Python code at a level; returns an empty text, or what it printed before it failed."""

    def start(level: str, code: str) -> str:
        if (reason := why_unavailable(level)) is not None:
            pytest.skip(reason)
        errors = tmp_path / "errors"
        spec = SandboxSpec(
            argv=(sys.executable, "-c", code),
            cwd=tmp_path,
            readable=[tmp_path],
            stderr=errors,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/tmp"},
        )
        ending = get_sandbox(level).start(spec).wait(120)
        assert ending is not None
        return "" if ending.exit_code == 0 else errors.read_text()

    return start


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("item", ITEMS)
def test_it_has_what_every_machine_has(item: str, level: str, run) -> None:
    if level != "bubblewrap" and run("none", ITEMS[item]):
        pytest.skip(f"this host has no {item} itself")
    assert run(level, ITEMS[item]) == ""


@pytest.mark.group("bwrap")
@pytest.mark.parametrize("name", ["meminfo", "stat", "loadavg"])
def test_counters_of_the_whole_host_stand_still(name: str, run) -> None:
    code = f"""
import os, time
before = open("/proc/{name}").read()
held = [os.pipe() for _ in range(200)] + [bytearray(50_000_000)]
end = time.process_time() + 0.3
while time.process_time() < end: pass
assert open("/proc/{name}").read() == before
for hidden in ("buddyinfo", "vmstat", "zoneinfo", "interrupts"):
    try:
        assert open("/proc/" + hidden).read() == ""
    except (PermissionError, FileNotFoundError):
        pass
"""
    assert run("bubblewrap", code) == ""
