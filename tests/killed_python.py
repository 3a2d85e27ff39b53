"""An interpreter that is killed so many times before it runs: what a program sees whose child somebody else kills."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest


def kill_first_starts(monkeypatch: pytest.MonkeyPatch, folder: Path, kills: int) -> Path:
    """Puts such an interpreter into ``sys.executable``.

    Returns:
        A file that has one line per start.
    """
    count, python = folder / "starts", folder / "python"
    quoted = shlex.quote(str(count))
    python.write_text(f"""#!/bin/sh
echo >> {quoted}
[ "$(wc -l < {quoted})" -gt {kills} ] || kill -9 $$
exec {shlex.quote(sys.executable)} "$@"
""")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    return count
