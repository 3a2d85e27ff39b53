"""A submission under a protocol, from the plan of its runs to the record with its scores.

The conductor executes the runs. The record is written before the first run and after each one, so the folder can be
read at any time. The same command again resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import filelock

from a2perf.domains.availability import require_packages
from a2perf.errors import ConfigError, UserError
from a2perf.experiments.protocol_plan import SubmitRequest, env_ids, plan
from a2perf.experiments.protocol_record import record_of, shown
from a2perf.launch import QUEUE_FILE, Conductor, ExperimentResult, QueueEntry, Restart, RunEvent, State
from a2perf.metrics import protocol as protocols
from a2perf.metrics.submitted import FILE, ProtocolRecord
from a2perf.plain_text import markdown_text
from a2perf.records import RunState
from a2perf.storage import read_record, write_atomic, write_record
from a2perf.submission.evaluator.submitted.folder_content import identify_submission
from a2perf.submission.given_paths import submission_folder
from a2perf.submission.options import parse_participant_args

SUMMARY = "summary.md"
_ENDED = (RunState.FINISHED.value, RunState.FAILED.value)


def submit(
    request: SubmitRequest,
    folder: Path,
    conductor: Conductor,
    *,
    restart: Restart | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[ProtocolRecord, ExperimentResult]:
    """Executes the unfinished runs of a protocol; returns the record, which has been written, and the result.

    Raises:
        ConfigError: as ``a2perf.submit``.
        MissingDependency: this host has not all packages of the environments; no run starts.
        UserError: another process is submitting to this folder.
    """
    _check(request)
    specs = plan(request, folder)
    identity = identify_submission(request.submission, root=folder)
    if conductor.launcher.name == "local":  # other launchers run where other packages are installed
        ended = {run.path for run in record_of(folder, request, identity, specs).runs if run.state in _ENDED}
        require_packages(
            env_id for spec in specs if spec.command.name not in ended for env_id in env_ids(request, spec)
        )
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / ".submit.lock", timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        raise UserError(f"another process is submitting to {folder}", hint="wait for it to end") from error
    with lock:
        _refuse_another(folder, request, identity.sha256)
        ours = {spec.key for spec in specs}
        reasons: dict[str, str] = {}

        def write(entries: Sequence[QueueEntry]) -> ProtocolRecord:
            for entry in entries:
                reasons.pop(entry.command.name, None)
                if entry.kind is not None:
                    reasons[entry.command.name] = entry.failure
            record = record_of(folder, request, identity, specs, reasons)
            write_record(folder / FILE, record)
            write_atomic(folder / SUMMARY, summary_text(record))
            return record

        def on_event(event: RunEvent) -> None:
            if event.entry is not None and event.state in (State.FINISHED, State.FAILED):
                write([event.entry])

        result = conductor.run(
            specs,
            folder / QUEUE_FILE,
            restart=restart,
            on_event=on_event,
            stop=stop,
            on_ready=lambda queue: write([entry for entry in queue.entries() if entry.key in ours]),
        )
        return write(result.entries), result


def earlier_tasks(folder: Path) -> list[str]:
    """Returns the tasks of earlier requests for a folder; empty for a new one.

    Raises:
        UserError: its record cannot be read.
    """
    return read_record(folder / FILE, ProtocolRecord).tasks if (folder / FILE).exists() else []


def exit_code(record: ProtocolRecord, result: ExperimentResult) -> int:
    """Returns 0 if every run finished, 1 if the submission failed one, 3 if the host failed one, 130 if stopped."""
    if result.exit_code != 0:
        return result.exit_code
    return 0 if record.complete else 1


def summary_text(record: ProtocolRecord) -> str:
    """Returns the record for people, in Markdown."""
    lines = [
        f"# {markdown_text(record.submission.name)}: protocol {markdown_text(record.protocol)}",
        "",
        markdown_text(record.citation),
        "",
        "| task | normalised IQM | 95 % interval | seeds |",
        "| --- | --- | --- | --- |",
    ]
    rows = [(markdown_text(name), score) for name, score in record.scores.items()]
    rows += [("**overall**", record.overall)] if len(record.scores) > 1 else []
    for name, score in rows:
        interval = "-" if score.low is None else f"{shown(score.low)} to {shown(score.high)}"
        lines.append(f"| {name} | {shown(score.iqm)} | {interval} | {score.seeds} of {score.expected} |")
    lines += ["", "0 is the protocol's floor, 1 its expert; see `a2perf protocol`.", ""]
    done = sum(run.state == RunState.FINISHED.value for run in record.runs)
    lines.append(f"Runs: {done} of {len(record.runs)} finished. Track: {markdown_text(_track(record))}.")
    if repeated := [run for run in record.runs if run.attempts > 1]:
        named = ", ".join(f"{run.path} ({run.attempts} attempts)" for run in repeated)
        lines.append(f"Started more than once: {markdown_text(named)}.")
    notes = [*record.overall.notes] or [note for score in record.scores.values() for note in score.notes]
    if record.not_rankable:
        lines += ["", "Not rankable:", "", *(f"- {markdown_text(reason)}" for reason in record.not_rankable)]
    if notes:
        lines += ["", *(f"- {markdown_text(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def _track(record: ProtocolRecord) -> str:
    if record.track == record.asked_track:
        return record.track.replace("_", " ")
    checks = [(run, run.budget) for run in record.runs if run.budget is not None and run.budget.verdict != "kept"]
    if not checks:
        return f"open; {record.asked_track.replace('_', ' ')} was requested, but not every training run has finished"
    run, budget = checks[0]
    assert budget is not None
    used = "" if budget.used is None else f", {budget.used:g} of {budget.limit:g} {budget.unit}"
    why = f"{run.path}: {budget.verdict}{used}: {budget.how}"
    return f"open; {record.asked_track.replace('_', ' ')} was requested, but {why}"


def _check(request: SubmitRequest) -> None:
    submission_folder(request.submission)
    parse_participant_args(request.participant_args)
    # refuse a task in two forms: its episodes would count twice in the score over all tasks
    seen: dict[str, str] = {}
    for name in request.tasks:
        other = seen.setdefault(request.protocol.ranked_task(name), name)
        if other != name:
            raise ConfigError(
                f"{other} and {name} are the same task, seen in two forms",
                hint="submit each of them into another folder",
            )


def _refuse_another(folder: Path, request: SubmitRequest, content: str) -> None:
    """Refuses a folder of another submission or protocol; further tasks of the same ones are allowed."""
    if not (folder / FILE).exists():
        return
    found = read_record(folder / FILE, ProtocolRecord)
    mine = {
        "submission": (found.submission.sha256[:12], content[:12]),
        "protocol": (found.protocol_sha256[:12], protocols.sha256(request.protocol.name)[:12]),
        "track": (found.asked_track, request.track),
        "--quick": (found.quick, request.quick),
        "--public-seeds": (found.public_seeds, request.public_seeds),
        "--model": (found.models, request.models),
    }
    for name, (before, now) in mine.items():
        if before != now:
            raise ConfigError(
                f"{folder} holds another submission: {name} was {before}, now {now}", hint="choose another -o folder"
            )
