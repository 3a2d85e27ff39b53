"""Ranks submissions over all tasks of a domain: the interquartile mean over runs and tasks.

A submission needs a rank on every task. Only normalised scores are combined, and only those of one protocol, track and
provenance of energy. The interval is stratified: runs are resampled within each task (Agarwal et al. 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from a2perf.metrics.bootstrap import bootstrap
from a2perf.records import Record
from a2perf.report.leaderboard.ranking import Board, Ranked
from a2perf.report.leaderboard.scoring import REPETITIONS, Contestant, Score
from a2perf.report.ranks import rank_ranges

_SHARED = ("domain", "protocol", "track", "provenance", "reference", "rules")


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
    """Submissions compared over the tasks of a domain.

    Attributes:
        tasks: those with exactly one table under the same terms.
        rows: ranked ones first, best first.
    """

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
            found.append(Overall(**dict(zip(_SHARED, terms, strict=True)), tasks=list(single), rows=_rows(single)))
    return found


def _rows(boards: dict[str, Board]) -> list[OverallRow]:
    entered: dict[Contestant, dict[str, Ranked]] = {}
    for task, board in boards.items():
        for row in board.rows:
            held = entered.setdefault(row.entry.contestant, {})
            if row.place is not None:
                held[task] = row
    rows = [_row(contestant, places, list(boards)) for contestant, places in entered.items()]
    rows.sort(key=lambda made: (made.score.value is None, -(made.score.value or 0.0), *made.contestant))
    ranked = [made for made in rows if made.score.value is not None]
    ranges = rank_ranges([(made.score.low, made.score.high) for made in ranked])
    for place, (made, (best, worst)) in enumerate(zip(ranked, ranges, strict=True), 1):
        made.place, made.best, made.worst = place, best, worst
    return rows


def _row(contestant: Contestant, places: dict[str, Ranked], tasks: list[str]) -> OverallRow:
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
            value=float(np.asarray(estimate.value)), low=estimate.low, high=estimate.high,
            per_run=matrix.mean(axis=1).tolist(), n=matrix.shape[0], normalised=True,
        )  # fmt: skip
    name, version, view = contestant
    return OverallRow(name=name, version=version, view=view, score=score, by_task=by_task)
