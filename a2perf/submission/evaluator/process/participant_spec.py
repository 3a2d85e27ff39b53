"""What runs in a participant process, apart from how it is confined."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from a2perf.sandbox import SandboxSpec
from a2perf.submission.evaluator.process import participant_home
from a2perf.submission.evaluator.process.confinement import ProvidedConfinement
from a2perf.submission.run_services import ServiceSession

_PLATFORM = Path(participant_home.__file__).parents[3]
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class RunLimit:
    """The limit on the wall time of a whole run.

    Attributes:
        ends_at: when it is reached, on the clock of ``time.monotonic``, which all processes of the host share.
    """

    seconds: float
    ends_at: float


@dataclass(frozen=True, kw_only=True)
class ParticipantSpec:
    """What runs in a participant process.

    Attributes:
        logs: folder for ``stdout.log`` and ``stderr.log``.
        mode: ``"train"`` runs train.py, any other mode inference.py.
        python_files: files that another interpreter needs: its environment and its library.
        environment: variables of the contract (``ROOT_DIR``, ``SEED``, ...) in addition to those of every process:
            ``PATH``, a temporary ``HOME``, ``LANG``, the thread limits, ``A2PERF_ARTIFACTS``.
        assets: data files by name; linked under ``~/.cache/a2perf/assets`` of the temporary home.
        call_timeout_s: limit of one call of the loaded policy in seconds.
        log_base: folder to which a failure's log path is relative; by default the parent of ``logs``.
        has_own_packages: whether the interpreter loads packages that the submission chose: their code can run while the
            interpreter starts.
    """

    submission: Path
    logs: Path
    mode: str = "inference"
    python: Path | None = None
    python_files: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    artifacts: Path | None = None
    assets: Mapping[str, Path] = field(default_factory=lambda: _NOTHING)
    task_files: Sequence[Path] = ()
    services: Sequence[ServiceSession] = ()
    log_base: Path | None = None
    has_own_packages: bool = False
    run_limit: RunLimit | None = None
    call_timeout_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("submission", "logs", "artifacts", "log_base"):
            if (path := getattr(self, name)) is not None:
                object.__setattr__(self, name, path.absolute())

    @property
    def interpreter(self) -> str:
        """Path of the interpreter."""
        return os.fspath(self.python or sys.executable)

    def confined(
        self, confinement: ProvidedConfinement, home: Path, fds: tuple[int, ...], port: str = "", token: bytes = b""
    ) -> SandboxSpec:
        """Returns what a sandbox starts.

        Args:
            fds: descriptors that it inherits: the socket to the evaluator, the shared memory, and one socket per
                service; without any, it connects to ``port`` and proves itself by ``token``.
        """
        artifacts = [] if self.artifacts is None else [self.artifacts]
        files = [*self.assets.values(), *self.python_files, *self.task_files]
        ends = (port, "-") if port else map(str, fds[:2])
        worker = ("-P", "-m", "a2perf.submission.participant.worker", *ends, str(self.submission))
        served = [f"{fd}:{session.address}" for fd, session in zip(fds[2:], self.services, strict=False)]
        return SandboxSpec(
            argv=(self.interpreter, *worker, *served),
            cwd=self.submission,
            env=participant_home.variables(home, self.interpreter, self.artifacts, self.environment),
            readable=[self.submission, _PLATFORM, *files, *artifacts, *confinement.readable],
            writable=[home, *artifacts],
            hidden=confinement.hidden,
            devices=confinement.devices,
            network=confinement.network,
            limits=confinement.limits,
            fds=fds,
            stdout=self.logs / "stdout.log",
            stderr=self.logs / "stderr.log",
            stdin=token and token + b"\n",
            temporary=(home,),
        )
