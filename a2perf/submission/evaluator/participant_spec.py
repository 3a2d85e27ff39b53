"""What runs in a participant process, apart from how it is confined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class ParticipantSpec:
    """What runs in a participant process.

    Attributes:
        submission: the folder.
        logs: folder that gets ``stdout.log`` and ``stderr.log``.
        mode: ``"train"`` for train.py; any other mode is for inference.py.
        python: interpreter of the process; ``None`` is this one.
        python_files: what that interpreter reads, where it is not this one's: its environment and its library.
        environment: variables of the contract (``ROOT_DIR``, ``SEED``, ...) beside those that every process gets:
            ``PATH``, a temporary ``HOME``, ``LANG``, the thread limits, ``A2PERF_ARTIFACTS``.
        artifacts: the folder that it may write.
        assets: data files by name; linked under ``~/.cache/a2perf/assets`` of the temporary home.
        log_base: folder to which a failure names the log relatively; the parent of ``logs`` unless given.
    """

    submission: Path
    logs: Path
    mode: str = "inference"
    python: Path | None = None
    python_files: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    artifacts: Path | None = None
    assets: Mapping[str, Path] = field(default_factory=lambda: _NOTHING)
    log_base: Path | None = None
