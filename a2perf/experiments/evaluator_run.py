"""The run specification of one evaluator run, which every kind of experiment over submissions is made of.

A run root holds one bundle per mode, with the log of each beside it: ``<root>/<mode>`` and ``<root>/<mode>.log``. What
the root is called below the experiment's folder is the kind's matter; it ends with ``seed_<n>`` wherever that may be
known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from a2perf.launch.run_spec import Resources, RunCommand, RunSpec
from a2perf.runs.layout import bundle_path

LOCK_WAIT_S = 20
"""How long a run waits for the bundle of an evaluator that is about to end."""

EVALUATOR_MEMORY_BYTES = 2**30
"""What a launcher that bounds whole runs adds to the participant's memory for the evaluator."""

_DIGEST_DIGITS = 16


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
        name: what the run is called, unique within the experiment.
        root: run root, absolute.
        mode: name of the bundle's folder in it.
        submission: the submission's folder, absolute.
        gin_file: its configuration.
        flags: further flags of the evaluator.
        digest: hash of everything that makes the run's bundle the same run.
        data: what identifies the run for people, by name.
        domain: name of the domain, for launchers of images.
        env: variables of the command.
        resources: of the run; ``memory_bytes`` is the participant's.
        readable: files and folders that it reads beside the submission.
        writable: folder that it writes; the run root by default.
        after: key of the run that has to be finished first.
    """
    bundle = bundle_path(root, mode)
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
        resources=_whole_run(resources or Resources()),
        domain=domain,
        readable=(submission, *readable),
        writable=(writable or root,),
    )
    data = {**data, "root": str(root), "bundle": str(bundle)}
    return RunSpec(f"{name}@{digest[:_DIGEST_DIGITS]}", command, data, after)


def identity_hash(identity: Sequence[Any]) -> str:
    """Returns the SHA-256 of what identifies a run, as hexadecimal digits."""
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def _whole_run(wanted: Resources) -> Resources:
    memory = None if wanted.memory_bytes is None else wanted.memory_bytes + EVALUATOR_MEMORY_BYTES
    return Resources(wanted.cpus, memory, wanted.gpus, wanted.wall_s)
