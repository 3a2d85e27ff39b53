"""What to run, independent of where: a command with its resources, and the specification of a run.

An experiment is a function that returns ``RunSpec`` objects; the conductor executes them. A command is usually one run
of the evaluator (``RunCommand.evaluator``), but a launcher executes any command.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from a2perf.constants import EVALUATOR
from a2perf.runs.bundles.bundle import RESOURCES_VARIABLE

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Resources:
    """What one run may use; ``None`` stands for the launcher's default.

    Attributes:
        cpus: processors; a fraction if the launcher can share one.
        wall_s: wall time in seconds, after which the launcher ends the run.
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    gpus: int = 0
    wall_s: float | None = None


@dataclass(frozen=True)
class RunCommand:
    """One command for a launcher.

    Attributes:
        argv: program and arguments; the program is a path on the machine that executes it.
        name: its name in lists and job names; unique among concurrent commands.
        env: variables added to those of the launcher's own environment.
        log: file to which stdout and stderr are appended; ``None`` passes them to the launcher's own.
        readable: files and folders it reads, for launchers that hide the rest of the machine.
        writable: folders it writes, for the same launchers.
    """

    argv: tuple[str, ...]
    name: str = "run"
    cwd: Path = field(default_factory=Path.cwd)
    env: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    log: Path | None = None
    resources: Resources = Resources()
    domain: str | None = None
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        """Tells the command which processors and graphics processors it was given: its record names them."""
        given = {name: value for name in ("cpus", "gpus") if (value := getattr(self.resources, name))}
        if given:
            object.__setattr__(self, "env", {**self.env, RESOURCES_VARIABLE: json.dumps(given)})

    @classmethod
    def evaluator(cls, flags: Sequence[str], **attributes: Any) -> RunCommand:
        """Returns the command of one run: the evaluator under this interpreter, independent of PATH.

        ``-P`` keeps Python from importing modules of the working directory, which may be the submission's folder.
        """
        return cls((sys.executable, "-P", "-m", EVALUATOR, *flags), **attributes)

    def evaluator_flags(self) -> tuple[str, ...] | None:
        """Returns the flags of an evaluator's command, or ``None`` for any other command."""
        argv = self.argv[2:] if self.argv[1:2] == ("-P",) else self.argv[1:]  # a queue may hold older commands
        return argv[2:] if argv[:2] == ("-m", EVALUATOR) else None

    def digest(self) -> str:
        """Returns a name for the command that does not change when it is planned again."""
        identity = [self.name, self.argv, str(self.cwd), sorted(self.env.items())]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:24]

    def to_json(self) -> dict[str, Any]:
        """Returns the command as a JSON object; ``from_json`` takes it back."""
        found: dict[str, Any] = msgspec.to_builtins(
            self, enc_hook=lambda value: str(value) if isinstance(value, Path) else dict(value)
        )
        return found

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunCommand:
        """Returns the command from the JSON object of ``to_json``."""
        return msgspec.convert(value, cls, dec_hook=lambda kind, given: kind(given))


@dataclass(frozen=True)
class RunSpec:
    """One run of an experiment.

    Attributes:
        key: identifies the run; the same key never counts twice. It contains a hash of the run's identity: the
            submission's content, the configuration, the task, the mode, the seed.
        data: description of the run for people and JSON output. Two names have a meaning here: ``"bundle"`` is the
            folder of the run's bundle, ``"root"`` the folder that holds the bundles of one seed.
        after: key of the run that must finish first.
    """

    key: str
    command: RunCommand
    data: Mapping[str, Any] = field(default_factory=dict)
    after: str | None = None

    @property
    def bundle(self) -> Path | None:
        """The bundle that records the run's outcome; ``None`` if only the exit status records it."""
        return Path(self.data["bundle"]) if "bundle" in self.data else None

    @property
    def root(self) -> Path | None:
        """The folder that holds the bundles of this seed; ``None`` if the run has none."""
        return Path(self.data["root"]) if "root" in self.data else None
