"""The page of a submission: authors, conditions of the recording, ranks, and every run and metric."""

from __future__ import annotations

from collections.abc import Sequence

from a2perf.domains import domain_title, task_title, view_title
from a2perf.metrics import registry
from a2perf.metrics.application import returns
from a2perf.records import SubmissionInfo
from a2perf.report.leaderboard.columns import BoardColumn, entry_cell, metric_cell, scale_of, score_cell
from a2perf.report.leaderboard.pages import STYLES, board_anchor, reproduction_text, signature_text
from a2perf.report.leaderboard.ranking import Board, Ranked
from a2perf.report.leaderboard.scoring import Entry
from a2perf.report.leaderboard.site_map import ProtocolPage, rank_range
from a2perf.report.names import MODE_TITLES, badge, plain, submission_title
from a2perf.report.page import render
from a2perf.report.tables import Column, Table, Text, ranking, text_table

_MOST = 5
"""Changed files of a run that its row names."""


def submission_page(
    name: str,
    version: str,
    standings: Sequence[tuple[Board, Ranked]],
    pages: Sequence[ProtocolPage],
    known: Sequence[BoardColumn],
    *,
    report: str,
    problem: str,
    site_title: str,
) -> str:
    """Renders the page of one submission."""
    entries = list({id(row.entry): row.entry for _, row in standings}.values())
    order = {page.name: place for place, page in enumerate(pages)}
    entries.sort(key=lambda entry: order.get(entry.protocol, len(order)))
    info = next((entry.info for entry in entries if entry.info.title), SubmissionInfo())
    title = submission_title(name, info)
    authors, dates = ", ".join(info.authors) or "Anonymous", _union(entries, "dates")
    year, link = f" ({dates[-1][:4]})" if dates else "", f" {info.link}" if info.link else ""
    return render(
        "leaderboard_submission.html",
        styles=STYLES,
        scripts=(),
        title=site_title,
        page_title=f"{title}, {site_title}",
        description=info.summary or f"Ranks, scores and every run of {title}.",
        name=title,
        badge=badge(info),
        folder=name,
        version=version,
        info=info,
        facts=_facts(entries),
        # identifies the submission and its content, for papers
        cite=f"{authors}{year}. {title}. a2perf submission, content {version[:16]}.{link}",
        ranks=_ranks(entries, standings, pages, known),
        entries=[
            {
                "entry": entry,
                "title": _task(entry),
                "where": _where(entry, entries),
                "protocol": entry.protocol or "none",
                "runs": _runs(entry),
                "metrics": _metrics(entry),
            }
            for entry in entries
        ],
        report=report,
        problem=problem,
    )


def _task(entry: Entry) -> str:
    return task_title(entry.domain, entry.task) if entry.task else "Unknown task"


def _where(entry: Entry, entries: Sequence[Entry]) -> str:
    """Returns the domain of an entry, and what it observed if any of the entries did not observe the default."""
    domain = domain_title(entry.domain) if entry.domain else "Unknown domain"
    observed = f", observes {view_title(entry.domain, entry.view)}"
    return domain + (observed if any(other.view for other in entries) else "")


def _ranks(
    entries: Sequence[Entry],
    standings: Sequence[tuple[Board, Ranked]],
    pages: Sequence[ProtocolPage],
    known: Sequence[BoardColumn],
) -> Table:
    """Returns one row per entry with its rank in every table that lists it."""
    tasks = [task for page in pages for task in page.tasks]
    files = {id(board): f"../../{task.file}#{board_anchor(board)}" for task in tasks for board in task.boards}
    named, ranks = [], []
    for entry in entries:
        held = [(board, row) for board, row in standings if row.entry is entry]
        named.append(Text(text=_task(entry), href=files[id(held[0][0])], detail=_where(entry, entries)))
        texts = [
            f"{rank_range(row)} of {sum(other.place is not None for other in board.rows)}"
            + (f", {board.track} track" if len(held) > 1 else "")
            for board, row in held
        ]
        reason = plain(entry.not_ranked[0], 160) if entry.not_ranked else None
        ranks.append(Text(text="not ranked" if reason else "; ".join(texts), warning=reason))
    main = [column for column in known if column.main and column.metric is not returns]  # the score is the return
    heads = [Column(key=column.key, title=column.title, align="right", hint=column.metric.formula) for column in main]
    cells = {head: [entry_cell(entry, head.key) for entry in entries] for head in heads}
    held_columns = [
        (Column(key="task", title="Task"), named),
        (Column(key="protocol", title="Protocol"), [Text(text=entry.protocol or "none") for entry in entries]),
        (Column(key="ranks", title="Rank"), ranks),
        (
            Column(key="score", title="Score", kind="score"),
            [score_cell(entry.score, scale_of([entry.score])) for entry in entries],
        ),
        *((head, [cell if cell.sort is not None else Text() for cell in of]) for head, of in cells.items()),
    ]
    about = [{"class": "unranked" if entry.not_ranked else ""} for entry in entries]
    return ranking("Rank on each task", held_columns, about)


def _runs(entry: Entry) -> Table:
    rows = []
    for run in entry.runs:
        if run.changed:
            more = f"; and {len(run.changed) - _MOST} more" if len(run.changed) > _MOST else ""
            files = Text(text="invalid", warning="; ".join(run.changed[:_MOST]) + more)
        else:
            files = Text(text="not checked" if run.changed is None else "hashes match")
        repeated = "" if run.reproduction is None else run.reproduction.text
        rows.append(
            (
                Text(text=run.run, code=True),
                run.mode,
                str(run.seed),
                Text(text=run.state, state=run.state, warning="; ".join(filter(None, (run.failure, repeated)))),
                files,
                Text(text=run.signature.state, detail=run.signature.detail),
                "; ".join(run.conditions),
            )
        )
    heads = ("Run", "Mode", "Seed", "State", "Files", "Signature", "Warnings")
    return text_table(f"Runs on {_task(entry)}", heads, rows, texts=len(heads))


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


def _metrics(entry: Entry) -> list[tuple[str, Table]]:
    """Returns a table of the metrics of each mode."""
    metrics = registry.all_metrics()
    found = []
    for mode, title in MODE_TITLES.items():
        rows = []
        for name, value in entry.scores.get(mode, {}).items():
            if name in metrics:
                cell = metric_cell(value)
                number = Text(text=cell.text, unit=cell.unit, sort=cell.sort)
                rows.append((metrics[name].label, number, cell.detail or "", str(value.n), value.provenance))
        if rows:
            heads = ("Metric", "Value", "Interval or spread", "Runs", "Source")
            found.append((title, text_table(f"Metrics of {title}", heads, rows, texts=len(heads))))
    return found
