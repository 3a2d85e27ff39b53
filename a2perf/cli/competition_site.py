"""Builds the site of a competition: reveals, checks, and puts leaderboard, reports and the front page together."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from a2perf.errors import UserError
from a2perf.experiments.competition import (
    Checked,
    Competition,
    CompetitionTerms,
    check_reveal,
    check_runs,
    close,
    read_entrants,
    reveal,
)
from a2perf.experiments.competition.entrants import EntrantList
from a2perf.experiments.competition.records import REVEALED
from a2perf.experiments.competition.run_entrants import check_evaluator
from a2perf.experiments.competition.standings import outcome_of
from a2perf.launch import QUEUE_FILE, Queue, QueueEntry, State
from a2perf.launch.outcomes import mean_return
from a2perf.report.competition_page import EntrantResults, FrontPage, Result, competition_page
from a2perf.report.leaderboard import SignatureCheck, write_leaderboard
from a2perf.report.leaderboard.words import slug
from a2perf.runs.bundle import integrity
from a2perf.storage import read_json, write_atomic, write_json

LEADERBOARD = "leaderboard"


def publish_site(
    competition: Competition, out: Path, signature: SignatureCheck, *, despite_problems: bool = False
) -> tuple[Path | None, Checked]:
    """Closes the list of entrants, checks everything, reveals the secrets and writes the site.

    Args:
        competition: whose runs are all settled.
        out: folder of the site.
        signature: says who signed a bundle.
        despite_problems: publish although something speaks against the results; the page lists it.

    Returns:
        The front page, None if nothing was published; and what was found.

    Raises:
        UserError: nobody was run yet, some run is not settled, or the code is not the one that was committed to.
    """
    check_evaluator(competition)
    entries = settled_entries(competition)
    close(competition)
    outcomes = [outcome_of(entry) for entry in entries]
    checked = check_runs(competition, outcomes)
    if checked.problems and not despite_problems:
        return None, checked
    written = write_leaderboard(
        competition.runs, out / LEADERBOARD, title=competition.terms.name, integrity=integrity,
        signature=signature, processes=len(os.sched_getaffinity(0)),
    )  # fmt: skip
    reveal(competition, out / "reveal", outcomes, checked.standing)
    published = check_reveal(out / "reveal", competition.commitment.commitment)
    checked.problems += [problem for problem in published.problems if problem not in checked.problems]
    rows = [row.entry for board in written.record.boards for row in board.rows]
    slugs = {(entry.name, entry.version): slug(entry.name, entry.version) for entry in rows}
    listed = read_entrants(competition)
    pages = {
        entrant.place: slugs[entrant.name, entrant.sha256]
        for entrant in listed.all()
        if (entrant.name, entrant.sha256) in slugs
    }
    front = FrontPage(
        title=competition.terms.name,
        terms=[*terms_in_words(competition.terms), *_rounds_in_words(listed)],
        commitment=competition.commitment.commitment,
        founded_at=_minute(competition.commitment.founded_at),
        revealed_at=_minute(read_json(competition.folder / REVEALED)["revealed_at"]),
        problems=checked.problems,
        entrants=results_of(entries, pages),
        entrants_sha256=listed.sha256,
        closed_at=_minute(listed.closed_at or ""),
        notes=checked.notes,
    )
    write_json(out / "outcomes.json", [entry.as_json() for entry in entries])
    page = out / "index.html"
    write_atomic(page, competition_page(front))
    return page, checked


def settled_entries(competition: Competition) -> list[QueueEntry]:
    """Returns every run of the competition.

    Raises:
        UserError: there is none, or one is not settled.
    """
    file = competition.runs / QUEUE_FILE
    if not file.exists():
        raise UserError(f"nobody was run in {competition.folder}", hint="`a2perf competition run` first")
    with Queue(file) as queue:
        entries = queue.entries()
    open_runs = [entry for entry in entries if entry.state not in (State.FINISHED, State.FAILED)]
    if open_runs:
        raise UserError(
            f"{len(open_runs)} of {len(entries)} runs are not settled, the first {open_runs[0].command.name}",
            hint="give the same `a2perf competition run` again",
        )
    return entries


def results_of(entries: Sequence[QueueEntry], pages: Mapping[str, str]) -> list[EntrantResults]:
    """Returns each entrant's results, best mean over the secret tasks first, those without one last.

    Args:
        entries: every run.
        pages: by entrant, the name of its folder in the leaderboard.
    """
    found: dict[str, dict[str, Result]] = {}
    for entry in entries:
        task, of_entrant = str(entry.data["task"]), found.setdefault(str(entry.data["submission"]), {})
        result = of_entrant.setdefault(task, Result(task, held_out=entry.data["split"] != "public"))
        if entry.state is State.FAILED and entry.blocked:
            result.not_run += 1
        elif entry.state is State.FAILED:
            result.failures.append((entry.kind or "failed", f"{entry.data['mode']}: {entry.reason}"))
        elif (value := mean_return(entry)) is not None:
            result.returns.append(value)
    entrants = []
    for name, results in found.items():
        home = f"{LEADERBOARD}/submissions/{pages[name]}" if name in pages else ""
        page, report = (f"{home}/index.html", f"{home}/report/index.html") if home else ("", "")
        entrants.append(EntrantResults(name, list(results.values()), page, report))
    return sorted(entrants, key=_standing)


def terms_in_words(terms: CompetitionTerms) -> list[tuple[str, str]]:
    """Returns label and value of each term."""
    limits = {
        "train()": terms.train_time_limit_s, "load_policy": terms.load_timeout_s, "one call": terms.call_timeout_s,
    }  # fmt: skip
    memory = terms.memory_limit_bytes
    return [
        ("Domain", terms.domain),
        ("Public task", terms.public_task),
        ("Secret tasks", str(terms.held_out)),
        ("Episodes of each run", str(terms.episodes)),
        ("Root seeds", ", ".join(map(str, terms.seeds))),
        ("Training", "by the organizer, on the public task" if terms.train else "none: entrants bring what they need"),
        ("Time limits", ", ".join(f"{what} {value:g} s" for what, value in limits.items() if value is not None)),
        ("Memory limit", "none" if memory is None else f"{memory / 2**20:.0f} MiB"),
        ("Sandbox", terms.sandbox),
    ]


def _rounds_in_words(listed: EntrantList) -> list[tuple[str, str]]:
    """Returns how each round of entrants was confined, which the organizer may have changed."""
    return [
        (
            f"Entered {_minute(one.at)}",
            f"{len(one.entrants)} at the level {one.sandbox}"
            + (", guarantees may be missing" if one.allow_weaker else ""),
        )
        for one in listed.rounds
    ]


def _minute(moment: str) -> str:
    return f"{moment[:16].replace('T', ' ')} UTC"


def _standing(entrant: EntrantResults) -> tuple[bool, float, str]:
    """Orders by completeness on the secret tasks, then by the mean over them."""
    secret = [result for result in entrant.results if result.held_out] or entrant.results
    means = [result.mean for result in secret if result.mean is not None and not result.failures]
    complete = len(means) == len(secret)
    return (not complete, -sum(means) / len(means) if means else math.inf, entrant.name)
