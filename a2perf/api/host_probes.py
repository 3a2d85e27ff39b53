"""Probes of this machine for ``a2perf doctor``: state, purpose and remedy of each part. Probes change nothing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from a2perf import assets
from a2perf.domains.availability import missing_modules
from a2perf.domains.host_support import Support, with_wheels
from a2perf.domains.registry import Domain, domains
from a2perf.errors import AssetUnavailable, install_hint
from a2perf.sandbox import get_sandbox, hint_of, limits, seccomp, strongest_level, task_clock, why_unavailable
from a2perf.sandbox import levels as sandbox_levels
from a2perf.sandbox import problems as sandbox_problems
from a2perf.system import LINUX, POSIX

_PROBE_TIMEOUT_S = 10.0
_ENGINE_TIMEOUT_S = 2
_ISOLATION = "isolation"
_MOUNTS = Path("/proc/self/mountinfo")
_OWN_GROUP = "run as root, or in a delegated control group: systemd-run --user --scope -p Delegate=yes a2perf run ..."


@dataclass(frozen=True)
class Finding:
    """One property of a machine: a program, package, file or mechanism, with its version, path or reason.

    ``purpose`` names features that need it; ``hint`` is what provides it, None if nothing does or it is present.
    """

    section: str
    name: str
    present: bool
    detail: str
    purpose: str = ""
    hint: str | None = None

    def __post_init__(self) -> None:
        if self.present:
            object.__setattr__(self, "hint", None)


def versioned(
    section: str, name: str, version: str | None, purpose: str, hint: str, absent: str = "not installed"
) -> Finding:
    """Returns a finding about a program or package that is present if it has a version."""
    return Finding(section, name, version is not None, version or absent, purpose, hint)


def version_of(names: Sequence[str]) -> str | None:
    """Returns the version of the first of these programs on PATH, or None."""
    for name in names:
        if shutil.which(name) is not None:
            output = output_of([name, "--version"])
            return output.splitlines()[0] if output else name
    return None


def output_of(command: list[str]) -> str | None:
    """Returns the output of a command, or None if it fails, is missing or exceeds the time limit."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def support_matrix() -> tuple[Support, ...]:
    """Returns the rows of the evaluator and of every domain."""
    return (
        *with_wheels("evaluator"),
        *(row for domain in domains().values() for row in domain.support),
    )


def support_here() -> Iterator[Support]:
    """Yields the rows of the matrix that hold for this interpreter on this host."""
    for row in support_matrix():
        if (
            row.system == platform.system()
            and row.machine in ("any", platform.machine())
            and sys.version_info[:2] in row.python
        ):
            yield row


def every_finding() -> list[Finding]:
    """Runs every probe; a failed probe is a finding as well."""
    findings: list[Finding] = []
    for probe in _PROBES:
        try:
            findings.extend(probe())
        except Exception as error:  # an unusual machine must not hide the other findings
            findings.append(Finding("probes", probe.__name__, False, f"failed: {type(error).__name__}: {error}"))
    return findings


def levels() -> Iterator[Finding]:
    """Each level: whether this host offers it, why not, and what it does not prevent."""
    default = strongest_level()
    for name in sandbox_levels():
        detail = reason = why_unavailable(name)
        if detail is None:
            sandbox = get_sandbox(name)
            detail = f"{len(sandbox.guarantees())} guarantees. Not prevented: {'; '.join(sandbox.missing())}"
            detail = f"the default here; {detail}" if name == default else detail
        yield Finding(
            _ISOLATION, f"level {name}", reason is None, detail, f"runs with --sandbox {name}", reason and hint_of(name)
        )
    for name, problem in sandbox_problems().items():
        yield Finding(_ISOLATION, f"level {name}", False, problem, f"runs with --sandbox {name}")


def namespaces() -> Iterator[Finding]:
    """bubblewrap, user namespaces and the system-call filter."""
    purpose = "running submissions without network and with a read-only system"
    hint = "apt-get install bubblewrap"
    yield versioned(_ISOLATION, "bubblewrap", version_of(("bwrap",)), purpose, hint, absent="not on PATH")
    reason = _no_user_namespaces()
    hint = "sysctl kernel.unprivileged_userns_clone=1 (or the container's seccomp profile)"
    purpose = "bubblewrap, and the sandbox of browsers"
    yield Finding(_ISOLATION, "user namespaces", reason is None, reason or "open", purpose, hint)
    known = seccomp.supported()
    detail = f"refuses {len(seccomp.REFUSED)} calls" if known else f"none for {platform.machine()}"
    purpose = "refusing tracing, mounts, namespaces, keys and kernel programs to submissions"
    yield Finding(_ISOLATION, "system-call filter", known, detail, purpose)


