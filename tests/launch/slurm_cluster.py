"""A private Slurm cluster for tests: controller and two nodes on this machine, removed at the end.

Two node daemons stand for two machines, one of which can be lost (one port each, as Slurm's "multiple slurmd" build
allows). No accounting, no control groups and no login of another user; all files are in one temporary folder.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.commands import run_command

NODES = ("alpha", "beta")
_PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
_START_S = 30.0
_CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/none
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,defer_batch=no
ReturnToService=2
SlurmdTimeout=10
SlurmctldTimeout=10
InactiveLimit=0
KillWait=3
MinJobAge=600
MailProg=/bin/true
MpiDefault=none
{nodes}
PartitionName=tests Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass
class SlurmCluster:
    """A running cluster.

    Attributes:
        folder: its files; the logs are in it.
        environment: what a client needs beside its own variables.
        daemons: the running daemons by name; a node's is ``slurmd NODE``.
    """

    folder: Path
    environment: Mapping[str, str]
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def call(self, *command: str, may_fail: bool = False) -> str:
        """Runs a client program and returns what it printed."""
        done = run_command(command, env={**os.environ, **self.environment}, timeout=30)
        assert may_fail or done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def start_node(self, name: str) -> None:
        """Starts a node's daemon."""
        self._start(f"slurmd {name}", ["slurmd", "-D", "-N", name])

    def lose_node(self, name: str) -> None:
        """Takes a node away as a power failure does: its daemon and its jobs are killed, and nobody reports it."""
        daemon = self.daemons.pop(f"slurmd {name}")
        daemon.kill()
        daemon.wait()
        jobs = _processes_with(f"SLURMD_NODENAME={name}", str(self.folder))
        # The step daemons first, or one would report how its job was killed.
        for pid in [*{parent for pid in jobs if (parent := _step_daemon_of(pid))}, *jobs]:
            _kill(pid)
        self.call("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=lost")

    def restore(self) -> None:
        """Cancels what a test left and brings lost nodes back."""
        self.call("scancel", "--user=root", "--signal=KILL", "--full")
        self.call("scancel", "--user=root")
        for name in NODES:
            if f"slurmd {name}" not in self.daemons:
                self.start_node(name)
                # refused if the node has already registered by itself
                self.call("scontrol", "update", f"NodeName={name}", "State=RESUME", may_fail=True)
        _wait_for(lambda: all(self.idle(name) for name in NODES), self)

    def idle(self, name: str) -> bool:
        """Whether the node is up and free."""
        return self.call("sinfo", "--noheader", "--nodes", name, "--format", "%t").strip() == "idle"

    def _start(self, name: str, command: list[str]) -> None:
        watched = ["setpriv", "--pdeathsig", "TERM", *command] if shutil.which("setpriv") else command
        with (self.folder / f"{name.replace(' ', '.')}.out").open("ab") as stream:
            self.daemons[name] = subprocess.Popen(
                watched, env={**os.environ, **self.environment}, stdout=stream, stderr=stream, start_new_session=True
            )


def missing() -> str | None:
    """Says in a few words why no private cluster can be started here, or returns None."""
    missing = [program for program in _PROGRAMS if shutil.which(program, path=_path()) is None]
    if missing:
        return f"no {' and no '.join(missing)} on this machine"
    if os.geteuid() != 0:
        return "a private Slurm needs root"
    try:
        import submitit  # noqa: F401
    except ImportError:
        return "no submitit"
    return None


@contextmanager
def running_cluster() -> Iterator[SlurmCluster]:
    """Starts a private cluster of two nodes, and takes it away again.

    Raises:
        RuntimeError: the nodes are not ready in time; the end of the controller's log is in the message.
    """
    folder = Path(tempfile.mkdtemp(prefix="a2perf-slurm-"))
    folder.chmod(0o755)
    (folder / "state").mkdir()
    ports = _free_ports(1 + len(NODES))
    host = socket.gethostname().split(".")[0]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 // 4
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory={memory} State=UNKNOWN"
        for name, port in zip(NODES, ports[1:], strict=True)
    )
    configuration = folder / "slurm.conf"
    configuration.write_text(_CONFIGURATION.format(host=host, controller_port=ports[0], folder=folder, nodes=nodes))
    environment = {"SLURM_CONF": str(configuration), "PATH": _path()}
    cluster = SlurmCluster(folder, environment)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    try:
        munged = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}"]
        munged += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/seed"]
        cluster._start("munged", munged)
        _wait_for(lambda: (folder / "munge.socket").exists(), cluster)
        cluster._start("slurmctld", ["slurmctld", "-D"])
        for name in NODES:
            cluster.start_node(name)
        _wait_for(lambda: all(_quietly(cluster.idle, name) for name in NODES), cluster)
        yield cluster
    finally:
        for daemon in reversed(list(cluster.daemons.values())):
            daemon.terminate()
        for daemon in cluster.daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in _processes_with("SLURM_CONF=", str(folder)):
            _kill(pid)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(ready: Callable[[], bool], cluster: SlurmCluster) -> None:
    deadline = time.monotonic() + _START_S
    while not ready():
        ended = [name for name, daemon in cluster.daemons.items() if daemon.poll() is not None]
        if ended or time.monotonic() > deadline:
            logs = "\n".join(path.read_text(errors="replace")[-800:] for path in sorted(cluster.folder.glob("*.[lo]*")))
            raise RuntimeError(f"the cluster did not start (ended: {', '.join(ended) or 'none'}):\n{logs}")
        time.sleep(0.05)


def _quietly(question: Callable[[str], bool], name: str) -> bool:
    try:
        return question(name)
    except AssertionError:
        return False


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for listening in sockets:
        listening.bind(("127.0.0.1", 0))
    ports = [listening.getsockname()[1] for listening in sockets]
    for listening in sockets:
        listening.close()
    return ports


def _processes_with(*texts: str) -> list[int]:
    """Processes with all of the texts in their environment."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                variables = Path("/proc", name, "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if all(re.search(re.escape(text), variables) for text in texts):
                found.append(int(name))
    return found


def _step_daemon_of(pid: int) -> int | None:
    try:
        status = Path("/proc", str(pid), "status").read_text()
        parent = int(re.findall(r"^PPid:\s+(\d+)", status, re.MULTILINE)[0])
        return parent if "slurmstepd" in Path("/proc", str(parent), "comm").read_text() else None
    except (OSError, IndexError):
        return None


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return
