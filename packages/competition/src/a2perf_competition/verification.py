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
from typing import TypeVar

import msgspec

from a2perf.errors import UserError
from a2perf.launch.queue_entry import INFRASTRUCTURE, PREREQUISITE
from a2perf.records import Manifest, Record, RunState
from a2perf.runs.bundles.attempts import now
from a2perf.runs.bundles.files import files_of, kind_at, names_at
from a2perf.runs.bundles.inventory import artifacts_sha256, find_bundles, read_manifest
from a2perf.runs.bundles.layout import ATTIC, LOCK, is_archived
from a2perf.runs.packed.packed_archive import packed_top
from a2perf.storage import parse_json, parse_record, write_json, write_record
from a2perf.stranger_files import Kind, StrangerFileError, printable
from a2perf_competition.creation import write_tasks
from a2perf_competition.draw import DRAW, Draw, read_draw
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
    task_content,
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
    """

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    standing: Standing = field(default_factory=Standing)


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
    public = [TERMS, COMMITMENT, EVALUATOR, AUDIT, *gin_files(competition.public)]
    for path in [competition.private / SECRET, *(competition.public / name for name in public)]:
        if path.exists():
            shutil.copyfile(path, folder / path.name)
    write_record(folder / ENTRANTS, listed)
    write_tasks(folder, competition.secret.tasks)
    if listed.rounds:
        write_json(folder / OUTCOMES, [msgspec.to_builtins(one) for one in outcomes])
        write_record(folder / RESULTS, standing or Standing())
        write_record(folder / DRAW, read_draw(competition, listed))
        _publish_bundles(competition.runs, folder / RUNS)
    if not (competition.folder / REVEALED).exists():
        write_json(
            competition.folder / REVEALED, {"revealed_at": now(), "commitment": competition.commitment.commitment}
        )


def _publish_bundles(runs: Path, folder: Path) -> None:
    """Copies all bundles, including earlier attempts, without the entrant's files: artifacts, output, pictures."""

    def left_out(above: str, names: Sequence[str]) -> set[str]:
        return {*UNPUBLISHED, LOCK} if Path(above) in bundles else set()

    bundles = find_bundles(runs, archived=True)
    for bundle in bundles:
        shutil.copytree(bundle, folder / bundle.relative_to(runs), symlinks=True, ignore=left_out)


def check_runs(competition: Competition, outcomes: Sequence[OutcomeRecord]) -> Checked:
    """Checks the runs of a competition before publication."""
    listed = _read(competition.public, ENTRANTS, EntrantList)
    draw = read_draw(competition, listed)
    gin, secret = gin_files(competition.public), draw.seed_secret(competition.secret, listed)
    promise = Promise(competition.terms, competition.secret, competition.evaluator, gin, secret)
    check = _Check(competition.runs, promise, listed, draw, outcomes, published=False)
    return check.all(competition.commitment)


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
    evaluator, gin = _read(folder, EVALUATOR, Evaluator), gin_files(folder)
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
    problems += _unknown_files(folder, secret)
    draw = _read(folder, DRAW, Draw) if listed.rounds else Draw(entrants=listed.sha256)
    outcomes = _outcomes(folder) if listed.rounds else []
    promise = Promise(terms, secret, evaluator, gin, draw.seed_secret(secret, listed))
    checked = _Check(folder / RUNS, promise, listed, draw, outcomes, published=True).all(stated)
    if listed.rounds and _read(folder, RESULTS, Standing) != checked.standing:
        checked.problems.append(f"{RESULTS} is not what the bundles give")
    checked.problems[:0] = problems
    return checked


