"""Groups entries into boards and ranks them, per task and over the tasks of a domain.

Entries are compared only within a board: same task (in any view of it), same behaviour and arguments of the
environment, same protocol and track, same version of the formulas, same provenance of energy. The open
track has no budget, so it also lists the entries of tracks with one. Entries are ordered by score. A rank is a range,
because entries with overlapping intervals are tied.

Over all tasks of a domain the score is the interquartile mean over runs and tasks, of submissions with a rank on every
task. Only normalised scores of one protocol, track and provenance of energy are combined. The interval is stratified:
runs are resampled within each task (Agarwal et al. 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from a2perf.metrics.bootstrap import bootstrap
from a2perf.records import Record
from a2perf.report.leaderboard.entries import OPEN
from a2perf.report.leaderboard.scoring import NOT_RECORDED, REPETITIONS, Contestant, Entry, Score
from a2perf.report.ranks import rank_ranges

_IDENTITY = (
    "domain",
    "task",
    "env_id",
    "fingerprint",
    "env_kwargs",
    "protocol",
    "track",
    "reference",
    "rules",
    "provenance",
)
_WORDS = {
    "env_id": "the environment",
    "fingerprint": "the environment's behaviour",
    "env_kwargs": "the environment's arguments",
    "protocol": "the protocol",
    "track": "the track",
    "reference": "the references of the score",
    "rules": "the version of the formulas",
    "provenance": "the provenance of energy",
}
_SHARED = ("domain", "protocol", "track", "provenance", "reference", "rules")


class Ranked(Record, kw_only=True):
    """An entry and its rank.

    Attributes:
        place: position in the order of the score, from 1; None if it is not ranked.
    """

    entry: Entry
    place: int | None = None
    best: int | None = None
    worst: int | None = None


class Board(Record, kw_only=True):
    """Entries that may be compared.

    Attributes:
        rows: ranked entries first, best first; then those without a rank.
    """

    domain: str
    task: str
    env_id: str
    fingerprint: str
    env_kwargs: str
    protocol: str
    track: str
    reference: str
    rules: int
    provenance: str
    differs: list[str] = msgspec.field(default_factory=list)
    rows: list[Ranked] = msgspec.field(default_factory=list)


def boards_of(entries: Sequence[Entry]) -> list[Board]:
    """Returns the boards in a stable order, each with its entries in order."""
    groups: dict[tuple[Any, ...], list[Entry]] = {}
    homes: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for entry in sorted(entries, key=_was_evaluated, reverse=True):
        groups.setdefault(_home(entry, homes), []).append(entry)
    place = _IDENTITY.index("track")
    for identity in [identity for identity in groups if identity[place] != OPEN]:
        # entries of tracks with a budget are on the board of the open track, too, if it exists
        target = (*identity[:place], OPEN, *identity[place + 1 :])
        if target in groups:
            groups[target] += groups[identity]
    boards = [
        Board(**dict(zip(_IDENTITY, identity, strict=True)), rows=_rows(groups[identity]))
        for identity in sorted(groups, key=lambda identity: tuple(map(str, identity)))
    ]
    for board in boards:
        others = [other for other in boards if (other.domain, other.task) == (board.domain, board.task)]
        board.differs = [
            words for name, words in _WORDS.items() if len({str(getattr(other, name)) for other in others}) > 1
        ]
    return boards


def pareto_front(
    points: Sequence[tuple[float, float, float]], costs: Sequence[tuple[float, float]] | None = None
) -> list[int]:
    """Returns the indices of the points on the Pareto front, by rising cost.

    A point is beaten if another costs no more and the whole interval of its gain lies above. Points with overlapping
    intervals do not beat each other, because their order may be chance.

    Args:
        points: ``(cost, low, high)`` with the ends of the interval of the gain; low = high without an interval.
        costs: ends of the interval of each cost; a point then costs no more only if its whole interval does not lie
            above the other's lowest cost. By default the costs are exact.
    """
    ends = [(cost, cost) for cost, _, _ in points] if costs is None else costs
    front = [
        index
        for index, (cost, low, high) in enumerate(points)
        if not any(
            ends[place][1] <= ends[index][0]
            and (other_low > high or (other_low == other_high == low == high and other_cost < cost))
            for place, (other_cost, other_low, other_high) in enumerate(points)
        )
    ]
    return sorted(front, key=lambda index: (points[index][0], index))


def _rows(entries: list[Entry]) -> list[Ranked]:
    ordered = sorted(entries, key=lambda one: (one.score.value is None, -(one.score.value or 0.0), *one.contestant))
    ranked = [entry for entry in ordered if not entry.not_ranked]
    ranges = rank_ranges([(entry.score.low, entry.score.high) for entry in ranked])
    rows = [
        Ranked(entry=entry, place=place, best=best, worst=worst)
        for place, (entry, (best, worst)) in enumerate(zip(ranked, ranges, strict=True), 1)
    ]
    return rows + [Ranked(entry=entry) for entry in ordered if entry.not_ranked]


def _was_evaluated(entry: Entry) -> bool:
    return entry.score.value is not None


def _home(entry: Entry, homes: dict[tuple[Any, ...], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Returns the identity of an entry's board; one without an evaluation is listed beside the others of its task."""
    own = tuple(getattr(entry, name) for name in _IDENTITY)
    place = own[:4] + own[5:7]  # without the terms that only an evaluation records
    if _was_evaluated(entry):
        homes.setdefault(place, own)
        return own
    unknown = entry.provenance == NOT_RECORDED or not entry.env_kwargs
    return homes.get(place, own) if unknown or entry.not_ranked else own


