"""The front page of a published competition: the winner, the standings, and the proof by commit and reveal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import jinja2
import msgspec

from a2perf.plain_text import safe_link
from a2perf.records import SubmissionInfo
from a2perf.report.leaderboard.pages import STYLES
from a2perf.report.leaderboard.scoring import Entry
from a2perf.report.names import badge, slug, submission_title
from a2perf.report.numbers_text import row_scale, written
from a2perf.report.page import render
from a2perf.report.tables import MISSING, Cell, Column, Table, Text, ranking, text_table
from a2perf_competition.standings import EntrantStanding, TaskStanding

LEADERBOARD = "leaderboard"
"""Folder of the leaderboard beside the page."""
_ROUNDING = 1e-3
"""Largest excess of a claim, as a share of the measured return."""
_OUTCOMES = {
    "bad_output": "Invalid output",
    "contract": "Invalid submission",
    "disk": "Disk limit exceeded",
    "exit": "Exited with an error",
    "forbidden": "Forbidden operation",
    "illegal": "Illegal answer",
    "infrastructure": "Infrastructure failure",
    "memory": "Memory limit exceeded",
    "output_limit": "Too much output",
    "signal": "Crashed",
    "timeout": "Timed out",
}


@dataclass(frozen=True)
class FrontPage:
    """Content of the page.

    Attributes:
        problems: why the results may not be valid; empty if every check passed.
        entries: entries of the leaderboard, by the place of their entrant.
        claims: place of an entrant, title of the task, the return that the entrant claimed, and the measured one.
    """

    title: str
    terms: list[tuple[str, str]]
    commitment: str
    founded_at: str
    revealed_at: str
    problems: list[str]
    entrants: list[EntrantStanding]
    entrants_sha256: str = ""
    closed_at: str = ""
    notes: list[str] = field(default_factory=list)
    organizer: str = ""
    commitment_url: str = ""
    domain: str = ""
    claims: list[tuple[str, str, float, float]] = field(default_factory=list)
    references: list[EntrantStanding] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)

    def info(self, place: str) -> SubmissionInfo:
        """Returns the description of an entrant's submission, as far as it is known."""
        return self.entries[place].info if place in self.entries else SubmissionInfo()


def competition_page(page: FrontPage) -> str:
    """Returns the page as one HTML file without scripts; all text of entrants is escaped."""
    by_name = {task.task: task for entrant in page.entrants for task in entrant.tasks}
    # the secret ones, which decide, come first
    tasks = sorted(by_name.values(), key=lambda standing: (not standing.held_out, standing.task))
    secret = sum(task.held_out for task in tasks)
    facts = {
        "Organizer": page.organizer,
        "Domain": page.domain,
        "Entries": str(len(page.entrants)),
        "Secret tasks": str(secret),
        "Created": page.founded_at,
        "Closed": page.closed_at,
        "Results published": page.revealed_at,
    }
    return render(
        "competition.html",
        loader=jinja2.PackageLoader("a2perf_competition"),
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
    heads = [
        Column(key="rank", title="Rank", align="right", kind="rank"),
        Column(key="entry", title="Entry"),
        Column(key="outcome", title="Outcome"),
        Column(key="mean", title="Mean, secret tasks", align="right"),
    ]
    for task in tasks:
        title = f"{page.titles.get(task.task, task.task)}{'' if task.held_out else ' (public)'}"
        heads.append(Column(key=f"task-{task.task}", title=title, align="right"))
    heads.append(Column(key="report", title="Report"))
    entrants = [(one, outcome_text(one.outcome)) for one in page.entrants]
    entrants += [(one, "Reference") for one in page.references]
    rows: list[list[Cell]] = []
    for one, outcome in entrants:
        entry, title = page.entries.get(one.place), submission_title(one.place, page.info(one.place))
        who, report = Text(text=title, detail="" if title == one.place else one.place), Text()
        if entry is not None:
            home = f"{LEADERBOARD}/submissions/{slug(entry.name, entry.version)}"
            who = msgspec.structs.replace(who, href=f"{home}/index.html", drawing=badge(entry.info))
            report = Text(text=f"report of {title}", href=f"{home}/report/index.html")
        rows.append(
            [
                Text(text=str(one.rank or MISSING)),
                who,
                Text(text=outcome),
                Text(text=number_text(one.mean), sort=one.mean, best=one.rank == 1),
                *(Text(text=_cell(one, task.task)) for task in tasks),
                report,
            ]
        )
    held = zip(heads, zip(*rows, strict=True), strict=True) if rows else ()
    return ranking("Standings", held, [{"class": "" if one.rank else "unranked"} for one, _ in entrants])


def number_text(value: float | None) -> str:
    """Returns a return as printed, with a minus sign; a dash for none."""
    return MISSING if value is None else written(value, row_scale([value], "")).text()


def _result(page: FrontPage) -> str:
    """Returns the result of the competition in one sentence."""
    first = [entrant for entrant in page.entrants if entrant.rank == 1]
    names = [submission_title(entrant.place, page.info(entrant.place)) for entrant in first]
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
    found: dict[tuple[str, str, str], Counter[str]] = {}
    for entrant in page.entrants:
        name = submission_title(entrant.place, page.info(entrant.place))
        for result in entrant.tasks:
            for kind, reason in result.failures:
                title = page.titles.get(result.task, result.task)
                found.setdefault((name, outcome_text(kind), reason), Counter())[title] += 1
    return [
        (*key, "; ".join(task if count == 1 else f"{task} ({count} runs)" for task, count in tasks.items()))
        for key, tasks in found.items()
    ]


def _claims(page: FrontPage) -> Table:
    """Returns the table of claims, false ones first."""
    rows: list[list[Cell | str]] = []
    for place, task, claimed, measured in sorted(page.claims, key=lambda claim: not is_false_claim(*claim[2:])):
        is_false = is_false_claim(claimed, measured)
        verdict = Text(text="", warning="False claim") if is_false else Text(text="Confirmed")
        numbers = (claimed, measured, claimed - measured)
        scale = row_scale(numbers, "")
        texts = [written(value, scale).text() for value in numbers]
        rows.append([submission_title(place, page.info(place)), task, verdict, *texts])
    heads = ("Entry", "Task", "Verdict", "Claimed", "Measured", "Difference")
    return msgspec.structs.replace(text_table("Claimed returns", heads, rows, texts=3), kind="ranking")


def is_false_claim(claimed: float, measured: float) -> bool:
    """Returns whether a claimed return is more than rounding above the one that every repetition measures alike."""
    return claimed - measured > _ROUNDING * abs(measured)


def outcome_text(kinds: str) -> str:
    """Returns kinds of failure as a title."""
    return ", ".join(_OUTCOMES.get(kind, kind.replace("_", " ").capitalize()) for kind in kinds.split(", "))


def _cell(entrant: EntrantStanding, task: str) -> str:
    """Returns the mean of an entry on a task if every run finished, else how it failed."""
    for result in entrant.tasks:
        if result.task == task:
            if result.failures:
                return outcome_text(result.failures[0][0])
            return outcome_text("not run") if result.not_run or result.mean is None else number_text(result.mean)
    return MISSING
