"""Time, energy and samples to a result of recorded submissions: one board per domain under one protocol and track.

The target of a task is a normalised score of the protocol. A study is a training run. It reaches the target where the
trailing mean of its curve first does (``metrics.efficiency``), and only if the evaluation of the trained policy reaches
it too: the participant logs the curve, the evaluator measures the returns.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from a2perf.domains import domain_title, task_title
from a2perf.metrics.definition import provenance_over_runs
from a2perf.metrics.efficiency import Reached, reached
from a2perf.metrics.runs_in_mode import in_mode
from a2perf.metrics.time_to_result import ScoreRules
from a2perf.report.leaderboard.entries import EntryKey, EntryRuns, IntegrityCheck, SignatureCheck, find_entries
from a2perf.report.leaderboard.scoring import (
    NOT_RECORDED,
    Entry,
    References,
    TaskReference,
    read_member,
    score_entry,
    stored_references,
)
from a2perf.report.leaderboard.terms import OPEN
from a2perf.report.names import submission_title
from a2perf.report.numbers_text import rounded
from a2perf.report.result_boards import (
    Contender,
    LeftOut,
    ResultBoard,
    ResultCost,
    Studies,
    Workload,
    result_board,
    with_held_out,
)
from a2perf.runs.run import Run
from a2perf.runs.tracking_record import JOULES_PER_KWH, recorded
from a2perf.worker_pool import worker_pool

_FEWEST_FOR_PROCESSES = 8


@dataclasses.dataclass(frozen=True)
class Study:
    """A training run of an entry.

    Attributes:
        at: what it had used at the target; None without a curve.
        note: why it does not count.
        uncertainty: relative standard uncertainty of its energy; None if it was not recorded.
    """

    at: Reached | None = None
    note: str = ""
    uncertainty: float | None = None


@dataclasses.dataclass(frozen=True)
class _Measured:
    """An entry with its studies and the target that they had to reach."""

    entry: Entry
    studies: list[Study]
    reference: TaskReference

    @property
    def workload(self) -> tuple[str, str, str]:
        """Task, behaviour and arguments of the environment."""
        return self.entry.task, self.entry.fingerprint, self.entry.env_kwargs


def recorded_results(
    folder: Path,
    cost: ResultCost,
    rules: ScoreRules,
    *,
    target: float | None = None,
    held_out: Mapping[str, str] | None = None,
    integrity: IntegrityCheck | None = None,
    signature: SignatureCheck | None = None,
    references: References = stored_references,
    processes: int = 1,
    progress: Callable[[str], None] = lambda line: None,
) -> list[ResultBoard]:
    """Scores the submissions of a folder by what they needed to reach the targets of their tasks.

    Args:
        folder: of bundles, in any arrangement.
        cost: what is counted.
        rules: of the score.
        target: normalised score to reach; None for the first threshold of each task in its protocol.
        held_out: name of a task that is a held-out variant -> name of its base task.
        integrity: returns what changed in a bundle.
        signature: checks the signature of a bundle.
        references: looks up the protocol's stored scores.
        processes: number of processes that share the work.
        progress: called with one line per finished step.

    Returns:
        One board per domain, protocol and track; for energy also per provenance. Domains without a task that has a
        target are left out.

    Raises:
        UserError: there is nothing recorded in ``folder``.
    """
    found = find_entries(folder, integrity=integrity, signature=signature).entries
    progress(f"found {len(found)} entries, {sum(len(entry.folders) for entry in found)} runs")
    looked_up = [_at(references(entry.key), target) for entry in found]
    asked = [(entry, held) for entry, held in zip(found, looked_up, strict=True) if _has_target(held)]
    measured: list[_Measured] = []
    for one in _all_measured(asked, processes):
        progress(f"read {len(measured) + 1} of {len(asked)}: {one.entry.name}, {one.entry.task}")
        measured.append(one)
    groups: dict[tuple[str, str, str], list[_Measured]] = {}
    for one in measured:
        groups.setdefault((one.entry.domain, one.entry.protocol, one.entry.reference), []).append(one)
    without = [entry.key for entry, held in zip(found, looked_up, strict=True) if not _has_target(held)]
    return [
        board for key in sorted(groups) for board in _boards(groups[key], cost, rules, target, held_out or {}, without)
    ]


def studies_of(entry: EntryRuns, reference: TaskReference) -> list[Study]:
    """Returns the training runs of an entry at the target, in the order of their seeds."""
    assert reference.threshold is not None
    members = list(zip(entry.folders, entry.lines, strict=True))
    evaluated: dict[int, float] = {}
    for folder, line in members:
        if line.mode == "inference" and line.counts() and (run := read_member(folder, line)) is not None:
            evaluated[line.seed] = _mean_return(run)
    studies = []
    for folder, line in sorted((member for member in members if member[1].mode == "train"), key=lambda m: m[1].seed):
        run = read_member(folder, line) if line.counts() else None
        if run is None:
            why = line.invalid() or line.failure or line.state
            studies.append(Study(note=f"seed {line.seed} did not finish: {why}"))
            continue
        run = in_mode(run, "train")
        at = None if run.curve is None else reached(run, reference.threshold)
        why = _why_not(at, line.seed, evaluated.get(line.seed, math.nan), reference.threshold)
        studies.append(Study(at, why, _relative_uncertainty(run)))
    return studies


def _relative_uncertainty(run: Run) -> float | None:
    energy = run.tracking.energy
    gross, expanded = recorded(energy.gross_kwh), recorded(energy.gross_uncertainty.expanded_kwh)
    factor = recorded(energy.gross_uncertainty.coverage_factor)
    if gross is None or expanded is None or factor is None or gross <= 0 or factor <= 0:
        return None
    return expanded / factor / gross


def _why_not(at: Reached | None, seed: int, evaluated: float, threshold: float) -> str:
    if at is None:
        return ""
    if at.reached and not evaluated >= threshold:
        mean = "is missing" if math.isnan(evaluated) else f"has a mean return of {rounded(evaluated, '').value}"
        return f"seed {seed} reached the target, but its evaluation {mean}"
    return "" if at.reached else at.why


def _mean_return(run: Run) -> float:
    returns = list(run.returns.get("inference", {}).values())
    return float(np.mean(np.concatenate(returns))) if any(values.size for values in returns) else math.nan


def _measure(entry: EntryRuns, reference: TaskReference) -> _Measured:
    return _Measured(score_entry(entry, reference), studies_of(entry, reference), reference)


def _all_measured(asked: Sequence[tuple[EntryRuns, TaskReference | None]], processes: int) -> Iterable[_Measured]:
    entries, references = [entry for entry, _ in asked], [held for _, held in asked if held is not None]
    if processes < 2 or len(asked) < _FEWEST_FOR_PROCESSES:
        yield from map(_measure, entries, references)
        return
    with worker_pool(processes) as executor:
        yield from executor.map(_measure, entries, references, chunksize=4)


def _at(reference: TaskReference | None, target: float | None) -> TaskReference | None:
    if reference is None or target is None:
        return reference
    return dataclasses.replace(reference, threshold=float(reference.return_at(target)))


def _has_target(reference: TaskReference | None) -> bool:
    return reference is not None and reference.threshold is not None


def _boards(
    measured: Sequence[_Measured],
    cost: ResultCost,
    rules: ScoreRules,
    target: float | None,
    held_out: Mapping[str, str],
    without: Sequence[EntryKey],
) -> list[ResultBoard]:
    """Returns the boards of one domain under one protocol: the open track holds the entries of all tracks."""
    tracks = {one.entry.track for one in measured}
    if OPEN in tracks:
        return _of_track(measured, OPEN, cost, rules, target, held_out, without)
    return [
        board
        for track in sorted(tracks)
        for board in _of_track(
            [one for one in measured if one.entry.track == track], track, cost, rules, target, held_out, without
        )
    ]


def _of_track(
    measured: Sequence[_Measured],
    track: str,
    cost: ResultCost,
    rules: ScoreRules,
    target: float | None,
    held_out: Mapping[str, str],
    without: Sequence[EntryKey],
) -> list[ResultBoard]:
    names = _workload_names(measured)
    workloads = with_held_out(_workloads(measured, names), held_out)
    contenders: dict[tuple[str, ...], Contender] = {}
    members: dict[tuple[str, ...], list[_Measured]] = {}
    for one in measured:
        key: tuple[str, ...] = (*one.entry.contestant, one.entry.track)
        members.setdefault(key, []).append(one)
        contender = contenders.setdefault(key, Contender(one.entry.name, one.entry.version, _title(one.entry)))
        contender.studies[names[one.workload]] = _studies(one, cost)
    of_kind: dict[str, list[Contender]] = {}
    left_out: list[LeftOut] = []
    for entrant, contender in contenders.items():
        kind = _provenance(members[entrant]) if cost.unit == "J" else ""
        if reason := _reason_left_out(members[entrant], kind):
            left_out.append(
                LeftOut(name=contender.name, version=contender.version, title=contender.title, reason=reason)
            )
        else:
            of_kind.setdefault(kind, []).append(contender)
    first = measured[0].entry
    notes = _notes(measured, cost, target, without)
    heading = domain_title(first.domain) if first.domain else "Unknown domain"
    return [
        result_board(
            of_kind[kind],
            workloads,
            cost,
            rules,
            title=f"{heading}, energy {kind}" if len(of_kind) > 1 else heading,
            domain=first.domain,
            protocol=first.protocol,
            track=track,
            provenance=kind,
            left_out=left_out,
            notes=notes,
        )
        for kind in sorted(of_kind)
    ]


def _title(entry: Entry) -> str:
    """Returns the title of a submission, with what it observed if that is not the default of the domain."""
    title = submission_title(entry.name, entry.info)
    return f"{title}, {entry.view}" if entry.view else title


def _workload_names(measured: Sequence[_Measured]) -> dict[tuple[str, str, str], str]:
    """Returns the name of each workload: its task, with a number if the task has several environments."""
    names: dict[tuple[str, str, str], str] = {}
    for task in sorted({one.entry.task for one in measured}):
        of_task = sorted({one.workload for one in measured if one.entry.task == task and one.entry.env_kwargs})
        of_task = of_task or sorted({one.workload for one in measured if one.entry.task == task})
        for place, key in enumerate(of_task, 1):
            names[key] = task if len(of_task) == 1 else f"{task} ({place})"
    for one in measured:  # an entry without an evaluation records no arguments; it has no rank on any of them
        names.setdefault(one.workload, next(name for key, name in names.items() if key[0] == one.entry.task))
    return names


def _workloads(measured: Sequence[_Measured], names: Mapping[tuple[str, str, str], str]) -> list[Workload]:
    found: dict[str, Workload] = {}
    for one in measured:
        name = names[one.workload]
        title = task_title(one.entry.domain, one.entry.task) + name.removeprefix(one.entry.task)
        target = f"return of at least {rounded(one.reference.threshold or 0.0, '').value}"
        found.setdefault(name, Workload(name=name, title=title, target=target))
    return [found[name] for name in sorted(found)]


def _studies(one: _Measured, cost: ResultCost) -> Studies:
    if one.entry.not_ranked:
        return Studies(note=f"no rank on this task: {one.entry.not_ranked[0]}")
    if not one.studies:
        return Studies(note="no training run")
    costs, notes, unsure, estimated = [], [], [0.0], False
    for study in one.studies:
        spent, note = _spent(study, cost)
        costs.append(spent)
        notes.append(note)
        if math.isfinite(spent) and study.at is not None:
            estimated |= study.at.evenly or (cost.unit == "J" and study.at.quality != "measured")
            if cost.unit == "J":
                unsure.append(math.nan if study.uncertainty is None else study.uncertainty)
    return Studies(
        costs,
        estimated and cost.unit != "steps",
        "; ".join(dict.fromkeys(filter(None, notes))),
        None if any(map(math.isnan, unsure)) else max(unsure),
    )


def _spent(study: Study, cost: ResultCost) -> tuple[float, str]:
    """Returns what a study needed, infinity if it does not count, and a remark: why not, or that it is a bound."""
    at = study.at
    if at is None:
        return math.inf, study.note or "no learning curve"
    if study.note or not at.reached:
        return math.inf, study.note
    bound = "upper bound: reached at the first point that counts" if at.earliest else ""
    kwh = None if at.kwh is None else at.kwh * JOULES_PER_KWH
    spent = {"s": at.seconds, "J": kwh, "steps": at.steps}[cost.unit]
    if spent is None or not math.isfinite(spent):
        return math.inf, f"{cost.noun} not recorded"
    return (spent, bound) if spent > 0 else (math.inf, f"{cost.noun} at the target is not above zero")


def _provenance(members: Sequence[_Measured]) -> str:
    """Returns the provenance of a submission's energies at the targets, of its training runs if it reached none."""
    kinds = [
        "estimated" if study.at.evenly else study.at.quality
        for one in members
        for study in one.studies
        if study.at is not None and study.at.kwh is not None
    ]
    kinds = kinds or [
        value.provenance
        for one in members
        if (value := one.entry.value("train", "energy_gross")) is not None and value.value is not None
    ]
    return provenance_over_runs(kinds) if kinds else NOT_RECORDED


