"""The front page of a published competition: the promise and its proof, then how every run of every entrant ended."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import jinja2
from markupsafe import Markup

from a2perf.plain_text import html_text


@dataclass
class Result:
    """How one entrant did on one task.

    Attributes:
        task: name of the task.
        held_out: whether the task was secret.
        returns: mean episode return of each finished run, in the order of the seeds.
        failures: kind and reason of each run that failed, the training included.
        not_run: how many runs never started, since the training that they need failed.
    """

    task: str
    held_out: bool
    returns: list[float] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    not_run: int = 0

    @property
    def mean(self) -> float | None:
        """Mean over the finished runs."""
        return sum(self.returns) / len(self.returns) if self.returns else None


@dataclass(frozen=True)
class EntrantResults:
    """One entrant's results; ``page`` and ``report`` are relative addresses, empty where there is none."""

    name: str
    results: list[Result]
    page: str = ""
    report: str = ""

    @property
    def outcome(self) -> str:
        """``"finished"``, or the kinds of its failures."""
        kinds = dict.fromkeys(kind for result in self.results for kind, _ in result.failures)
        return ", ".join(kinds) or "finished"


@dataclass(frozen=True)
class FrontPage:
    """What the page shows.

    Attributes:
        title: name of the competition.
        terms: label and value of each term.
        commitment: the hash that was published first.
        founded_at: when.
        revealed_at: when the secrets were.
        problems: what speaks against the reveal or the runs, in words; empty when everything fits.
        entrants: their results, best first.
        entrants_sha256: hash of the sealed list of entrants.
        closed_at: when the list was closed.
        notes: what a reader should know though it is allowed, such as further attempts.
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


def competition_page(page: FrontPage) -> str:
    """Returns the page as one HTML file without scripts; all that entrants wrote is escaped."""
    template = _templates().get_template("competition.html")
    return template.render(page=page, tasks=_tasks(page), style=_style(), cell=_cell)


def _tasks(page: FrontPage) -> list[Result]:
    """Returns one result of each task, the secret ones first: they decide."""
    found: dict[str, Result] = {}
    for entrant in page.entrants:
        for result in entrant.results:
            found.setdefault(result.task, result)
    return sorted(found.values(), key=lambda result: (not result.held_out, result.task))


def _cell(entrant: EntrantResults, task: str) -> str:
    """Returns what stands in the table for an entrant on a task: a number only where every run finished."""
    for result in entrant.results:
        if result.task == task:
            if result.failures:
                return result.failures[0][0]
            return "not run" if result.not_run or result.mean is None else f"{result.mean:.4g}"
    return "–"


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


def _style() -> Markup:
    environment = _templates()
    assert environment.loader is not None
    return Markup(
        "\n".join(environment.loader.get_source(environment, name)[0] for name in ("page.css", "leaderboard.css"))
    )
