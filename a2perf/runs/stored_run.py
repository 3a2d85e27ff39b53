"""One run of a store, as comparisons, tags and tests see it."""

from __future__ import annotations

import functools
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2perf.runs.index import IndexedRun
from a2perf.runs.run_record import AutotagRecord


@dataclass(frozen=True)
class StoredRun:
    """One run of a store.

    Attributes:
        run_id: path below the store.
        path: the run's folder.
        experiment: name of the experiment.
        env_id: the environment.
        seed: the seed, None when an imported run does not say.
        version: of the code.
        tags: the tags it was born with and those it has been given since.
        user: who started it.
        state: ``"queued"``, ``"running"``, ``"finished"``, ``"failed"``, ``"interrupted"``, ``"killed"``,
            ``"unreadable"``.
        config: what it was configured with.
        started_at: ISO 8601 in UTC.
        wall_s: wall time in seconds.
        source: ``"command"``, ``"submission"``, or what it was imported from.
        autotag: version of the code.
        energy_kwh: gross energy of the run.
        energy_quality: ``"measured"`` or ``"estimated"``.
        memory_bytes: peak resident memory.
        fingerprint: hash of the environment's behaviour, empty when unknown.
        host: where it ran, empty when unknown.
        python: implementation and version of the Python that recorded it, empty when unknown.
        packages: versions of the packages it ran with, by lower-case name; empty when unknown.
        modes: the modes that have a bundle.
        exit_code: exit status.
        failure: what went wrong, in words.
        problems: records of the run that could not be read, in words.
    """

    run_id: str
    path: Path
    experiment: str
    env_id: str
    seed: int | None
    version: str
    tags: frozenset[str]
    user: str
    state: str
    config: Mapping[str, Any] = field(repr=False)
    started_at: str
    wall_s: float | None
    source: str
    autotag: AutotagRecord | None = field(repr=False)
    energy_kwh: float | None = None
    energy_quality: str = ""
    memory_bytes: float | None = None
    fingerprint: str = ""
    host: str = ""
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict, repr=False)
    modes: tuple[str, ...] = ()
    exit_code: int | None = None
    failure: str | None = None
    problems: tuple[str, ...] = ()


def stored_run(run: IndexedRun, path: Path, tags: frozenset[str]) -> StoredRun:
    """Returns a run of the index as others see it.

    Args:
        run: what the index keeps.
        path: the run's folder.
        tags: its tags.
    """
    record = run.record
    config = {"env_id": record.env_id, "seed": record.seed, "exp_name": record.experiment, **record.config}
    return StoredRun(
        run_id=run.run_id,
        path=path,
        experiment=record.experiment,
        env_id=record.env_id,
        seed=record.seed,
        version=record.version,
        tags=tags,
        user=record.user,
        state=_living_state(run),
        config=config,
        started_at=run.started_at,
        wall_s=run.wall_s,
        source=record.source,
        autotag=record.autotag,
        energy_kwh=run.energy_kwh,
        energy_quality=run.energy_quality,
        memory_bytes=run.memory_bytes,
        fingerprint=run.fingerprint,
        host=run.host,
        python=run.python,
        packages=record.packages or run.packages,
        modes=tuple(run.modes),
        exit_code=run.exit_code,
        failure=run.failure,
        problems=tuple(run.problems),
    )


def _living_state(run: IndexedRun) -> str:
    """Tells a run that goes on from one whose writer is gone; a writer on another host is believed."""
    if run.state != "running" or run.writer is None:
        return run.state
    host, pid, boot = run.writer
    if host != socket.gethostname():
        return "running"
    if boot and boot != _boot_id():
        return "killed"
    return "running" if Path(f"/proc/{pid}").exists() else "killed"


@functools.cache
def _boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else ""
