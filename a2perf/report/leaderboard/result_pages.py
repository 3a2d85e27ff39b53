"""The page of time, energy or samples to a result: one table and one performance profile per board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from a2perf.metrics.time_to_result import GRID_POINTS
from a2perf.report.drawing import Chart, inline_svg
from a2perf.report.leaderboard.columns import Cell, score_cell
from a2perf.report.leaderboard.interval_bars import interval_bar
from a2perf.report.leaderboard.pages import render
from a2perf.report.leaderboard.scoring import Score
from a2perf.report.numbers_text import Scale, normalised_text, row_scale, written
from a2perf.report.result_boards import COSTS, ResultBoard, ResultCell, ResultRow

_SHORT_HASH = 8


def result_page(title: str, boards: Sequence[ResultBoard], charts: Mapping[int, Chart]) -> str:
    """Renders the page.

    Args:
        title: of the page.
        boards: at least one, all of one score.
        charts: by the place of their board.
    """
    cost = COSTS[boards[0].score]
    submissions = sum(len(board.rows) for board in boards)
    return render(
        "leaderboard_results.html",
        title=title,
        page_title=f"{title}, {cost.title.lower()}",
        description=f"{cost.title}: {submissions} submissions scored by performance profiles.",
        cost=cost,
        rule=rule_sentence(boards[0]),
        boards=[_board(place, board, charts.get(place)) for place, board in enumerate(boards)],
    )


def rule_sentence(board: ResultBoard) -> str:
    """Returns how the scores of a board were integrated."""
    if board.points is None:
        return "The score is the exact integral."
    published = " as in AlgoPerf's published scores" if board.points == GRID_POINTS else ""
    return f'The score uses the trapezoid rule on {board.points} points{published}; "Exact" is the exact integral.'


def _board(place: int, board: ResultBoard, chart: Chart | None) -> dict[str, Any]:
    counted = {work.name for work in board.counted()}
    scales = {
        work.name: row_scale(
            [median for row in board.rows if (median := row.cells[work.name].median) is not None], board.unit
        )
        for work in board.workloads
    }
    return {
        "board": board,
        "anchor": f"results-{place}",
        "terms": _terms(board),
        "workloads": [
            {
                "key": f"workload-{number}",
                "title": work.title,
                "hint": "; ".join(part for part in (work.target, _held_out(work.held_out_of)) if part),
                "held_out": bool(work.held_out_of),
            }
            for number, work in enumerate(board.workloads)
        ],
        "rows": [
            {
                "row": row,
                "rank": row.rank(),
                "version": row.version[:_SHORT_HASH],
                "score": _score_cell(row, board.studies),
                "bar": interval_bar(_score(row, board.studies), 0.0, 1.0),
                "exact": normalised_text(row.exact),
                "solved": f"{row.solved()} of {len(counted)}",
                "cells": [
                    (work.title, _cell(row.cells[work.name], scales[work.name], work.name in counted))
                    for work in board.workloads
                ],
            }
            for row in board.rows
        ],
        "svg": None if chart is None else inline_svg(chart, f"results-{place}"),
        "chart": chart,
    }


def _score(row: ResultRow, studies: int) -> Score:
    return Score(value=row.score, low=row.low, high=row.high, n=studies, normalised=True)


def _score_cell(row: ResultRow, studies: int) -> Cell:
    cell = score_cell(_score(row, studies))
    if row.low is None:
        return cell._replace(detail="1 study, no interval")
    return cell._replace(detail=f"the same in all resamples of {studies} studies") if row.low == row.high else cell


def _cell(cell: ResultCell, scale: Scale, counts: bool) -> Cell:
    if cell.median is None:
        return Cell(None, "–", "", cell.note or "not reached")
    finished = sum(study is not None for study in cell.studies)
    parts = []
    if cell.ratio is not None:
        parts.append(f"{cell.ratio:.3g} × least")
    elif counts:
        parts.append("held-out variant not reached")
    if finished < len(cell.studies):
        parts.append(f"{finished} of {len(cell.studies)} studies")
    if cell.note:
        parts.append(cell.note)
    return Cell(cell.median, written(cell.median, scale).value, scale.unit, ", ".join(parts), cell.estimated)


def _held_out(base: str) -> str:
    return f"held-out variant of {base}" if base else ""


def _terms(board: ResultBoard) -> list[tuple[str, str]]:
    terms = [
        ("Unit", board.unit),
        ("Studies", str(board.studies)),
        ("Upper end", f"{board.r_max:g} times the least"),
        ("Held-out", "counted as workloads too" if board.count_held_out else "gate their base workloads")
        if any(work.held_out_of for work in board.workloads)
        else ("Held-out", "none"),
    ]
    if board.domain:
        terms += [("Protocol", board.protocol or "none"), ("Track", board.track)]
    if board.provenance:
        terms.append(("Energy", board.provenance))
    return terms
