"""Sentences on the pages: who leads a table, what a protocol asks for, and how much a page lists."""

from __future__ import annotations

from collections.abc import Iterable

from a2perf.domains import task_title
from a2perf.metrics import protocol as protocols
from a2perf.report.leaderboard.columns import score_cell
from a2perf.report.leaderboard.ranking import Ranked
from a2perf.report.leaderboard.site_map import DomainTable, ProtocolPage
from a2perf.report.names import submission_title


def result_sentence(table: DomainTable) -> str:
    """Returns the result of a table in one sentence."""
    ranked = table.ranked()
    if not ranked:
        count = len(table.boards)
        return "No entry has a rank yet." if count == 1 else _single_leaders(table)
    first = [row for row in ranked if row.rank.split("–")[0] == "1"]
    names = [submission_title(row.name, row.info) for row in first]
    value = score_cell(ranked[0].score).number
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


def _single_leaders(table: DomainTable) -> str:
    """Returns who leads on the tasks of a domain in which no submission has a rank on all of them."""
    found = []
    for task, board in table.boards.items():
        first = next((row.entry for row in board.rows if row.place == 1), None)
        if first is not None:
            name = submission_title(first.name, first.info)
            found.append(f"{name} on {task_title(table.domain, task)} ({score_cell(first.score).number})")
    if not all(board.reference for board in table.boards.values()):
        nobody = "Plain returns of different tasks are not combined into one rank."
    else:
        nobody = f"No submission has a rank on all {len(table.boards)} tasks yet."
    return f"{nobody} Leader{'s' if len(found) > 1 else ''}: {', '.join(found)}." if found else nobody
