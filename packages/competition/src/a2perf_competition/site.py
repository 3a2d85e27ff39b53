"""Builds the site of a competition: checks the runs, reveals the secrets, writes leaderboard and pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from a2perf.domains import domain_title, task_title
from a2perf.errors import UserError, command_line
from a2perf.launch import QUEUE_FILE, Queue, QueueEntry, State
from a2perf.launch.outcomes import scored_episodes
from a2perf.report.leaderboard import Trust, write_leaderboard
from a2perf.report.leaderboard.writing import Progress
from a2perf.storage import read_json, write_atomic, write_json
from a2perf.system import usable_processors
from a2perf_competition.creation import read_references
from a2perf_competition.entrants import EntrantList, close
from a2perf_competition.page import LEADERBOARD, FrontPage, competition_page
from a2perf_competition.records import REVEALED, Competition, CompetitionTerms
from a2perf_competition.run_entrants import check_evaluator
from a2perf_competition.standings import EntrantStanding, TaskStanding, outcome_of, ranked
from a2perf_competition.verification import Checked, check_reveal, check_runs, reveal


def publish_site(
    competition: Competition,
    out: Path,
    trust: Trust,
    *,
    despite_problems: bool = False,
    organizer: str = "",
    commitment_url: str = "",
    progress: Progress = lambda line: None,
) -> tuple[Path | None, Checked]:
    """Closes the list of entrants, checks everything, reveals the secrets and writes the site.

    Args:
        despite_problems: publish although checks failed; the page lists the problems.
        commitment_url: address at which the commitment was published before the first entry.

    Returns:
        The front page, None if nothing was published; and the result of the checks.

    Raises:
        UserError: the competition has no runs, a run is still open, or the code differs from the committed one.
    """
    check_evaluator(competition)
    entries = settled_entries(competition)
    listed = close(competition)
    outcomes = [outcome_of(entry) for entry in entries]
    checked = check_runs(competition, outcomes)
    if checked.problems and not despite_problems:
        return None, checked
    written = write_leaderboard(
        competition.runs,
        out / LEADERBOARD,
        title=competition.terms.name,
        trust=trust,
        processes=usable_processors(),
        home="../index.html",
        progress=progress,
    )
    reveal(competition, out / "reveal", outcomes, checked.standing)
    published = check_reveal(out / "reveal", competition.commitment.commitment)
    checked.problems += [problem for problem in published.problems if problem not in checked.problems]
    rows = {(row.entry.name, row.entry.version): row.entry for board in written.record.boards for row in board.rows}
    entrants = checked.standing.entrants
    domain = competition.terms.domain
    front = FrontPage(
        title=competition.terms.name,
        terms=[*terms_text(competition.terms), *_rounds_text(listed)],
        commitment=competition.commitment.commitment,
        founded_at=_minute(competition.commitment.founded_at),
        revealed_at=_minute(read_json(competition.folder / REVEALED)["revealed_at"]),
        problems=checked.problems,
        entrants=entrants,
        entrants_sha256=listed.sha256,
        closed_at=_minute(listed.closed_at or ""),
        notes=checked.notes,
        organizer=organizer,
        commitment_url=commitment_url,
        domain=domain_title(domain),
        claims=claims_of(entries, domain=domain),
        references=references_of(competition),
        titles={one.task: task_title(domain, one.task) for entrant in entrants for one in entrant.tasks},
        entries={one.place: rows[one.name, one.sha256] for one in entrants if (one.name, one.sha256) in rows},
    )
    write_json(out / "outcomes.json", [entry.as_json() for entry in entries])
    page = out / "index.html"
    write_atomic(page, competition_page(front))
    return page, checked


def settled_entries(competition: Competition) -> list[QueueEntry]:
    """Returns every run of the competition.

    Raises:
        UserError: there is none, or one is still open.
    """
    file = competition.runs / QUEUE_FILE
    if not file.exists():
        raise UserError(
            f"{competition.folder} has no runs yet",
            hint=command_line("a2perf", "competition", "run", competition.folder, "--submission", "DIR"),
        )
    with Queue(file) as queue:
        entries = queue.entries()
    open_runs = [entry for entry in entries if entry.state not in (State.FINISHED, State.FAILED)]
    if open_runs:
        raise UserError(
            f"{len(open_runs)} of {len(entries)} runs are still open, the first is {open_runs[0].command.name}",
            hint="rerun the same `a2perf competition run` command",
        )
    return entries


def claims_of(entries: Sequence[QueueEntry], *, domain: str = "") -> list[tuple[str, str, float, float]]:
    """Returns entrant, task, claim and measurement of every return that was claimed in a finished run."""
    found = []
    for entry in entries:
        for episode in scored_episodes(entry) if entry.state is State.FINISHED else ():
            claimed = episode.final_info.get("claimed_return")
            if isinstance(claimed, int | float) and math.isfinite(claimed):
                title = task_title(domain, str(entry.data["task"]))
                found.append((str(entry.data["submission"]), title, float(claimed), episode.episode_return))
    return found


def references_of(competition: Competition) -> list[EntrantStanding]:
    """Returns the results of the reference entries, the best first."""
    secret = {task.name for task in competition.secret.tasks}
    found: dict[str, EntrantStanding] = {}
    for task, returns in read_references(competition).items():
        for name, value in returns.items():
            one = found.setdefault(name, EntrantStanding(number=0, name=name, place=name, sha256=""))
            one.tasks.append(TaskStanding(task=task, held_out=task in secret, returns=[value]))
    references = ranked([*found.values()])
    for one in references:
        one.rank = None
    return references


def terms_text(terms: CompetitionTerms) -> list[tuple[str, str]]:
    """Returns label and value of each term; times are in seconds, and sizes in bytes."""
    left_out = ("schema", "name", "domain", "founded_at", "audit", "profile")
    given = {name: value for name, value in msgspec.to_builtins(terms).items() if name not in left_out}
    further = [task_title(terms.domain, one.name) for one in terms.further_tasks]
    given["public_task"] = [task_title(terms.domain, terms.public_task), *further]
    given |= terms.environment_settings
    return [
        (name.replace("_", " ").capitalize(), ", ".join(map(str, value)) if isinstance(value, list) else str(value))
        for name, value in given.items()
    ]


def _rounds_text(listed: EntrantList) -> list[tuple[str, str]]:
    """Returns the sandbox level of each round of entries; the organizer may change it between rounds."""
    return [
        (
            f"Entered {_minute(one.at)}",
            f"{len(one.entrants)} {'entry' if len(one.entrants) == 1 else 'entries'}, sandbox {one.sandbox}"
            + (", weaker guarantees allowed" if one.allow_weaker else ""),
        )
        for one in listed.rounds
    ]


def _minute(moment: str) -> str:
    return f"{moment[:16].replace('T', ' ')} UTC"
