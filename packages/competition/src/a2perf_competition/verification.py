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
from a2perf.launch.queue_entry import INFRASTRUCTURE, PREREQUISITE
from a2perf.records import Manifest, Record, RunState
from a2perf.runs.bundles.bundle import now
from a2perf.runs.bundles.files import files_of, kind_at, names_at
from a2perf.runs.bundles.inventory import artifacts_sha256, find_bundles, read_manifest
from a2perf.runs.bundles.layout import ATTIC, is_archived
from a2perf.runs.packed.packed_archive import packed_top
from a2perf.storage import parse_json, parse_record, write_atomic, write_json, write_record
from a2perf.stranger_files import Kind, StrangerFileError, chunks, printable, walk
from a2perf_competition.creation import write_tasks
from a2perf_competition.draw import DRAW, Draw, entrants_without_share, read_draw
from a2perf_competition.entrants import Entrant, EntrantList, close, read_entrants
from a2perf_competition.records import (
    AUDIT,
    COMMITMENT,
    ENTRANTS,
    EVALUATOR,
    METHOD,
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
from a2perf_competition.required_runs import RequiredRun, required_runs
from a2perf_competition.run_checks import UNPUBLISHED, Promise, check_run, read_episodes
from a2perf_competition.standings import EntrantStanding, OutcomeRecord, Standing, TaskStanding, ranked

RUNS, OUTCOMES, RESULTS = "runs", "outcomes.json", "results.json"
_MAX_BYTES = 256 << 20
R = TypeVar("R", bound=Record)


@dataclass
class Checked:
    """The result of a check.

    Attributes:
        notes: remarks on allowed facts: further attempts, runs without a bundle.
        conditions: places of the entrants by condition of their runs (name and value), such as the machine.
    """

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    standing: Standing = field(default_factory=Standing)
    conditions: dict[tuple[str, str], set[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Runs:
    """The folder of the runs, and the organizer's record of them."""

    folder: Path
    promise: Promise
    entrants: EntrantList
    outcomes: Mapping[tuple[str, str], OutcomeRecord]
    draw: Draw
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
    draw = read_draw(competition, listed)
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
        write_record(folder / DRAW, draw)
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
    draw = read_draw(competition, listed)
    gin, secret = gin_files(competition.public), draw.seed_secret(competition.secret, listed)
    promise = Promise(competition.terms, competition.secret, competition.evaluator, gin, secret)
    by_run = {(one.entrant, one.bundle): one for one in outcomes}
    return _check_all(_Runs(competition.runs, promise, listed, by_run, draw, published=False), competition.commitment)


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
    stated = _read(folder, COMMITMENT, Commitment)
    if stated.method != METHOD:
        return Checked([f"{COMMITMENT} names another method, of another a2perf or none: {printable(stated.method)}"])
    terms, secret = _read(folder, TERMS, CompetitionTerms), _read(folder, SECRET, Secret)
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
    draw = _read(folder, DRAW, Draw) if listed.rounds else Draw(entrants=listed.sha256)
    promise = Promise(terms, secret, evaluator, gin, draw.seed_secret(secret, listed))
    by_run = {(one.entrant, one.bundle): one for one in _outcomes(folder)} if listed.rounds else {}
    checked = _check_all(_Runs(folder / RUNS, promise, listed, by_run, draw, published=True), stated)
    if listed.rounds and _read(folder, RESULTS, Standing) != checked.standing:
        checked.problems.append(f"{RESULTS} is not what the bundles give")
    checked.problems[:0] = problems
    return checked


def _check_all(runs: _Runs, commitment: Commitment) -> Checked:
    checked = Checked(runs.entrants.problems(commitment.commitment) + runs.draw.problems(runs.entrants))
    if runs.published and runs.entrants.rounds and runs.entrants.closed_at is None:
        checked.problems.append(f"{ENTRANTS} was never closed")
    terms, secret = runs.promise.terms, runs.promise.secret
    entrants, refusals = runs.entrants.all(), runs.draw.refusals(runs.entrants)
    expected = {entrant.place: required_runs(terms, secret, entrant.place) for entrant in entrants}
    checked.problems += _layout(runs, expected)
    found = [
        _check_entrant(runs, entrant, refusals.get(entrant.place, ""), expected[entrant.place], checked)
        for entrant in entrants
    ]
    checked.notes += _differences(checked.conditions)
    checked.problems += _nonces(runs, checked.notes)
    for one in runs.entrants.rounds:
        if one.allow_weaker or one.sandbox != terms.sandbox:
            who = ", ".join(entrant.place for entrant in one.entrants)
            weaker = ", and guarantees of it may be missing" if one.allow_weaker else ""
            checked.notes.append(f"{who} ran at the level {one.sandbox}, the terms say {terms.sandbox}{weaker}")
    failed = "unknown, no sealed audit"
    if isinstance(terms.audit, AuditTerms):
        verdicts = terms.audit.verdicts
        names = ", ".join(name for name, verdict in verdicts.items() if verdict == "fails") or "none"
        failed = f"{names}, of {len(verdicts)} checks in the audit; {list(verdicts.values()).count('holds')} hold"
    checked.notes.append(f"failed checks of the environment: {printable(failed)}")
    if not terms.train:
        checked.notes.append("no training run: the weights are files of the entrants' folders, listed by hash")
    checked.standing = Standing(entrants=ranked(found))
    return checked


def _nonces(runs: _Runs, notes: list[str]) -> list[str]:
    """Returns what the terms forbid about nonces, and notes who could have tried how many draws of the seeds."""
    nonces, silent = runs.draw.by_commitment(runs.entrants), entrants_without_share(runs.entrants)
    revealed, missing = sum(map(bool, nonces.values())), sum(not nonce for nonce in nonces.values())
    if missing:
        notes.append(f"{missing} nonce(s) were withheld: whoever did so chose among {2**missing} draws of the seeds")
    if not revealed and runs.entrants.rounds:
        notes.append("no entrant revealed a nonce: whoever knew the salt could try folders of an entry before closing")
    if not runs.promise.terms.nonces_required:
        return []
    return [f"{entrant.place} commits no nonce, which the terms require" for entrant in silent]


def _conditions(manifest: Manifest) -> dict[str, str]:
    """Returns the conditions that should not decide between entrants, by name: machine, level and limits."""
    host, sandbox = manifest.host, manifest.sandbox
    machine = ", ".join(str(host.get(name, "?")) for name in ("hostname", "cpu_model", "cpu_count", "memory_bytes"))
    found = {"machine": machine}
    if sandbox is not None:
        found |= {"level": sandbox.level, "missing confinement": "; ".join(sandbox.missing)}
        found |= {f"limit {name}": f"{value:g}" for name, value in sandbox.limits.items()}
    return found


def _differences(conditions: Mapping[tuple[str, str], set[str]]) -> Iterator[str]:
    """Yields each condition that was not the same in all runs, with the entrants of each value."""
    for name in dict.fromkeys(name for name, _ in conditions):
        values = {value: places for (of, value), places in conditions.items() if of == name}
        if len(values) > 1:
            parts = {value: value.split("; ") for value in values}
            common = set.intersection(*map(set, parts.values()))
            texts = {value: "; ".join(part for part in parts[value] if part not in common) for value in values}
            shown = [
                f"{printable(texts[value] or 'nothing')[:200]} ({', '.join(sorted(who))})"
                for value, who in values.items()
            ]
            yield f"the {name} differs between runs: {', '.join(shown)}"


def _check_entrant(
    runs: _Runs, entrant: Entrant, refused: str, expected: Sequence[RequiredRun], checked: Checked
) -> EntrantStanding:
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
            problems, kind = _without_bundle(refused, run, outcome, ended)
            if not refused:
                checked.notes.append(f"{label} ({run.task}) has no bundle: {kind}")
            ended[run.place] = False
            if kind == PREREQUISITE:
                task.not_run += 1
            else:
                task.failures.append([kind, printable(outcome.reason if outcome else refused)])
        elif manifest is not None:
            if refused:
                problems.append("it was run, though its entrant was refused")
            for condition in _conditions(manifest).items():
                checked.conditions.setdefault(condition, set()).add(entrant.place)
            problems += check_run(bundle, manifest, run, entrant, sealed, runs.promise, published=runs.published)
            problems += _agree(manifest, outcome)
            if run.mode == "train":
                weights[run.place] = artifacts_sha256(manifest.files)
            elif run.trained in weights:
                problems += _weights(manifest, weights[run.trained])
            ended[run.place] = manifest.state is RunState.FINISHED
            _enter_result(task, bundle, manifest, run, outcome, problems)
            count, earlier = _attempts(bundle, manifest)
            problems += earlier
            attempts += count
            if count > 1:
                checked.notes.append(f"{label} ({run.task}) was started {count} times")
        checked.problems += [f"{label} ({run.task}): {problem}" for problem in problems]
    return EntrantStanding(
        number=entrant.number,
        name=entrant.name,
        place=entrant.place,
        sha256=entrant.sha256,
        attempts=attempts,
        tasks=list(tasks.values()),
    )


def _weights(manifest: Manifest, trained: str | None) -> list[str]:
    """Compares the artifacts that an evaluation loaded with those that its training run left."""
    loaded = manifest.settings.get("training_artifacts")
    if loaded == trained:
        return []
    return [f"it loaded the artifacts {printable(str(loaded))}, its training run left {printable(str(trained))}"]


def _without_bundle(
    refused: str, run: RequiredRun, outcome: OutcomeRecord | None, ended: Mapping[str, bool]
) -> tuple[list[str], str]:
    """Checks a run without a bundle; returns the problems and the kind of its failure."""
    if refused:
        return [], "contract"
    if outcome is None or outcome.state != "failed" or not outcome.kind:
        return ["it is missing, and no failure is recorded"], "missing"
    if outcome.kind == PREREQUISITE and (run.trained is None or ended.get(run.trained, False)):
        return ["it is missing, though the training that it needs finished"], outcome.kind
    return [], outcome.kind


def _enter_result(
    task: TaskStanding,
    bundle: Path,
    manifest: Manifest,
    run: RequiredRun,
    outcome: OutcomeRecord | None,
    problems: list[str],
) -> None:
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
    known = {TERMS, COMMITMENT, EVALUATOR, SECRET, ENTRANTS, DRAW, OUTCOMES, RESULTS, AUDIT, *gin_files(folder)}
    known |= {f"tasks/{task.name}.json" for task in secret.tasks}
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
        return parse_json(_bytes(folder, name), name)
    except ValueError as error:
        raise UserError(f"{name} cannot be read: {error}") from error


def _outcomes(folder: Path) -> list[OutcomeRecord]:
    """Returns the organizer's record of the runs.

    Raises:
        UserError: it is not a list of outcomes.
    """
    try:
        return msgspec.convert(_json(folder, OUTCOMES), list[OutcomeRecord])
    except msgspec.ValidationError as error:
        raise UserError(f"{OUTCOMES} is not a list of outcomes: {error}") from error


def _read(folder: Path, name: str, kind: type[R]) -> R:
    return parse_record(_bytes(folder, name), kind, name)