def groups() -> Iterator[Finding]:
    """Control groups: their version, and the limits that they enforce here."""
    where = limits.place()
    held = sorted(where.enforces)
    mounted = sorted({line.partition(" - ")[2].split()[0] for line in _MOUNTS.read_text().splitlines()})
    versions = [number for number, kind in (("1", "cgroup"), ("2", "cgroup2")) if kind in mounted]
    known = f"version {' and '.join(versions)}; this user may limit: {', '.join(held) or 'nothing'}"
    detail = known if versions else "not mounted"
    purpose = "limits of memory, processes and processors that a submission cannot escape; exact processor time"
    yield Finding(_ISOLATION, "control groups", bool(held), detail, purpose, _OWN_GROUP)


def accounts() -> Iterator[Finding]:
    """Limits on a whole process tree, and how its processor time is counted."""
    where = limits.place()
    bounded = "memory_bytes" in where.enforces
    detail = "the kernel limits single processes only; a limit on the tree is refused"
    if bounded:
        detail = "bounded by the kernel, with shared memory, tmpfs and buffers"
    hint = f"{_OWN_GROUP}; or accept less with --allow-weaker"
    yield Finding(_ISOLATION, "memory of a whole tree", bounded, detail, "reliable memory limits", hint)
    counted = "cpuacct" in where.parents or (where.version == 2 and bool(where.parents))
    reason = task_clock.why_unavailable()
    if counted:
        detail = "counted by a control group"
    elif reason is None:
        detail = "counted by the kernel's clock, except for programs without read permission"
    else:
        detail = f"sampled: children that are not waited for are missed ({reason})"
    hint = f"{_OWN_GROUP}; or {task_clock.HINT}"
    name, purpose = "processor time of a whole tree", "exact processor time and energy"
    yield Finding(_ISOLATION, name, counted or reason is None, detail, purpose, hint)


def _no_user_namespaces() -> str | None:
    """Returns why user namespaces are not available, or None; tries to create one."""
    if not os.path.exists("/proc/self/ns/user"):
        return "not in this kernel"
    if version_of(("unshare",)) is None:
        return "unknown: the program unshare is missing"
    return None if output_of(["unshare", "--user", "true"]) is not None else "refused by the kernel"


def _weaker() -> Iterator[Finding]:
    rows = [
        ("runs", "nothing isolates or limits a submission: run your own code only"),
        ("end of a whole tree", "found by its chain of parents; a process that leaves it survives"),
        ("processor time of a whole tree", "sampled by psutil; energy comes from the power model"),
        ("files of others", "a link is looked for by path before a file is opened, which another program can race"),
    ]
    if POSIX:
        rows = [
            ("memory of a whole tree", "sampled, the sum of resident sets"),
            ("end of a whole tree", "a process that leaves its parent and every process group of the tree survives"),
            ("processor time of a whole tree", "sampled by psutil; energy comes from the power model"),
            ("launcher local", "cpus is refused; if it is killed, its running evaluators are not ended"),
        ]
    for name, detail in rows:
        yield Finding(_ISOLATION, name, False, f"weaker than on Linux: {detail}", hint=None if POSIX else "use WSL 2")


def _domains() -> Iterator[Finding]:
    for domain in domains().values():
        missing = min((missing_modules(domain, one) for one in domain.environments), key=len)
        detail = f"not installed: {', '.join(missing)}" if missing else "installed"
        purpose = f"the environments of {domain.name}"
        yield Finding("domains", domain.title, not missing, detail, purpose, install_hint(domain.extra))
        if domain.assets:
            yield _files(domain)


