"""The code that runs: hash of the evaluator's a2perf, installed packages, and packages listed in site folders."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from a2perf.domains import any_environment
from a2perf.records import EnvironmentPackage

_PACKAGE = Path(__file__).resolve().parents[3]
_DIST_INFO = re.compile(r"([\w.]+)-([\w.!+]+)\.dist-info")


def environment_package(env_id: str) -> EnvironmentPackage:
    """Returns the package of an environment that is not a2perf's."""
    module = any_environment.module_of(env_id)
    top = module.partition(".")[0]
    name, *_ = importlib.metadata.packages_distributions().get(top, [""])
    file = Path(sys.modules[top].__file__ or "")
    return EnvironmentPackage(
        name=name or top,
        version=importlib.metadata.version(name) if name else "",
        module=module,
        sha256=package_sha256(file.parent if file.name == "__init__.py" else file),
    )


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


def installed_packages() -> dict[str, str]:
    """Returns the version of every installed distribution by lower-case name."""
    found = {(item.metadata["Name"] or "").lower(): item.version for item in importlib.metadata.distributions()}
    return {name: found[name] for name in sorted(found) if name}


def python_version() -> str:
    """Returns the implementation and version of this Python, ``"CPython 3.11.7"``."""
    return f"{platform.python_implementation()} {platform.python_version()}"


def normalised_name(name: str) -> str:
    """Returns the name of a package in the spelling that all its spellings share."""
    return re.sub(r"[-_.]+", "-", name).lower()  # importing it from packaging would take 20 ms


def listed_packages(folders: Iterable[Path]) -> dict[str, str]:
    """Returns the versions of the packages in site folders by normalised name, the first folder first.

    It reads only the names of the metadata folders (``numpy-1.26.4.dist-info``): their files may be untrusted, and
    reading them takes 0.2 s.
    """
    found: dict[str, str] = {}
    for folder in folders:
        for entry in sorted(folder.glob("*.dist-info")):
            if (match := _DIST_INFO.fullmatch(entry.name)) is not None:
                found.setdefault(normalised_name(match[1]), match[2])
    return dict(sorted(found.items()))
