"""The level 'docker': guard and participant in a container of a local engine, through the docker SDK.

The image holds only empty folders. The system, the interpreter and the submission are mounted read-only, as ``view``
lists them: nothing is built or pulled. The guard is the container's first process. It receives its descriptors from the
evaluator over a socket in a mounted folder (``guard.arrival``). They are the descriptors of the other levels, so the
wire, its speed and the captured output are the same. When the evaluator dies, the guard's control socket closes and the
guard ends. That ends the container, and the engine removes it.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2perf.errors import InfrastructureError, install_hint
from a2perf.runs.bundles.process_identity import left_behind, mark
from a2perf.sandbox import host_id, seccomp, view
from a2perf.sandbox import limits as control_groups
from a2perf.sandbox.container_image import empty_image
from a2perf.sandbox.guard.collection import Collection
from a2perf.sandbox.guard.stage import give
from a2perf.sandbox.guard.tree import descendants
from a2perf.sandbox.guarded import GuardedProcess, guard_document, written
from a2perf.sandbox.interface import Confined, Limits, SandboxSpec
from a2perf.sandbox.process import GUARANTEES_OF_LIMITS, GUARD_FOLDER, LIFECYCLE, pinned_guarantee

if TYPE_CHECKING:
    from docker.models.containers import Container

    from docker import DockerClient

LABEL = "a2perf.sandbox"
START_TIMEOUT_S = 60.0
PROBE_TIMEOUT_S = 5.0
DOOR = "/run/a2perf/door"
GUARD = "/run/a2perf/guard"
ARRIVAL_CODE = "import sys; sys.path.append(sys.argv[1]); from guard.arrival import arrive; arrive(sys.argv[2])"
# Far above the numbers of ``SandboxSpec.fds``, which are kept, and below the usual limit of 1024 open files.
_FIRST_NUMBER = 900
_BY_ENGINE = ("/proc/", "/sys/", "/dev/", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf")

_GUARANTEES = (
    *view.GUARANTEES,
    "it sees, signals and traces only processes of its container",
    "no capabilities, no new privileges, and no changes to the host's device files",
    "system calls are filtered by the engine's list and by that of the level 'bubblewrap'",
    "limits per tree on memory, processes and threads, processor time by the kernel (the engine's control groups)",
)
_OWN_ID = (
    "on the host it has an id drawn for this run, which owns nothing"
    f" ({host_id.RANGE.start} to {host_id.RANGE.stop - 1})"
)
_SAME_ID = "on the host it has the id of the evaluator's user"
_LOCKS = "locks on the host's files that it may read"
_INOTIFY = "using up inotify instances and pipes, which the kernel counts together with those of the evaluator's user"
_LOOPBACK_SETTINGS = {f"net.ipv6.conf.{which}.disable_ipv6": "0" for which in ("all", "lo")}


@cache
def why_unavailable(address: str | None = None) -> str | None:
    """Returns why this host cannot offer the level, or ``None``; ``address`` is the engine's and keys the cache."""
    try:
        import docker
    except ImportError:
        return "the Python package docker is not installed"
    try:
        client = docker.DockerClient(**_options(PROBE_TIMEOUT_S))
        with contextlib.closing(client):
            client.ping()
            if not client.api.base_url.startswith("http+docker://"):
                return "the engine is on another machine, but a sandbox mounts files of this one"
    except docker.errors.DockerException as error:
        address = os.environ.get("DOCKER_HOST", "the default socket")
        return f"no Docker engine answers at {address} ({type(error).__name__})"
    return None


def hint() -> str:
    """Returns how to make the level available: the package is named only if it is missing."""
    engine = "start a Docker engine on this machine, or set DOCKER_HOST to its socket"
    return engine if find_spec("docker") else f"{install_hint('docker')}, then {engine}"


def _options(timeout_s: float) -> dict[str, Any]:
    from docker.utils import kwargs_from_env

    return {"timeout": timeout_s, **kwargs_from_env()}


