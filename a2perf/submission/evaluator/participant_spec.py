"""What runs in a participant process, apart from how it is confined."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class ParticipantSpec:
    """What runs in a participant process.

    Attributes:
        submission: the submission's folder.
        logs: folder for ``stdout.log`` and ``stderr.log``.
        mode: ``"train"`` runs train.py, any other mode inference.py.
        python: interpreter of the process; ``None`` for this one.
        python_files: files that another interpreter needs: its environment and its library.
        environment: variables of the contract (``ROOT_DIR``, ``SEED``, ...) in addition to those of every process:
            ``PATH``, a temporary ``HOME``, ``LANG``, the thread limits, ``A2PERF_ARTIFACTS``.
        artifacts: folder that it may write to.
        assets: data files by name; linked under ``~/.cache/a2perf/assets`` of the temporary home.
        task_files: files and folders that the arguments of the task name; the process may read them.
        serve_model: serves the socket at which the participant reaches a language model; None without a model.
        log_base: folder to which a failure's log path is relative; by default the parent of ``logs``.
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
    serve_model: Callable[[socket.socket], None] | None = None
    log_base: Path | None = None
