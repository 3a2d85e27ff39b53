"""The record of one submission under a protocol: ``protocol.json`` at the top of the folder that `a2perf submit` fills.

Whoever reads runs below such a folder finds protocol, track and completeness there. The runs themselves are ordinary
bundles, ``<task>/seed_<n>/<mode>``; what is said here about them is derived from them and can be derived again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from a2perf.errors import UserError
from a2perf.metrics.protocol import Track
from a2perf.records import SCHEMA, Record, SubmissionIdentity
from a2perf.runs.bundles.files import files_of
from a2perf.runs.packed.packed_archive import unpacked_path
from a2perf.storage import parse_record
from a2perf.stranger_files import Kind

FILE = "protocol.json"
MAX_BYTES = 32 << 20
Verdict = Literal["kept", "exceeded", "unknown"]


class BudgetCheck(Record, kw_only=True):
    """Whether one training run kept the budget of the track.

    Attributes:
        verdict: ``"unknown"`` if the used amount is not recorded.
        used: in ``unit``, environment ``"steps"`` or ``"kWh"``; None if unknown.
        how: where the number comes from.
    """

    verdict: Verdict
    used: float | None
    limit: float
    unit: str
    how: str


class SubmittedRun(Record, kw_only=True):
    """One run that the protocol asks for.

    Attributes:
        task: name of the protocol's task or of a view of it; for generalization, the one trained on.
        path: the bundle, below the folder of this file.
        state: ``"missing"``, ``"finished"``, ``"failed"``, ``"interrupted"``, or ``"running"`` for one that was killed.
        reason: exit reason or kind of failure, or why it is missing.
        manifest_sha256: of the bundle's manifest, which itself holds the hash of every file.
        mean_return: of its episodes; None unless it is a finished inference run.
        normalised: the same, normalised by the stored references.
        attempts: number of starts, including archived ones.
    """

    task: str
    seed: int
    mode: str
    path: str
    state: str
    reason: str = ""
    manifest_sha256: str | None = None
    mean_return: float | None = None
    normalised: float | None = None
    budget: BudgetCheck | None = None
    attempts: int = 1


class ProtocolScore(Record, kw_only=True):
    """A normalised score with its 95 % interval: the interquartile mean over seeds (and tasks).

    Attributes:
        iqm: None if there is nothing to score.
        low: None with fewer than two seeds.
        seeds: finished seeds that it is computed from, the smallest number of any task.
        expected: seeds that the protocol asks for.
        notes: what a reader should know: missing seeds, tasks without references.
    """

    iqm: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: int = 0
    expected: int = 0
    tasks: int = 0
    notes: list[str] = msgspec.field(default_factory=list)


class ProtocolRecord(Record, kw_only=True):
    """``protocol.json``.

    Attributes:
        track: the track with rules that every training run verifiably kept; ``"open"`` otherwise.
        quick: made under the reduced protocol.
        public_seeds: made with the public seeds of the protocol, which a submission can know. True for older
            records, from before keyed seeds.
        models: language models that the submission might use.
        complete: every run that the protocol asks for on ``tasks`` has finished.
        rankable: whether this may be ranked with other results of the protocol.
        tasks: the protocol's tasks that were asked for, or views of them.
        runs: in the order in which they are run.
        overall: over the scored tasks; with ``core`` it is the protocol's overall score.
        core: all core tasks of the protocol are among ``tasks``.
        recorded_at: when the last of its runs ended, ISO 8601 UTC; empty before the first.
    """

    schema: int = SCHEMA
    a2perf_version: str
    protocol: str
    protocol_sha256: str
    submission: SubmissionIdentity
    track: Track
    asked_track: Track
    quick: bool
    public_seeds: bool = True
    complete: bool
    rankable: bool
    not_rankable: list[str]
    tasks: list[str]
    runs: list[SubmittedRun]
    scores: dict[str, ProtocolScore]
    overall: ProtocolScore
    core: bool
    recorded_at: str
    citation: str
    models: list[str] = msgspec.field(default_factory=list)

    def entry_of(self, run: Path, folder: Path) -> SubmittedRun | None:
        """Returns what is recorded of a bundle below the folder of this record; both paths are absolute."""
        inside = unpacked_path(run).relative_to(unpacked_path(folder)).as_posix()
        return next((entry for entry in self.runs if entry.path == inside), None)


def submitted_of(run: Path) -> ProtocolRecord | None:
    """Returns the record under which a run was made: that of the nearest folder above it which lists the run.

    A path may also be a folder of listed bundles, such as ``TASK/seed_1``.

    None if there is no record or it cannot be read: the run was then made under no protocol.
    """
    run = run.absolute()
    for folder in run.parents:
        status = files_of(folder).status(FILE)
        if status is not None and status.kind is Kind.FILE:
            record = read_submitted(folder)
            inside = unpacked_path(run).relative_to(unpacked_path(folder)).as_posix()
            listed = record is not None and any(f"{entry.path}/".startswith(f"{inside}/") for entry in record.runs)
            return record if listed else None
    return None


def protocol_of(runs: Iterable[Path]) -> str:
    """Returns the protocol under which all bundles were recorded; ``""`` for none, or for several."""
    records = [submitted_of(run) for run in runs]
    names = {"" if record is None else record.protocol for record in records}
    return names.pop() if len(names) == 1 else ""


def read_submitted(folder: Path) -> ProtocolRecord | None:
    """Reads the record in a folder, also inside a packed file; None if it is missing or cannot be read."""
    try:
        return parse_record(files_of(folder).read(FILE, MAX_BYTES), ProtocolRecord, str(folder / FILE))
    except (OSError, UserError):
        return None