class _Check:
    """Checks the folder of the runs.

    Args:
        outcomes: the organizer's record of the runs.
        published: whether the folder was published, without the entrants' files.
    """

    def __init__(
        self,
        folder: Path,
        promise: Promise,
        listed: EntrantList,
        draw: Draw,
        outcomes: Sequence[OutcomeRecord],
        *,
        published: bool,
    ) -> None:
        self._folder, self._promise, self._listed, self._draw = folder, promise, listed, draw
        self._published = published
        self._outcomes = {(one.entrant, one.bundle): one for one in outcomes}
        self._refusals = draw.refusals(listed)
        self._expected = {one.place: required_runs(promise.terms, promise.secret, one.place) for one in listed.all()}
        self._conditions: dict[
            tuple[str, str], set[str]
        ] = {}  # entrants by name and value of a condition of their runs
        self._checked = Checked()

    def all(self, commitment: Commitment) -> Checked:
        """Returns what is wrong with the list, the draw and the runs, and the standing."""
        listed, draw, checked = self._listed, self._draw, self._checked
        checked.problems += listed.problems(commitment.commitment) + draw.problems(listed)
        if self._published and listed.rounds and listed.closed_at is None:
            checked.problems.append(f"{ENTRANTS} was never closed")
        checked.problems += self._layout()
        found = [self._entrant(entrant) for entrant in listed.all()]
        checked.notes += _differences(self._conditions)
        self._nonces()
        terms = self._promise.terms
        for one in listed.rounds:
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

    def _nonces(self) -> None:
        """Names what the terms forbid about nonces, and notes who could have tried how many draws of the seeds."""
        nonces, notes = self._draw.by_commitment(self._listed), self._checked.notes
        if missing := sum(not nonce for nonce in nonces.values()):
            notes.append(
                f"{missing} nonce(s) were withheld: whoever did so chose among {2**missing} draws of the seeds"
            )
        if not any(nonces.values()) and self._listed.rounds:
            notes.append(
                "no entrant revealed a nonce: whoever knew the salt could try folders of an entry before closing"
            )
        for entrant in self._listed.all():
            if self._promise.terms.nonces_required and not (entrant.refused or entrant.nonce_sha256):
                self._checked.problems.append(f"{entrant.place} commits no nonce, which the terms require")

    def _layout(self) -> Iterator[str]:
        """Yields everything except the expected runs: nothing may be hidden under another name."""
        if kind_at(self._folder) is Kind.LINK:
            yield f"{RUNS} is a link"
            return
        known: dict[str, set[str]] = {"": set(self._expected)}
        if not self._published:
            known[""] |= {name for name in names_at(self._folder) if name.startswith("queue.sqlite")}
        for place, runs in self._expected.items():
            for run in runs:
                folder, seed = f"{place}/{run.place}".rsplit("/", 1)
                own = {run.mode} if self._published else {run.mode, f"{run.mode}.log", "metrics"}
                known.setdefault(place, set()).add(folder.partition("/")[2])
                known.setdefault(folder, set()).add(seed)
                known.setdefault(f"{folder}/{seed}", {ATTIC}).update(own)
        unexpected = (
            "a listed entrant, but lies among the runs",
            *["one of the entrant's runs"] * 2,
            "part of the run",
        )
        folders = [""]
        while folders:
            above = folders.pop()
            for name in names_at(self._folder / above):
                path = f"{above}/{name}" if above else name
                if name not in known[above] or kind_at(self._folder / path) is Kind.LINK:
                    yield f"{printable(path)} is not {unexpected[path.count('/')]}"
                elif path in known:
                    folders.append(path)
                elif name == ATTIC:
                    for each in names_at(self._folder / path):
                        attempt = self._folder / path / each
                        if not is_archived(attempt) or kind_at(attempt) is Kind.LINK:
                            yield f"{above}/attic/{printable(each)} is not an earlier attempt"

    def _entrant(self, entrant: Entrant) -> EntrantStanding:
        tasks: dict[str, TaskStanding] = {}
        attempts = 0
        ended: dict[str, bool] = {}  # whether a run finished, by its place
        weights: dict[str, str | None] = {}  # what training runs left, by their place
        for run in self._expected[entrant.place]:
            label, name = f"{entrant.place}/{run.bundle}", run.task.name
            task = tasks.setdefault(name, TaskStanding(task=name, held_out=run.is_secret))
            manifest, problems = _manifest(self._folder / label)
            if manifest is not None:
                problems += self._run(entrant, run, manifest, task)
                if run.mode == "train":
                    weights[run.place] = artifacts_sha256(manifest.files)
                elif run.trained in weights:
                    problems += _weights(manifest, weights[run.trained])
                count, earlier = _attempts(self._folder / label, manifest)
                problems += earlier
                attempts += count
                if count > 1:
                    self._checked.notes.append(f"{label} ({name}) was started {count} times")
            elif not problems:
                has_trained = run.trained is None or ended.get(run.trained, False)
                problems += self._without_bundle(entrant, run, task, has_trained=has_trained)
            ended[run.place] = manifest is not None and manifest.state is RunState.FINISHED
            self._checked.problems += [f"{label} ({name}): {problem}" for problem in problems]
        return EntrantStanding(
            number=entrant.number,
            name=entrant.name,
            place=entrant.place,
            sha256=entrant.sha256,
            attempts=attempts,
            tasks=list(tasks.values()),
        )

    def _without_bundle(
        self, entrant: Entrant, run: RequiredRun, task: TaskStanding, *, has_trained: bool
    ) -> list[str]:
        """Enters the recorded failure of a run; returns what is wrong with the record."""
        outcome, refused = self._outcomes.get((entrant.place, run.bundle)), self._refusals.get(entrant.place)
        problems, kind = [], "contract"
        if not refused:
            if outcome is None or outcome.state != "failed" or not outcome.kind:
                problems, kind = ["it is missing, and no failure is recorded"], "missing"
            else:
                kind = outcome.kind
                if kind == PREREQUISITE and has_trained:
                    problems = ["it is missing, though the training that it needs finished"]
            self._checked.notes.append(f"{entrant.place}/{run.bundle} ({task.task}) has no bundle: {kind}")
        if kind == PREREQUISITE:
            task.not_run += 1
        else:
            task.failures.append([kind, printable(outcome.reason if outcome else refused or "")])
        return problems

    def _run(self, entrant: Entrant, run: RequiredRun, manifest: Manifest, task: TaskStanding) -> list[str]:
        """Enters the result of a bundle; returns its problems."""
        bundle, sealed = self._folder / entrant.place / run.bundle, self._listed.round_of(entrant)
        outcome = self._outcomes.get((entrant.place, run.bundle))
        found = check_run(bundle, manifest, run, entrant, sealed, self._promise, published=self._published)
        if entrant.place in self._refusals:
            found.append("it was run, though its entrant was refused")
        for condition in _conditions(manifest).items():
            self._conditions.setdefault(condition, set()).add(entrant.place)
        found += _agree(manifest, outcome)
        if manifest.state is not RunState.FINISHED:
            kind, reason = INFRASTRUCTURE, ""
            if manifest.failure is not None:
                kind, reason = manifest.failure.kind.value, f"{manifest.failure.where}: {manifest.failure.message}"
            elif outcome is not None:
                kind, reason = outcome.kind or kind, outcome.reason
            task.failures.append([kind, printable(f"{run.mode}: {reason}")])
        elif run.mode == "inference":
            try:
                returns = [episode.episode_return for episode in read_episodes(bundle)]
                task.returns.append(sum(returns) / len(returns) if returns else 0.0)
            except UserError as error:
                found.append(error.message)
        return found


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
        values = {tuple(value.split("; ")): places for (of, value), places in conditions.items() if of == name}
        if len(values) > 1:
            common = set.intersection(*map(set, values))
            shown = []
            for parts, places in values.items():
                text = "; ".join(part for part in parts if part not in common) or "nothing"
                shown.append(f"{printable(text)[:200]} ({', '.join(sorted(places))})")
            yield f"the {name} differs between runs: {', '.join(shown)}"


