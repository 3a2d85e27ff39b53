"""Probes of engines that execute runs and of tools that build environments, for ``a2perf doctor``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Iterator

from a2perf.api.host.finding import Finding, output_of, version_of, versioned
from a2perf.errors import install_hint

SECTION = "engines"
ENGINE_TIMEOUT_S = 2


def engines() -> Iterator[Finding]:
    """A Docker engine, Slurm and Ray."""
    of_docker = "--launcher docker, and the sandbox level docker"
    found, detail = _docker()
    hint = "start a Docker engine, or set DOCKER_HOST to its socket"
    yield Finding(SECTION, "docker engine", found, detail, of_docker, hint)
    yield _package("docker", "docker", of_docker)
    slurm = version_of(("sinfo",)) if shutil.which("sbatch") else None
    answers = slurm is not None and output_of(["sinfo", "--noheader", "--format=%D nodes, %T"]) is not None
    detail = (slurm or "no sbatch on PATH") + ("" if answers or slurm is None else "; its controller does not answer")
    hint = "run on a login node of the cluster, or apt-get install slurm-client"
    yield Finding(SECTION, "slurm", answers, detail, "--launcher slurm", hint)
    yield _package("submitit", "slurm", "--launcher slurm")
    yield _package("ray", "ray", "--launcher ray")


def python_tools() -> Iterator[Finding]:
    """The installers of a submission's packages: uv and pip."""
    section, purpose = "python environments", "creating isolated environments"
    uv = version_of(("uv",)) or _version("uv")
    yield versioned(section, "uv", uv, f"{purpose} in seconds; pip takes minutes", "pip install uv")
    yield versioned(section, "pip", _version("pip"), f"{purpose} without uv", "python -m ensurepip")


def _package(name: str, extra: str, purpose: str) -> Finding:
    return versioned(SECTION, f"{name} (Python)", _version(name), purpose, install_hint(extra))


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
