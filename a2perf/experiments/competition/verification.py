"""Publishes the evidence of a competition, and recomputes its claims from it. ``publish`` does both.

The check covers the commitment, the sealed list of entrants, that every entrant has every run or a recorded failure and
no others, each run, and the standing. Only for runs without a bundle does it rely on the organizer's record; these are
listed as notes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from a2perf.errors import UserError
from a2perf.experiments.competition.creation import write_tasks
from a2perf.experiments.competition.entrants import Entrant, EntrantList, close, read_entrants
from a2perf.experiments.competition.records import (
    AUDIT,
    COMMITMENT,
    ENTRANTS,
    EVALUATOR,
    REVEALED,
    SECRET,
    TERMS,
    AuditTerms,
    Commitment,
    Competition,
    CompetitionTerms,
    Evaluator,
    Secret,
    commitment_of,
    gin_files,
    has_sealed_audit,
    task_file,
)
from a2perf.experiments.competition.required_runs import RequiredRun, required_runs
from a2perf.experiments.competition.run_checks import UNPUBLISHED, Promise, check_run, read_episodes
from a2perf.experiments.competition.standings import EntrantStanding, OutcomeRecord, Standing, TaskStanding, ranked
from a2perf.launch.queue_entry import INFRASTRUCTURE, PREREQUISITE
from a2perf.records import Manifest, Record, RunState
from a2perf.runs.bundles.bundle import now
from a2perf.runs.bundles.files import files_of, kind_at, names_at
from a2perf.runs.bundles.inventory import artifacts_sha256, find_bundles, read_manifest
from a2perf.runs.bundles.layout import ATTIC, is_archived
from a2perf.runs.packed.packed_archive import packed_top
from a2perf.storage import parse_record, write_atomic, write_json, write_record
from a2perf.stranger_files import Kind, StrangerFileError, chunks, printable, walk

RUNS, OUTCOMES, RESULTS = "runs", "outcomes.json", "results.json"
_MAX_BYTES = 256 << 20
R = TypeVar("R", bound=Record)


@dataclass
class Checked:
    """The result of a check.

    Attributes:
        notes: remarks on allowed facts: further attempts, runs without a bundle.
    """

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    standing: Standing = field(default_factory=Standing)


@dataclass(frozen=True)
class _Runs:
    """The folder of the runs, and the organizer's record of them."""

    folder: Path
    promise: Promise
    entrants: EntrantList
    outcomes: Mapping[tuple[str, str], OutcomeRecord]
    published: bool


def reveal(
    competition: Competition, folder: Path, outcomes: Sequence[OutcomeRecord] = (), standing: Standing | None = None
) -> None:
    """Writes all files that others need to check the results; ends the competition.

    Args:
        folder: output folder; an earlier reveal in it is replaced.
    """
    listed = close(competition) if read_entrants(competition).rounds else read_entrants(competition)
    listed.sha256 = listed.expected_sha256()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    write_record(folder / TERMS, competition.terms)
    write_record(folder / COMMITMENT, competition.commitment)
    write_record(folder / EVALUATOR, competition.evaluator)
    write_record(folder / SECRET, competition.secret)
    write_record(folder / ENTRANTS, listed)
    for path in [*competition.public.glob("*.gin"), *competition.public.glob(AUDIT)]:
        write_atomic(folder / path.name, path.read_bytes())
    write_tasks(folder, competition.secret.tasks)
    if listed.rounds:
        write_json(folder / OUTCOMES, [msgspec.to_builtins(one) for one in outcomes])
        write_record(folder / RESULTS, standing or Standing())
        _publish_bundles(competition.runs, folder / RUNS)
    if not (competition.folder / REVEALED).exists():
        write_json(
            competition.folder / REVEALED, {"revealed_at": now(), "commitment": competition.commitment.commitment}
        )


