"""What a folder of bundles holds: submissions, what each entered, its runs, and what cannot be listed.

An entry is one submission on one task with all its seeds. Here only manifests are read; whether a bundle's files are
untouched and who signed it is asked of two functions that the caller gives, since checking needs more than a record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from a2perf.errors import UserError
from a2perf.records import Manifest, Record, RunState
from a2perf.report.leaderboard.terms import Terms, TermsReader
from a2perf.report.leaderboard.words import plain
from a2perf.runs.bundle_reading import identity_of
from a2perf.runs.files import files_of
from a2perf.runs.finding import find_runs
from a2perf.runs.layout import MANIFEST, MODES, SIGNATURE
from a2perf.runs.run import BUNDLE, RunFolder
from a2perf.runs.seed_groups import SeedKey, seed_key
from a2perf.storage import parse_record
from a2perf.stranger_files import Kind

MAX_MANIFEST_BYTES = 32 << 20
SignatureState = Literal["signed", "unknown key", "unsigned", "invalid", "not checked"]
_LONGEST_NAME = 120


class Signature(Record, kw_only=True):
    """Who vouches for a bundle.

    Attributes:
        state: ``"signed"`` by a trusted key, ``"unknown key"`` for a valid signature of nobody that is trusted,
            ``"invalid"`` when signature and bundle disagree, ``"not checked"`` when nobody could check it.
        detail: the key, or why it is invalid.
    """

    state: SignatureState
    detail: str = ""


IntegrityCheck: TypeAlias = Callable[[Path, Manifest], Sequence[str]]
"""Returns what was changed in a bundle since its run ended; empty when it is sound."""
SignatureCheck: TypeAlias = Callable[[Path], Signature]
"""Says who signed a bundle that has a ``signature.json``."""


class RunLine(Record, kw_only=True):
    """One run of an entry.

    Attributes:
        run: where it lies below the folder that was given.
        mode: ``"train"``, ``"inference"`` or ``"generalization"``.
        state: a ``RunState``, ``"unfinished"`` when its writer is gone.
        failure: why it failed, in words.
        changed: what the integrity check found; None when it was not checked.
        conditions: what a reader of its numbers should know.
    """

    run: str
    mode: str
    seed: int
    state: str
    failure: str = ""
    changed: list[str] | None = None
    signature: Signature
    conditions: list[str] = msgspec.field(default_factory=list)

    def invalid(self) -> str:
        """Returns why nothing of this run may be believed, or ``""``."""
        if self.changed:
            more = f" and {len(self.changed) - 1} more" if len(self.changed) > 1 else ""
            return f"{self.changed[0]}{more}"
        return f"signature: {self.signature.detail or 'invalid'}" if self.signature.state == "invalid" else ""

    def counts(self) -> bool:
        """Says whether the run's numbers are part of the entry's."""
        return self.state == RunState.FINISHED.value and not self.invalid()


class Broken(Record, kw_only=True):
    """A bundle that cannot be listed under any submission."""

    run: str
    reason: str


@dataclass(frozen=True)
class EntryKey:
    """What runs must agree in to belong to one entry: the groups of seeds of one submission on one task, in all modes.

    Runs with different arguments of the environment stay in one entry, which then has no rank, so that nobody gains by
    leaving some out.

    Attributes:
        name: of the submission.
        version: hash of the submission's files.
        fingerprint: of the environment's behaviour; ``""`` when unknown.
        terms: protocol, track and what of it was not kept.
    """

    name: str
    version: str
    domain: str
    task: str
    env_id: str
    fingerprint: str
    terms: Terms


@dataclass
class EntryRuns:
    """The runs of one entry before they are read.

    Attributes:
        env_kwargs: what the environment was given in evaluation, as JSON, one a different set.
    """

    key: EntryKey
    folders: list[RunFolder] = field(default_factory=list)
    lines: list[RunLine] = field(default_factory=list)
    env_kwargs: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Found:
    """What lies in a folder; ``others`` are recorded runs without a manifest, which no leaderboard can list."""

    entries: list[EntryRuns]
    broken: list[Broken]
    others: list[str]


def find_entries(
    folder: Path, *, integrity: IntegrityCheck | None = None, signature: SignatureCheck | None = None
) -> Found:
    """Reads the manifest of every bundle at or below a folder.

    Raises:
        UserError: the folder does not exist, or nothing recorded lies in it.
    """
    entries: dict[EntryKey, EntryRuns] = {}
    broken: list[Broken] = []
    others: list[str] = []
    terms = TermsReader(folder)
    for run in find_runs([folder]):
        label = plain(run.label)
        if run.layout != BUNDLE:
            others.append(label)
            continue
        try:
            manifest = _manifest(run.path)
            made_under, against = terms.of(run.path)
            seeds = seed_key(identity_of(run, manifest), run)
            key = _key(seeds, manifest.env_id or "", made_under)
        except UserError as error:
            broken.append(Broken(run=label, reason=plain(error.message.replace(str(run.path), label))))
            continue
        entry = entries.setdefault(key, EntryRuns(key))
        entry.folders.append(run)
        entry.lines.append(_line(run, label, manifest, integrity, signature, against))
        if manifest.mode == "inference":
            entry.env_kwargs.add(seeds.env_kwargs or "{}")
    return Found(list(entries.values()), broken, others)


def _manifest(folder: Path) -> Manifest:
    files = files_of(folder)
    status = files.status(MANIFEST)
    if status is None or status.kind is not Kind.FILE:
        is_link = status is not None and status.kind is Kind.LINK
        raise UserError(f"{MANIFEST} is a symbolic link" if is_link else f"{MANIFEST} is missing")
    if status.size > MAX_MANIFEST_BYTES:
        raise UserError(f"{MANIFEST} is larger than {MAX_MANIFEST_BYTES >> 20} MiB")
    try:
        manifest = parse_record(files.read(MANIFEST, MAX_MANIFEST_BYTES), Manifest, str(folder / MANIFEST))
    except OSError as error:
        raise UserError(f"{MANIFEST} cannot be read: {error.strerror}") from error
    if manifest.mode not in MODES or manifest.mode != folder.name:
        raise UserError(f"the manifest is of a run in mode {plain(manifest.mode, 40)!r}, its folder is {folder.name}/")
    return manifest


def _key(seeds: SeedKey, env_id: str, terms: Terms) -> EntryKey:
    return EntryKey(
        name=plain(seeds.algorithm, _LONGEST_NAME) or "(no name)",
        version=plain(seeds.version, 64),
        domain=plain(seeds.domain, _LONGEST_NAME),
        task=plain(seeds.task, _LONGEST_NAME),
        env_id=plain(env_id, _LONGEST_NAME),
        fingerprint=plain(seeds.fingerprint, 64),
        terms=terms,
    )


def _line(
    run: RunFolder,
    label: str,
    manifest: Manifest,
    integrity: IntegrityCheck | None,
    signature: SignatureCheck | None,
    against: list[str],
) -> RunLine:
    failure = ""
    if manifest.failure is not None:
        failure = plain(f"{manifest.failure.kind.value} in {manifest.failure.where}: {manifest.failure.message}")
    state = "unfinished" if manifest.state is RunState.RUNNING else manifest.state.value
    line = RunLine(
        run=label, mode=manifest.mode, seed=manifest.root_seed, state=state, failure=failure,
        signature=_signature(run.path, signature),
    )  # fmt: skip
    found = None
    if integrity is not None and manifest.state in (RunState.FINISHED, RunState.FAILED):  # else there are no hashes yet
        found = _asked(lambda: list(integrity(run.path, manifest)))
    if found is not None or against:
        line.changed = [plain(problem) for problem in [*against, *(found or [])]]
    line.conditions += [plain(f"{link}: symbolic link, not followed") for link in run.links]
    return line


def _signature(path: Path, check: SignatureCheck | None) -> Signature:
    if files_of(path).status(SIGNATURE) is None:
        return Signature(state="unsigned")
    if check is None:
        return Signature(state="not checked")
    found = _asked_signature(path, check)
    return Signature(state=found.state, detail=plain(found.detail, 120))


def _asked_signature(path: Path, check: SignatureCheck) -> Signature:
    try:
        return check(path)
    except UserError as error:
        return Signature(state="invalid", detail=error.message)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        return Signature(state="invalid", detail=f"{type(error).__name__}: {error}")


def _asked(check: Callable[[], list[Any]]) -> list[str]:
    """Asks about one bundle; one whose record makes the check itself fail is not sound either."""
    try:
        return [str(problem) for problem in check()]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        return [f"could not be checked: {type(error).__name__}: {error}"]
