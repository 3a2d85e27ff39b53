"""One thing that a host has or lacks, and how programs are asked for their version."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

PROBE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Finding:
    """One thing that a host can have.

    Attributes:
        section: heading in the listing.
        name: what was looked for.
        present: whether it is there and usable.
        detail: version, path or reason.
        purpose: what is lost without it.
        hint: how to get it; None where nothing can be done or nothing is wrong.
    """

    section: str
    name: str
    present: bool
    detail: str
    purpose: str = ""
    hint: str | None = None


def version_of(names: Sequence[str]) -> str | None:
    """Returns what the first of these programs that is on PATH says of its version; None where there is none."""
    for name in names:
        if shutil.which(name) is not None:
            said = output_of([name, "--version"])
            return said.splitlines()[0] if said else name
    return None


def output_of(command: list[str]) -> str | None:
    """Returns what a command printed, or None when it failed, is not there or took too long."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
