"""Finds the entries in a folder of bundles: one entry per submission and task, with all its seeds.

Only manifests are read here, with the terms of the runs: ``a2perf submit`` leaves their protocol and track as
``protocol.json`` above the bundles; runs without one were made under no protocol.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

import msgspec

from a2perf.errors import MissingDependency, UserError
from a2perf.metrics import protocol
from a2perf.metrics.submitted import FILE, ProtocolRecord, read_submitted
from a2perf.records import Manifest, Record, RunState, SubmissionInfo
from a2perf.report.names import plain
from a2perf.runs import signing
from a2perf.runs.bundle_reading import identity_of
from a2perf.runs.bundles.agreement import integrity
from a2perf.runs.bundles.files import files_of
from a2perf.runs.bundles.inventory import MAX_MANIFEST_BYTES, read_manifest
from a2perf.runs.bundles.layout import MANIFEST, MODES, REPRODUCTION_SUFFIX, SIGNATURE
from a2perf.runs.reproduction import ReproductionMark, mark_of, read_reproduction
from a2perf.runs.run import BUNDLE, RunFolder
from a2perf.runs.seed_groups import seed_key
from a2perf.runs.stores.finding import find_runs
from a2perf.runs.submission_info import info_of
from a2perf.stranger_files import Kind

SignatureState = Literal["signed", "unknown key", "unsigned", "invalid", "not checked"]
OPEN = "open"
_DEPTH = 8
_LONGEST_NAME, _MOST_VALUES = 120, 20
_UNCHECKED = (OSError, ValueError, TypeError, KeyError, RecursionError)
"""Errors of a check that a damaged or forged bundle can cause."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


class Signature(Record, kw_only=True):
    """State of a bundle's signature; ``detail`` is the key, or why the signature is invalid.

    Attributes:
        state: ``"signed"`` by a trusted key, ``"unknown key"`` for a valid signature by any other key, ``"invalid"``
            if signature and bundle disagree, ``"not checked"`` if the library that checks signatures is missing.
    """

    state: SignatureState
    detail: str = ""


@dataclass(frozen=True)
class Trust:
    """Keys that are trusted, and verdicts of `a2perf reproduce`.

    Attributes:
        names: of the keys, by id; without any the key of every valid signature is unknown.
        verdicts: by hash of the manifest, those that do not lie beside the bundle.
    """

    names: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, list[Path]] = field(default_factory=dict)

    @classmethod
    def read(cls, trusted_keys: Path | None, reproductions: Path | None = None) -> Self:
        """Reads public keys from a file or folder, and verdicts from the folder of `a2perf reproduce -o`.

        A key that cannot be read is a ``ConfigError``; without the library that checks signatures keys are a
        ``MissingDependency``.
        """
        keys = () if trusted_keys is None else signing.trusted_keys(trusted_keys)
        verdicts: dict[str, list[Path]] = {}
        for path in sorted(reproductions.rglob(f"*{REPRODUCTION_SUFFIX}")) if reproductions is not None else ():
            try:
                verdicts.setdefault(read_reproduction(path).manifest_sha256, []).append(path)
            except (UserError, OSError):  # it counts for no bundle
                continue
        return cls({signing.key_id(raw): name for name, raw in keys}, verdicts)

    def signature(self, bundle: Path) -> Signature:
        """Checks the signature of a bundle; one that makes the check itself fail is invalid."""
        if files_of(bundle).status(SIGNATURE) is None:
            return Signature(state="unsigned")
        state: SignatureState = "invalid"
        try:
            verdict = signing.verify(bundle, None)
        except MissingDependency as error:
            state, detail = "not checked", error.message
        except UserError as error:
            detail = error.message
        except _UNCHECKED as error:
            detail = f"{type(error).__name__}: {error}"
        else:
            detail = verdict.problems[0] if verdict.problems else verdict.key_id or "no key"
            if not verdict.problems and verdict.key_id is not None:
                state = "signed" if verdict.key_id in self.names else "unknown key"
                detail = self.names.get(verdict.key_id, verdict.key_id)
        return Signature(state=state, detail=plain(detail, 120))

    def reproduction(self, bundle: Path) -> ReproductionMark | None:
        """Returns the verdict of repeating the run of a bundle, if one counts."""
        try:
            others = self.verdicts.get(signing.manifest_sha256(bundle), ()) if self.verdicts else ()
        except (UserError, OSError):
            return None
        return mark_of(bundle, names=self.names, others=others)


