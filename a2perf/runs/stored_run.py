"""One run of a store: the record that comparisons, tags and the index use."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2perf.runs.run import RunFolder, RunIdentity
from a2perf.runs.run_record import AutotagRecord
from a2perf.runs.seed_groups import SeedKey, seed_key


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """One run of a store.

    Attributes:
        path: the run's folder.
        seed: the seed; None for an imported run with an unknown seed.
        tags: the tags at creation or, in a store with a journal, the current ones.
        state: ``"queued"`` before the first bundle, then the state of its bundles taken together: ``"running"``,
            ``"finished"``, ``"failed"``, ``"interrupted"``, ``"killed"`` (its writer has died), ``"unreadable"``.
        config: its configuration.
        started_at: ISO 8601 in UTC.
        wall_s: wall time in seconds.
        source: ``"command"``, ``"submission"``, or what it was imported from.
        energy_quality: ``"measured"`` or ``"estimated"``.
        fingerprint: hash of the environment's behaviour, empty when unknown.
        host: the host where it ran, empty when unknown.
        python: implementation and version of the Python that recorded it, empty when unknown.
        packages: versions of the packages it ran with, by lower-case name; empty when unknown.
        problems: one sentence per record that could not be read.
        env_kwargs: arguments of the environment without those of the view, as JSON with sorted keys; empty when
            unknown.
        view: the form in which the participant saw the task; empty for the default of its domain.
        writer: identity of the writing process of a run in state ``running``, as ``ProcessIdentity`` writes it.
        logs: by mode, the files that may hold series, if the manifest lists its files.
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
    config: dict[str, Any] = field(repr=False)
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
    packages: dict[str, str] = field(default_factory=dict, repr=False)
    modes: tuple[str, ...] = ()
    exit_code: int | None = None
    failure: str | None = None
    problems: tuple[str, ...] = ()
    env_kwargs: str = ""
    view: str = ""
    writer: str = ""
    logs: dict[str, list[str]] = field(default_factory=dict, repr=False)

    @property
    def seed_key(self) -> SeedKey:
        """The values that the run shares with its seeds; all modes of a stored run count as one."""
        identity = RunIdentity(
            domain=str(self.config.get("domain") or ""),
            task=str(self.config.get("task") or self.env_id),
            algorithm=self.experiment,
            version=self.version,
            fingerprint=self.fingerprint,
            state=self.state,
            env_kwargs=self.env_kwargs,
            view=self.view,
        )
        return seed_key(identity, RunFolder(self.source, self.path, self.run_id))