def _publish_bundles(runs: Path, folder: Path) -> None:
    """Copies all bundles, including earlier attempts, without the entrant's files: artifacts, output, pictures."""
    for bundle in find_bundles(runs, archived=True):
        target = folder / bundle.relative_to(runs)
        target.mkdir(parents=True)
        for entry in walk(bundle):
            top = entry.path.partition("/")[0]
            if top in UNPUBLISHED or entry.path == ".lock":
                continue
            if entry.kind is Kind.FOLDER:
                (target / entry.path).mkdir()
            elif entry.kind is Kind.FILE:
                descriptor = entry.open()
                try:
                    with open(target / entry.path, "wb") as copy:
                        for piece in chunks(descriptor, entry.path, max_bytes=entry.status.st_size):
                            copy.write(piece)
                        os.fchmod(copy.fileno(), entry.status.st_mode & 0o777)
                finally:
                    os.close(descriptor)


def check_runs(competition: Competition, outcomes: Sequence[OutcomeRecord]) -> Checked:
    """Checks the runs of a competition before publication."""
    listed = _read(competition.public, ENTRANTS, EntrantList)
    secret = competition.secret.seed_secret(listed.folders())
    gin = gin_files(competition.public)
    promise = Promise(competition.terms, competition.secret, competition.evaluator, gin, secret)
    by_run = {(one.entrant, one.bundle): one for one in outcomes}
    return _check_all(_Runs(competition.runs, promise, listed, by_run, published=False), competition.commitment)


def check_reveal(folder: Path, commitment: str | None = None, entrants: str | None = None) -> Checked:
    """Checks a published competition.

    Args:
        folder: the published folder, or a packed file of it.
        commitment: the hash that was published first; the one in the folder proves nothing.
        entrants: the hash of the list of entrants that was published when the list was closed.

    Returns:
        The problems, and the standing that follows from the published bundles.
    """
    try:
        return _check_reveal(packed_top(Path(os.path.realpath(folder))), commitment, entrants)
    except UserError as error:
        return Checked([error.message])


def _check_reveal(folder: Path, commitment: str | None, entrants: str | None) -> Checked:
    stated, secret = _read(folder, COMMITMENT, Commitment), _read(folder, SECRET, Secret)
    if stated.method != secret.method:
        return Checked([f"{COMMITMENT} names another method, of another a2perf or none: {printable(stated.method)}"])
    terms = _read(folder, TERMS, CompetitionTerms)
    evaluator = _read(folder, EVALUATOR, Evaluator)
    gin = gin_files(folder)
    found = commitment_of(terms, secret, evaluator, gin)
    files = f"{TERMS}, {SECRET}, {EVALUATOR} and the gin files"
    problems = []
    if found != stated.commitment:
        problems.append(f"{files} give {found}, but {COMMITMENT} says {printable(stated.commitment)}")
    if commitment is not None and found != commitment:
        problems.append(f"{files} give {found}, but {printable(commitment)} was published first")
    if not has_sealed_audit(terms, folder):
        problems.append(f"{AUDIT} is not the audit of {TERMS}")
    listed = _read(folder, ENTRANTS, EntrantList)
    if entrants is not None and listed.sha256 != entrants:
        problems.append(f"{ENTRANTS} has the hash {printable(listed.sha256)}, but {printable(entrants)} was published")
    problems += [*_tasks(folder, secret), *_others(folder, secret)]
    promise = Promise(terms, secret, evaluator, gin, secret.seed_secret(listed.folders()))
    stated_runs = msgspec.convert(_json(folder, OUTCOMES), list[OutcomeRecord]) if listed.rounds else []
    by_run = {(one.entrant, one.bundle): one for one in stated_runs}
    checked = _check_all(_Runs(folder / RUNS, promise, listed, by_run, published=True), stated)
    if listed.rounds and _read(folder, RESULTS, Standing) != checked.standing:
        checked.problems.append(f"{RESULTS} is not what the bundles give")
    checked.problems[:0] = problems
    return checked


