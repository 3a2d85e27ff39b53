"""The front page of a published competition: the promise and its proof, then how every run of every entrant ended."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import jinja2
from markupsafe import Markup


@dataclass(frozen=True)
class Result:
    """How one entrant did on one task.

    Attributes:
        task: name of the task.
        held_out: whether the task was secret.
        returns: mean episode return of each finished run, in the order of the seeds.
        failures: kind and reason of each run that failed, a training that failed before it included.
    """

    task: str
    held_out: bool
    returns: list[float] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)

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
    """

    title: str
    terms: list[tuple[str, str]]
    commitment: str
    founded_at: str
    revealed_at: str
    problems: list[str]
    entrants: list[EntrantResults]


def competition_page(page: FrontPage) -> str:
    """Returns the page as one HTML file without scripts; all that entrants wrote is escaped."""
    template = _templates().get_template("competition.html")
    return template.render(page=page, tasks=_tasks(page), style=_style(), number=_number)


def _tasks(page: FrontPage) -> list[Result]:
    """Returns one result of each task, the secret ones first: they decide."""
    found: dict[str, Result] = {}
    for entrant in page.entrants:
        for result in entrant.results:
            found.setdefault(result.task, result)
    return sorted(found.values(), key=lambda result: (not result.held_out, result.task))


def _number(value: Any) -> str:
    return "" if value is None else f"{float(value):.4g}"


@functools.cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("a2perf.report", "templates"),
        autoescape=True,
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
