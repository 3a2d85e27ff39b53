"""The Python that has the unmodified client of OpenEnv: ``A2PERF_OPENENV_PYTHON``, or ``.venv-openenv``."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

_DEFAULT = Path(__file__).resolve().parents[3] / ".venv-openenv" / "bin" / "python"


@functools.cache
def found() -> Path | None:
    """Returns the interpreter; None if there is none, or if the package is missing in it."""
    python = Path(os.environ.get("A2PERF_OPENENV_PYTHON") or _DEFAULT)
    if not python.exists():
        return None
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('openenv') is None)"
    return python if subprocess.run([python, "-c", probe], check=False).returncode == 0 else None
