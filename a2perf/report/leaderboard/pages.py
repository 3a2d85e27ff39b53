"""The pages of the site: one per protocol, one per task and one per submission.

Jinja escapes all text from bundles. The content policy of each page allows no request, and no script but the page's
own. Without scripts the pages show the same numbers in the default order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from a2perf.domains import domain_title, task_summary, task_title, view_title
from a2perf.metrics import protocol as protocols
from a2perf.records import SubmissionInfo
from a2perf.report.leaderboard.columns import (
    BoardColumn,
    Cell,
    entry_cell,
    interval_bar,
    ranks_by_cost,
    scale_of,
    scales_of,
    score_cell,
)
from a2perf.report.leaderboard.entries import Broken
from a2perf.report.leaderboard.pareto import ParetoView
from a2perf.report.leaderboard.ranking import Board
from a2perf.report.leaderboard.scoring import Entry, Score
from a2perf.report.leaderboard.site_map import (
    DomainRow,
    DomainTable,
    ProtocolPage,
    TaskPage,
    counts,
    description,
    leaders_of,
    protocol_sentence,
    rank_range,
    result_sentence,
)
from a2perf.report.names import KIND_TITLES, kind_order, kind_summary, slug, submission_kind, submission_title
from a2perf.report.page import content_hash, embedded_json, source, templates

_SHORT_HASH = 8
_OF_THE_PAGE = {"the protocol", "the references of the score"}
"""Terms that all tables of a task's page share."""
_CATEGORIES = {
    "application": "Application",
    "reliability": "Reliability",
    "system": "System",
    "data": "Data",
}
_SIGNATURES = {
    "unsigned": "the bundles carry no signature, so their origin is not proven.",
    "signed": "by a trusted key.",
    "unknown key": "signed, but by no key that was given as trusted, so their origin is not proven.",
    "invalid": "the signature does not match the bundle, which is not scored.",
    "not checked": "signed, but the signature was not checked, so their origin is not proven.",
}


def protocol_page(
    title: str,
    page: ProtocolPage,
    pages: Sequence[ProtocolPage],
    *,
    broken: Sequence[Broken],
    others: Sequence[str],
    home: str = "",
) -> str:
    """Renders the page of one protocol: one ranked table per domain."""
    entries = [row.by_task[task].entry for table in page.tables for row in table.rows for task in row.by_task]
    states = {line.signature.state for entry in entries for line in entry.runs}
    linked = {id(board) for table in page.tables for board in table.boards.values()}
    return render(
        "leaderboard.html",
        title=title,
        page_title=f"{title}, {page.title[0].lower()}{page.title[1:]}",
        description=description(page),
        page=page,
        tabs=[{"title": other.title, "file": other.file, "current": other is page} for other in pages],
        tables=[_domain_table(table, page) for table in page.tables],
        # several tables hold them under the same terms, and no table links to them
        other_tasks=[task for task in page.tasks if not any(id(board) in linked for board in task.boards)],
        protocol_summary=protocol_sentence(page.name),
        kinds=_kinds(entry.info for entry in entries),
        signatures=[(state.capitalize(), meaning) for state, meaning in _SIGNATURES.items() if state in states],
        counts=counts(page),
        broken=broken,
        others=others,
        home=home,
        top="",
    )


def empty_page(title: str, broken: Sequence[Broken], others: Sequence[str], home: str) -> str:
    """Renders the index of a site without any valid bundle."""
    return protocol_page(title, ProtocolPage("", "index.html", (), ()), (), broken=broken, others=others, home=home)


def task_page(
    title: str,
    page: TaskPage,
    home: ProtocolPage,
    columns: Sequence[BoardColumn],
    views: Mapping[int, Sequence[ParetoView]],
) -> str:
    """Renders the page of one task."""
    boards, summary = page.boards, task_summary(page.domain, page.task)
    differs = sorted({term for board in boards for term in board.differs} - _OF_THE_PAGE) if len(boards) > 1 else []
    more = [column for column in columns if not column.main]
    present = [column for column in more if any(_has(board, column) for board in boards)]
    by_category = [(title, [c for c in present if c.category == category]) for category, title in _CATEGORIES.items()]
    return render(
        "leaderboard_task.html",
        title=title,
        page_title=f"{page.title}, {domain_title(page.domain)}, {home.title[0].lower()}{home.title[1:]}",
        description=f"Ranking of {len(boards[0].rows)} submissions on {page.title}: score, energy, latency, memory.",
        page=page,
        home_page=home,
        differs=differs,
        domain=domain_title(page.domain) if page.domain else "Unknown domain",
        summary=f"{summary[0].upper()}{summary[1:]}." if summary else "",
        boards=[
            _board(
                number,
                board,
                [c for c in columns if c.main and _has(board, c)],
                views.get(number, ()),
                several=len(boards) > 1,
            )
            for number, board in enumerate(boards)
        ],
        more=[(title, members) for title, members in by_category if members],
        kinds=_kinds(row.entry.info for board in boards for row in board.rows),
        data=_embedded(boards, present),
        siblings=[other for other in home.tasks if other.domain == page.domain],
        top="../",
    )


