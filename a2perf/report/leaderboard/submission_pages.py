"""The page of a submission: authors, conditions of the recording, ranks, and every run and metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from a2perf.domains import domain_title, task_title, view_title
from a2perf.metrics import registry
from a2perf.records import SubmissionInfo
from a2perf.report.leaderboard.columns import MODE_TITLES, entry_cell, interval_bar, metric_cell, score_cell
from a2perf.report.leaderboard.pages import (
    board_anchor,
    identity_of,
    render,
    reproduction_text,
    signature_text,
)
from a2perf.report.leaderboard.ranking import Board, Ranked
from a2perf.report.leaderboard.scoring import Entry
from a2perf.report.leaderboard.site_map import ProtocolPage, rank_range

_COSTS = (
    ("inference", "success_rate", "Success"),
    ("train", "energy_gross", "Training energy"),
    ("inference", "energy_gross", "Evaluation energy"),
    ("inference", "latency_round_trip_median", "Decision latency"),
)


def submission_page(
    name: str,
    version: str,
    standings: Sequence[tuple[Board, Ranked]],
    pages: Sequence[ProtocolPage],
    *,
    report: str,
    problem: str,
    site_title: str,
) -> str:
    """Renders the page of one submission."""
    entries = _entries(standings, pages)
    found = [item["entry"] for item in entries]
    info = next((entry.info for entry in found if entry.info.title), SubmissionInfo())
    who = identity_of(name, version, info)
    authors, dates = ", ".join(info.authors) or "Anonymous", _union(found, "dates")
    year, link = f" ({dates[-1][:4]})" if dates else "", f" {info.link}" if info.link else ""
    present = [place for place in range(len(_COSTS)) if any(item["costs"][place].sort is not None for item in entries)]
    return render(
        "leaderboard_submission.html",
        title=site_title,
        page_title=f"{who['title']}, {site_title}",
        description=info.summary or f"Ranks, scores and every run of {who['title']}.",
        who=who,
        version=version,
        info=info,
        facts=_facts(found),
        # identifies the submission and its content, for papers
        cite=f"{authors}{year}. {who['title']}. a2perf submission, content {version[:16]}.{link}",
        entries=entries,
        costs=[_COSTS[place][2] for place in present],
        present=present,
        report=report,
        problem=problem,
        top="../../",
    )


def _entries(standings: Sequence[tuple[Board, Ranked]], pages: Sequence[ProtocolPage]) -> list[dict[str, Any]]:
    """Returns each entry once, in the order of the protocols, with its rank in every table that lists it."""
    order = {page.name: place for place, page in enumerate(pages)}
    files = {
        id(board): f"{task.file}#{board_anchor(board)}"
        for page in pages
        for task in page.tasks
        for board in task.boards
    }
    has_views = any(row.entry.view for _, row in standings)
    found: dict[int, dict[str, Any]] = {}
    for board, row in sorted(standings, key=lambda item: order.get(item[0].protocol, len(order))):
        entry = row.entry
        item = found.setdefault(
            id(entry),
            {
                "entry": entry,
                "title": task_title(entry.domain, entry.task) if entry.task else "Unknown task",
                "domain": domain_title(entry.domain) if entry.domain else "Unknown domain",
                "protocol": entry.protocol or "none",
                "view": view_title(entry.domain, entry.view) if has_views else "",
                "score": score_cell(entry.score),
                "bar": interval_bar(entry.score, min(0.0, entry.score.low or 0.0), max(1.0, entry.score.high or 1.0)),
                "costs": [entry_cell(entry, f"{mode}.{metric}") for mode, metric, _ in _COSTS],
                "metrics": _metric_tables(entry),
                "places": [],
            },
        )
        ranked = sum(other.place is not None for other in board.rows)
        item["places"].append(
            {"file": files[id(board)], "track": board.track, "rank": rank_range(row), "ranked": ranked}
        )
    return list(found.values())


def _facts(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """Returns how the runs were recorded as (name, value), without the values that nobody recorded."""
    dates = _union(entries, "dates")
    seeds = sorted({entry.score.n for entry in entries if entry.score.n})
    signatures = sorted({signature_text(entry) for entry in entries})
    rows = [
        ("Recorded", dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}" if dates else ""),
        ("Host", "; ".join(_union(entries, "hosts"))),
        ("Sandbox", ", ".join(_union(entries, "confinement"))),
        ("Python", ", ".join(_union(entries, "interpreters"))),
        ("a2perf", ", ".join(_union(entries, "versions"))),
        ("Seeds", "–".join(dict.fromkeys(map(str, (seeds[0], seeds[-1])))) + " per task" if seeds else ""),
        ("Energy", ", ".join(sorted({entry.provenance for entry in entries}))),
        ("Signature", ", ".join(signatures)),
        ("Reproduced", "; ".join(sorted({text for entry in entries if (text := reproduction_text(entry))}))),
    ]
    return [(name, value) for name, value in rows if value]


def _union(entries: Sequence[Entry], field: str) -> list[str]:
    return sorted({value for entry in entries for value in getattr(entry.recording, field)})


def _metric_tables(entry: Entry) -> list[dict[str, Any]]:
    metrics = registry.all_metrics()
    return [
        {
            "mode": title,
            "rows": [
                {"label": metrics[name].label, "formula": metrics[name].formula, "value": value,
                 "cell": metric_cell(value)}
                for name, value in entry.scores[mode].items()
                if name in metrics
            ],
        }
        for mode, title in MODE_TITLES.items()
        if entry.scores.get(mode)
    ]  # fmt: skip