@dataclass(frozen=True)
class Terms:
    """Protocol and track of a run.

    Attributes:
        protocol: its name, ``""`` for none; with a hash if its file differs from the known protocol of this name.
        track: the fixed budget: ``"fixed samples"``, ``"fixed energy"`` or ``"open"``.
        against: why these results do not count for the protocol: a reduced budget, changed bindings.
    """

    protocol: str = ""
    track: str = OPEN
    against: tuple[str, ...] = ()


class RunLine(Record, kw_only=True):
    """One run of an entry.

    Attributes:
        run: path below the folder that was given.
        state: a ``RunState``, ``"unfinished"`` if its writer is gone.
        changed: what the integrity check found; None if it was not checked.
        reproduction: the verdict of repeating it; None without one that counts.
    """

    run: str
    mode: str
    seed: int
    state: str
    failure: str = ""
    changed: list[str] | None = None
    signature: Signature
    reproduction: ReproductionMark | None = None
    conditions: list[str] = msgspec.field(default_factory=list)

    def invalid(self) -> str:
        """Returns why the run is invalid, or ``""``."""
        if self.changed:
            more = f" and {len(self.changed) - 1} more" if len(self.changed) > 1 else ""
            return f"{self.changed[0]}{more}"
        return f"signature: {self.signature.detail or 'invalid'}" if self.signature.state == "invalid" else ""

    def counts(self) -> bool:
        """Returns whether the run's numbers are part of the entry's."""
        return self.state == RunState.FINISHED.value and not self.invalid()


class RecordingFacts(Record, kw_only=True):
    """When, where and how the runs of an entry were recorded; every list is sorted and has no duplicates."""

    dates: list[str] = msgspec.field(default_factory=list)
    hosts: list[str] = msgspec.field(default_factory=list)
    versions: list[str] = msgspec.field(default_factory=list)
    confinement: list[str] = msgspec.field(default_factory=list)
    interpreters: list[str] = msgspec.field(default_factory=list)

    def add(self, manifest: Manifest) -> None:
        """Adds what a manifest records."""
        started = manifest.attempts[0].started_at[:10] if manifest.attempts else ""
        sandbox = "" if manifest.sandbox is None else manifest.sandbox.level
        python = " ".join(
            str(manifest.python[key]) for key in ("implementation", "version") if manifest.python.get(key)
        )
        model, cores = manifest.host.get("cpu_model"), manifest.host.get("cpu_count")
        host = model if isinstance(model, str) else ""
        for values, text in (
            (self.dates, started if _DATE.fullmatch(started) else ""),
            (self.hosts, f"{host}, {cores} cores" if isinstance(model, str) and isinstance(cores, int) else host),
            (self.versions, manifest.a2perf_version),
            (self.confinement, sandbox),
            (self.interpreters, python),
        ):
            if (line := plain(text, 80)) and line not in values and len(values) < _MOST_VALUES:
                values.append(line)
                values.sort()


class Broken(Record, kw_only=True):
    """An invalid bundle; it belongs to no submission."""

    run: str
    reason: str


@dataclass(frozen=True)
class EntryKey:
    """What the runs of one entry have in common: submission, task, view of it and terms, over all seeds and modes.

    Runs with different arguments of the environment stay in one entry, and that entry has no rank. If they were split,
    a participant could drop the unfavourable ones.

    Attributes:
        version: hash of the submission's files.
        fingerprint: of the environment's behaviour; ``""`` when unknown.
        view: what the submission observed, ``"text"``; ``""`` for the default of the domain.
    """

    name: str
    version: str
    domain: str
    task: str
    env_id: str
    fingerprint: str
    view: str
    terms: Terms


@dataclass
class EntryRuns:
    """The runs of one entry before they are read.

    Attributes:
        env_kwargs: each set of arguments that the environment got in evaluation, as JSON, without those of the view.
    """

    key: EntryKey
    folders: list[RunFolder] = field(default_factory=list)
    lines: list[RunLine] = field(default_factory=list)
    env_kwargs: set[str] = field(default_factory=set)
    info: SubmissionInfo = field(default_factory=SubmissionInfo)
    recording: RecordingFacts = field(default_factory=RecordingFacts)


