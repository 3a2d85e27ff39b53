"""Hash of the evaluator's a2perf package, which manifests record and competitions commit to."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[2]


@functools.cache
def package_sha256() -> str:
    """Returns a SHA-256 over the name and content of every file of the package except byte code."""
    digest = hashlib.sha256(b"a2perf package 1\0")
    for path in sorted(_PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
            digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def installed_packages() -> dict[str, str]:
    """Returns the version of every installed distribution by lower-case name."""
    found = {(item.metadata["Name"] or "").lower(): item.version for item in importlib.metadata.distributions()}
    return {name: found[name] for name in sorted(found) if name}


def python_version() -> str:
    """Returns the implementation and version of this Python, ``"CPython 3.11.7"``."""
    return f"{platform.python_implementation()} {platform.python_version()}"
