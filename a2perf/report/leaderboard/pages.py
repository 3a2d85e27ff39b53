"""The pages of the site: one with every board, and one a submission.

Jinja escapes every word that comes from a bundle, and the content policy of each page allows no request and no script
but the one whose hash it names. Without scripts the pages show the same numbers in the default order.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from a2perf.plain_text import html_text
from a2perf.report.leaderboard.columns import MODE_WORDS, BoardColumn, Cell, metric_cell, scales_of, score_cell
from a2perf.report.leaderboard.entries import Broken
from a2perf.report.leaderboard.matrix import Matrix
from a2perf.report.leaderboard.overall import Overall, OverallRow
from a2perf.report.leaderboard.pareto import ParetoView
from a2perf.report.leaderboard.ranking import Board, Ranked
from a2perf.report.leaderboard.scoring import Entry, Score
from a2perf.report.leaderboard.words import slug

_SHORT_HASH = 8
_FILTERS = {"domain": "Domain", "task": "Task", "provenance": "Provenance", "track": "Track"}
_CATEGORIES = {
    "application": "Application",
    "reliability": "Reliability",
    "system": "System",
    "data": "Data",
}


def index_page(
    title: str,
    boards: Sequence[Board],
    columns: Sequence[BoardColumn],
    matrices: Sequence[Matrix],
    overall: Sequence[Overall],
    views: Mapping[int, Sequence[ParetoView]],
    broken: Sequence[Broken],
    others: Sequence[str],
) -> str:
    """Renders the page with every board.

    Args:
        title: heading.
        boards: in the order of the page.
        columns: of all boards.
        matrices: submissions by tasks, across domains.
        overall: comparisons over the tasks of a domain.
        views: charts by the index of their board.
        broken: bundles that cannot be listed.
        others: recorded runs that are no bundles.
    """
    main = [column for column in columns if column.main]
    return (
        _templates()
        .get_template("leaderboard.html")
        .render(
            title=title,
            boards=[_board(number, board, main, views.get(number, ())) for number, board in enumerate(boards)],
            matrices=[_matrix(matrix, boards) for matrix in matrices],
            overall=[_overall(whole) for whole in overall],
            main=main,
            more=_by_category(columns),
            data=_embedded(boards, columns),
            filters={name: (label, _options(boards, name)) for name, label in _FILTERS.items()},
            broken=broken,
            others=others,
            counts=_counts(boards),
            style=_style(),
            script=_script(),
            script_hash=_hash(_script()),
        )
    )


def submission_page(
    name: str, version: str, standings: Sequence[tuple[Board, Ranked]], *, report: str, problem: str, site_title: str
) -> str:
    """Renders the page of one submission.

    Args:
        name: of the submission.
        version: hash of its files.
        standings: its entries with their boards.
        report: address of its report, ``""`` when there is none.
        problem: why its report could not be written.
        site_title: heading of the page with every board.
    """
    return (
        _templates()
        .get_template("leaderboard_submission.html")
        .render(
            name=name,
            version=version,
            standings=_by_entry(standings),
            report=report,
            problem=problem,
            site_title=site_title,
            style=_style(),
        )
    )


def _by_entry(standings: Sequence[tuple[Board, Ranked]]) -> list[dict[str, Any]]:
    """Returns each entry once with its place on every board that it stands on."""
    found: dict[int, dict[str, Any]] = {}
    for board, row in standings:
        item = found.setdefault(
            id(row.entry),
            {
                "entry": row.entry,
                "score": score_cell(row.entry.score),
                "metrics": _metric_tables(row.entry),
                "places": [],
            },
        )
        ranked = sum(other.place is not None for other in board.rows)
        item["places"].append(
            {"anchor": board_anchor(board), "track": board.track, "rank": rank_words(row), "ranked": ranked}
        )
    return list(found.values())


def board_anchor(board: Board) -> str:
    """Returns the id of a board in the page."""
    identity = "\0".join(
        str(part)
        for part in (
            board.domain, board.env_id, board.fingerprint, board.env_kwargs, board.protocol, board.track,
            board.reference, board.rules, board.provenance,
        )
    )  # fmt: skip
    return f"board-{slug(board.task, identity)}"


def rank_words(row: Ranked | OverallRow) -> str:
    """Returns the rank as a range where intervals overlap, a dash where there is none."""
    if row.place is None:
        return "–"
    return str(row.best) if row.best == row.worst else f"{row.best}–{row.worst}"


def signature_words(entry: Entry) -> str:
    """Returns what the signatures of an entry's runs say, in a few words."""
    states = [line.signature.state for line in entry.runs]
    counted = {state: states.count(state) for state in dict.fromkeys(states)}
    if len(counted) == 1:
        return states[0]
    return ", ".join(f"{count} {state}" for state, count in counted.items())


