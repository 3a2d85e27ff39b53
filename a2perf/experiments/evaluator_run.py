"""Runs of the evaluator: the specification that every kind of experiment consists of, and a single run.

A run root holds one bundle per mode and its log: ``<root>/<mode>`` and ``<root>/<mode>.log``. The kind of experiment
chooses the path of the root below its folder; it ends with ``seed_<n>`` unless that must stay secret.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from a2perf.launch.run_spec import Resources, RunCommand, RunSpec
from a2perf.runs.bundles.layout import bundle_path
from a2perf.submission.participant_gin import parse
from a2perf.submission.run_options import RunOptions

LOCK_WAIT_S = 20
"""How long a run waits for the lock of a bundle while an earlier evaluator ends, in seconds."""

EVALUATOR_MEMORY_BYTES = 2**30
"""Memory for the evaluator, added to the participant's by launchers that limit whole runs, in bytes."""

_DIGEST_DIGITS = 16
_GRACE_S = 30.0


def evaluator_run(
    name: str,
    root: Path,
    mode: str,
    *,
    submission: Path,
    gin_file: Path,
    flags: Sequence[str],
    digest: str,
    data: Mapping[str, Any],
    domain: str | None,
    env: Mapping[str, str] | None = None,
    resources: Resources | None = None,
    readable: Sequence[Path] = (),
    writable: Path | None = None,
    after: str | None = None,
) -> RunSpec:
    """Returns the specification of one run of the evaluator.

    Args:
        root: run root, absolute.
        mode: name of the bundle's folder in it.
        digest: hash of the run's identity; a run with another digest is another run.
        resources: resources of the run; ``memory_bytes`` is the participant's.
        writable: folder that it writes; the run root by default.
    """
    bundle, wanted = bundle_path(root, mode), resources or Resources()
    memory = None if wanted.memory_bytes is None else wanted.memory_bytes + EVALUATOR_MEMORY_BYTES
    fixed = [
        "--participant-module-path", str(submission),
        "--submission-gin-config-path", str(gin_file),
        "--root-dir", str(root),
    ]  # fmt: skip
    command = RunCommand.evaluator(
        [*fixed, *flags],
        name=name,
        env={"A2PERF_LOCK_WAIT_S": str(LOCK_WAIT_S), **(env or {})},
        log=root / f"{mode}.log",
        resources=replace(wanted, memory_bytes=memory, wall_s=_launcher_limit_s(wanted.wall_s)),
        domain=domain,
        readable=(submission, *readable),
        writable=(writable or root,),
    )
    data = {**data, "root": str(root), "bundle": str(bundle)}
    return RunSpec(f"{name}@{digest[:_DIGEST_DIGITS]}", command, data, after)


def identity_hash(identity: Sequence[Any]) -> str:
    """Returns the SHA-256 of the values that identify a run, as hexadecimal digits."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def recorded_bindings(content: bytes, source: str) -> dict[str, Any]:
    """Returns the values of a recorded configuration by ``"Configurable.parameter"``.

    Raises:
        ConfigError: it contains more than literal bindings.
    """
    return {".".join(binding.name.split(".")[-2:]): binding.value for binding in parse(content, source)}


@dataclass(frozen=True, kw_only=True)
class SingleRun:
    """What one run executes. A value that is not given is decided by the gin file.

    Attributes:
        root: folder of the run, which holds one bundle per mode.
    """

    submission: Path
    gin_config: str
    root: str
    participant_args: str = ""
    domain: str | None = None
    task: str | None = None
    seed: int | None = None
    verbosity: str | None = None
    options: RunOptions = field(default_factory=RunOptions)
    bindings: tuple[str, ...] = ()
    force: bool = False
    as_json: bool = False
    resources: Resources = field(default_factory=Resources)

    def command(self, env: Mapping[str, str] | None = None) -> RunCommand:
        """Returns the command of the evaluator."""
        flags = [
            "--participant-module-path", str(self.submission),
            "--submission-gin-config-path", self.gin_config,
            "--root-dir", self.root,
        ]  # fmt: skip
        for name in ("participant_args", "domain", "task", "seed", "verbosity"):
            value = getattr(self, name)
            if value not in (None, ""):
                flags += [f"--{name.replace('_', '-')}", str(value)]
        flags += self.options.words()
        flags += [word for binding in self.bindings for word in ("--extra-gin-bindings", binding)]
        flags += ["--force"] * self.force + ["--json"] * self.as_json
        folder = self.submission.resolve()
        files = [Path(given).expanduser() for given in (self.gin_config, self.options.get("datasets_path")) if given]
        folders = (self.root, self.options.get("metric_values_dir"))
        return RunCommand.evaluator(
            flags,
            name=folder.name,
            env=env or {},
            resources=replace(self.resources, wall_s=_launcher_limit_s(self.resources.wall_s)),
            domain=self.domain,
            readable=(folder, *(file.absolute() for file in files if file.exists())),
            writable=tuple(Path(path).expanduser().absolute() for path in folders if path),
        )


def _launcher_limit_s(limit_s: float | None) -> float | None:
    """Returns after how many seconds a launcher ends a run with a limit that its evaluator did not keep."""
    return None if limit_s is None else limit_s + _GRACE_S
