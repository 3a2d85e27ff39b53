"""A Docker engine of the tests' own: a private daemon, a small image, and everything gone at the end.

The daemon has its own data root and socket, no bridge, and leaves the host's packet filter alone. Its image holds
nothing but folders: the host's ``/usr`` and the interpreter of the tests are mounted into the container, read-only, so
nothing is pulled and nothing is installed.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

IMAGE = "a2perf-tests:skeleton"
_DAEMONS = ("/usr/sbin/dockerd", "/usr/bin/dockerd", "dockerd")
_START_S = 30.0


@dataclass(frozen=True)
class DockerEngine:
    """A running engine.

    Attributes:
        host: its address, as in ``DOCKER_HOST``.
        image: an image in which the interpreter of the tests runs, given ``mounts``.
        mounts: what the image needs of this host, read-only and under the same paths.
        process: the daemon.
    """

    host: str
    image: str
    mounts: tuple[Path, ...]
    process: subprocess.Popen[bytes]

    def client(self) -> Any:
        """A client of the SDK."""
        import docker

        return docker.DockerClient(base_url=self.host)


def missing() -> str | None:
    """Says in a few words why no private engine can be started here, or returns None."""
    if _daemon() is None:
        return "no dockerd on this machine"
    if os.geteuid() != 0:
        return "dockerd needs root"
    try:
        import docker  # noqa: F401
    except ImportError:
        return "no docker SDK"
    return None


@contextmanager
def running_engine() -> Iterator[DockerEngine]:
    """Starts a private daemon with the small image, and takes both away again.

    Raises:
        RuntimeError: the daemon does not answer; the end of its log is in the message.
    """
    import docker

    # Short: a socket's path may have 107 characters, and containerd adds its own to the folder.
    folder = Path(tempfile.mkdtemp(prefix="a2perf-docker-"))
    host = f"unix://{folder}/d.sock"
    log = folder / "log"
    command = [
        *(["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []),
        str(_daemon()),
        "--data-root",
        f"{folder}/data",
        "--exec-root",
        f"{folder}/exec",
        "--pidfile",
        f"{folder}/pid",
        "--host",
        host,
        "--bridge=none",
        "--iptables=false",
        "--ip6tables=false",
        "--storage-driver",
        "overlay2",
    ]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, start_new_session=True)
    try:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                client = docker.DockerClient(base_url=host)  # asks the daemon for its version
                break
            except docker.errors.DockerException:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"dockerd did not start: {log.read_text()[-1500:]}") from None
                time.sleep(0.05)
        client.api.import_image_from_data(_skeleton(), repository=IMAGE.split(":")[0], tag=IMAGE.split(":")[1])
        yield DockerEngine(host, IMAGE, _host_python(), process)
        for container in client.containers.list(all=True):
            container.remove(force=True)
        client.close()
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            if line.split()[1].startswith(str(folder)):
                subprocess.run(["umount", "--lazy", line.split()[1]], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _daemon() -> str | None:
    return next((found for name in _DAEMONS if (found := shutil.which(name))), None)


def _host_python() -> tuple[Path, ...]:
    checkout = Path(__file__).resolve().parents[2]
    wanted = [Path("/usr"), Path(sys.base_prefix).resolve(), Path(sys.prefix).absolute(), checkout]
    return tuple(path for path in wanted if not any(path != other and other in path.parents for other in wanted))


def _skeleton() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("dev", "etc", "proc", "sys", "tmp", "usr", "var", "home", "root", "run"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for name in ("bin", "sbin", "lib", "lib64"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(entry)
        users = b"root:x:0:0::/root:/bin/sh\na2perf:x:1000:1000::/tmp:/usr/sbin/nologin\n"
        entry = tarfile.TarInfo("etc/passwd")
        entry.size, entry.mode = len(users), 0o644
        tar.addfile(entry, io.BytesIO(users))
    return stream.getvalue()
