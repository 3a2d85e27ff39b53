"""What is run, not where: a command with its resources, and a run specification around it.

An experiment is a function that returns ``RunSpec`` objects; the conductor drives them to their end. A command is
usually one run of the evaluator (``RunCommand.evaluator``), but a launcher executes any command.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

EVALUATOR = "a2perf.submission.main_submission"

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Resources:
    """What one run may use; ``None`` is whatever the launcher gives by default.

    Attributes:
        cpus: processors, a fraction where the launcher can share one.
        memory_bytes: memory of the whole run, evaluator included.
        gpus: graphics processors.
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
        name: what it is called in lists and in the names of jobs; unique among what runs at the same time.
        cwd: working directory.
        env: variables added to those of the launcher's own environment.
        log: file to which stdout and stderr are appended as they come; ``None`` lets them through to the launcher's.
        resources: what it may use.
        domain: name of the domain it belongs to; a launcher of images chooses by it.
        readable: files and folders it reads, for launchers that hide the rest of the machine.
        writable: folders it writes, for the same.
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

    @classmethod
    def evaluator(cls, flags: Sequence[str], **attributes: Any) -> RunCommand:
        """Returns the command of one run: the evaluator under this interpreter, whatever PATH says.

        The working directory may be the submission's folder, and no module is imported from there (``-P``).

        Args:
            flags: flags of ``a2perf.submission.main_submission``.
            attributes: the other attributes of the class.
        """
        return cls((sys.executable, "-P", "-m", EVALUATOR, *flags), **attributes)

    def evaluator_flags(self) -> tuple[str, ...] | None:
        """Returns the flags of an evaluator's command, or ``None`` for any other command."""
        words = self.argv[2:] if self.argv[1:2] == ("-P",) else self.argv[1:]  # a queue may hold older commands
        return words[2:] if words[:2] == ("-m", EVALUATOR) else None

    def to_json(self) -> dict[str, Any]:
        """Returns the command as a JSON object; ``from_json`` takes it back."""
        return {
            **{name: getattr(self, name) for name in ("name", "domain")},
            "argv": list(self.argv),
            "cwd": str(self.cwd),
            "env": dict(self.env),
            "log": None if self.log is None else str(self.log),
            "resources": asdict(self.resources),
            "readable": [str(path) for path in self.readable],
            "writable": [str(path) for path in self.writable],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunCommand:
        """Returns the command that ``to_json`` wrote."""
        return cls(
            argv=tuple(value["argv"]),
            name=value["name"],
            cwd=Path(value["cwd"]),
            env=value["env"],
            log=None if value["log"] is None else Path(value["log"]),
            resources=Resources(**value["resources"]),
            domain=value["domain"],
            readable=tuple(map(Path, value["readable"])),
            writable=tuple(map(Path, value["writable"])),
        )


@dataclass(frozen=True)
class RunSpec:
    """One run of an experiment.

    Attributes:
        key: identifies the run; the same key never counts twice. It contains a hash of everything that makes the run's
            bundle the same run: the submission's content, the configuration, the task, the mode, the seed.
        command: what a launcher executes.
        data: what identifies the run for people and in JSON, fit for JSON. Two names have a meaning here: ``"bundle"``
            is the folder of the run's bundle, ``"root"`` the folder that holds the bundles of one seed.
        after: key of the run that has to be finished first.
    """

    key: str
    command: RunCommand
    data: Mapping[str, Any] = field(default_factory=dict)
    after: str | None = None

    @property
    def bundle(self) -> Path | None:
        """The bundle that records the run's outcome; ``None`` if only the exit status does."""
        return Path(self.data["bundle"]) if "bundle" in self.data else None

    @property
    def root(self) -> Path | None:
        """The folder that holds the bundles of this seed, where there is one."""
        return Path(self.data["root"]) if "root" in self.data else None
