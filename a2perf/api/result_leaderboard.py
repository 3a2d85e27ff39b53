"""``time_to_result``: scores submissions by what they needed to reach targets, and the ``ResultLeaderboard``."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from a2perf.api.pages import show_line
from a2perf.api.table import Table, Tabular
from a2perf.api.time_tables import TimesTable, read_times, table_of_mapping
from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.metrics.time_to_result import GRID_POINTS, R_MAX, ScoreRules
from a2perf.plain_text import terminal_line
from a2perf.report.numbers_text import normalised_text
from a2perf.report.result_boards import (
    COSTS,
    LeftOut,
    ResultBoard,
    ResultCost,
    ResultScoreName,
    cost_named,
    result_board,
    with_held_out,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Times: TypeAlias = Mapping[str, Mapping[str, float | Iterable[float] | None]]


def time_to_result(
    times: str | os.PathLike[str] | Times,
    *,
    score: ResultScoreName = "time_to_result",
    target: float | None = None,
    held_out: Mapping[str, str] | None = None,
    count_held_out: bool = False,
    held_out_limit: float | None = R_MAX,
    r_max: float = R_MAX,
    points: int | None = GRID_POINTS,
    processes: int = 1,
    progress: bool | Callable[[str], None] | None = None,
) -> ResultLeaderboard:
    """Scores submissions by the time, energy or samples that they needed to reach the target of each workload.

    The score is that of MLCommons' AlgoPerf: the normalised area under the performance profile, which is the share of
    workloads that a submission solves within a multiple of the least time of any submission.

    Args:
        times: folder of bundles; a CSV file of times, in wide or long form; or a mapping ``{submission: {workload:
            time}}``, with a list of times for several studies. In tables and mappings an empty cell, None, NaN and
            infinity stand for a target that was not reached.
        score: ``"time_to_result"`` (seconds), ``"energy_to_result"`` (joules) or ``"samples_to_result"`` (environment
            steps).
        target: normalised score that counts as the result, for recorded runs; None for the first threshold of each
            task in its protocol.
        held_out: held-out variant -> its base workload. A submission that does not reach the target on the variant
            does not count as solving the base.
        count_held_out: count the variants as workloads too.
        held_out_limit: with held-out variants, a time beyond this multiple of the least counts as not reached; None
            for no limit.
        r_max: ratio from which on a workload adds nothing, above 1.
        points: points of the trapezoid rule, 100 as in AlgoPerf's published scores; None for the exact integral.
        processes: number of processes that read recorded runs. With more than one, a script needs
            ``if __name__ == "__main__"``.
        progress: as for ``write_leaderboard``; only recorded runs show any.

    Returns:
        One board of a table or mapping; of recorded runs one per domain, protocol and track, and for energy per
        provenance.

    Raises:
        UserError: the file or folder cannot be read, a time is wrong (the message names the line), or no recorded task
            has a target.
        ConfigError: an unknown score or workload, or a number out of range.

    Example:
        >>> times = {"a": {"x": 10, "y": 40}, "b": {"x": 20, "y": None}}
        >>> board = a2perf.time_to_result(times, points=None)
        >>> [(row.name, round(row.score, 4)) for row in board.boards[0].rows]
        [('a', 1.0), ('b', 0.3333)]
    """
    cost = cost_named(score)
    try:
        rules = ScoreRules(r_max=r_max, points=points, count_held_out=count_held_out, held_out_limit=held_out_limit)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error), hint="leave it out for AlgoPerf's published rules") from error
    if target is not None and not math.isfinite(target):
        raise ConfigError(f"the target is {target}", hint="give a normalised score such as 0.9")
    held_out = dict(held_out or {})
    if isinstance(times, Mapping):
        return ResultLeaderboard(_boards_of_table(table_of_mapping(times), "Times", cost, rules, held_out))
    if not isinstance(times, str | os.PathLike):
        raise ConfigError(
            f"times are a {type(times).__name__}", hint="give a folder of bundles, a .csv file, or a mapping of times"
        )
    path = Path(times)
    if not path.is_dir() and (path.suffix.lower() == ".csv" or (path.is_file() and not zipfile.is_zipfile(path))):
        if target is not None:
            raise ConfigError("a table of times has no target to set", hint="leave the target out")
        return ResultLeaderboard(_boards_of_table(read_times(path, cost), path.name, cost, rules, held_out))

    from a2perf.report.leaderboard.recorded_results import recorded_results
    from a2perf.report.leaderboard.signatures import signature_check
    from a2perf.runs.bundle import integrity

    boards = recorded_results(
        path, cost, rules, target=target, held_out=held_out, integrity=integrity,
        signature=signature_check(None), processes=processes,
        progress=progress if callable(progress) else _silent if progress is False else show_line,
    )  # fmt: skip
    if not boards:
        raise UserError(
            f"no submission in {path} can be scored: none logged a learning curve on a task with a target",
            hint="targets exist for tasks of a protocol (a2perf protocol); a training run logs its curve as CSV or "
            "event files",
        )
    _check_held_out(held_out, [work.name for board in boards for work in board.workloads])
    return ResultLeaderboard(boards)


class ResultLeaderboard(Tabular):
    """Submissions scored by what they needed to reach targets. ``print`` shows the rankings.

    Example:
        >>> adam = {"x": [10, 12, 11], "y": [40, 44, None]}
        >>> times = {"adam": adam, "sgd": {"x": [20, 19, 25]}}
        >>> found = a2perf.time_to_result(times)
        >>> print(found)  # as `a2perf leaderboard --score time_to_result`
        >>> found.boards[0].rows[1].cells["x"].ratio
        1.8181818181818181
        >>> found.to_pandas()  # one row per submission and workload
        >>> page = found.write("site")  # page with profiles, JSON, CSV, figures
    """

    __slots__ = ("_boards",)

    def __init__(self, boards: Sequence[ResultBoard]) -> None:
        self._boards = tuple(boards)

    @property
    def boards(self) -> tuple[ResultBoard, ...]:
        """The tables: only submissions of one board are compared."""
        return self._boards

    def document(self, title: str = "") -> dict[str, Any]:
        """Returns the content of ``leaderboard.json``."""
        from a2perf.report.leaderboard.result_writing import result_record

        found: dict[str, Any] = msgspec.to_builtins(result_record(self._boards, title or self._title()))
        return found

    def write(self, folder: str | os.PathLike[str], *, title: str = "") -> Path:
        """Writes a page with the tables and performance profiles, JSON, CSV and figures.

        Args:
            folder: folder to write; an earlier leaderboard of results there is replaced.
            title: heading of the page.

        Returns:
            The path of ``index.html``.

        Raises:
            UserError: the folder cannot be written or holds something else.
        """
        from a2perf.report.leaderboard.result_writing import write_results

        return write_results(self._boards, Path(folder), title=title or self._title())

    def table(self) -> Table:
        """Returns one row per submission and workload: score, rank, median, ratio and studies."""
        rows = [
            {
                "board": board.title,
                "submission": row.name,
                "version": row.version,
                "rank": row.rank(),
                "score": row.score,
                "exact": row.exact,
                "low": row.low,
                "high": row.high,
                "workload": work.name,
                "held_out_of": work.held_out_of,
                "median": cell.median,
                "ratio": cell.ratio,
                "studies_reached": sum(study is not None for study in cell.studies),
                "studies": len(cell.studies),
            }
            for board in self._boards
            for row in board.rows
            for work in board.workloads
            for cell in [row.cells[work.name]]
        ]
        numbers = ("low", "high", "median", "ratio")
        return Table(
            {name: [row[name] for row in rows] for name in rows[0]},
            title=self._title(),
            units={"median": self._boards[0].unit},
            kinds=dict.fromkeys(numbers, "float"),
        )

    def plot(self, board: int = 0) -> Figure:
        """Draws the performance profile of a board.

        Args:
            board: its place in ``boards``.

        Raises:
            ConfigError: the board does not exist.
        """
        from a2perf.report.leaderboard.result_charts import profile_figure
        from a2perf.report.notebook_figure import figure_for_notebook

        if not 0 <= board < len(self._boards):
            raise ConfigError(f"board {board} does not exist", hint=f"use 0 to {len(self._boards) - 1}")
        return figure_for_notebook(lambda: profile_figure(self._boards[board]))

    def text(self) -> str:
        """Returns what ``a2perf leaderboard --score`` prints."""
        return "\n\n".join(_board_text(board) for board in self._boards)

    def _title(self) -> str:
        return COSTS[self._boards[0].score].title

    def __repr__(self) -> str:
        return self.text()


def _boards_of_table(
    table: TimesTable, name: str, cost: ResultCost, rules: ScoreRules, held_out: Mapping[str, str]
) -> list[ResultBoard]:
    names = [work.name for work in table.workloads]
    bases = {work.name: work.held_out_of for work in table.workloads if work.held_out_of} | dict(held_out)
    _check_held_out(bases, names)
    workloads = with_held_out(table.workloads, bases)
    kinds = {contender.name: table.provenance.get(contender.name, {""}) for contender in table.contenders}
    mixed = [
        LeftOut(name=one.name, title=one.title, reason="measured and estimated numbers are not compared")
        for one in table.contenders
        if len(kinds[one.name]) > 1
    ]
    single = sorted({next(iter(of)) for of in kinds.values() if len(of) == 1})
    if not single:
        raise UserError(
            f"{name}: no submission has numbers of one provenance", hint="give each submission one provenance"
        )
    return [
        result_board(
            [one for one in table.contenders if kinds[one.name] == {kind}], workloads, cost, rules,
            title=f"{name}, {kind}" if len(single) > 1 and kind else name, provenance=kind, left_out=mixed,
        )
        for kind in single
    ]  # fmt: skip


def _check_held_out(held_out: Mapping[str, str], names: Sequence[str]) -> None:
    for variant, base in held_out.items():
        for name in (variant, base):
            if name not in names:
                listed = ", ".join(dict.fromkeys(names)) if len(names) <= 20 else f"{len(names)} names of the table"
                raise ConfigError(
                    f"held-out variant {variant} of {base}: {name!r} is not a workload{did_you_mean(name, names)}",
                    hint=f"workloads: {listed}",
                )


def _board_text(board: ResultBoard) -> str:
    cost = COSTS[board.score]
    where = [
        board.title,
        f"protocol {board.protocol}" if board.protocol else "",
        f"{board.track} track" * bool(board.track),
    ]
    head = ("rank", "score", "95 % interval", "exact", "solved", "submission")
    lines = [head]
    for row in board.rows:
        interval = f"[{normalised_text(row.low)}, {normalised_text(row.high)}]" if row.low is not None else "–"
        solved = f"{row.solved()} of {len(board.counted())}"
        lines.append((row.rank(), normalised_text(row.score), interval, normalised_text(row.exact), solved, row.title))
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    rows = [
        terminal_line("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())
        for line in lines
    ]
    notes = [terminal_line(f"  note: {note}") for note in board.notes]
    notes += [terminal_line(f"  not scored: {one.title}: {one.reason}") for one in board.left_out]
    return "\n".join([terminal_line(f"{cost.title}: {', '.join(filter(None, where))}"), *rows, *notes])


def _silent(line: str) -> None:
    pass
