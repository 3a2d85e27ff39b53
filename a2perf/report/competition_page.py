"""The front page of a published competition: the winner, the standings, and the proof by commit and reveal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from a2perf.experiments.competition.standings import TaskStanding
from a2perf.plain_text import safe_link
from a2perf.records import SubmissionInfo
from a2perf.report.leaderboard.pages import STYLES, badge
from a2perf.report.names import submission_title
from a2perf.report.numbers_text import row_scale, written
from a2perf.report.page import render
from a2perf.report.tables import Cell, Column, Table, Text, columns, ranking, text_table

_OUTCOMES = {
    "bad_output": "Invalid output",
    "contract": "Invalid submission",
    "disk": "Disk limit exceeded",
    "exception": "Exception",
    "exit": "Exited with an error",
    "finished": "Finished",
    "forbidden": "Forbidden operation",
    "illegal": "Illegal answer",
    "infrastructure": "Infrastructure failure",
    "memory": "Memory limit exceeded",
    "not run": "Not run",
    "output_limit": "Too much output",
    "signal": "Crashed",
    "timeout": "Timed out",
}


@dataclass(frozen=True)
class EntrantResults:
    """The results of one entry.

    Attributes:
        rank: among the entries that finished every run on the secret tasks; None for the others.
    """

    name: str
    results: list[TaskStanding]
    page: str = ""
    report: str = ""
    rank: int | None = None
    mean: float | None = None
    info: SubmissionInfo = field(default_factory=SubmissionInfo)

    @property
    def outcome(self) -> str:
        """``"finished"``, or the kinds of its failures."""
        kinds = dict.fromkeys(kind for result in self.results for kind, _ in result.failures)
        return ", ".join(kinds) or "finished"


@dataclass(frozen=True)
class ClaimedReturn:
    """A return that an entry claimed, beside the one that the evaluator measured.

    Attributes:
        is_false: whether the claim is better than the measurement by more than rounding.
    """

    entrant: str
    task: str
    claimed: float
    measured: float
    is_false: bool


@dataclass(frozen=True)
class FrontPage:
    """Content of the page.

    Attributes:
        problems: why the results may not be valid; empty if every check passed.
    """

    title: str
    terms: list[tuple[str, str]]
    commitment: str
    founded_at: str
    revealed_at: str
    problems: list[str]
    entrants: list[EntrantResults]
    entrants_sha256: str = ""
    closed_at: str = ""
    notes: list[str] = field(default_factory=list)
    organizer: str = ""
    commitment_url: str = ""
    domain: str = ""
    claims: list[ClaimedReturn] = field(default_factory=list)
    references: list[EntrantResults] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)


def competition_page(page: FrontPage) -> str:
    """Returns the page as one HTML file without scripts; all text of entrants is escaped."""
    by_name: dict[str, TaskStanding] = {}
    for entrant in page.entrants:
        for standing in entrant.results:
            by_name.setdefault(standing.task, standing)
    # the secret ones, which decide, come first
    tasks = sorted(by_name.values(), key=lambda standing: (not standing.held_out, standing.task))
    secret = sum(task.held_out for task in tasks)
    facts = {
        "Organizer": page.organizer, "Domain": page.domain, "Entries": str(len(page.entrants)),
        "Secret tasks": str(secret), "Created": page.founded_at, "Closed": page.closed_at,
        "Results published": page.revealed_at,
    }  # fmt: skip
    return render(
        "competition.html",
        styles=STYLES,
        scripts=(),
        page=page,
        page_title=f"{page.title}, results",
        description=f"Results of the competition {page.title}: {len(page.entrants)} entries, {secret} secret tasks.",
        result=_result(page),
        facts=[(name, value) for name, value in facts.items() if value],
        standings=_standings(page, tasks),
        failed=_failed(page),
        claims=_claims(page),
        commitment_url=safe_link(page.commitment_url) if page.commitment_url else "",
    )


def _standings(page: FrontPage, tasks: Sequence[TaskStanding]) -> Table:
    entrants = [*page.entrants, *page.references]
    outcomes = [_outcome(entrant.outcome) for entrant in page.entrants] + ["Reference"] * len(page.references)
    titles = [submission_title(one.name, one.info) for one in entrants]
    who = [
        Text(text=title, href=one.page or None, detail="" if title == one.name else one.name, drawing=badge(one.info))
        for one, title in zip(entrants, titles, strict=True)
    ]
    ranks = [Text() if one.rank is None else Text(text=str(one.rank)) for one in entrants]
    means = [
        Text() if one.mean is None else Text(text=number_text(one.mean), sort=one.mean, best=one.rank == 1)
        for one in entrants
    ]
    reports = [
        Text(text=f"report of {title}", href=one.report) if one.report else Text()
        for one, title in zip(entrants, titles, strict=True)
    ]
    entry, outcome = columns({"entry": "Entry", "outcome": "Outcome"})
    held: list[tuple[Column, Sequence[Cell]]] = [
        (Column(key="rank", title="Rank", align="right", kind="rank"), ranks),
        (entry, who), (outcome, [Text(text=text) for text in outcomes]),
        (Column(key="mean", title="Mean, secret tasks", align="right"), means),
    ]  # fmt: skip
    for task in tasks:
        title = f"{page.titles.get(task.task, task.task)}{'' if task.held_out else ' (public)'}"
        head = Column(key=f"task-{task.task}", title=title, align="right")
        held.append((head, [Text(text=_cell(one, task.task)) for one in entrants]))
    held.append((Column(key="report", title="Report"), reports))
    return ranking("Standings", held, [{"class": "" if one.rank else "unranked"} for one in entrants])


def number_text(value: float) -> str:
    """Returns a return as printed, with a minus sign."""
    return written(value, row_scale([value], "")).text()


def _result(page: FrontPage) -> str:
    """Returns the result of the competition in one sentence."""
    first = [entrant for entrant in page.entrants if entrant.rank == 1]
    names = [submission_title(entrant.name, entrant.info) for entrant in first]
    if page.problems:
        return "The checks found problems, so these results are not confirmed."
    if not first or first[0].mean is None:
        return "No entry finished all runs on the secret tasks, so there is no winner."
    mean = number_text(first[0].mean)
    if len(first) == 1:
        return f"Winner: {names[0]}, with a mean return of {mean} over the secret tasks."
    return f"Tie between {', '.join(names[:-1])} and {names[-1]}, with a mean return of {mean} over the secret tasks."


def _failed(page: FrontPage) -> list[tuple[str, str, str, str]]:
    """Returns entry, outcome, reason and tasks of the failed runs; runs that failed alike share a line."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for entrant in page.entrants:
        name = submission_title(entrant.name, entrant.info)
        for result in entrant.results:
            for kind, reason in result.failures:
                title = page.titles.get(result.task, result.task)
                found.setdefault((name, _outcome(kind), reason), []).append(title)
    counted = {key: {task: tasks.count(task) for task in tasks} for key, tasks in found.items()}
    return [
        (*key, "; ".join(task if count == 1 else f"{task} ({count} runs)" for task, count in tasks.items()))
        for key, tasks in counted.items()
    ]


