"""Writes a leaderboard of results: ``index.html``, ``leaderboard.{json,csv}`` and the profiles as figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import msgspec

from a2perf._version import __version__
from a2perf.errors import UserError
from a2perf.plain_text import csv_cell
from a2perf.records import SCHEMA, Record
from a2perf.report.leaderboard.result_charts import profile_chart
from a2perf.report.leaderboard.result_pages import result_page
from a2perf.report.leaderboard.writing import CSV_FILE, FIGURES, RECORD_FILE, check_target
from a2perf.report.result_boards import ResultBoard, ResultScoreName
from a2perf.storage import write_atomic, write_json

FORMAT = "a2perf result leaderboard"


class ResultLeaderboardRecord(Record, kw_only=True):
    """``leaderboard.json`` of a leaderboard of results."""

    format: str = FORMAT
    schema: int = SCHEMA
    a2perf_version: str
    title: str
    score: ResultScoreName
    boards: list[ResultBoard]


def result_record(boards: Sequence[ResultBoard], title: str) -> ResultLeaderboardRecord:
    """Returns the content of ``leaderboard.json``."""
    return ResultLeaderboardRecord(a2perf_version=__version__, title=title, score=boards[0].score, boards=list(boards))


def write_results(boards: Sequence[ResultBoard], out: Path, *, title: str) -> Path:
    """Writes the page, the same numbers as JSON and CSV, and the charts as SVG and PDF.

    The same boards give the same bytes.

    Args:
        boards: at least one, all of one score.
        out: folder to write; an earlier leaderboard of results there is replaced.
        title: heading of the page.

    Returns:
        The path of ``index.html``.

    Raises:
        UserError: ``out`` cannot be written, or holds something else.
    """
    check_target(out, FORMAT)
    charts = {
        place: profile_chart(board, f"profile-{place}")
        for place, board in enumerate(boards)
        if any(row.solved() for row in board.rows)  # else all profiles are zero
    }
    try:
        (out / FIGURES).mkdir(parents=True, exist_ok=True)
        for old in out.glob(f"{FIGURES}/profile-*"):
            if old.suffix in (".svg", ".pdf"):
                old.unlink()
        for chart in charts.values():
            write_atomic(out / FIGURES / f"{chart.name}.svg", chart.views[0].svg)
            write_atomic(out / FIGURES / f"{chart.name}.pdf", chart.views[0].pdf)
        write_atomic(out / "index.html", result_page(title, boards, charts))
        write_atomic(out / CSV_FILE, results_csv(boards))
        write_json(out / RECORD_FILE, msgspec.to_builtins(result_record(boards, title)))
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}", hint="choose another folder with -o") from error
    return out / "index.html"


def results_csv(boards: Sequence[ResultBoard]) -> str:
    """Returns one row per submission and workload, none of the numbers rounded; empty where not reached."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["board", "rank", "submission", "version", "score", "exact", "score_low", "score_high", "workload",
         "held_out_of", "median", "unit", "ratio", "studies_reached", "studies"]
    )  # fmt: skip
    for board in boards:
        for row in board.rows:
            head = [csv_cell(board.title), row.rank(), csv_cell(row.name), row.version, row.score, row.exact]
            head += [_exact(row.low), _exact(row.high)]
            for work in board.workloads:
                cell = row.cells[work.name]
                reached = sum(study is not None for study in cell.studies)
                tail = [_exact(cell.median), board.unit, _exact(cell.ratio), reached, len(cell.studies)]
                writer.writerow([*head, csv_cell(work.name), csv_cell(work.held_out_of), *tail])
    return stream.getvalue()


def _exact(value: float | None) -> str:
    return "" if value is None else repr(float(value))
