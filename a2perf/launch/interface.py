"""What a launcher is: it takes the command of one run, executes it somewhere, and returns its exit status."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Protocol

from a2perf.errors import ConfigError, did_you_mean

_LAUNCHERS = ("local",)


@dataclass(frozen=True)
class RunCommand:
    """The command line of one run.

    Attributes:
        flags: flags of ``a2perf.submission.main_submission``.
    """

    flags: tuple[str, ...]

    def argv(self) -> list[str]:
        """Returns the command that starts the evaluator with this interpreter, whatever PATH says."""
        return [sys.executable, "-m", "a2perf.submission.main_submission", *self.flags]


class Launcher(Protocol):
    """Executes whole runs."""

    name: str

    def run(self, command: RunCommand) -> int:
        """Executes one run to its end and returns its exit status."""


def get_launcher(name: str) -> Launcher:
    """Returns the launcher of that name.

    Raises:
        ConfigError: no such launcher.
    """
    if name == "local":
        from a2perf.launch.local import LocalLauncher

        return LocalLauncher()
    raise ConfigError(
        f"{name!r} is not a launcher{did_you_mean(name, _LAUNCHERS)}", mend=f"choose one of: {', '.join(_LAUNCHERS)}"
    )
