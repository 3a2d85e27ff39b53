"""The code that runs: hash of the evaluator's a2perf, installed packages, and packages listed in site folders."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[3]
_DIST_INFO = re.compile(r"([\w.]+)-([\w.!+]+)\.dist-info")


@functools.cache
def package_sha256() -> str:
    """Returns a SHA-256 over the name and content of every file of the package except byte code."""
    digest = hashlib.sha256(b"a2perf package 1\0")
    for path in sorted(_code_files(str(_PACKAGE)), key=lambda path: path.split(os.sep)):
        digest.update(os.path.relpath(path, _PACKAGE).replace(os.sep, "/").encode() + b"\0")
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
