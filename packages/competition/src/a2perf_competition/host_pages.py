"""The pages of a hosted competition: status and leaderboard in ``index.html``, and one page per entry.

They show the public task only, and nothing of the folder ``cup``: with other secrets every byte is the same until the
final results are out. Text of entrants is escaped, and the pages have neither scripts nor requests.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from a2perf.report.page import render
from a2perf.report.tables import Table, Text, text_table
from a2perf_competition.contests import Contest
from a2perf_competition.hosted import HostedEntry, minute_text
from a2perf_competition.page import number_text, outcome_text

FINAL = "final.json"
_LOG_BYTES = 64 << 10
_STATES = {
    "received": "Waiting",
    "checking": "Queued",
    "running": "Queued",
    "fault": "Host failed: not counted in the quota",
}


@dataclass
class HostState:
    """What the pages of a host show.

    Attributes:
        entries: every entry by its id, in the order of arrival.
        waits: what an entry waits for, by its id.
        not_taken: what is wrong with something in the mailbox, by its path.
        final_waits: what the final phase waits for.
    """

    contest: Contest
    entries: dict[str, HostedEntry] = field(default_factory=dict)
    waits: dict[str, str] = field(default_factory=dict)
    not_taken: dict[str, str] = field(default_factory=dict)
    final_waits: str = ""


class Pages:
    """Writes pages that have changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: dict[str, object] = {}

    def write(self, host: HostState, final: Mapping[str, Any] | None) -> None:
        """Writes the status page, and the page of each entry that changed."""
        queued = [one.id for one in host.entries.values() if one.state in ("checking", "running")]
        waits = {name: f"its runs; place {place} in the queue" for place, name in enumerate(queued, start=1)}
        waits |= host.waits
        for entry in host.entries.values():
            shown = (len(entry.events), waits.get(entry.id))
            if self._written.get(entry.id) != shown:
                logs = [] if entry.is_open else _logs(host.contest.logs(entry))
                self._put(
                    f"entries/{entry.id}.html",
                    page_title=f"Entry {entry.id}",
                    entry=entry,
                    facts=_facts(entry, waits.get(entry.id, ""), host.contest.score),
                    logs=logs,
                )
                self._written[entry.id] = shown
        self._put(
            "index.html",
            page_title=host.contest.title,
            entry=None,
            task=host.contest.task,
            phases=_phases(host),
            final=None if final is None else _final(final),
            final_waits=host.final_waits,
            board=_board(host),
            entries=_entries(host, waits),
            not_taken=sorted(host.not_taken.items()),
        )

    def _put(self, name: str, **context: Any) -> None:
        loader = jinja2.PackageLoader("a2perf_competition")
        text = render("host.html", loader=loader, styles=("page", "leaderboard"), scripts=(), **context)
        if self._written.get(name) == hash(text):
            return
        # without a flush to the disk: a page is derived, and there may be thousands
        path = self._folder / name
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
        self._written[name] = hash(text)


def _state(entry: HostedEntry) -> str:
    return _STATES.get(entry.state, entry.state.capitalize())


def _facts(entry: HostedEntry, wait: str, score: str) -> list[tuple[str, str]]:
    shown = {
        "State": _state(entry),
        "Waits for": wait,
        "Phase": entry.phase,
        "Cause": f"{outcome_text(entry.kind)}: {entry.reason}" if entry.kind else entry.reason,
    }
    if not entry.blind:
        shown[score] = "" if entry.score is None else number_text(entry.score)
        shown["Time"] = f"{entry.wall_s:.1f} s" if entry.wall_s else ""
        shown["Energy"] = "" if entry.kwh is None else f"{entry.kwh * 3.6e6:.3g} J"
    return [(name, value) for name, value in shown.items() if value]


def _logs(logs: Mapping[str, Path]) -> list[tuple[str, str]]:
    """Returns the end of what the participant's processes printed."""
    found = []
    for title, log in logs.items():
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _LOG_BYTES))
            text = stream.read().decode(errors="replace").strip()
        if text:
            found.append((title, text))
    return found


def _phases(host: HostState) -> Table:
    def date(moment: Any) -> str:
        return "–" if moment.year in (1, 9999) else minute_text(moment)

    rows = [(one.name, one.kind.capitalize(), date(one.starts), date(one.ends)) for one in host.contest.phases]
    return text_table("Phases", ("Phase", "Kind", "Starts", "Ends"), rows, texts=4)


def _link(entry: HostedEntry) -> Text:
    return Text(text=entry.id, href=f"entries/{entry.id}.html", detail=entry.name)


def _board(host: HostState) -> Table:
    """Returns the best entry of each entrant on the public task, outside of blind phases."""
    scored = [
        (entry.score, entry)
        for entry in host.entries.values()
        if entry.state == "finished" and not entry.blind and entry.score is not None
    ]
    sign = 1 if host.contest.ascending else -1
    best: dict[str, tuple[float, HostedEntry]] = {}
    for score, entry in sorted(scored, key=lambda one: (sign * one[0], one[1].number)):
        best.setdefault(entry.entrant, (score, entry))
    kept = list(best.values())
    scores = [score for score, _ in kept]
    rows = [(str(1 + scores.index(score)), entry.entrant, _link(entry), number_text(score)) for score, entry in kept]
    return text_table("Best entry per entrant", ("Rank", "Entrant", "Entry", host.contest.score), rows, texts=3)


def _entries(host: HostState, waits: Mapping[str, str]) -> Table:
    rows = [
        (_link(one), one.entrant, _state(one), waits.get(one.id) or outcome_text(one.kind))
        for one in reversed(host.entries.values())
    ]
    return text_table("Entries, newest first", ("Entry", "Entrant", "State", "Waits for, or cause"), rows, texts=4)


def _final(final: Mapping[str, Any]) -> tuple[Table, list[str]]:
    rows = [
        (str(rank or "–"), name, number_text(mean), outcome_text(outcome))
        for rank, name, mean, outcome in final["rows"]
    ]
    heads = ("Rank", "Entrant", "Mean, secret tasks", "Outcome")
    return text_table("Final results", heads, rows, texts=4), final["problems"]
