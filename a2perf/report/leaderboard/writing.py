"""Writes the site: ``index.html``, a page and a report a submission, ``leaderboard.{json,csv}``, figures.

The same bundles give the same bytes: no clock, host or absolute path enters. Entries are read and scored one at a time,
so memory does not grow with the number of bundles but by their numbers.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from a2perf._version import __version__
from a2perf.errors import UserError
from a2perf.plain_text import csv_cell
from a2perf.records import SCHEMA, Record
from a2perf.report.leaderboard.columns import columns_of
from a2perf.report.leaderboard.entries import (
    Broken,
    EntryRuns,
    Found,
    IntegrityCheck,
    SignatureCheck,
    find_entries,
)
from a2perf.report.leaderboard.matrix import Matrix, matrices_of
from a2perf.report.leaderboard.overall import Overall, overall_of
from a2perf.report.leaderboard.pages import index_page, rank_words, signature_words, submission_page
from a2perf.report.leaderboard.pareto import pareto_views, static_svg
from a2perf.report.leaderboard.ranking import Board, Ranked, boards_of
from a2perf.report.leaderboard.scoring import Entry, References, TaskReference, score_entry, stored_references
from a2perf.report.leaderboard.words import plain, slug
from a2perf.storage import write_atomic, write_json
from a2perf.worker_pool import worker_pool

FIGURES, SUBMISSIONS, REPORT = "figures", "submissions", "report"
RECORD_FILE, CSV_FILE = "leaderboard.json", "leaderboard.csv"
_FORMAT = "a2perf leaderboard"
_SLUG = re.compile(r"[a-z0-9-]+-[0-9a-f]{8}")
_TASKS_WORTH_A_PROCESS = 4  # fewer are done sooner than another interpreter has started
_IDENTITY = (
    "name", "version", "domain", "task", "env_id", "fingerprint", "protocol", "track", "provenance", "reference",
)  # fmt: skip


class LeaderboardRecord(Record, kw_only=True):
    """``leaderboard.json``.

    Attributes:
        rules: version of the formulas that every score was computed with.
        matrices: submissions by tasks, across domains.
        overall: comparisons over the tasks of a domain.
        invalid: bundles that could not be read at all.
        others: recorded runs without a manifest, which cannot be listed.
    """

    format: str = _FORMAT
    schema: int = SCHEMA
    a2perf_version: str
    title: str
    rules: int
    matrices: list[Matrix] = msgspec.field(default_factory=list)
    overall: list[Overall]
    boards: list[Board]
    invalid: list[Broken]
    others: list[str]


@dataclasses.dataclass(frozen=True)
class LeaderboardFiles:
    """Where a site lies.

    Attributes:
        page: ``index.html``.
        record: what ``leaderboard.json`` holds.
        problems: submissions whose report could not be written, with the reason.
    """

    page: Path
    record: LeaderboardRecord
    problems: dict[str, str]


def write_leaderboard(
    folder: Path,
    out: Path,
    *,
    title: str = "Leaderboard",
    integrity: IntegrityCheck | None = None,
    signature: SignatureCheck | None = None,
    references: References = stored_references,
    reports: bool = True,
    processes: int = 1,
) -> LeaderboardFiles:
    """Reads every bundle at or below a folder and writes the site.

    Args:
        folder: of bundles, in any arrangement.
        out: folder to write; pages of an earlier leaderboard there are replaced.
        title: heading of the site.
        integrity: says what was changed in a bundle; without it no hash is checked, and the pages say so.
        signature: says who signed a bundle; without it signed bundles are "not checked".
        references: looks up the protocol's stored scores.
        reports: write the report of each submission too.
        processes: how many may share the work; the result is the same. With more than one the caller's main module
            must be importable.

    Raises:
        UserError: there is nothing recorded in ``folder``, or ``out`` cannot be written or holds something else.
    """
    _check_target(out)
    found = find_entries(folder, integrity=integrity, signature=signature)
    looked_up = [references(entry.key) for entry in found.entries]
    boards = boards_of(_scored(found, looked_up, processes))
    record = LeaderboardRecord(
        a2perf_version=__version__, title=title, rules=max((board.rules for board in boards), default=0),
        matrices=matrices_of(boards), overall=overall_of(boards), boards=boards, invalid=found.broken,
        others=found.others,
    )  # fmt: skip
    try:
        (out / SUBMISSIONS).mkdir(parents=True, exist_ok=True)
        problems = _write_reports(found, out, processes) if reports else {}
        _write_pages(record, out, reported=set() if not reports else _pages(found) - set(problems), problems=problems)
        write_json(out / RECORD_FILE, msgspec.to_builtins(record))
        write_atomic(out / CSV_FILE, leaderboard_csv(boards))
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}", hint="choose another folder with -o") from error
    return LeaderboardFiles(out / "index.html", record, problems)


def leaderboard_csv(boards: Sequence[Board]) -> str:
    """Returns one row an entry: identity, rank, score and the value of every metric; numbers are never rounded."""
    columns = columns_of(boards)
    names = [
        "place", "rank", *_IDENTITY, "score", "score_low", "score_high", "runs", "not_ranked", "signature",
        *(column.key for column in columns),
    ]  # fmt: skip
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=names, restval="", lineterminator="\n")
    writer.writeheader()
    for board in boards:
        for row in board.rows:
            cells: dict[str, Any] = {name: csv_cell(str(getattr(row.entry, name))) for name in _IDENTITY}
            score = row.entry.score
            cells |= {
                "place": "" if row.place is None else row.place,
                "rank": "" if row.place is None else rank_words(row),
                "score": _exact(score.value),
                "score_low": _exact(score.low),
                "score_high": _exact(score.high),
                "runs": len(row.entry.runs),
                "not_ranked": csv_cell("; ".join(row.entry.not_ranked)),
                "signature": signature_words(row.entry),
            }
            for column in columns:
                value = column.value(row.entry)
                cells[column.key] = _exact(None if value is None else value.value)
            writer.writerow(cells)
    return stream.getvalue()


def _exact(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def _check_target(out: Path) -> None:
    """Refuses a folder that holds something else, since pages of submissions that are gone are removed."""
    if out.is_dir() and any(out.iterdir()):
        try:
            ours = msgspec.json.decode((out / RECORD_FILE).read_bytes(), type=dict).get("format") == _FORMAT
        except (OSError, msgspec.DecodeError):
            ours = False
        if not ours:
            raise UserError(f"{out} is not empty and holds no leaderboard", hint="give a new folder with -o")
    elif out.exists() and not out.is_dir():
        raise UserError(f"{out} is not a folder", hint="give a new folder with -o")


def _scored(found: Found, looked_up: Sequence[TaskReference | None], processes: int) -> list[Entry]:
    if processes < 2 or len(found.entries) < _TASKS_WORTH_A_PROCESS * processes:
        return [score_entry(entry, reference) for entry, reference in zip(found.entries, looked_up, strict=True)]
    with worker_pool(processes) as executor:
        return list(executor.map(score_entry, found.entries, looked_up, chunksize=4))


def _pages(found: Found) -> set[str]:
    return {slug(entry.key.name, entry.key.version) for entry in found.entries}


def _write_reports(found: Found, out: Path, processes: int) -> dict[str, str]:
    """Writes the report of each submission; one that cannot be written costs only itself."""
    members: dict[str, list[EntryRuns]] = {}
    for entry in found.entries:
        members.setdefault(slug(entry.key.name, entry.key.version), []).append(entry)
    write = functools.partial(_write_report, out)
    if processes < 2 or len(members) < _TASKS_WORTH_A_PROCESS:
        told = list(map(write, members, members.values()))
    else:
        with worker_pool(processes) as executor:
            told = list(executor.map(write, members, members.values()))
    return {page: problem for page, problem in zip(members, told, strict=True) if problem}


def _write_report(out: Path, page: str, entries: Sequence[EntryRuns]) -> str:
    from a2perf.report.writing import write_report
    from a2perf.runs import read_runs

    bundles = [folder.path for entry in entries for folder in entry.folders]
    try:
        write_report(read_runs(bundles), out / SUBMISSIONS / page / REPORT, title=entries[0].key.name)
    except UserError as error:
        return error.message
    except Exception as error:  # whatever a stranger's files bring out, the other pages must still be written
        return f"{type(error).__name__}: {error}"
    return ""


def _write_pages(record: LeaderboardRecord, out: Path, *, reported: set[str], problems: Mapping[str, str]) -> None:
    boards = record.boards
    views = {number: pareto_views(board, f"board-{number}") for number, board in enumerate(boards)}
    charts = [view.chart for of_board in views.values() for view in of_board]
    _clear(out / FIGURES, {f"{chart.name}.{ending}" for chart in charts for ending in ("svg", "pdf")})
    for chart in charts:
        write_atomic(out / FIGURES / f"{chart.name}.svg", static_svg(chart))
        write_atomic(out / FIGURES / f"{chart.name}.pdf", chart.views[0].pdf)
    standings: dict[tuple[str, str], list[tuple[Board, Ranked]]] = {}
    for board in boards:
        for row in board.rows:
            standings.setdefault((row.entry.name, row.entry.version), []).append((board, row))
    pages = {slug(*submission): submission for submission in sorted(standings)}
    for old in (out / SUBMISSIONS).iterdir():
        if old.name not in pages and old.is_dir() and not old.is_symlink() and _SLUG.fullmatch(old.name):
            shutil.rmtree(old)
    for page, submission in pages.items():
        if page not in reported and (out / SUBMISSIONS / page / REPORT).is_dir():
            shutil.rmtree(out / SUBMISSIONS / page / REPORT)
        text = submission_page(
            *submission,
            standings[submission],
            report=f"{REPORT}/index.html" if page in reported else "",
            problem=plain(problems.get(page, "")),
            site_title=record.title,
        )
        write_atomic(out / SUBMISSIONS / page / "index.html", text)
    columns = columns_of(boards)
    text = index_page(
        record.title, boards, columns, record.matrices, record.overall, views, record.invalid, record.others
    )
    write_atomic(out / "index.html", text)


def _clear(folder: Path, kept: set[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.suffix in (".svg", ".pdf") and old.name not in kept:
            old.unlink()