def board_anchor(board: Board) -> str:
    """Returns the id of a board in its page."""
    identity = "\0".join(
        str(part)
        for part in (
            board.domain, board.env_id, board.fingerprint, board.env_kwargs, board.protocol, board.track,
            board.reference, board.rules, board.provenance,
        )
    )  # fmt: skip
    return f"board-{slug(board.task, identity)}"


def identity_of(name: str, version: str, info: SubmissionInfo) -> dict[str, str]:
    """Returns what the templates show of a submission."""
    return {
        "page": f"submissions/{slug(name, version)}/index.html",
        "title": submission_title(name, info),
        "name": name,
        "version": version[:_SHORT_HASH],
        "kind": info.kind if submission_kind(info) else "",
        "kind_title": submission_kind(info),
        "kind_summary": kind_summary(info.kind),
    }


def signature_text(entry: Entry) -> str:
    """Returns the states of the signatures of an entry's runs, with counts if they differ."""
    states = [line.signature.state for line in entry.runs]
    counted = {state: states.count(state) for state in dict.fromkeys(states)}
    if len(counted) == 1:
        return states[0]
    return ", ".join(f"{count} {state}" for state, count in counted.items())


def reproduction_text(entry: Entry) -> str:
    """Returns how many evaluations of an entry were repeated, and with which verdict; ``""`` if none was."""
    lines = [line for line in entry.runs if line.mode != "train"]
    marks = [line.reproduction for line in lines if line.reproduction is not None]
    if not marks:
        return ""
    refuted = sum(mark.verdict == "REFUTED" for mark in marks)
    if refuted:
        return f"{refuted} of {len(lines)} not reproduced"
    confirmed = [mark for mark in marks if mark.verdict == "CONFIRMED"]
    if not confirmed:
        return f"reproduction of {len(marks)} of {len(lines)} open"
    last = max(confirmed, key=lambda mark: mark.text)
    return last.text if len(lines) == 1 else f"{len(confirmed)} of {len(lines)} {last.text}"


def _domain_table(table: DomainTable, page: ProtocolPage) -> dict[str, Any]:
    homes = {id(board): task.file for task in page.tasks for board in task.boards}
    files = {task: f"{homes[id(board)]}#{board_anchor(board)}" for task, board in table.boards.items()}
    scores = [row.score for row in table.rows] + [
        row.by_task[task].entry.score for row in table.rows for task in row.by_task
    ]
    least, most = scale_of(scores)
    several = len(table.boards) > 1
    return {
        "table": table,
        "sentence": result_sentence(table),
        "has_rank": bool(table.ranked()),
        "has_views": any(row.view for row in table.rows),
        "several": several,
        "normalised": all(board.reference for board in table.boards.values()),
        "tasks": [
            {"key": f"task-{place}", "title": task_title(table.domain, task) if task else "Unknown task",
             "file": files[task]}
            for place, task in enumerate(table.boards, 1)
        ],
        "rows": [
            {
                "row": row,
                "id": identity_of(row.name, row.version, row.info),
                "view": view_title(table.domain, row.view),
                "score": score_cell(row.score),
                "bar": interval_bar(row.score, least, most),
                "cells": [_task_cell(row, task, files[task]) for task in table.boards] if several else [],
            }
            for row in table.rows
        ],
    }  # fmt: skip


def _task_cell(row: DomainRow, task: str, file: str) -> dict[str, Any]:
    found = row.by_task.get(task)
    cell = score_cell(Score() if found is None else found.entry.score)
    return {
        "cell": cell,
        "file": file,
        "best": task in row.leads_on,
        "unranked": found is not None and found.place is None,
        "title": task_title(row.by_task[task].entry.domain, task) if found is not None else "",
    }


