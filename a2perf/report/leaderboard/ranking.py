"""Who is compared with whom, in which order, and how far that order can be trusted.

Entries are compared only within a board: same task, same behaviour and arguments of the environment, same protocol and
track, same version of the formulas, same provenance of energy. The open track limits nothing, so it also holds those
that kept a budget. The order is that of the score; the rank is a range, since entries whose intervals overlap cannot be
told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from a2perf.records import Record
from a2perf.report.leaderboard.scoring import NOT_RECORDED, Entry
from a2perf.report.leaderboard.terms import OPEN

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
    """An entry in its place.

    Attributes:
        place: position in the order of the score, from 1; None when it is not ranked.
        best: the highest rank that its interval allows.
        worst: the lowest one.
    """

    entry: Entry
    place: int | None = None
    best: int | None = None
    worst: int | None = None


class Board(Record, kw_only=True):
    """Entries that may be compared.

    Attributes:
        differs: why entries of the same task stand in other boards: what differs between them.
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
    """Returns the boards in a stable order, each with its entries in theirs."""
    groups: dict[tuple[Any, ...], list[Entry]] = {}
    homes: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for entry in sorted(entries, key=_was_evaluated, reverse=True):
        groups.setdefault(_home(entry, homes), []).append(entry)
    _into_open(groups)
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


def _into_open(groups: dict[tuple[Any, ...], list[Entry]]) -> None:
    """Puts entries of a track with a budget into the open one too, where there is one."""
    place = _IDENTITY.index("track")
    for identity in [identity for identity in groups if identity[place] != OPEN]:
        target = (*identity[:place], OPEN, *identity[place + 1 :])
        if target in groups:
            groups[target] += groups[identity]


def rank_ranges(intervals: Sequence[tuple[float | None, float | None]]) -> list[tuple[int, int]]:
    """Returns the best and the worst rank that intervals allow, 1 for the highest.

    An entry is surely before another when its whole interval lies above the other's. Without an interval (one run)
    nothing is sure.
    """
    count = len(intervals)
    ranges = []
    for low, high in intervals:
        above = sum(_above((other_low, other_high), (low, high)) for other_low, other_high in intervals)
        below = sum(_above((low, high), (other_low, other_high)) for other_low, other_high in intervals)
        ranges.append((1 + above, count - below))
    return ranges


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Returns the indices of the points that no other dominates, by rising cost.

    Args:
        points: ``(cost, gain)``; less cost and more gain are better. Equal points are all on the front.
    """
    front = [
        index
        for index, (cost, gain) in enumerate(points)
        if not any(
            other_cost <= cost and other_gain >= gain and (other_cost < cost or other_gain > gain)
            for other_cost, other_gain in points
        )
    ]
    return sorted(front, key=lambda index: (points[index][0], index))


def _above(first: tuple[float | None, float | None], second: tuple[float | None, float | None]) -> bool:
    return first[0] is not None and second[1] is not None and first[0] > second[1]


def _rows(entries: list[Entry]) -> list[Ranked]:
    ordered = sorted(entries, key=_order)
    ranked = [entry for entry in ordered if not entry.not_ranked]
    ranges = rank_ranges([(entry.score.low, entry.score.high) for entry in ranked])
    rows = [
        Ranked(entry=entry, place=place, best=best, worst=worst)
        for place, (entry, (best, worst)) in enumerate(zip(ranked, ranges, strict=True), 1)
    ]
    return rows + [Ranked(entry=entry) for entry in ordered if entry.not_ranked]


def _order(entry: Entry) -> tuple[Any, ...]:
    value = entry.score.value
    return (value is None, 0.0 if value is None else -value, entry.name, entry.version)


def _was_evaluated(entry: Entry) -> bool:
    return entry.score.value is not None


def _home(entry: Entry, homes: dict[tuple[Any, ...], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Returns the identity of an entry's board.

    An entry without an evaluation cannot be compared; it stands beside the others of its task, when there are any,
    rather than on a board of its own.
    """
    own = tuple(getattr(entry, name) for name in _IDENTITY)
    place = own[:4] + own[5:7]  # without what only an evaluation says
    if _was_evaluated(entry):
        homes.setdefault(place, own)
        return own
    unknown = entry.provenance == NOT_RECORDED or not entry.env_kwargs
    return homes.get(place, own) if unknown or entry.not_ranked else own