def _check_all(runs: _Runs, commitment: Commitment) -> Checked:
    checked = Checked(runs.entrants.problems(commitment.commitment))
    if runs.published and runs.entrants.rounds and runs.entrants.closed_at is None:
        checked.problems.append(f"{ENTRANTS} was never closed")
    terms, secret = runs.promise.terms, runs.promise.secret
    expected = {entrant.place: required_runs(terms, secret, entrant.number) for entrant in runs.entrants.all()}
    checked.problems += _layout(runs, expected)
    found = [_check_entrant(runs, entrant, expected[entrant.place], checked) for entrant in runs.entrants.all()]
    for one in runs.entrants.rounds:
        if one.allow_weaker or one.sandbox != terms.sandbox:
            who = ", ".join(entrant.place for entrant in one.entrants)
            weaker = ", and guarantees of it may be missing" if one.allow_weaker else ""
            checked.notes.append(f"{who} ran at the level {one.sandbox}, the terms say {terms.sandbox}{weaker}")
    failed = "unknown, no sealed audit"
    if isinstance(terms.audit, AuditTerms):
        failed = ", ".join(name for name, verdict in terms.audit.verdicts.items() if verdict == "fails") or "none"
    checked.notes.append(f"failed checks of the environment: {printable(failed)}")
    if not terms.train:
        checked.notes.append("no training run: the weights are files of the entrants' folders, listed by hash")
    if secret.sealed_seeds():
        checked.notes.append(
            "the organizer drew the seeds; in competitions of this version every entrant's folder counts"
        )
    for one in runs.entrants.rounds[1:] if secret.sealed_seeds() else []:
        names = ", ".join(entrant.place for entrant in one.entrants)
        checked.notes.append(f"{names} entered at {one.at}, after others may have been run")
    checked.standing = Standing(entrants=ranked(found))
    return checked


def _check_entrant(runs: _Runs, entrant: Entrant, expected: Sequence[RequiredRun], checked: Checked) -> EntrantStanding:
    sealed = runs.entrants.round_of(entrant)
    tasks: dict[str, TaskStanding] = {}
    attempts, ended, weights = 0, dict[str, bool](), dict[str, str | None]()
    for run in expected:
        label = f"{entrant.place}/{run.bundle}"
        task = tasks.setdefault(run.task, TaskStanding(task=run.task, held_out=run.is_secret))
        outcome = runs.outcomes.get((entrant.place, run.bundle))
        bundle = runs.folder / label
        manifest, problems = _manifest(bundle)
        if manifest is None and not problems:
            problems, kind = _without_bundle(entrant, run, outcome, ended)
            if not entrant.refused:
                checked.notes.append(f"{label} ({run.task}) has no bundle: {kind}")
            ended[run.place] = False
            if kind == PREREQUISITE:
                task.not_run += 1
            else:
                task.failures.append([kind, printable(outcome.reason if outcome else entrant.refused)])
        elif manifest is not None:
            if entrant.refused:
                problems.append("it was run, though its entrant was refused")
            problems += check_run(bundle, manifest, run, entrant, sealed, runs.promise, published=runs.published)
            problems += _agree(manifest, outcome)
            if run.mode == "train":
                weights[run.place] = artifacts_sha256(manifest.files)
            elif run.trained in weights:
                problems += _weights(manifest, weights[run.trained], runs.promise.secret)
            ended[run.place] = manifest.state is RunState.FINISHED
            _enter_result(task, bundle, manifest, run, outcome, problems)
            count, earlier = _attempts(bundle, manifest)
            problems += earlier
            attempts += count
            if count > 1:
                checked.notes.append(f"{label} ({run.task}) was started {count} times")
        checked.problems += [f"{label} ({run.task}): {problem}" for problem in problems]
    return EntrantStanding(
        number=entrant.number, name=entrant.name, place=entrant.place, sha256=entrant.sha256, attempts=attempts,
        tasks=list(tasks.values()),
    )  # fmt: skip


