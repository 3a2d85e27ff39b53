"""Scores of submissions by task, across domains, under one protocol, track and provenance of energy.

Nothing is ranked across domains: their experts differ in quality, so a mean over domains has no meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from a2perf.records import Record
from a2perf.report.leaderboard.overall import boards_under_same_terms
from a2perf.report.leaderboard.ranking import Board
from a2perf.report.leaderboard.scoring import Contestant, Score

_SHARED = ("protocol", "track", "provenance", "reference", "rules")


class MatrixRow(Record, kw_only=True):
    """A submission on the tasks that it entered.

    Attributes:
        by_task: its score, by task.
        leads: tasks on which its rank range contains 1.
        not_ranked: tasks on which it has no rank.
    """

    name: str
    version: str
    view: str = ""
    by_task: dict[str, Score]
    leads: list[str] = msgspec.field(default_factory=list)
    not_ranked: list[str] = msgspec.field(default_factory=list)


class Matrix(Record, kw_only=True):
    """Submissions by tasks.

    Attributes:
        domains: of each task, in the order of ``tasks``.
        tasks: those with exactly one table under the same terms.
        rows: in the order of the first task that they entered, best first there.
    """

    protocol: str
    track: str
    provenance: str
    reference: str
    rules: int
    domains: list[str]
    tasks: list[str]
    rows: list[MatrixRow] = msgspec.field(default_factory=list)


def matrices_of(boards: Sequence[Board]) -> list[Matrix]:
    """Returns a table for all terms under which tasks of two domains have normalised scores, the fullest first."""
    found = [
        Matrix(**shared, domains=[board.domain for board in single.values()], tasks=list(single), rows=_rows(single))
        for shared, single in boards_under_same_terms(boards, _SHARED)
        if len({board.domain for board in single.values()}) > 1
    ]
    # the one with most ranked scores first
    return sorted(
        found, key=lambda matrix: sum(len(row.by_task) - len(row.not_ranked) for row in matrix.rows), reverse=True
    )


def _rows(boards: Mapping[str, Board]) -> list[MatrixRow]:
    rows: dict[Contestant, MatrixRow] = {}
    for board in boards.values():
        for ranked in board.rows:  # best first
            entry = ranked.entry
            new = MatrixRow(name=entry.name, version=entry.version, view=entry.view, by_task={})
            row = rows.setdefault(entry.contestant, new)
            row.by_task[board.task] = entry.score
            if ranked.best == 1:
                row.leads.append(board.task)
            if ranked.place is None:
                row.not_ranked.append(board.task)
    return list(rows.values())
