"""The base interpreter of an environment, with the properties that determine which packages fit."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from a2perf.errors import ConfigError

_MINIMUM = (3, 11)
_QUESTION = (
    "import json, platform, sys, sysconfig; print(json.dumps([getattr(sys, '_base_executable', sys.executable), "
    "platform.python_version(), sys.implementation.cache_tag, sysconfig.get_platform(), sys.base_prefix]))"
)


@dataclass(frozen=True)
class Interpreter:
    """A Python installation (not a virtual environment).

    Attributes:
        tag: implementation and version of its byte code, ``"cpython-311"``.
        platform: ``"linux-x86_64"``.
    """

    executable: Path
    version: str
    tag: str
    platform: str
    prefix: Path

    @property
    def readable(self) -> tuple[Path, ...]:
        """Paths that a process must be able to read to run it."""
        program = Path(os.path.realpath(self.executable))
        return (self.prefix,) if program.is_relative_to(self.prefix) else (self.prefix, program)


def find_interpreter(given: str | Path | None = None) -> Interpreter:
    """Returns the interpreter of that name or path; by default that of this process.

    Raises:
        ConfigError: it cannot be run, or is too old.
    """
    if given is None:
        own = getattr(sys, "_base_executable", sys.executable)
        tag = str(sys.implementation.cache_tag)
        return Interpreter(Path(own), platform.python_version(), tag, sysconfig.get_platform(), Path(sys.base_prefix))
    try:
        done = subprocess.run([os.fspath(given), "-I", "-c", _QUESTION], capture_output=True, text=True, timeout=60)
        executable, version, tag, plat, prefix = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ConfigError(
            f"{given} cannot be run as a Python interpreter: {error}", hint="give the path of a CPython executable"
        ) from error
    if tuple(int(part) for part in version.split(".")[:2]) < _MINIMUM:
        raise ConfigError(
            f"{given} is Python {version}; a2perf needs {'.'.join(map(str, _MINIMUM))} or later",
            hint="give a newer interpreter with --participant-python FILE",
        )
    return Interpreter(Path(executable), version, tag, plat, Path(prefix))
