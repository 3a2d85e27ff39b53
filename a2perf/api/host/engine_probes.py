"""Probes of engines that execute runs and of tools that build environments, for ``a2perf doctor``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Iterator

from a2perf.api.host.finding import Finding, output_of, version_of
from a2perf.errors import install_hint

SECTION = "engines"
ENGINE_TIMEOUT_S = 2


def engines() -> Iterator[Finding]:
    """A Docker engine, Slurm and Ray."""
    found, detail = _docker()
    yield Finding(
        SECTION,
        "docker engine",
        found,
        detail,
        "--launcher docker, and the sandbox level docker",
        None if found else "start a Docker engine, or set DOCKER_HOST to its socket",
    )
    yield _package("docker", "docker", "--launcher docker, and the sandbox level docker")
    slurm = version_of(("sinfo",)) if shutil.which("sbatch") else None
    answers = slurm is not None and output_of(["sinfo", "--noheader", "--format=%D nodes, %T"]) is not None
    yield Finding(
        SECTION,
        "slurm",
        answers,
        (slurm or "no sbatch on PATH") + ("" if answers or slurm is None else "; its controller does not answer"),
        "--launcher slurm",
        None if answers else "run on a login node of the cluster, or apt-get install slurm-client",
    )
    yield _package("submitit", "slurm", "--launcher slurm")
    yield _package("ray", "ray", "--launcher ray")


def python_tools() -> Iterator[Finding]:
    """The installers of a submission's packages: uv and pip."""
    uv = version_of(("uv",)) or _version("uv")
    yield Finding(
        "python environments",
        "uv",
        uv is not None,
        uv or "not installed",
        "creating isolated environments in seconds; pip takes minutes",
        None if uv else "pip install uv",
    )
    pip = _version("pip")
    yield Finding(
        "python environments",
        "pip",
        pip is not None,
        pip or "not installed",
        "creating isolated environments without uv",
        None if pip else "python -m ensurepip",
    )


def _package(name: str, extra: str, purpose: str) -> Finding:
    version = _version(name)
    return Finding(
        SECTION,
        f"{name} (Python)",
        version is not None,
        version or "not installed",
        purpose,
        None if version else install_hint(extra),
    )


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
        client = docker.DockerClient(timeout=ENGINE_TIMEOUT_S, **kwargs_from_env())
        info = client.info()
        client.close()
    except docker.errors.DockerException:
        return False, f"none answers at {address}"
    storage, version = info["Driver"], info.get("CgroupVersion", "1")
    return True, f"{info['ServerVersion']} at {address}, {storage}, control groups version {version}"
