"""Writes the site: a page per protocol, task and submission, reports, ``leaderboard.{json,csv}`` and figures.

The same bundles give the same bytes: no clock, host or absolute path of the builder enters. Entries are read and scored
one at a time; only their scores stay in memory.
"""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from a2perf._version import __version__
from a2perf.domains import task_title
from a2perf.errors import UserError
from a2perf.records import SCHEMA, Record
from a2perf.report.leaderboard.columns import BoardColumn, columns_of
from a2perf.report.leaderboard.entries import Broken, EntryRuns, Trust, find_entries
from a2perf.report.leaderboard.pages import empty_page, protocol_page, reproduction_text, signature_text, task_page
from a2perf.report.leaderboard.pareto import pareto_views, static_svg
from a2perf.report.leaderboard.ranking import Board, Overall, Ranked, boards_of, overall_of
from a2perf.report.leaderboard.scoring import Entry, References, score_entry, stored_references
from a2perf.report.leaderboard.site_map import TASKS, ProtocolPage, protocol_pages, rank_range
from a2perf.report.leaderboard.submission_pages import submission_page
from a2perf.report.names import plain, slug, submission_title
from a2perf.report.notebook import link_html
from a2perf.report.tables import csv_text, exact
from a2perf.storage import write_atomic, write_json
from a2perf.worker_pool import worker_pool

FIGURES, SUBMISSIONS, REPORT = "figures", "submissions", "report"
RECORD_FILE, CSV_FILE = "leaderboard.json", "leaderboard.csv"
_FORMAT = "a2perf leaderboard"
_SLUG = re.compile(r"[a-z0-9-]+-[0-9a-f]{8}")
_TASKS_WORTH_A_PROCESS = 4  # fewer finish sooner than another interpreter starts
_Result = TypeVar("_Result")
Progress: TypeAlias = Callable[[str], None]
"""Gets one line per finished step."""
_IDENTITY = (
    "name",
    "version",
    "domain",
    "task",
    "view",
    "env_id",
    "env_kwargs",
    "fingerprint",
    "protocol",
    "track",
    "provenance",
    "reference",
)


class LeaderboardRecord(Record, kw_only=True):
    """``leaderboard.json``."""

    format: str = _FORMAT
    schema: int = SCHEMA
    a2perf_version: str
    title: str
    rules: int
    overall: list[Overall]
    boards: list[Board]
    invalid: list[Broken]
    others: list[str]


@dataclass(frozen=True, repr=False)
class WrittenLeaderboard:
    """A written leaderboard. ``print`` shows a summary, a notebook also a link to the site.

    Attributes:
        page: ``index.html`` of the site.
        record: the content of ``leaderboard.json``: tables, entries, scores and ranks.
        problems: by page of a submission, why its report could not be written.
    """

    page: Path
    record: LeaderboardRecord
    problems: dict[str, str]

    @property
    def folder(self) -> Path:
        """The folder of the site."""
        return self.page.parent

    def lines(self) -> list[str]:
        """Returns the counts of entries and ranks, invalid runs, and missing reports."""
        entries = [row for board in self.record.boards for row in board.rows]
        unranked = sum(row.place is None for row in entries)
        return [
            f"{len(entries)} entries in {len(self.record.boards)} table(s), {unranked} without a rank",
            *(f"  invalid: {broken.run}: {broken.reason}" for broken in self.record.invalid),
            *(f"  no report of {page}: {problem}" for page, problem in self.problems.items()),
        ]

    def __repr__(self) -> str:
        return "\n".join([*self.lines(), f"leaderboard: {self.page}"])

    def _repr_html_(self) -> str:
        return link_html(self.page, "leaderboard", self.lines())