def _weights(manifest: Manifest, trained: str | None) -> list[str]:
    """Compares the artifacts that an evaluation loaded with those that its training run left."""
    loaded = manifest.settings.get("training_artifacts")
    if loaded == trained:
        return []
    return [f"it loaded the artifacts {printable(str(loaded))}, its training run left {printable(str(trained))}"]


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
    attic = bundle.parent / ATTIC
    names = names_at(attic) if kind_at(attic) is Kind.FOLDER else []
    archived = [name for name in names if name.startswith(f"{bundle.name}-")]
    count, problems = sum(attempt.archived is None for attempt in manifest.attempts), []
    for name in archived:
        earlier, wrong = _manifest(attic / name)
        problems += [f"its earlier attempt {printable(name)}: {problem}" for problem in wrong]
        if earlier is not None:
            count += max(1, sum(attempt.archived is None for attempt in earlier.attempts))
            if earlier.state is RunState.FINISHED:
                problems.append(f"it was run again though it had finished: {printable(name)}")
    listed = {attempt.archived.rpartition("/")[2] for attempt in manifest.attempts if attempt.archived is not None}
    if absent := len(listed.difference(archived)):
        problems.append(f"{absent} archived attempt(s) that its manifest lists are not there")
    return count, problems


def _unknown_files(folder: Path, secret: Secret) -> Iterator[str]:
    """Yields everything in the published folder except its known files, and tasks that are not the secret ones."""
    known = {TERMS, COMMITMENT, EVALUATOR, SECRET, ENTRANTS, DRAW, OUTCOMES, RESULTS, AUDIT, *gin_files(folder)}
    for task in secret.tasks:
        file = task_file(folder, task.name).relative_to(folder).as_posix()
        known.add(file)
        if _json(folder, file) != task_content(task):
            yield f"{task.name}.json is not the task of {SECRET}"
    try:
        for entry in (found.status for found in files_of(folder).entries()):
            if entry.path in (RUNS, "tasks") and entry.kind is Kind.FOLDER:
                continue
            if not entry.path.startswith(f"{RUNS}/") and (entry.path not in known or entry.kind is not Kind.FILE):
                yield f"{printable(entry.path)} is not part of a published competition"
    except StrangerFileError as error:
        yield error.message


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


def _json(folder: Path, name: str) -> object:
    try:
        return parse_json(files_of(folder).read(name, _MAX_BYTES), name)
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
    return parse_record(files_of(folder).read(name, _MAX_BYTES), kind, name)
