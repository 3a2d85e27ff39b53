"""One property of a machine for ``a2perf doctor``, and the versions of installed programs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

PROBE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Finding:
    """One property of a machine.

    Attributes:
        section: heading in the listing.
        name: the program, package, file or mechanism.
        present: whether it can be used.
        detail: version, path or reason.
        purpose: features that need it.
        hint: command or setting that provides it; None if there is none. A finding that is present drops it.
    """

    section: str
    name: str
    present: bool
    detail: str
    purpose: str = ""
    hint: str | None = None

    def __post_init__(self) -> None:
        if self.present:
            object.__setattr__(self, "hint", None)


def versioned(
    section: str, name: str, version: str | None, purpose: str, hint: str, absent: str = "not installed"
) -> Finding:
    """Returns a finding about a program or package that is present if it has a version."""
    return Finding(section, name, version is not None, version or absent, purpose, hint)


def version_of(names: Sequence[str]) -> str | None:
    """Returns the version of the first of these programs on PATH, or None."""
    for name in names:
        if shutil.which(name) is not None:
            output = output_of([name, "--version"])
            return output.splitlines()[0] if output else name
    return None


def output_of(command: list[str]) -> str | None:
    """Returns the output of a command, or None if it fails, is missing or exceeds the time limit."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