def write_leaderboard(
    folder: Path,
    out: Path,
    *,
    title: str = "Leaderboard",
    trust: Trust | None = None,
    references: References = stored_references,
    reports: bool = True,
    processes: int = 1,
    home: str = "",
    progress: Progress = lambda line: None,
) -> WrittenLeaderboard:
    """Reads every bundle at or below a folder and writes the site.

    Arguments and errors as for ``a2perf.write_leaderboard``.

    Args:
        trust: keys and verdicts; without it no key is trusted, and verdicts beside the bundles count.
        references: looks up the protocol's stored scores.
        home: address of the page that the site belongs to, for a link back.
    """
    _check_target(out)
    found, broken, others = find_entries(folder, trust or Trust())
    progress(f"found {len(found)} entries, {sum(len(entry.folders) for entry in found)} runs")
    looked_up = [references(entry.key) for entry in found]
    entries: list[Entry] = []
    fewest = _TASKS_WORTH_A_PROCESS * processes
    for entry in _mapped(processes, fewest, score_entry, found, looked_up, chunksize=4):
        entries.append(entry)
        name = f"{submission_title(entry.name, entry.info)}, {task_title(entry.domain, entry.task)}"
        progress(f"scored {len(entries)} of {len(found)}: {name}")
    boards = boards_of(entries)
    record = LeaderboardRecord(
        a2perf_version=__version__,
        title=title,
        rules=max((board.rules for board in boards), default=0),
        overall=overall_of(boards),
        boards=boards,
        invalid=broken,
        others=others,
    )
    try:
        (out / SUBMISSIONS).mkdir(parents=True, exist_ok=True)
        problems = _write_reports(found, out, processes, progress) if reports else {}
        pages = {slug(entry.key.name, entry.key.version) for entry in found} if reports else set()
        reported = pages - set(problems)
        _write_pages(record, out, reported=reported, problems=problems, home=home)
        write_json(out / RECORD_FILE, msgspec.to_builtins(record))
        write_atomic(out / CSV_FILE, leaderboard_csv(boards))
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}", hint="choose another folder with -o") from error
    return WrittenLeaderboard(out / "index.html", record, problems)


def leaderboard_csv(boards: Sequence[Board]) -> str:
    """Returns one row per entry: identity, rank, score and the value of every metric, none of them rounded."""
    columns = columns_of(boards)
    names = [
        "place",
        "rank",
        *_IDENTITY,
        "score",
        "score_low",
        "score_high",
        "runs",
        "not_ranked",
        "signature",
        "reproduced",
        *(column.key for column in columns),
    ]
    rows = []
    for board in boards:
        for row in board.rows:
            score = row.entry.score
            cells: dict[str, Any] = {name: str(getattr(row.entry, name)) for name in _IDENTITY}
            cells |= {
                "place": "" if row.place is None else row.place,
                "rank": rank_range(row),
                "score": exact(score.value),
                "score_low": exact(score.low),
                "score_high": exact(score.high),
                "runs": len(row.entry.runs),
                "not_ranked": "; ".join(row.entry.not_ranked),
                "signature": signature_text(row.entry),
                "reproduced": reproduction_text(row.entry),
            }
            for column in columns:
                value = column.value(row.entry)
                cells[column.key] = exact(None if value is None else value.value)
            rows.append(cells)
    return csv_text(names, rows)


def _check_target(out: Path) -> None:
    """Refuses a folder with other content, because files of an earlier leaderboard are removed from it."""
    if out.is_dir() and any(out.iterdir()):
        try:
            ours = msgspec.json.decode((out / RECORD_FILE).read_bytes(), type=dict).get("format") == _FORMAT
        except (OSError, msgspec.DecodeError):
            ours = False
        if not ours:
            raise UserError(f"{out} is not empty and holds no leaderboard", hint="choose an empty folder with -o")
    elif out.exists() and not out.is_dir():
        raise UserError(f"{out} is not a folder", hint="choose a folder with -o")


def _mapped(
    processes: int, fewest: int, function: Callable[..., _Result], *given: Collection[Any], chunksize: int = 1
) -> Iterator[_Result]:
    """Calls a function for each of the given items, from ``fewest`` items on in several processes."""
    if processes < 2 or len(given[0]) < fewest:
        yield from map(function, *given)
        return
    with worker_pool(processes) as executor:
        yield from executor.map(function, *given, chunksize=chunksize)


