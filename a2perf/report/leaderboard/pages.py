"""The pages of the site: one per protocol, one per task and one per submission.

Jinja escapes all text from bundles. The content policy of each page allows no request, and no script but the page's
own. Without scripts the pages show the same numbers in the default order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from markupsafe import Markup

from a2perf.domains import domain_title, task_summary, task_title, view_title
from a2perf.metrics import protocol as protocols
from a2perf.metrics.values import CATEGORIES
from a2perf.records import SubmissionInfo
from a2perf.report.leaderboard.columns import (
    BoardColumn,
    entry_cell,
    ranks_by_cost,
    scale_of,
    scales_of,
    score_cell,
)
from a2perf.report.leaderboard.entries import Broken
from a2perf.report.leaderboard.pareto import ParetoView
from a2perf.report.leaderboard.ranking import Board
from a2perf.report.leaderboard.scoring import Entry
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
from a2perf.report.names import KIND_TITLES, badge, kind_order, plain, slug, submission_kind, submission_title
from a2perf.report.page import embedded_json, render
from a2perf.report.tables import MISSING, Cell, Column, Text, ranking, text_table

STYLES = ("page", "leaderboard")
_SHORT_HASH = 8
_RANK = Column(key="rank", title="Rank", align="right", kind="rank")
_SUBMISSION = Column(key="submission", title="Submission", first="ascending")
_VIEW = Column(
    key="view",
    title="Observes",
    kind="view",
    first="ascending",
    hint="What the environment showed the submission; episodes and rewards are the same",
)
_SEEDS = Column(
    key="seeds",
    title="Seeds",
    align="right",
    first="descending",
    hint="Evaluated seeds that the score is computed from",
)
_SIGNATURE = Column(key="signature", title="Signature", kind="signature")
_OF_THE_PAGE = {"the protocol", "the references of the score"}
"""Terms that all tables of a task's page share."""
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
        styles=STYLES,
        scripts=("leaderboard",),
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
        broken=text_table("Invalid bundles", ("Bundle", "Reason"), [(one.run, one.reason) for one in broken], texts=2),
        others=others,
        home=home,
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
    by_category = [(name.capitalize(), [c for c in present if c.metric.category == name]) for name in CATEGORIES]
    return render(
        "leaderboard_task.html",
        styles=STYLES,
        scripts=("leaderboard",),
        title=title,
        page_title=f"{page.title}, {domain_title(page.domain)}, {home.title[0].lower()}{home.title[1:]}",
        description=f"Ranking of {len(boards[0].rows)} submissions on {page.title}: score, energy, latency, memory.",
        page=page,
        home_page=home,
        differs=differs,
        domain=domain_title(page.domain) if page.domain else "Unknown domain",
        summary=f"{summary[0].upper()}{summary[1:]}." if summary else "",
        boards=[
            _board(number, board, columns, views.get(number, ()), several=len(boards) > 1, title=page.title)
            for number, board in enumerate(boards)
        ],
        more=[(title, members) for title, members in by_category if members],
        kinds=_kinds(row.entry.info for board in boards for row in board.rows),
        data=_embedded(boards, present),
        siblings=[other for other in home.tasks if other.domain == page.domain],
    )


def board_anchor(board: Board) -> str:
    """Returns the id of a board in its page."""
    identity = "\0".join(
        str(part)
        for part in (
            board.domain,
            board.env_id,
            board.fingerprint,
            board.env_kwargs,
            board.protocol,
            board.track,
            board.reference,
            board.rules,
            board.provenance,
        )
    )
    return f"board-{slug(board.task, identity)}"


def who_cell(name: str, version: str, info: SubmissionInfo, top: str, warning: str | None = None) -> Text:
    """Returns the cell that names a submission and links to its page; ``top`` leads to the folder of the site."""
    title = submission_title(name, info)
    return Text(
        text=title,
        detail=f"{name} · {version[:_SHORT_HASH]}",
        warning=warning,
        sort=title.lower(),
        href=f"{top}submissions/{slug(name, version)}/index.html",
        drawing=badge(info),
    )


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
    titles = {task: task_title(table.domain, task) if task else "Unknown task" for task in files}
    rows, several = table.rows, len(table.boards) > 1
    ends = scale_of([s for row in rows for s in (row.score, *(of.entry.score for of in row.by_task.values()))])
    columns: list[tuple[Column, Iterable[Cell]]] = [
        (_RANK, [Text(text=row.rank or MISSING) for row in rows]),
        (_SUBMISSION, [who_cell(row.name, row.version, row.info, "", row.reason) for row in rows]),
        (_VIEW, [_view_cell(table.domain, row.view) for row in rows]),
        (
            _score_head("Score, all tasks", " and tasks")
            if several
            else _score_head("Score" if any(row.score.normalised for row in rows) else "Return"),
            [score_cell(row.score, ends, best=row.leads) if table.ranked() else Text() for row in rows],
        ),
    ]
    for place, (task, file) in enumerate(files.items() if several else (), 1):
        head = Column(key=f"task-{place}", title=titles[task], align="right", kind="task", first="descending")
        columns.append((head, [_task_cell(row, task, file) for row in rows]))
    about = [_about_row(row.info, is_ranked=bool(row.rank)) for row in rows]
    return {
        "table": table,
        "sentence": result_sentence(table),
        "has_rank": bool(table.ranked()),
        "several": several,
        "ranking": ranking(f"Ranking: {table.title}, best score first", columns, about, f"{table.anchor}-table"),
        "has_views": any(row.view for row in rows),
        "files": [(titles[task], file) for task, file in files.items()],
        "normalised": all(board.reference for board in table.boards.values()),
    }


