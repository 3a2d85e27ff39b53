"""The code of packages: a2perf's own, and that of an environment that is not a2perf's."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from a2perf.domains import any_environment
from a2perf.records import EnvironmentPackage

_PACKAGE = Path(__file__).resolve().parents[1]


def environment_package(env_id: str) -> EnvironmentPackage:
    """Returns the package of an environment that is not a2perf's."""
    module = any_environment.module_of(env_id)
    top = module.partition(".")[0]
    name = distribution_of(top)
    file = Path(sys.modules[top].__file__ or "")
    return EnvironmentPackage(
        name=name or top,
        version=importlib.metadata.version(name) if name else "",
        module=module,
        sha256=package_sha256(file.parent if file.name == "__init__.py" else file),
    )


def distribution_of(package: str) -> str:
    """Returns the name of the distribution that installed a top-level package; empty if none did."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found = importlib.metadata.distribution(package)
        if f"{package}/__init__.py," in (found.read_text("RECORD") or ""):
            return found.name  # at once: the files of all distributions take a tenth of a second
    return next(iter(importlib.metadata.packages_distributions().get(package, ())), "")


@functools.cache
def package_sha256(package: Path = _PACKAGE) -> str:
    """Returns a SHA-256 over the name and content of every file of a package except byte code; by default a2perf's."""
    digest = hashlib.sha256(b"a2perf package 1\0")
    paths = [str(package)] if package.is_file() else _code_files(str(package))
    for path in sorted(paths, key=lambda path: path.split(os.sep)):
        digest.update(os.path.relpath(path, package).replace(os.sep, "/").encode() + b"\0")
        with open(path, "rb", buffering=0) as file:
            digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def _code_files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _code_files(entry.path)
            elif entry.is_file() and not entry.name.endswith(".pyc"):
                yield entry.path