def _files(domain: Domain) -> Finding:
    here, wrong = 0, ""
    for asset in domain.assets:
        try:
            here += assets.locate(asset) is not None
        except AssetUnavailable as error:
            wrong = f"; {error.message}"
    name, detail = f"{domain.title}: data files", f"{here} of {len(domain.assets)} present{wrong}"
    purpose, hint = "tasks and pre-trained policies that need them", f"a2perf data fetch {domain.name}"
    return Finding("domains", name, here == len(domain.assets), detail, purpose, hint)


def _programs() -> Iterator[Finding]:
    for program in (program for domain in domains().values() for program in domain.programs):
        version, hint = version_of(program.names), f"apt-get install {program.package}"
        yield versioned("programs", program.package, version, program.purpose, hint, absent="not on PATH")


def _measurement() -> Iterator[Finding]:
    from a2perf.metrics.trackers.nvml import Nvml
    from a2perf.metrics.trackers.power_domains import POWERCAP, PowerDomains

    found = PowerDomains().readable
    hidden = not found and any(POWERCAP.glob("*rapl*:*"))
    counted = ", ".join(f"{count} x {kind}" for kind, count in found.items())
    detail = counted or ("not readable" if hidden else "not on this machine")
    purpose = "measured processor energy; it is estimated from a power model otherwise"
    hint = "chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj (as root)" if hidden else None
    yield Finding("measurement", "RAPL counters", bool(found), detail, purpose, hint)
    gpus = Nvml.open()
    detail = "no NVIDIA driver answers"
    if gpus is not None:
        detail = gpus.model
        gpus.close()
    yield Finding("measurement", "NVIDIA GPU (NVML)", gpus is not None, detail, "measured GPU energy and memory")


def engines() -> Iterator[Finding]:
    """A Docker engine, Slurm and Ray."""
    of_docker = "--launcher docker, and the sandbox level docker"
    found, detail = _docker()
    hint = "start a Docker engine, or set DOCKER_HOST to its socket"
    yield Finding("engines", "docker engine", found, detail, of_docker, hint)
    yield _package("docker", "docker", of_docker)
    slurm = version_of(("sinfo",)) if shutil.which("sbatch") else None
    answers = slurm is not None and output_of(["sinfo", "--noheader", "--format=%D nodes, %T"]) is not None
    detail = (slurm or "no sbatch on PATH") + ("" if answers or slurm is None else "; its controller does not answer")
    hint = "run on a login node of the cluster, or apt-get install slurm-client"
    yield Finding("engines", "slurm", answers, detail, "--launcher slurm", hint)
    yield _package("submitit", "slurm", "--launcher slurm")
    yield _package("ray", "ray", "--launcher ray")


def python_tools() -> Iterator[Finding]:
    """The installers of a submission's packages: uv and pip."""
    section, purpose = "python environments", "creating isolated environments"
    uv = version_of(("uv",)) or _version("uv")
    yield versioned(section, "uv", uv, f"{purpose} in seconds; pip takes minutes", "pip install uv")
    yield versioned(section, "pip", _version("pip"), f"{purpose} without uv", "python -m ensurepip")


def _package(name: str, extra: str, purpose: str) -> Finding:
    return versioned("engines", f"{name} (Python)", _version(name), purpose, install_hint(extra))


def _version(name: str) -> str | None:
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None  # a folder with the name of the package


def _docker() -> tuple[bool, str]:
    """Returns whether an engine answers, and its version."""
    if importlib.util.find_spec("docker") is None or _version("docker") is None:
        output = output_of(["docker", "version", "--format", "{{.Server.Version}}"])
        return output is not None, output or "no engine answers"
    from docker.utils import kwargs_from_env

    import docker

    address = os.environ.get("DOCKER_HOST", "the default socket")
    try:
        client = docker.DockerClient(timeout=_ENGINE_TIMEOUT_S, **kwargs_from_env())
        info = client.info()
        client.close()
    except docker.errors.DockerException:
        return False, f"none answers at {address}"
    storage, version = info["Driver"], info.get("CgroupVersion", "1")
    return True, f"{info['ServerVersion']} at {address}, {storage}, control groups version {version}"


_PROBES: tuple[Callable[[], Iterable[Finding]], ...] = (
    _domains,
    _programs,
    levels,
    *((namespaces, groups, accounts) if LINUX else (_weaker,)),
    *((engines, python_tools) if POSIX else ()),
    _measurement,
)
