"""The structure of the site: one page per protocol with one table per domain, and one page per task; its sentences.

The newest protocol comes first. A domain's table has one row per submission: its rank and score over all tasks of the
domain, then its score on each task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from a2perf.domains import domain_title, task_title
from a2perf.metrics import protocol as protocols
from a2perf.records import SubmissionInfo
from a2perf.report.leaderboard.columns import score_cell
from a2perf.report.leaderboard.entries import OPEN
from a2perf.report.leaderboard.ranking import Board, Overall, OverallRow, Ranked
from a2perf.report.leaderboard.scoring import Contestant, Score
from a2perf.report.names import slug, submission_title
from a2perf.report.ranks import leaders

INDEX, TASKS = "index.html", "tasks"


@dataclasses.dataclass(frozen=True)
class TaskPage:
    """All tables of one task under one protocol, the open track first."""

    protocol: str
    domain: str
    task: str
    boards: tuple[Board, ...]

    @property
    def file(self) -> str:
        """Path below the site."""
        identity = f"{self.protocol}\0{self.domain}"
        return f"{TASKS}/{slug(self.task, identity)}.html"

    @property
    def title(self) -> str:
        """Title of the task."""
        return task_title(self.domain, self.task) if self.task else "Unknown task"


@dataclasses.dataclass(frozen=True)
class DomainRow:
    """A submission in the table of a domain.

    Attributes:
        view: what it observed; ``""`` for the default of the domain.
        rank: ``"1–2"``, or ``""`` without a rank over all tasks.
        leads: whether its rank range contains 1, unless all entries are tied.
    """

    name: str
    version: str
    view: str
    info: SubmissionInfo
    rank: str
    score: Score
    leads: bool
    reason: str
    by_task: dict[str, Ranked]
    leads_on: frozenset[str]


@dataclasses.dataclass(frozen=True)
class DomainTable:
    """The table of a domain under one protocol, track and provenance of energy."""

    domain: str
    boards: dict[str, Board]
    note: str
    rows: tuple[DomainRow, ...]

    @property
    def title(self) -> str:
        """Title of the domain and what distinguishes the table."""
        name = domain_title(self.domain) if self.domain else "Unknown domain"
        return f"{name}, {self.note}" if self.note else name

    @property
    def anchor(self) -> str:
        """Id of the table in its page."""
        return f"domain-{slug(self.domain, self.note)}"

    def ranked(self) -> list[DomainRow]:
        """Returns the rows with a rank over all tasks."""
        return [row for row in self.rows if row.rank]


@dataclasses.dataclass(frozen=True)
class ProtocolPage:
    """One protocol."""

    name: str
    file: str
    tables: tuple[DomainTable, ...]
    tasks: tuple[TaskPage, ...]

    @property
    def title(self) -> str:
        """Title of the tab."""
        return f"Protocol {self.name}" if self.name else "No protocol"


def protocol_pages(boards: Sequence[Board], overall: Sequence[Overall]) -> list[ProtocolPage]:
    """Returns the pages of the site, the newest protocol first, as ``index.html``."""
    # the latest protocol first, then other known ones, then modified ones, then runs under none
    known = protocols.names()
    names = sorted(
        {board.protocol for board in boards},
        key=lambda name: (name != protocols.LATEST, name not in known, not name, name),
    )
    pages = []
    for place, name in enumerate(names):
        members = [board for board in boards if board.protocol == name]
        file = INDEX if place == 0 else f"protocol-{slug(name or 'none', name)}.html"
        groups: dict[tuple[str, str, str], list[Board]] = {}
        for board in members:
            groups.setdefault((board.protocol, board.domain, board.task), []).append(board)
        tasks = (TaskPage(*key, tuple(sorted(of, key=lambda one: one.track != OPEN))) for key, of in groups.items())
        pages.append(ProtocolPage(name, file, tuple(_tables(members, overall)), tuple(tasks)))
    return pages


def rank_range(row: Ranked | OverallRow) -> str:
    """Returns the rank, as a range if intervals overlap; ``""`` without a rank."""
    if row.place is None:
        return ""
    return str(row.best) if row.best == row.worst else f"{row.best}–{row.worst}"


def leaders_of(rows: Sequence[Ranked]) -> set[Contestant]:
    """Returns the rows of a board that may be printed in bold."""
    ranked = [row for row in rows if row.place is not None]
    places = leaders([(row.entry.score.low, row.entry.score.high) for row in ranked])
    return {ranked[place].entry.contestant for place in places}


def _tables(boards: Sequence[Board], overall: Sequence[Overall]) -> list[DomainTable]:
    groups: dict[tuple[str, ...], list[Board]] = {}
    for board in boards:
        groups.setdefault((board.domain, board.track, board.provenance, board.reference, str(board.rules)), []).append(
            board
        )

    def ranked(key: tuple[str, ...]) -> int:
        return sum(row.place is not None for board in groups[key] for row in board.rows)

    tables = []
    for domain in dict.fromkeys(key[0] for key in groups):
        keys = [key for key in groups if key[0] == domain]
        has_open = any(key[1] == OPEN for key in keys)
        # a track with a budget is part of the open one; its own tables are on the pages of its tasks
        shown = sorted((key for key in keys if key[1] == OPEN or not has_open), key=ranked, reverse=True)
        for key in shown:
            parts = (
                f"{key[1]} track",
                f"energy {key[2]}",
                f"normalised by {key[3]}" if key[3] else "plain returns",
                f"formulas {key[4]}",
            )
            # the terms in which a table differs from the others of its domain
            note = ", ".join(part for place, part in enumerate(parts, 1) if len({other[place] for other in shown}) > 1)
            found = [one for one in overall if _terms(one) == _terms(groups[key][0])]
            tables.append(_table(groups[key], found[0] if found else None, note))
    return tables


def _terms(of: Board | Overall) -> tuple[object, ...]:
    return (of.domain, of.protocol, of.track, of.provenance, of.reference, of.rules)


def _table(boards: Sequence[Board], whole: Overall | None, note: str) -> DomainTable:
    names = [board.task for board in boards]
    single = {board.task: board for board in boards if names.count(board.task) == 1}
    leading = {task: leaders_of(board.rows) for task, board in single.items()}
    entered: dict[Contestant, dict[str, Ranked]] = {}
    for task, board in single.items():
        for row in board.rows:
            entered.setdefault(row.entry.contestant, {})[task] = row
    rows: list[DomainRow] = []
    ranks = {row.contestant: row for row in whole.rows} if whole is not None else {}
    ranked = [row for row in ranks.values() if row.place is not None]
    best = {ranked[place].contestant for place in leaders([(row.score.low, row.score.high) for row in ranked])}
    for key, by_task in entered.items():
        of_domain: Ranked | OverallRow | None = ranks.get(key)
        score = of_domain.score if isinstance(of_domain, OverallRow) else Score()
        if whole is None and len(single) == 1:  # the only task is the whole domain
            of_domain = next(iter(by_task.values()))
            score, best = of_domain.entry.score, leading[next(iter(single))]
        info = next((row.entry.info for row in by_task.values() if row.entry.info.title), SubmissionInfo())
        rank = "" if of_domain is None else rank_range(of_domain)
        reason = "" if rank else _reason(by_task, single)
        leads_on = frozenset(task for task in by_task if key in leading[task])
        rows.append(DomainRow(*key, info, rank, score, key in best, reason, by_task, leads_on))

    def order(row: DomainRow) -> tuple[object, ...]:
        known = [found.entry.score.value for found in row.by_task.values() if found.entry.score.value is not None]
        mean = sum(known) / len(known) if known else 0.0
        value = row.score.value
        return (not row.rank, value is None, -(value or 0.0), -len(known), -mean, row.name, row.version, row.view)

    rows.sort(key=order)
    return DomainTable(boards[0].domain, single, note, tuple(rows))


def _reason(by_task: dict[str, Ranked], boards: dict[str, Board]) -> str:
    """Returns why a submission has no rank over all tasks of a domain."""
    missing = len(boards) - len(by_task)
    unranked = [row for row in by_task.values() if row.place is None]
    reasons = []
    if missing:
        reasons.append(f"{missing} of {len(boards)} tasks missing")
    if unranked:
        first = unranked[0].entry.not_ranked
        more = f": {first[0].split(': ')[0]}" if first else ""
        reasons.append(f"no rank on {len(unranked)} of {len(boards)} tasks{more}" if len(boards) > 1 else more[2:])
    return "; ".join(reason for reason in reasons if reason)


def result_sentence(table: DomainTable) -> str:
    """Returns the result of a table in one sentence."""
    ranked = table.ranked()
    if not ranked and len(table.boards) == 1:
        return "No entry has a rank yet."
    if not ranked:  # nobody has a rank on all tasks
        found = []
        for task, board in table.boards.items():
            best = next((row.entry for row in board.rows if row.place == 1), None)
            if best is not None:
                name = submission_title(best.name, best.info)
                found.append(f"{name} on {task_title(table.domain, task)} ({score_cell(best.score).text})")
        nobody = f"No submission has a rank on all {len(table.boards)} tasks yet."
        if not all(board.reference for board in table.boards.values()):
            nobody = "Plain returns of different tasks are not combined into one rank."
        return f"{nobody} Leader{'s' if len(found) > 1 else ''}: {', '.join(found)}." if found else nobody
    first = [row for row in ranked if row.rank.split("–")[0] == "1"]
    names = [submission_title(row.name, row.info) for row in first]
    value = score_cell(ranked[0].score).text
    if len(ranked) == 1:
        return f"{names[0]} is the only ranked submission, with a score of {value}."
    if len(first) == len(ranked):
        return f"All {len(ranked)} ranked submissions are tied: their intervals overlap."
    if len(first) == 1:
        return f"{names[0]} leads with {value}."
    return f"{', '.join(names[:-1])} and {names[-1]} share the lead: their intervals overlap."


def counts(page: ProtocolPage) -> dict[str, int]:
    """Returns the numbers of submissions, tasks and runs of a page, and of entries without a rank."""
    rows: dict[int, Ranked] = {id(row.entry): row for task in page.tasks for board in task.boards for row in board.rows}
    entries = [row.entry for row in rows.values()]
    return {
        "submissions": len({(entry.name, entry.version) for entry in entries}),
        "tasks": len(page.tasks),
        "runs": sum(len(entry.runs) for entry in entries),
        "unranked": sum(row.place is None for row in rows.values()),
    }


def description(page: ProtocolPage) -> str:
    """Returns one sentence for search engines and link previews."""
    count = counts(page)
    domains = ", ".join(dict.fromkeys(table.title.split(",")[0] for table in page.tables))
    return (
        f"Ranking of {count['submissions']} submissions on {count['tasks']} tasks ({domains}) with 95 % intervals, "
        "energy, latency and reliability."
    )


def protocol_sentence(name: str) -> str:
    """Returns what a shipped protocol asks for; ``""`` for others, because their text is a stranger's."""
    if name not in protocols.names():
        return ""
    tasks = protocols.load(name).tasks.values()
    seeds = _span(len(task.training_seeds) for task in tasks)
    episodes = _span(task.evaluation.episodes for task in tasks)
    floors = {task.floor for task in tasks if task.has_references()}
    floor = floors.pop() if len(floors) == 1 else "best trivial policy of the task"
    return (
        f"Protocol {name}: {seeds} training seeds per task, {episodes} evaluation episodes per seed. "
        f"Score: 0 is the {floor}, 1 the expert."
    )


def _span(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