def _board(number: int, board: Board, main: Sequence[BoardColumn], views: Sequence[ParetoView]) -> dict[str, Any]:
    anchor = board_anchor(board)
    scales = scales_of(board, main)
    cells = [[metric_cell(column.value(row.entry), scales[column.key]) for column in main] for row in board.rows]
    cells, remarks = _said_once(cells, main)
    return {
        "board": board,
        "anchor": anchor,
        "terms": _terms(board),
        "remarks": remarks,
        "rows": [
            {
                "id": f"r{number}-{place}",
                "row": row,
                "rank": rank_words(row),
                "page": f"submissions/{slug(row.entry.name, row.entry.version)}/index.html",
                "version": row.entry.version[:_SHORT_HASH],
                "score": score_cell(row.entry.score),
                "cells": list(zip(main, cells[place], strict=True)),
                "seeds": _seeds_words(row.entry),
                "signature": signature_words(row.entry),
            }
            for place, row in enumerate(board.rows)
        ],
        "views": [
            {
                "view": view,
                "svg": view.svg(f"{anchor}-{index}"),
                "front": [
                    {
                        "page": f"submissions/{point.page}/index.html",
                        "name": point.entry.name,
                        "cost": point.words[0],
                        "gain": point.words[1],
                    }
                    for point in view.front()
                ],
                "dominated": len(view.points) - len(view.front()),
            }
            for index, view in enumerate(views)
        ],
    }


def _overall(whole: Overall) -> dict[str, Any]:
    identity = "\0".join(map(str, (whole.protocol, whole.track, whole.provenance, whole.reference, whole.rules)))
    return {
        "whole": whole,
        "anchor": f"overall-{slug(whole.domain, identity)}",
        "rows": [
            {
                "row": row,
                "rank": rank_words(row),
                "page": f"submissions/{slug(row.name, row.version)}/index.html",
                "version": row.version[:_SHORT_HASH],
                "score": score_cell(row.score),
                "cells": [(task, score_cell(row.by_task.get(task, Score()))) for task in whole.tasks],
            }
            for row in whole.rows
        ],
    }


def _matrix(matrix: Matrix, boards: Sequence[Board]) -> dict[str, Any]:
    terms = ("protocol", "track", "provenance", "reference", "rules")
    shared = [getattr(matrix, name) for name in terms]
    anchors = {board.task: board_anchor(board) for board in boards if [getattr(board, n) for n in terms] == shared}
    return {
        "matrix": matrix,
        "anchor": f"matrix-{slug('all', chr(0).join(map(str, shared)))}",
        "anchors": anchors,
        "rows": [
            {
                "row": row,
                "page": f"submissions/{slug(row.name, row.version)}/index.html",
                "version": row.version[:_SHORT_HASH],
                "cells": [
                    (
                        task,
                        score_cell(row.by_task.get(task, Score())),
                        task in row.leads,
                        task in row.not_ranked,
                    )
                    for task in matrix.tasks
                ],
            }
            for row in matrix.rows
        ],
    }