def _write_reports(found: Sequence[EntryRuns], out: Path, processes: int, progress: Progress) -> dict[str, str]:
    """Writes the report of each submission; returns by page why one could not be written."""
    members: dict[str, list[EntryRuns]] = {}
    for entry in found:
        members.setdefault(slug(entry.key.name, entry.key.version), []).append(entry)
    write = functools.partial(_write_report, out)
    problems: list[str] = []
    written = _mapped(processes, _TASKS_WORTH_A_PROCESS, write, members, members.values())
    for entries, problem in zip(members.values(), written, strict=True):
        problems.append(problem)
        name = submission_title(entries[0].key.name, entries[0].info)
        progress(f"report {len(problems)} of {len(members)}: {name}{' failed' if problem else ''}")
    return {page: problem for page, problem in zip(members, problems, strict=True) if problem}


def _write_report(out: Path, page: str, entries: Sequence[EntryRuns]) -> str:
    from a2perf.report.writing import write_page
    from a2perf.runs import read_runs

    bundles = [folder.path for entry in entries for folder in entry.folders]
    try:
        title = submission_title(entries[0].key.name, entries[0].info)
        write_page(read_runs(bundles), out / SUBMISSIONS / page / REPORT, title)
    except UserError as error:
        return error.message
    except Exception as error:  # files of strangers may trigger any bug; the other pages must still be written
        return f"{type(error).__name__}: {error}"
    return ""


def _write_pages(
    record: LeaderboardRecord, out: Path, *, reported: set[str], problems: Mapping[str, str], home: str
) -> None:
    boards = record.boards
    pages = protocol_pages(boards, record.overall)
    columns = columns_of(boards)
    _write_tables(record, pages, columns, out, home)
    standings: dict[tuple[str, str], list[tuple[Board, Ranked]]] = {}
    for board in boards:
        for row in board.rows:
            standings.setdefault((row.entry.name, row.entry.version), []).append((board, row))
    submissions = {slug(*submission): submission for submission in sorted(standings)}
    for old in (out / SUBMISSIONS).iterdir():
        if old.name not in submissions and old.is_dir() and not old.is_symlink() and _SLUG.fullmatch(old.name):
            shutil.rmtree(old)
    for folder, submission in submissions.items():
        if folder not in reported and (out / SUBMISSIONS / folder / REPORT).is_dir():
            shutil.rmtree(out / SUBMISSIONS / folder / REPORT)
        text = submission_page(
            *submission,
            standings[submission],
            pages,
            columns,
            report=f"{REPORT}/index.html" if folder in reported else "",
            problem=plain(problems.get(folder, "")),
            site_title=record.title,
        )
        write_atomic(out / SUBMISSIONS / folder / "index.html", text)


def _write_tables(
    record: LeaderboardRecord, pages: Sequence[ProtocolPage], columns: Sequence[BoardColumn], out: Path, home: str
) -> None:
    """Writes the pages of protocols and tasks with their figures, and removes those of an earlier leaderboard."""
    files: dict[str, str] = {}
    drawings: dict[str, bytes] = {}
    for page in pages:
        files[page.file] = protocol_page(
            record.title, page, pages, broken=record.invalid, others=record.others, home=home
        )
        for task in page.tasks:
            views = {}
            for place, board in enumerate(task.boards):
                views[place] = pareto_views(board, f"board-{record.boards.index(board)}")
                for view in views[place]:
                    drawings[f"{view.chart.name}.svg"] = static_svg(view.chart)
                    drawings[f"{view.chart.name}.pdf"] = view.chart.views[0].pdf
            files[task.file] = task_page(record.title, task, page, columns, views)
    if not pages:
        files["index.html"] = empty_page(record.title, record.invalid, record.others, home)
    for folder in (TASKS, FIGURES):
        (out / folder).mkdir(parents=True, exist_ok=True)
    kept = {*files, *(f"{FIGURES}/{name}" for name in drawings)}
    for old in (*out.glob("protocol-*.html"), *out.glob(f"{TASKS}/*.html"), *out.glob(f"{FIGURES}/*.*")):
        if old.relative_to(out).as_posix() not in kept and old.suffix in (".html", ".svg", ".pdf"):
            old.unlink()
    for name, text in files.items():
        write_atomic(out / name, text)
    for name, drawing in drawings.items():
        write_atomic(out / FIGURES / name, drawing)