class DockerSandbox:
    """Starts a child in a new container."""

    level = "docker"

    def guarantees(self, *, network: bool = False) -> list[str]:
        """Returns what the level enforces."""
        identity = _SAME_ID if os.getuid() else _OWN_ID
        alone = () if network else (view.NO_NETWORK,)
        return [*LIFECYCLE, identity, *_GUARANTEES, *alone, *GUARANTEES_OF_LIMITS, *pinned_guarantee()]

    def missing(self, *, network: bool = False) -> list[str]:
        """Returns what the level does not prevent."""
        reaches = ("using the network, which the configuration allows",) if network else ()
        shares = (_INOTIFY,) if os.getuid() else ()
        return [*reaches, *shares, _LOCKS, "escape through a kernel bug"]

    def unenforceable(self, limits: Limits) -> list[str]:
        """Returns an empty list: the engine enforces every limit."""
        return []

    def start(self, spec: SandboxSpec) -> Confined:
        """Starts the program.

        Raises:
            InfrastructureError: the engine refused it, or a path that it has to see is missing.
        """
        import docker

        user = os.getuid() or host_id.draw() or view.USER_ID
        door = Path(tempfile.mkdtemp(prefix="a2perf-door-"))
        logs: list[int] = []
        ours, theirs = socket.socketpair()
        client = container = None
        try:
            client = docker.DockerClient(**_options(START_TIMEOUT_S))
            _remove_forgotten(client)
            with _listening(door, user) as listener:
                container = _create(client, spec, door, user)
                # Before the start: the engine deletes the output together with a container that ends at once.
                output = container.attach_socket(params={"stdout": 1, "stderr": 1, "stream": 1})
                for folder in written(spec):
                    if os.getuid() == 0:
                        give(str(folder), user, user)
                container.start()
                stream = _accept(listener, container, output)
            logs = [_open_log(path) for path in (spec.stdout, spec.stderr)]
            given = [theirs.fileno(), *logs, *spec.fds]
            numbers = [*range(_FIRST_NUMBER, _FIRST_NUMBER + 3), *spec.fds]
            with stream:
                socket.send_fds(stream, [marshal.dumps(numbers)], given)
            document = _document(spec, client, numbers)
            guarded = ContainedProcess(client, container, ours, spec)
        except (docker.errors.DockerException, OSError) as error:
            ours.close()
            _remove(container)
            if client is not None:
                client.close()
            raise InfrastructureError(f"the container could not be started: {error}", hint=hint()) from error
        except BaseException:
            ours.close()
            _remove(container)
            raise
        finally:
            theirs.close()
            for descriptor in logs:
                os.close(descriptor)
            shutil.rmtree(door, ignore_errors=True)  # the container keeps what it has mounted
        try:
            guarded.instruct(document)
            guarded.await_start()
        except BaseException:
            guarded.kill_tree()
            raise
        finally:
            for folder in spec.temporary:  # the container has its own copy
                shutil.rmtree(folder, ignore_errors=True)
        return guarded


class ContainedProcess(GuardedProcess):
    """A process tree in a container."""

    def __init__(self, client: DockerClient, container: Container, control: socket.socket, spec: SandboxSpec) -> None:
        self._keeper_of_it = ContainerKeeper(client, container, spec)
        super().__init__(self._keeper_of_it, control, spec, _groups_of(self._keeper_of_it.pid))

    @property
    def pid(self) -> int:
        """Process id of the program on this host; the guard's once the program has ended."""
        for pid in descendants(self.tree_root):
            with contextlib.suppress(OSError, IndexError):
                status = Path(f"/proc/{pid}/status").read_text()
                # The guard reported the id in its own PID namespace, which is the last number of the line.
                if status.split("NSpid:")[1].split("\n")[0].split()[-1] == str(self._pid):
                    return pid
        return self.tree_root

    def _bury(self) -> None:
        super()._bury()
        self._collected = self._keeper_of_it.collected


class ContainerKeeper:
    """A guard that is the first process of a container."""

    def __init__(self, client: DockerClient, container: Container, spec: SandboxSpec) -> None:
        self._client = client
        self._container = container
        self._spec = spec
        self.pid = int(container.attrs["State"]["Pid"])
        self.collected = (0, 0, 0)

    def wait(self, timeout_s: float) -> bool:
        """Waits until the engine has removed the container, then gives the artifacts back to the evaluator's user."""
        import requests

        import docker

        try:
            self._container.wait(timeout=timeout_s, condition="removed")
        except docker.errors.NotFound:
            # The engine removes it at its end, which may be before this request.
            pass
        except (docker.errors.APIError, requests.exceptions.RequestException):
            return False
        left = Collection(os.getuid(), os.getgid())
        left.collect(map(str, written(self._spec)))
        self.collected = (left.removed, left.changed, left.failed)
        self._client.close()
        return True

    def kill(self) -> None:
        """Removes the container."""
        _remove(self._container)

    def sweep(self, pid: int) -> None:
        """Does nothing: no process outlives its container."""


