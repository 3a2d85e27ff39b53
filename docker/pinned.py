"""Prints the part of requirements.lock that the core and the named extras need, with its hashes.

The lock also serves development, and an image should contain neither test tools nor the libraries of other domains. The
dependencies are read from the ``# via`` lines of the lock; versions are not resolved again. Standard library and
pip only, because it runs before any package is installed.
"""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

# Builds a2perf; Debian's version is too old.
ALWAYS = ("setuptools",)
_ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==")
_VIA = re.compile(r"^\s+#\s+(?:via\s+)?([A-Za-z0-9][A-Za-z0-9._-]*)")


def normalised(requirement: str) -> str:
    """The distribution's name in the form that compares equal (PEP 503), without version, extras and marker."""
    found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    if found is None:
        raise ValueError(f"{requirement!r} is not a requirement")
    return re.sub(r"[-_.]+", "-", found.group()).lower()


def applies(requirement: str) -> bool:
    """Whether a requirement is for the Python, system and processor that run this."""
    marker = requirement.partition(";")[2].strip()
    return not marker or bool(importlib.import_module("pip._vendor.packaging.markers").Marker(marker).evaluate())


def entries(lock: str) -> dict[str, str]:
    """The lock's entries by normalised name, each with its hashes and ``# via`` lines."""
    blocks: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lock.splitlines():
        found = _ENTRY.match(line)
        if found:
            current = blocks.setdefault(normalised(found.group(1)), [])
        current.append(line)
    return {name: "\n".join(lines) for name, lines in blocks.items()}


def pinned(lock: str, roots: list[str]) -> list[str]:
    """The entries of the roots and of everything they need, in the lock's order.

    Raises:
        KeyError: a root is not in the lock.
    """
    known = entries(lock)
    needs: dict[str, set[str]] = defaultdict(set)
    for name, block in known.items():
        for line in block.splitlines():
            found = _VIA.match(line)
            if found and found.group(1) != "via":
                needs[normalised(found.group(1))].add(name)
    reached: set[str] = set()
    waiting = [normalised(root) for root in roots]
    while waiting:
        name = waiting.pop()
        if name not in known:
            raise KeyError(f"{name} is not in the lock")
        if name not in reached:
            reached.add(name)
            waiting.extend(needs[name])
    return [block for name, block in known.items() if name in reached]


def main(source: Path, extras: list[str]) -> None:
    """Print the pinned requirements of the core and of ``extras`` of the project in the folder ``source``."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    roots = [*ALWAYS, *project["dependencies"]]
    for extra in extras:
        roots += project["optional-dependencies"][extra]
    roots = [root for root in roots if applies(root)]
    print("\n".join(pinned((source / "requirements.lock").read_text(), roots)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
