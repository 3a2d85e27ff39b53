"""Groups entries into boards and ranks them.

Entries are compared only within a board: same task (in any view of it), same behaviour and arguments of the
environment, same protocol and track, same version of the formulas, same provenance of energy. The open
track has no budget, so it also lists the entries of tracks with one. Entries are ordered by score. A rank is a range,
because entries with overlapping intervals are tied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from a2perf.records import Record
from a2perf.report.leaderboard.scoring import NOT_RECORDED, Entry
from a2perf.report.leaderboard.terms import OPEN
from a2perf.report.ranks import rank_ranges

_IDENTITY = (
    "domain", "task", "env_id", "fingerprint", "env_kwargs", "protocol", "track", "reference", "rules", "provenance",
)  # fmt: skip
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
        differs: terms in which this board differs from other boards of the same task.
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
    """Returns the identity of an entry's board.

    An entry without an evaluation cannot be compared. It is listed on the board of the others of its task, if there are
    any, and not on a separate one.
    """
    own = tuple(getattr(entry, name) for name in _IDENTITY)
    place = own[:4] + own[5:7]  # without the terms that only an evaluation records
    if _was_evaluated(entry):
        homes.setdefault(place, own)
        return own
    unknown = entry.provenance == NOT_RECORDED or not entry.env_kwargs
    return homes.get(place, own) if unknown or entry.not_ranked else own