def _task_cell(row: DomainRow, task: str, file: str) -> Text:
    found = row.by_task.get(task)
    if found is None or found.entry.score.value is None:
        return Text()
    cell = score_cell(found.entry.score, best=task in row.leads_on)
    detail = "not ranked" if found.place is None else cell.detail if (cell.detail or "").startswith("[") else None
    return msgspec.structs.replace(cell, detail=detail, href=file)


def _about_row(info: SubmissionInfo, *, is_ranked: bool, name: str = "") -> dict[str, str]:
    """Returns the attributes of a row that the script of the page reads."""
    kind = info.kind if submission_kind(info) else ""
    return {"id": name, "class": "" if is_ranked else "unranked", "data-kind": kind}


def _view_cell(domain: str, view: str) -> Text:
    title = view_title(domain, view)
    return Text(text=title or MISSING, sort=title)


def _score_head(title: str, over: str = "") -> Column:
    marks = "; marks: floor (0) and expert (1)" if title.startswith("Score") else ""
    hint = f"Interquartile mean over runs{over} with its 95 % interval{marks}"
    return Column(key="score", title=title, kind="score", first="descending", is_sorted=True, hint=hint)


def _board(
    number: int, board: Board, known: Sequence[BoardColumn], views: Sequence[ParetoView], *, several: bool, title: str
) -> dict[str, Any]:
    anchor, entries = board_anchor(board), [row.entry for row in board.rows]
    main = [column for column in known if column.main and _has(board, column)]
    best, scales, ends = leaders_of(board.rows), scales_of(board, main), scale_of(entry.score for entry in entries)
    is_signed = any(signature_text(entry) != "unsigned" for entry in entries)
    reasons = ["; ".join(plain(reason, 160) for reason in entry.not_ranked[:2]) for entry in entries]
    who = [who_cell(e.name, e.version, e.info, "../", reason) for e, reason in zip(entries, reasons, strict=True)]
    columns: list[tuple[Column, Iterable[Cell]]] = [
        (_RANK, [Text(text=rank_range(row) or MISSING) for row in board.rows]),
        (_SUBMISSION, who),
        (_VIEW, [_view_cell(board.domain, entry.view) for entry in entries]),
        (
            _score_head("Score" if any(entry.score.normalised for entry in entries) else "Return"),
            [score_cell(entry.score, ends, best=entry.contestant in best) for entry in entries],
        ),
    ]
    for column in main:
        first: Literal["ascending", "descending"] = "ascending" if column.direction == "min" else "descending"
        head = Column(key=column.key, title=column.title, align="right", hint=column.metric.formula, first=first)
        ranks = zip(entries, ranks_by_cost([column.comparable(entry) for entry in entries]), strict=True)
        cells = [entry_cell(entry, column.key, scales[column.key], rank) for entry, rank in ranks]
        columns.append((head, [cell if cell.sort is not None else Text() for cell in cells]))
    columns.append((_SEEDS, map(_seeds_cell, entries)))
    columns.append((_SIGNATURE, [Text(text=signature_text(one)) if is_signed else Text() for one in entries]))
    about = [
        _about_row(row.entry.info, is_ranked=row.place is not None, name=f"r{number}-{place}")
        for place, row in enumerate(board.rows)
    ]
    return {
        "board": board,
        "anchor": anchor,
        "heading": _heading(board) if several else "Ranking",
        "ranking": ranking(f"Ranking: {title}, best score first", columns, about, f"{anchor}-table"),
        "terms": _terms(board),
        "views": [{"view": view, "svg": view.svg(f"{anchor}-{index}", "../")} for index, view in enumerate(views)],
    }


def _seeds_cell(entry: Entry) -> Text:
    known, asked = entry.score.n, len({line.seed for line in entry.runs if line.mode == "inference"})
    text = str(known) if known >= asked else f"{known} of {asked}"
    return Text(text=text, sort=float(known), warning=reproduction_text(entry))


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
        (
            "Behaviour",
            board.fingerprint[:12] or "not recorded",
            "Hash of the environment's behaviour: it changes if the same actions give other rewards or observations",
        ),
        ("Protocol", board.protocol or "none", "Tasks, seeds and budgets that all entries share"),
        ("Track", board.track, "Budget of training; the open track has none"),
        ("Energy", board.provenance, "Measured by a counter of the hardware or estimated by a power model"),
        ("Score", "return, not normalised" if scored is None else scored.scale, ""),
        ("Formulas", f"version {board.rules}", "Version of the formulas of all metrics"),
    ]


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
            found = {column.key: entry_cell(row.entry, column.key, scales[column.key]) for column in more}
            rows[f"r{number}-{place}"] = {
                key: [cell.sort, cell.line(detail=True)] for key, cell in found.items() if cell.sort is not None
            }
    heads = [{"key": c.key, "title": c.title, "direction": c.direction, "formula": c.metric.formula} for c in more]
    return embedded_json({"columns": heads, "rows": rows})