def _board(
    number: int, board: Board, main: Sequence[BoardColumn], views: Sequence[ParetoView], *, several: bool
) -> dict[str, Any]:
    anchor = board_anchor(board)
    scales = scales_of(board, main)
    ranks = {column.key: ranks_by_cost([column.comparable(row.entry) for row in board.rows]) for column in main}
    cells = [
        [entry_cell(row.entry, column.key, scales[column.key]).noted(ranks[column.key][place]) for column in main]
        for place, row in enumerate(board.rows)
    ]
    best = leaders_of(board.rows)
    least, most = scale_of([row.entry.score for row in board.rows])
    signatures = {signature_text(row.entry) for row in board.rows}
    return {
        "board": board,
        "anchor": anchor,
        "heading": _heading(board) if several else "Ranking",
        "terms": _terms(board),
        "columns": main,
        "has_views": any(row.entry.view for row in board.rows),
        "signed": len(signatures) > 1 or signatures != {"unsigned"},
        "rows": [
            {
                "id": f"r{number}-{place}",
                "row": row,
                "rank": rank_range(row),
                "who": identity_of(row.entry.name, row.entry.version, row.entry.info),
                "view": view_title(board.domain, row.entry.view),
                "best": row.entry.contestant in best,
                "score": score_cell(row.entry.score),
                "bar": interval_bar(row.entry.score, least, most),
                "cells": list(zip(main, cells[place], strict=True)),
                "seeds": str(row.entry.score.n) if row.entry.score.n >= asked else f"{row.entry.score.n} of {asked}",
                "signature": signature_text(row.entry),
                "reproduced": reproduction_text(row.entry),
            }
            for place, row in enumerate(board.rows)
            for asked in [len({line.seed for line in row.entry.runs if line.mode == "inference"})]
        ],
        "views": [{"view": view, "svg": view.svg(f"{anchor}-{index}", "../")} for index, view in enumerate(views)],
    }


def _heading(board: Board) -> str:
    """Returns what distinguishes a board from the others of its task, ``"Open track, energy estimated"``."""
    parts = [f"{board.track} track"]
    if "the provenance of energy" in board.differs:
        parts.append(f"energy {board.provenance}")
    if "the environment's behaviour" in board.differs:
        parts.append(f"behaviour {board.fingerprint[:_SHORT_HASH] or 'not recorded'}")
    if "the environment's arguments" in board.differs:
        parts.append(f"arguments {board.env_kwargs or 'not recorded'}")
    text = ", ".join(parts)
    return text[0].upper() + text[1:]


def _terms(board: Board) -> list[tuple[str, str, str]]:
    """Returns the terms of a board: name, value and what the name means."""
    scored = protocols.scored_task(board.task, board.fingerprint, board.reference) if board.reference else None
    return [
        ("Environment", board.env_id or "not recorded", ""),
        ("Behaviour", board.fingerprint[:12] or "not recorded",
         "Hash of the environment's behaviour: it changes if the same actions give other rewards or observations"),
        ("Protocol", board.protocol or "none", "Tasks, seeds and budgets that all entries share"),
        ("Track", board.track, "Budget of training; the open track has none"),
        ("Energy", board.provenance, "Measured by a counter of the hardware or estimated by a power model"),
        ("Score", "return, not normalised" if scored is None else scored.scale, ""),
        ("Formulas", f"version {board.rules}", "Version of the formulas of all metrics"),
    ]  # fmt: skip


def _has(board: Board, column: BoardColumn) -> bool:
    return any((value := column.value(row.entry)) is not None and value.value is not None for row in board.rows)


def _kinds(infos: Iterable[SubmissionInfo]) -> list[tuple[str, str]]:
    """Returns the kinds among submissions as (kind, title); a filter is worth showing from two on."""
    found = sorted({info.kind for info in infos if info.kind in KIND_TITLES}, key=kind_order)
    return [(kind, KIND_TITLES[kind]) for kind in found]


def _embedded(boards: Sequence[Board], more: Sequence[BoardColumn]) -> Markup:
    """Returns the columns that can be added, as JSON."""
    rows: dict[str, dict[str, list[Any]]] = {}
    for number, board in enumerate(boards):
        scales = scales_of(board, more)
        for place, row in enumerate(board.rows):
            found: dict[str, Cell] = {
                column.key: entry_cell(row.entry, column.key, scales[column.key]) for column in more
            }
            rows[f"r{number}-{place}"] = {
                key: [cell.sort, cell.text()] for key, cell in found.items() if cell.sort is not None
            }
    heads = [{"key": c.key, "title": c.title, "direction": c.direction, "formula": c.formula} for c in more]
    return embedded_json({"columns": heads, "rows": rows})


def render(template: str, **context: Any) -> str:
    """Renders a page that extends ``leaderboard_base.html`` with the style and the content policy of the site."""
    environment = templates()
    script = source(environment, "leaderboard.js")
    # unescaped, because they are files of the package
    style = Markup(f"{source(environment, 'page.css')}\n{source(environment, 'leaderboard.css')}")
    return environment.get_template(template).render(
        style=style, script=Markup(script), script_hash=content_hash(script), **context
    )