def _terms(board: Board) -> list[tuple[str, str]]:
    return [
        ("Environment", board.env_id or "not recorded"),
        ("Behaviour", board.fingerprint[:12] or "not recorded"),
        ("Protocol", board.protocol or "none"),
        ("Track", board.track),
        ("Energy", board.provenance),
        ("Score", f"normalised by protocol {board.reference}" if board.reference else "return, not normalised"),
        ("Rules", str(board.rules)),
    ]


def _said_once(cells: list[list[Cell]], columns: Sequence[BoardColumn]) -> tuple[list[list[Cell]], list[str]]:
    """Takes a reason that stands in every cell of a column out of the table, to be said once above it."""
    reasons: dict[str, list[str]] = {}
    for place, column in enumerate(columns):
        told = {row[place].detail for row in cells if row[place].sort is None and row[place].detail}
        if len(told) == 1 and all(row[place].sort is None for row in cells):
            reasons.setdefault(told.pop(), []).append(column.title)
            for row in cells:
                row[place] = row[place]._replace(detail="")
    return cells, [f"{' and '.join(titles)}: {reason}." for reason, titles in reasons.items()]


def _seeds_words(entry: Entry) -> str:
    asked = len({line.seed for line in entry.runs if line.mode == "inference"})
    return str(entry.score.n) if entry.score.n >= asked else f"{entry.score.n} of {asked}"


def _metric_tables(entry: Entry) -> list[dict[str, Any]]:
    from a2perf.metrics import registry

    metrics = registry.all_metrics()
    return [
        {
            "mode": words,
            "rows": [
                {"label": metrics[name].label, "formula": metrics[name].formula, "value": value,
                 "cell": metric_cell(value)}
                for name, value in entry.scores[mode].items()
                if name in metrics
            ],
        }
        for mode, words in MODE_WORDS.items()
        if entry.scores.get(mode)
    ]  # fmt: skip


def _options(boards: Sequence[Board], name: str) -> list[str]:
    return sorted({str(getattr(board, name)) for board in boards})


def _by_category(columns: Sequence[BoardColumn]) -> list[tuple[str, list[BoardColumn]]]:
    return [
        (words, [column for column in columns if not column.main and column.category == category])
        for category, words in _CATEGORIES.items()
        if any(not column.main and column.category == category for column in columns)
    ]


def _counts(boards: Sequence[Board]) -> dict[str, int]:
    rows = {id(row.entry): row for board in boards for row in board.rows}.values()
    entries = [row.entry for row in rows]
    return {
        "submissions": len({(entry.name, entry.version) for entry in entries}),
        "tasks": len({(entry.domain, entry.task) for entry in entries}),
        "runs": sum(len(entry.runs) for entry in entries),
        "unranked": sum(row.place is None for row in rows),
    }


def _embedded(boards: Sequence[Board], columns: Sequence[BoardColumn]) -> Markup:
    """Returns the columns that are not in the tables as JSON that cannot end the element it stands in."""
    more = [column for column in columns if not column.main]
    rows: dict[str, dict[str, list[Any]]] = {}
    for number, board in enumerate(boards):
        scales = scales_of(board, more)
        for place, row in enumerate(board.rows):
            found = {column.key: metric_cell(column.value(row.entry), scales[column.key]) for column in more}
            rows[f"r{number}-{place}"] = {
                key: [cell.sort, cell.words()] for key, cell in found.items() if cell.sort is not None
            }
    document = {
        "columns": [{"key": c.key, "title": c.title, "direction": c.direction, "formula": c.formula} for c in more],
        "rows": rows,
    }
    text = json.dumps(document, separators=(",", ":"), sort_keys=True, allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


@functools.cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("a2perf.report", "templates"),
        autoescape=True,
        finalize=html_text,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _source(name: str) -> str:
    loader = _templates().loader
    assert loader is not None
    return loader.get_source(_templates(), name)[0]


def _style() -> Markup:
    # the package's own files, not anything of a bundle
    return Markup(_source("page.css") + "\n" + _source("leaderboard.css"))


def _script() -> Markup:
    return Markup(_source("leaderboard.js"))


def _hash(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