def _create(client: DockerClient, spec: SandboxSpec, door: Path, user: int) -> Container:
    binds, tmpfs = [f"{door}:{DOOR}:ro", f"{GUARD_FOLDER}:{GUARD}:ro"], {}
    for name, text in (("passwd", view.PASSWD), ("group", view.GROUP)):
        (door / name).write_text(text.replace(f":{view.USER_ID}:", f":{user}:"))
        (door / name).chmod(0o444)
        binds.append(f"{door / name}:/etc/{name}:ro")
    for place in view.places(spec):
        if place.path.startswith(_BY_ENGINE):
            continue
        if place.kind in ("read", "write"):
            binds.append(f"{place.source}:{place.path}:{'ro' if place.kind == 'read' else 'rw'}")
        elif place.kind == "nothing":
            binds.append(f"{os.devnull}:{place.path}:ro")
        elif place.kind == "tmpfs" or Path(place.path) in spec.temporary:
            # By default the engine gives a tmpfs the mode of the folder that it covers, and creates the parent folders
            # of mounts as root: the user could not write there. So each one gets the user's id and an open mode.
            # At least one page: a tmpfs of size 0 has no limit.
            size = max(4096, place.size or spec.limits.scratch_bytes)
            tmpfs[place.path] = f"size={size},mode=1777,exec,uid={user},gid={user}"
    limits = spec.limits
    return client.containers.create(
        empty_image(client),
        [os.fspath(spec.argv[0]), "-I", "-S", "-c", ARRIVAL_CODE, GUARD, f"{DOOR}/s"],
        auto_remove=True,
        cap_drop=["ALL"],
        cgroupns="private",
        # Given explicitly: the engine starts the container, so it does not inherit the evaluator's processors.
        cpuset_cpus=",".join(map(str, sorted(os.sched_getaffinity(0)))),
        devices=[f"{path}:{path}:rw" for path in spec.devices],
        environment={},
        hostname=view.HOST_NAME,
        ipc_mode="private",
        labels={LABEL: mark()},
        mem_limit=limits.memory_bytes,
        # The engine's bound on swap includes memory: the same number means no swap.
        memswap_limit=limits.memory_bytes,
        nano_cpus=None if limits.cpus is None else int(limits.cpus * 1e9),
        oom_score_adj=1000,
        network_mode="default" if spec.network else "none",
        pids_limit=None if limits.processes is None else control_groups.most_tasks(limits.processes),
        read_only=True,
        security_opt=["no-new-privileges:true"],
        shm_size=limits.scratch_bytes,
        # Without network, engines switch IPv6 off, but drivers of browsers bind their port on the IPv6 loopback.
        sysctls=None if spec.network else _LOOPBACK_SETTINGS if os.path.exists("/proc/sys/net/ipv6") else None,
        tmpfs=tmpfs,
        user=f"{user}:{os.getgid() if os.getuid() else user}",
        volumes=binds,
        working_dir="/",
    )


def _document(spec: SandboxSpec, client: DockerClient, numbers: list[int]) -> dict[str, object]:
    version = int(client.info().get("CgroupVersion", "1"))
    top = Path("/sys/fs/cgroup")
    folders = {name: top / name if version == 1 else top for name in control_groups.CONTROLLERS}
    inside = [place for place in view.places(spec) if not place.path.startswith(_BY_ENGINE)]
    return {
        **guard_document(spec),
        "stdout": numbers[1],
        "stderr": numbers[2],
        "temporary": [],
        "collect": [],  # the container's user may not change owners; ContainerKeeper.wait collects instead
        "filter": seccomp.program(pinned=seccomp.processors_are_restricted()) if seccomp.supported() else b"",
        "written": [str(path) for path in written(spec)],
        "folders": [place.path for place in inside if place.kind == "folder"],
        "links": [
            (place.source, place.path) for place in inside if place.kind == "link" and place.path not in view.SHORTCUTS
        ],
        "confined": True,
        "evaluator": 0,  # the guard is the first process of its namespace, where getppid() returns 0
        "own_processes": 0,
        "grouped": ["cpus", "memory_bytes", "processes"],
        "cgroup": {"counters": control_groups.counters(version, folders)},
        "cpu_unit_s": control_groups.cpu_unit_s(version),
    }


@contextlib.contextmanager
def _listening(door: Path, user: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(door / "s"))
        if os.getuid() != user:
            os.chown(door, user, user)
            os.chown(door / "s", user, user)
        listener.listen(1)
        yield listener


def _accept(listener: socket.socket, container: Container, output: Any) -> socket.socket:
    """Waits for the guard to connect.

    Raises:
        OSError: the container ended before; the message quotes its output.
    """
    import docker

    deadline = time.monotonic() + START_TIMEOUT_S
    listener.settimeout(0.5)
    while time.monotonic() < deadline:
        stream = None
        with contextlib.suppress(TimeoutError):
            stream = listener.accept()[0]
        try:
            container.reload()
        except docker.errors.NotFound:
            break
        if stream is not None:
            peer = struct.unpack("3i", stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            if peer == container.attrs["State"]["Pid"]:
                return stream
            stream.close()  # another process of the same user must not receive the run's descriptors
    # An attached stream frames its data; the first 8 bytes are the header of a frame.
    raise OSError(f"it ended before the guard connected: {output.read(4096)[8:].decode(errors='replace').strip()}")


def _remove_forgotten(client: DockerClient) -> None:
    """Removes containers that an evaluator created and did not start before it was killed."""
    for container in client.containers.list(all=True, filters={"label": LABEL, "status": "created"}):
        if left_behind(container.labels[LABEL]):
            _remove(container)


def _remove(container: Container | None) -> None:
    import docker

    if container is not None:
        with contextlib.suppress(docker.errors.DockerException):
            container.remove(force=True)


def _groups_of(pid: int) -> tuple[Path, ...]:
    """Returns the folders of a process's control group, as far as this process sees them."""
    try:
        membership = Path(f"/proc/{pid}/cgroup").read_text()
        where = control_groups.find_place(Path("/proc/self/mountinfo").read_text(), membership)
    except OSError:
        return ()
    return tuple(dict.fromkeys(where.parents.values()))


def _open_log(path: Path | None) -> int:
    target = os.devnull if path is None else str(path)
    return os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
