"""Probes of this machine for ``a2perf doctor``: state, purpose and remedy of each part. Probes change nothing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator

from a2perf import assets
from a2perf.api.host import isolation_probes
from a2perf.api.host.finding import Finding, output_of, version_of, versioned
from a2perf.domains.availability import missing_modules
from a2perf.domains.host_support import EVERY, Support, wheels_on_linux
from a2perf.domains.registry import Domain, domains
from a2perf.errors import AssetUnavailable, install_hint

_ENGINE_TIMEOUT_S = 2
_LINUX_ONLY = "the participant process needs Linux"


def support_matrix() -> tuple[Support, ...]:
    """Returns the rows of the evaluator and of every domain."""
    return (
        *wheels_on_linux("evaluator"),
        Support("Darwin", "any", EVERY, "evaluator", "not", f"{_LINUX_ONLY}; reports work"),
        Support("Windows", "any", EVERY, "evaluator", "not", f"{_LINUX_ONLY}: use WSL"),
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
    """Runs every probe; a failed probe is a finding as well.

    Returns:
        What is present and what is missing, with the command that installs it.
    """
    findings: list[Finding] = []
    for probe in _PROBES:
        try:
            findings.extend(probe())
        except Exception as error:  # an unusual machine must not hide the other findings
            findings.append(Finding("probes", probe.__name__, False, f"failed: {type(error).__name__}: {error}"))
    return findings


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
    return Finding(
        "domains", f"{domain.title}: data files", here == len(domain.assets),
        f"{here} of {len(domain.assets)} present{wrong}", "tasks and pre-trained policies that need them",
        f"a2perf data fetch {domain.name}",
    )  # fmt: skip


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
    isolation_probes.levels,
    isolation_probes.namespaces,
    isolation_probes.groups,
    isolation_probes.accounts,
    engines,
    python_tools,
    _measurement,
)