def _weights(manifest: Manifest, trained: str | None, secret: Secret) -> list[str]:
    """Compares the artifacts that an evaluation loaded with those that its training run left."""
    if secret.sealed_seeds() and "training_artifacts" not in manifest.settings:
        return []  # of an earlier a2perf, which did not record them
    loaded = manifest.settings.get("training_artifacts")
    if loaded == trained:
        return []
    return [f"it loaded the artifacts {printable(str(loaded))}, its training run left {printable(str(trained))}"]


def _without_bundle(
    entrant: Entrant, run: RequiredRun, outcome: OutcomeRecord | None, ended: Mapping[str, bool]
) -> tuple[list[str], str]:
    """Checks a run without a bundle; returns the problems and the kind of its failure."""
    if entrant.refused:
        return [], "contract"
    if outcome is None or outcome.state != "failed" or not outcome.kind:
        return ["it is missing, and no failure is recorded"], "missing"
    if outcome.kind == PREREQUISITE and (run.trained is None or ended.get(run.trained, False)):
        return ["it is missing, though the training that it needs finished"], outcome.kind
    return [], outcome.kind


def _enter_result(
    task: TaskStanding, bundle: Path, manifest: Manifest, run: RequiredRun, outcome: OutcomeRecord | None,
    problems: list[str],
) -> None:  # fmt: skip
    if manifest.state is RunState.FINISHED:
        if run.mode == "inference":
            try:
                returns = [episode.episode_return for episode in read_episodes(bundle)]
                task.returns.append(sum(returns) / len(returns) if returns else 0.0)
            except UserError as error:
                problems.append(error.message)
        return
    kind = INFRASTRUCTURE if manifest.failure is None else manifest.failure.kind.value
    reason = "" if manifest.failure is None else f"{manifest.failure.where}: {manifest.failure.message}"
    if manifest.failure is None and outcome is not None:
        kind, reason = outcome.kind or kind, outcome.reason
    task.failures.append([kind, printable(f"{run.mode}: {reason}")])


def _agree(manifest: Manifest, outcome: OutcomeRecord | None) -> list[str]:
    """Compares the bundle with the organizer's record; the bundle decides."""
    if outcome is None:
        return ["its outcome is not recorded"]
    finished = manifest.state is RunState.FINISHED
    if finished != (outcome.state == "finished"):
        return [f"its bundle says {manifest.state.value}, the recorded outcome {printable(outcome.state)}"]
    if not finished and manifest.state is not RunState.FAILED and outcome.kind != INFRASTRUCTURE:
        return [f"it is not over, but recorded as {printable(outcome.kind or 'failed')}"]
    return []


def _attempts(bundle: Path, manifest: Manifest) -> tuple[int, list[str]]:
    """Counts the starts of a run, including archived ones; archiving a finished run is a problem."""
    count, problems = sum(attempt.archived is None for attempt in manifest.attempts), []
    listed = {attempt.archived for attempt in manifest.attempts if attempt.archived is not None}
    for folder in _archived(bundle):
        earlier, wrong = _manifest(folder)
        problems += [f"its earlier attempt {printable(folder.name)}: {problem}" for problem in wrong]
        if earlier is not None:
            count += max(1, sum(attempt.archived is None for attempt in earlier.attempts))
            if earlier.state is RunState.FINISHED:
                problems.append(f"it was run again though it had finished: {printable(folder.name)}")
    absent = len({name.rpartition("/")[2] for name in listed} - {folder.name for folder in _archived(bundle)})
    if absent:
        problems.append(f"{absent} archived attempt(s) that its manifest lists are not there")
    return count, problems


def _archived(bundle: Path) -> list[Path]:
    attic = bundle.parent / ATTIC
    if kind_at(attic) is not Kind.FOLDER:
        return []
    return [attic / name for name in names_at(attic) if name.startswith(f"{bundle.name}-")]


