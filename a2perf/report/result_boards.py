"""Boards of time, energy or samples to a result: submissions scored over many workloads by ``metrics.time_to_result``.

The times come from recorded runs (``recorded_results``) or from a table that the caller read. Within a board all
numbers share their unit and, for energy, their provenance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from a2perf.arrays import Values
from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.metrics.time_to_result import ResultScore, ScoreRules, score_times
from a2perf.records import Record
from a2perf.report.ranks import rank_ranges

ResultScoreName: TypeAlias = Literal["time_to_result", "energy_to_result", "samples_to_result"]


@dataclasses.dataclass(frozen=True)
class ResultCost:
    """What is counted until a target is reached.

    Attributes:
        name: of the score.
        title: heading.
        noun: of one number, ``"time"``.
        unit: of the numbers, ``"s"``.
        plural: of the unit in full.
    """

    name: ResultScoreName
    title: str
    noun: str
    unit: str
    plural: str


COSTS: dict[str, ResultCost] = {
    cost.name: cost
    for cost in (
        ResultCost("time_to_result", "Time to result", "time", "s", "seconds"),
        ResultCost("energy_to_result", "Energy to result", "energy", "J", "joules"),
        ResultCost("samples_to_result", "Samples to result", "samples", "steps", "environment steps"),
    )
}
"""By the name of the score."""


class Workload(Record, kw_only=True):
    """A workload of a board.

    Attributes:
        title: name for people.
        target: what had to be reached, in words; ``""`` if not known.
        held_out_of: its base workload if it is a held-out variant, else ``""``.
    """

    name: str
    title: str
    target: str = ""
    held_out_of: str = ""


class ResultCell(Record, kw_only=True):
    """A submission on a workload.

    Attributes:
        median: over studies, None if not reached.
        ratio: to the shortest of any submission; None if it does not count.
        studies: of each study, None if not reached.
        estimated: whether a model estimated one of the numbers.
        note: why studies do not count, or that their numbers are upper bounds.
    """

    median: float | None = None
    ratio: float | None = None
    studies: list[float | None] = msgspec.field(default_factory=list)
    estimated: bool = False
    note: str = ""


class ResultRow(Record, kw_only=True):
    """A scored submission.

    Attributes:
        name: of the submission.
        version: hash of its files, ``""`` if not known.
        title: name for people.
        score: in [0, 1], by the rules of the board.
        exact: the exact integral of the profile.
        low, high: ends of the 95 % interval of the score; None with one study.
        place: position in the order of the score, from 1.
        best, worst: ranks that the intervals allow; None without intervals.
        cells: by workload.
    """

    name: str
    version: str = ""
    title: str
    score: float
    exact: float
    low: float | None = None
    high: float | None = None
    place: int
    best: int | None = None
    worst: int | None = None
    cells: dict[str, ResultCell]

    def rank(self) -> str:
        """Returns the rank: a range if intervals overlap, the place if there are none."""
        if self.best is None or self.best == self.worst:
            return str(self.best or self.place)
        return f"{self.best}–{self.worst}"

    def solved(self) -> int:
        """Returns on how many of the workloads that count it reached the target."""
        return sum(cell.ratio is not None for cell in self.cells.values())


class LeftOut(Record, kw_only=True):
    """A submission without a score, and why."""

    name: str
    version: str = ""
    title: str
    reason: str


class ResultBoard(Record, kw_only=True):
    """Submissions that are scored together.

    Attributes:
        title: heading of the board.
        domain, protocol, track: of recorded runs; ``""`` for a table.
        score: a name in ``COSTS``.
        unit: of all numbers.
        provenance: of the numbers, ``"measured"`` or ``"estimated"`` for energy, else ``""``.
        r_max, points, count_held_out: of ``ScoreRules``.
        studies: number of studies that every submission owes on every workload.
        rows: best score first.
        left_out: submissions without a score.
        notes: remarks on the numbers.
    """

    title: str
    domain: str = ""
    protocol: str = ""
    track: str = ""
    score: ResultScoreName
    unit: str
    provenance: str = ""
    r_max: float
    points: int | None
    count_held_out: bool = False
    studies: int
    workloads: list[Workload]
    rows: list[ResultRow]
    left_out: list[LeftOut] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)

    def counted(self) -> list[Workload]:
        """Returns the workloads that count in the score."""
        return [work for work in self.workloads if self.count_held_out or not work.held_out_of]


@dataclasses.dataclass
class Studies:
    """What a submission needed on a workload.

    Attributes:
        costs: one number above zero per study, infinity if not reached.
        estimated: whether a model estimated one of them.
        note: why studies do not count, or that their numbers are upper bounds.
        uncertainty: relative standard uncertainty of the measurement; None if it was not recorded.
    """

    costs: list[float] = dataclasses.field(default_factory=list)
    estimated: bool = False
    note: str = ""
    uncertainty: float | None = 0.0


@dataclasses.dataclass
class Contender:
    """A submission with its studies by workload."""

    name: str
    version: str = ""
    title: str = ""
    studies: dict[str, Studies] = dataclasses.field(default_factory=dict)


def cost_named(name: str) -> ResultCost:
    """Returns the cost of that score.

    Raises:
        ConfigError: there is none.
    """
    if name not in COSTS:
        raise ConfigError(f"unknown score {name!r}{did_you_mean(name, COSTS)}", hint=f"use one of {', '.join(COSTS)}")
    return COSTS[name]


def result_board(
    contenders: Sequence[Contender],
    workloads: Sequence[Workload],
    cost: ResultCost,
    rules: ScoreRules,
    *,
    title: str,
    domain: str = "",
    protocol: str = "",
    track: str = "",
    provenance: str = "",
    left_out: Sequence[LeftOut] = (),
    notes: Sequence[str] = (),
) -> ResultBoard:
    """Scores submissions and ranks them.

    Every submission owes as many studies on every workload as the fullest cell has; missing ones count as not reached.

    Args:
        contenders: at least one.
        workloads: at least one that counts.
        cost: what is counted.
        rules: of the score; held-out variants are those of ``workloads``.
        title: as in ``ResultBoard``.
        domain: as in ``ResultBoard``.
        protocol: as in ``ResultBoard``.
        track: as in ``ResultBoard``.
        provenance: as in ``ResultBoard``.
        left_out: as in ``ResultBoard``.
        notes: further remarks.

    Raises:
        UserError: held-out variants do not fit the workloads.
    """
    rules = dataclasses.replace(rules, held_out={w.name: w.held_out_of for w in workloads if w.held_out_of})
    names = [work.name for work in workloads]
    width = max((len(cell.costs) for one in contenders for cell in one.studies.values()), default=1) or 1
    costs = np.full((len(contenders), len(names), width), np.inf)
    unsure = np.zeros(costs.shape[:2])
    for row, contender in enumerate(contenders):
        for column, name in enumerate(names):
            held = contender.studies.get(name, Studies())
            costs[row, column, : len(held.costs)] = held.costs
            unsure[row, column] = held.uncertainty or 0.0
    try:
        scores = score_times(costs, [one.name for one in contenders], names, rules, uncertainty=unsure)
    except ValueError as error:
        raise UserError(
            f"{title}: {error}", hint="name an existing workload and its held-out variant: VARIANT=BASE"
        ) from error
    return ResultBoard(
        title=title, domain=domain, protocol=protocol, track=track, score=cost.name, unit=cost.unit,
        provenance=provenance, r_max=rules.r_max, points=rules.points, count_held_out=rules.count_held_out,
        studies=width, workloads=list(workloads), rows=_rows(contenders, scores, costs), left_out=list(left_out),
        notes=[*notes, *_notes(contenders, workloads, scores, width)],
    )  # fmt: skip


def with_held_out(workloads: Sequence[Workload], held_out: Mapping[str, str]) -> list[Workload]:
    """Returns the workloads with their bases from ``held_out`` (variant -> base), where both are among them."""
    names = {work.name for work in workloads}
    return [
        msgspec.structs.replace(work, held_out_of=base if (base := held_out.get(work.name, "")) in names else "")
        for work in workloads
    ]


def _rows(contenders: Sequence[Contender], scores: Sequence[ResultScore], costs: Values) -> list[ResultRow]:
    order = sorted(range(len(scores)), key=lambda row: (-scores[row].score, -scores[row].exact, scores[row].submission))
    has_intervals = all(score.low is not None for score in scores)
    # The order of energies of unknown uncertainty is unknown, like in ``report.ranks``.
    known = [
        (None, None) if _lacks_uncertainty(contenders[row]) else (scores[row].low, scores[row].high) for row in order
    ]
    ranges = rank_ranges(known)
    rows = []
    for place, (row, (best, worst)) in enumerate(zip(order, ranges, strict=True), 1):
        contender, score = contenders[row], scores[row]
        cells = {}
        for column, name in enumerate(score.times):
            held = contender.studies.get(name, Studies())
            cells[name] = ResultCell(
                median=score.times[name],
                ratio=score.ratios.get(name),
                studies=[float(value) if np.isfinite(value) else None for value in costs[row, column]],
                estimated=held.estimated and score.times[name] is not None,
                note=held.note if held.costs or held.note else "no study",
            )
        rows.append(
            ResultRow(
                name=contender.name, version=contender.version, title=contender.title or contender.name,
                score=score.score, exact=score.exact, low=score.low, high=score.high,
                place=_place(order, scores, place), best=best if has_intervals else None,
                worst=worst if has_intervals else None, cells=cells,
            )
        )  # fmt: skip
    return rows


def _lacks_uncertainty(contender: Contender) -> bool:
    return any(held.uncertainty is None for held in contender.studies.values())


def _place(order: Sequence[int], scores: Sequence[ResultScore], place: int) -> int:
    """Returns the place of the first submission with the same score, since equal scores share a place."""
    while place > 1 and scores[order[place - 2]].score == scores[order[place - 1]].score:
        place -= 1
    return place


def _notes(
    contenders: Sequence[Contender], workloads: Sequence[Workload], scores: Sequence[ResultScore], width: int
) -> list[str]:
    short = [
        f"{contender.title or contender.name} on {work.title} ({len(held.costs)})"
        for contender in contenders
        for work in workloads
        if 0 < len((held := contender.studies.get(work.name, Studies())).costs) < width
    ]
    unsolved = [work.title for work in workloads if all(score.times[work.name] is None for score in scores)]
    notes = []
    if unknown := [one.title or one.name for one in contenders if _lacks_uncertainty(one)]:
        notes.append(f"energies without a recorded uncertainty are not ordered: {', '.join(unknown)}")
    if short:
        more = f" and {len(short) - 5} more" if len(short) > 5 else ""
        notes.append(f"fewer than {width} studies, the missing count as not reached: {', '.join(short[:5])}{more}")
    if unsolved:
        notes.append(f"no submission reached the target, which lowers all scores: {', '.join(unsolved)}")
    return notes
