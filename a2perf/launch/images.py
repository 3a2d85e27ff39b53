"""Images of the domains: named by the content they are built from, and built when missing.

An image's content consists of the files of this checkout that enter its build (``docker/``, the package, the lock) and
its base image. An engine builds the same content once; a run removes no image.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import filelock

from a2perf.errors import InfrastructureError, MissingDependency, UserError, did_you_mean, install_hint

REPOSITORY = "a2perf"
CHECKOUT = Path(__file__).resolve().parents[2]


def connect() -> tuple[Any, Any]:
    """Returns the docker SDK and a client of the engine that ``DOCKER_HOST`` names.

    Raises:
        MissingDependency: the SDK is not installed.
        UserError: no engine answers.
    """
    try:
        import docker
    except ImportError as error:
        raise MissingDependency("containers need the docker SDK", hint=install_hint("docker")) from error
    try:
        client = docker.from_env(timeout=120)
        client.ping()
    except docker.errors.DockerException as error:
        where = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        raise UserError(
            f"no Docker engine answers at {where}: {error}", hint="start one, or set DOCKER_HOST to its address"
        ) from error
    return docker, client


def content_of(domain: str, checkout: Path = CHECKOUT) -> str:
    """Returns the hash of what a domain's image is built from.

    Raises:
        UserError: a2perf does not run from a checkout, or the domain has no Dockerfile.
    """
    dockerfiles = {path.name.removesuffix(".Dockerfile") for path in (checkout / "docker").glob("*.Dockerfile")}
    if not dockerfiles:
        raise UserError(
            "images are built from a checkout of a2perf; this installation is not a checkout",
            hint="name an image that has a2perf in it with --launcher docker:image=NAME",
        )
    if domain not in dockerfiles:
        raise UserError(
            f"docker/ has no Dockerfile for {domain}{did_you_mean(domain, dockerfiles)}",
            hint="name an image with --launcher docker:image=NAME",
        )
    others = {f"docker/{name}.Dockerfile" for name in dockerfiles - {domain, "base"}}
    digest = hashlib.sha256(os.environ.get("BASE_IMAGE", "").encode())
    for name in _context(checkout):
        if name not in others and name != "docker/README.md":
            digest.update(name.encode() + b"\0" + hashlib.sha256((checkout / name).read_bytes()).digest())
    return digest.hexdigest()[:12]


def ensure(client: Any, domain: str, checkout: Path = CHECKOUT) -> str:
    """Returns the name of the domain's image on the engine; builds it first if it is missing.

    The build is ``docker/build.sh``, with the environment of this process (``BASE_IMAGE``, ``NETWORK``, ``PIP_CONF``,
    ``PIP_CA``).

    Raises:
        UserError: this installation cannot build it.
        InfrastructureError: the build failed; the message contains the end of its log.
    """
    content = content_of(domain, checkout)
    name = f"{REPOSITORY}:{domain}-{content}"
    # Runs that start together would all build the same missing image.
    with filelock.FileLock(Path(tempfile.gettempdir()) / f"a2perf-image-{os.geteuid()}-{domain}.lock"):
        if any(name in image.tags for image in client.images.list(REPOSITORY)):
            return name
        print(f"a2perf: building the image {name} (minutes, once)", file=sys.stderr)
        with tempfile.TemporaryFile("w+") as log:
            done = subprocess.run(
                ["sh", str(checkout / "docker" / "build.sh"), domain],
                env={**os.environ, "CONTENT": content},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
            log.seek(0)
            output = log.read().strip()
    if done.returncode != 0 or not any(name in image.tags for image in client.images.list(REPOSITORY)):
        raise InfrastructureError(
            f"the image of {domain} could not be built: ...{output[-1000:]}",
            hint="run `make docker` to see the whole build; docker/README.md lists its requirements",
        )
    return name


def _context(checkout: Path) -> Iterator[str]:
    """The files that enter a build, by relative name, as .dockerignore lets them through."""
    rules = (checkout / ".dockerignore").read_text().splitlines()
    allowed = [rule[1:] for rule in rules if rule.startswith("!")]
    for entry in sorted(allowed):
        path = checkout / entry
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts and not fnmatch.fnmatch(file.name, "*.pyc"):
                yield file.relative_to(checkout).as_posix()