def _claims(page: FrontPage) -> Table:
    """Returns the table of claims, false ones first."""
    infos = {entrant.name: entrant.info for entrant in page.entrants}
    rows: list[list[Cell | str]] = []
    for claim in sorted(page.claims, key=lambda claim: not claim.is_false):
        scale = row_scale([claim.claimed, claim.measured, claim.claimed - claim.measured], "")
        verdict = Text(text="", warning="False claim") if claim.is_false else Text(text="Confirmed")
        numbers = (claim.claimed, claim.measured, claim.claimed - claim.measured)
        who = submission_title(claim.entrant, infos.get(claim.entrant, SubmissionInfo()))
        texts = [written(value, scale).text() for value in numbers]
        rows.append([who, claim.task, verdict, *texts])
    heads = ("Entry", "Task", "Verdict", "Claimed", "Measured", "Difference")
    return msgspec.structs.replace(text_table("Claimed returns", heads, rows, texts=3), kind="ranking")


def _outcome(kinds: str) -> str:
    return ", ".join(_OUTCOMES.get(kind, kind.replace("_", " ").capitalize()) for kind in kinds.split(", "))


def _cell(entrant: EntrantResults, task: str) -> str:
    """Returns the mean of an entry on a task if every run finished, else how it failed."""
    for result in entrant.results:
        if result.task == task:
            if result.failures:
                return _outcome(result.failures[0][0])
            return _outcome("not run") if result.not_run or result.mean is None else number_text(result.mean)
    return "–"