def find_entries(folder: Path, trust: Trust) -> tuple[list[EntryRuns], list[Broken], list[str]]:
    """Reads the manifest of every bundle at or below a folder, and checks its hashes and its signature.

    Returns:
        The entries, the invalid bundles, and the recorded runs without a manifest, which no leaderboard can list.
    """
    entries: dict[EntryKey, EntryRuns] = {}
    broken: list[Broken] = []
    others: list[str] = []
    record_in = functools.cache(read_submitted)
    for run in find_runs([folder]):
        label = plain(run.label)
        if run.layout != BUNDLE or run.path.name not in MODES:
            others.append(label)
            continue
        try:
            manifest = _manifest(run.path)
            made_under, against = _terms(run.path, folder, record_in)
            seeds = seed_key(identity_of(run, manifest), run)
            key = EntryKey(
                plain(seeds.algorithm, _LONGEST_NAME) or "(no name)",
                plain(manifest.submission.sha256, 64),  # of all files: anyone can copy code and name and add weights
                plain(seeds.domain, _LONGEST_NAME),
                plain(seeds.task, _LONGEST_NAME),
                plain(manifest.env_id or "", _LONGEST_NAME),
                plain(seeds.fingerprint, 64),
                plain(seeds.view, 40),
                made_under,
            )
        except UserError as error:
            broken.append(Broken(run=label, reason=plain(error.message.replace(str(run.path), label))))
            continue
        entry = entries.setdefault(key, EntryRuns(key))
        entry.folders.append(run)
        entry.lines.append(_line(run, label, manifest, trust, against))
        if (mark := trust.reproduction(run.path)) is not None:
            mark = msgspec.structs.replace(mark, text=plain(mark.text, 80), detail=plain(mark.detail, 300))
            entry.lines[-1].reproduction = mark
        entry.recording.add(manifest)
        if not entry.info.title:
            entry.info = info_of(run, manifest.submission.info, manifest.submission.name, manifest.models)[0]
        if manifest.mode == "inference":
            entry.env_kwargs.add(seeds.env_kwargs or "{}")
    return list(entries.values()), broken, others


def _manifest(folder: Path) -> Manifest:
    status = files_of(folder).status(MANIFEST)
    if status is None or status.kind is not Kind.FILE:
        is_link = status is not None and status.kind is Kind.LINK
        raise UserError(f"{MANIFEST} is a symbolic link" if is_link else f"{MANIFEST} is missing")
    try:
        manifest = read_manifest(folder)
    except OSError as error:
        raise UserError(f"{MANIFEST} cannot be read: {error.strerror}") from error
    if manifest.mode not in MODES or manifest.mode != folder.name:
        raise UserError(f"the manifest is of a run in mode {plain(manifest.mode, 40)!r}, its folder is {folder.name}/")
    return manifest


def _line(run: RunFolder, label: str, manifest: Manifest, trust: Trust, against: list[str]) -> RunLine:
    failed = manifest.failure
    line = RunLine(
        run=label,
        mode=manifest.mode,
        seed=manifest.root_seed,
        state="unfinished" if manifest.state is RunState.RUNNING else manifest.state.value,
        failure="" if failed is None else plain(f"{failed.kind.value} in {failed.where}: {failed.message}"),
        signature=trust.signature(run.path),
    )
    problems = list(against)
    checked = manifest.state in (RunState.FINISHED, RunState.FAILED)  # else no hashes yet
    if checked:
        try:
            problems += map(str, integrity(files_of(run.path), manifest))
        except _UNCHECKED as error:  # a bundle that makes the check itself fail is not intact either
            problems.append(f"could not be checked: {type(error).__name__}: {error}")
    if checked or against:
        line.changed = [plain(problem) for problem in problems]
    line.conditions += [plain(f"{link}: symbolic link, not followed") for link in run.links]
    return line


def _terms(run: Path, top: Path, record_in: Callable[[Path], ProtocolRecord | None]) -> tuple[Terms, list[str]]:
    """Returns the terms of a run and the reasons against it, by the nearest record between it and ``top``."""
    record, folder = None, run
    for folder in list(run.absolute().parents)[:_DEPTH]:
        record = record_in(folder)
        if record is not None or folder == top.absolute():
            break
    listed = None if record is None else record.entry_of(run.absolute(), folder)
    if record is None or listed is None:
        return Terms(), []
    name = plain(record.protocol, 40)
    if record.protocol not in protocol.names() or protocol.sha256(record.protocol) != record.protocol_sha256:
        name = f"{name} of hash {plain(record.protocol_sha256[:8])}"
    against = []
    manifest = files_of(run).read(MANIFEST, MAX_MANIFEST_BYTES)
    if listed.manifest_sha256 not in (None, hashlib.sha256(manifest).hexdigest()):
        against.append(f"{MANIFEST} is not the one that {FILE} names")
    # missing runs are found in the bundles; a task without references is listed with its plain returns
    paths = tuple(f"{entry.path}:" for entry in record.runs)
    reasons = [reason for reason in record.not_rankable if not reason.startswith((*paths, "no task has"))]
    return Terms(name, str(record.track).replace("_", " "), tuple(map(plain, reasons))), against