def _layout(runs: _Runs, expected: Mapping[str, Sequence[RequiredRun]]) -> Iterator[str]:
    """Yields everything except the expected runs: nothing may be hidden under another name."""
    if kind_at(runs.folder) is Kind.LINK:
        yield f"{RUNS} is a link"
        return
    for place in names_at(runs.folder):
        if place not in expected:
            if runs.published or not place.startswith("queue.sqlite"):
                yield f"{printable(place)} is not a listed entrant, but lies among the runs"
        elif kind_at(runs.folder / place) is Kind.LINK:
            yield f"{place} is a link"
        else:
            known: dict[str, Any] = {}
            for run in expected[place]:
                top, _, seed = run.place.partition("/")
                names = known.setdefault(top, {}).setdefault(seed, {ATTIC})
                names |= {run.mode} if runs.published else {run.mode, f"{run.mode}.log", "metrics"}
            yield from _unexpected(runs.folder, place, known)


def _unexpected(folder: Path, above: str, known: Mapping[str, Any] | set[str]) -> Iterator[str]:
    """Yields what lies in a folder beside the known names; a mapping holds the names in each of its folders."""
    for name in names_at(folder / above):
        path = folder / above / name
        if name not in known or kind_at(path) is Kind.LINK:
            what = "part of the run" if isinstance(known, set) else "one of the entrant's runs"
            yield f"{above}/{printable(name)} is not {what}"
        elif not isinstance(known, set):
            yield from _unexpected(folder, f"{above}/{name}", known[name])
        elif name == ATTIC:
            for each in names_at(path):
                if not is_archived(path / each) or kind_at(path / each) is Kind.LINK:
                    yield f"{above}/attic/{printable(each)} is not an earlier attempt"


def _others(folder: Path, secret: Secret) -> Iterator[str]:
    """Yields everything in the published folder except its known files."""
    known = {TERMS, COMMITMENT, EVALUATOR, SECRET, ENTRANTS, OUTCOMES, RESULTS, AUDIT, *gin_files(folder)}
    known |= {*secret.sealed_seeds(), *(f"tasks/{task.name}.json" for task in secret.tasks)}
    try:
        for entry in (found.status for found in files_of(folder).entries()):
            if entry.path in (RUNS, "tasks") and entry.kind is Kind.FOLDER:
                continue
            if not entry.path.startswith(f"{RUNS}/") and (entry.path not in known or entry.kind is not Kind.FILE):
                yield f"{printable(entry.path)} is not part of a published competition"
    except StrangerFileError as error:
        yield error.message


def _tasks(folder: Path, secret: Secret) -> Iterator[str]:
    for task in secret.tasks:
        file = task_file(folder, task.name)
        content = _json(folder, file.relative_to(folder).as_posix())
        if content != task.content():
            yield f"{file.name} is not the task of {SECRET}"
    for name, numbers in secret.sealed_seeds().items():
        if _bytes(folder, name).split() != [b"%d" % number for number in numbers]:
            yield f"{name} does not hold the seeds of {SECRET}"


def _manifest(bundle: Path) -> tuple[Manifest | None, list[str]]:
    kind = kind_at(bundle)
    if kind is None:
        return None, []
    if kind is Kind.LINK:
        return None, ["it is a link"]
    try:
        return read_manifest(bundle), []
    except UserError as error:
        return None, [error.message]


def _bytes(folder: Path, name: str) -> bytes:
    return files_of(folder).read(name, _MAX_BYTES)


def _json(folder: Path, name: str) -> object:
    try:
        return msgspec.json.decode(_bytes(folder, name))
    except msgspec.DecodeError as error:
        raise UserError(f"{name} cannot be read: {error}") from error


def _read(folder: Path, name: str, kind: type[R]) -> R:
    return parse_record(_bytes(folder, name), kind, name)