class OverallRow(Record, kw_only=True):
    """A submission over all tasks.

    Attributes:
        score: over runs and tasks; ``condition`` is the reason if there is none.
        place: position in the order of the score, from 1; None when it is not ranked.
    """

    name: str
    version: str
    view: str = ""
    score: Score
    by_task: dict[str, Score]
    place: int | None = None
    best: int | None = None
    worst: int | None = None

    @property
    def contestant(self) -> Contestant:
        """What has one row in a table."""
        return self.name, self.version, self.view


class Overall(Record, kw_only=True):
    """Submissions compared over the tasks of a domain."""

    domain: str
    protocol: str
    track: str
    provenance: str
    reference: str
    rules: int
    tasks: list[str]
    rows: list[OverallRow] = msgspec.field(default_factory=list)


def overall_of(boards: Sequence[Board]) -> list[Overall]:
    """Returns a comparison for each domain and terms of which at least two tasks have a table of normalised scores."""
    groups: dict[tuple[Any, ...], list[Board]] = {}
    for board in boards:
        if board.reference:
            groups.setdefault(tuple(getattr(board, name) for name in _SHARED), []).append(board)
    found = []
    for terms, members in groups.items():
        names = [board.task for board in members]
        single = {board.task: board for board in members if names.count(board.task) == 1}
        if len(single) > 1:
            found.append(
                Overall(**dict(zip(_SHARED, terms, strict=True)), tasks=list(single), rows=_over_tasks(single))
            )
    return found


def _over_tasks(boards: dict[str, Board]) -> list[OverallRow]:
    entered: dict[Contestant, dict[str, Ranked]] = {}
    for task, board in boards.items():
        for row in board.rows:
            held = entered.setdefault(row.entry.contestant, {})
            if row.place is not None:
                held[task] = row
    rows = [_one_over_tasks(contestant, places, list(boards)) for contestant, places in entered.items()]
    rows.sort(key=lambda made: (made.score.value is None, -(made.score.value or 0.0), *made.contestant))
    ranked = [made for made in rows if made.score.value is not None]
    ranges = rank_ranges([(made.score.low, made.score.high) for made in ranked])
    for place, (made, (best, worst)) in enumerate(zip(ranked, ranges, strict=True), 1):
        made.place, made.best, made.worst = place, best, worst
    return rows


def _one_over_tasks(contestant: Contestant, places: dict[str, Ranked], tasks: list[str]) -> OverallRow:
    by_task = {task: places[task].entry.score for task in tasks if task in places}
    missing = [task for task in tasks if task not in places]
    counts = {score.n for score in by_task.values()}
    if missing:
        score = Score(condition=f"no rank on {', '.join(missing)}", normalised=True)
    elif len(counts) > 1:
        score = Score(condition="its tasks have different numbers of runs", normalised=True)
    else:
        matrix = np.array([score.per_run for score in by_task.values()], np.float64).T
        estimate = bootstrap(matrix, repetitions=REPETITIONS, method="small")
        score = Score(
            value=float(np.asarray(estimate.value)),
            low=estimate.low,
            high=estimate.high,
            per_run=matrix.mean(axis=1).tolist(),
            n=matrix.shape[0],
            normalised=True,
        )
    name, version, view = contestant
    return OverallRow(name=name, version=version, view=view, score=score, by_task=by_task)
