"""The packages that a command runs with: a condition of runs with an effect that scores do not show."""

from __future__ import annotations

import functools
import importlib.metadata
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path


def packages_of(words: Sequence[str]) -> dict[str, str]:
    """Returns the versions of the packages that a command's Python has, by lower-case name.

    Reads the interpreter's folder and executes nothing. Empty for a command that names no Python.
    """
    named = next((word for word in words if Path(word).name.startswith("python")), None)
    found = shutil.which(named) if named is not None else None
    # Do not resolve the path: the Python of a virtual environment is a link to another installation.
    return {} if found is None else dict(_packages_below(Path(found).absolute().parent.parent))


@functools.lru_cache(maxsize=8)
def _packages_below(prefix: Path) -> dict[str, str]:
    if prefix == Path(sys.prefix):
        folders = [folder for folder in sys.path if folder.endswith("-packages")]
    else:
        folders = [str(folder) for folder in sorted(prefix.glob("lib/python3*/*-packages"))]
    versions = {
        (item.metadata["Name"] or "").lower(): item.version for item in importlib.metadata.distributions(path=folders)
    }
    return {name: versions[name] for name in sorted(versions) if name}