def _reason_left_out(members: Sequence[_Measured], kind: str) -> str:
    reasons = [one.entry.not_ranked[0] for one in members if one.entry.not_ranked]
    if len(reasons) == len(members):
        return f"no rank on any task: {reasons[0]}"
    if not any(study.at is not None or study.note for one in members for study in one.studies):
        return (
            "its training runs logged no learning curve" if any(one.studies for one in members) else "no training run"
        )
    if kind in ("mixed", NOT_RECORDED):
        return "measured and estimated energies are not compared" if kind == "mixed" else "energy was not recorded"
    return ""


def _notes(
    measured: Sequence[_Measured], cost: ResultCost, target: float | None, without: Sequence[EntryKey]
) -> list[str]:
    first = measured[0].entry
    level = "first threshold" if target is None else f"normalised score {target:g}"
    notes = [
        f"target: the {level} of each task in protocol {first.reference}, reached by the trailing mean of the learning "
        "curve and by the evaluation of the trained policy"
    ]
    hosts = sorted({host for one in measured for host in one.entry.recording.hosts})
    if len(hosts) > 1 and cost.unit != "steps":
        listed = "; ".join(hosts[:4]) + ("; …" if len(hosts) > 4 else "")
        notes.append(
            f"recorded on {len(hosts)} kinds of hosts; {cost.plural} are not comparable between them: {listed}"
        )
    tasks = sorted({key.task for key in without if key.domain == first.domain and key.terms.protocol == first.protocol})
    if tasks:
        notes.append(f"tasks without reference scores have no target: {', '.join(tasks[:8])}")
    return notes
