"""``time_to_result``: the score of AlgoPerf over a mapping of times, as one table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from a2perf.api.views.table import Table
from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.metrics.time_to_result import GRID_POINTS, R_MAX, ResultScore, ScoreRules, score_times
from a2perf.report.ranks import rank_ranges

Times: TypeAlias = Mapping[str, Mapping[str, float | Iterable[float | None] | None]]


def time_to_result(
    times: Times,
    *,
    held_out: Mapping[str, str] | None = None,
    count_held_out: bool = False,
    held_out_limit: float | None = R_MAX,
    r_max: float = R_MAX,
    points: int | None = GRID_POINTS,
) -> Table:
    """Scores submissions by the time, energy or samples that they needed to reach the target of each workload.

    The score is that of MLCommons' AlgoPerf: the normalised area under the performance profile, which is the share of
    workloads that a submission solves within a multiple of the least time of any submission.

    Args:
        times: ``{submission: {workload: time}}``, with a list of times for several studies. None, NaN, infinity and a
            missing entry stand for a target that was not reached. Any unit: the score depends on ratios only.
        held_out: held-out variant -> its base workload. A submission that does not reach the target on the variant
            does not count as solving the base.
        count_held_out: count the variants as workloads too.
        held_out_limit: with held-out variants, a time beyond this multiple of the least counts as not reached; None
            for no limit.
        r_max: ratio from which on a workload adds nothing, above 1.
        points: points of the trapezoid rule, 100 as in AlgoPerf's published scores; None for the exact integral.

    Returns:
        One row per submission, best score first: ranks that the intervals allow, score with its 95 % interval (missing
        with one study), the exact integral, and the number of solved workloads.

    Raises:
        UserError: a time is not a number above zero.
        ConfigError: ``times`` is not a mapping, an unknown workload, or a number out of range.

    Example:
        >>> times = {"a": {"x": 10, "y": 40}, "b": {"x": 20, "y": None}}
        >>> table = a2perf.time_to_result(times, points=None)
        >>> list(table["submission"]), table["score"].round(4).tolist()
        (['a', 'b'], [1.0, 0.3333])
    """
    studies = _studies(times)
    workloads = list(dict.fromkeys(name for given in studies.values() for name in given))
    if not workloads:
        raise UserError("times are empty", hint="give {submission: {workload: seconds}}")
    held_out = dict(held_out or {})
    for name in {*held_out, *held_out.values()} - {*workloads}:
        raise ConfigError(
            f"held_out: {name!r} is not a workload{did_you_mean(name, workloads)}",
            hint=f"workloads: {', '.join(workloads[:20])}",
        )
    try:
        rules = ScoreRules(r_max, points, held_out, count_held_out, held_out_limit)
        scores = score_times(_array(studies, workloads), list(studies), workloads, rules)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error), hint="leave the arguments out for AlgoPerf's published rules") from error
    return _table(sorted(scores, key=lambda row: (-row.score, -row.exact, row.submission)))


def _studies(times: Times) -> dict[str, dict[str, list[float]]]:
    if not isinstance(times, Mapping) or not all(isinstance(given, Mapping) for given in times.values()):
        raise ConfigError(
            "times are not a mapping of mappings",
            hint="give {submission: {workload: seconds}}; of a table: {name: row.dropna().to_dict() for name, row in "
            "pandas.read_csv(FILE, index_col='submission').iterrows()}",
        )
    return {
        str(submission): {
            str(workload): [_time(one, f"times of {submission!r} on {workload!r}") for one in _several(given)]
            for workload, given in of_workloads.items()
        }
        for submission, of_workloads in times.items()
    }


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]


def _time(given: Any, where: str) -> float:
    try:
        value = math.inf if given is None else float(given)
    except (TypeError, ValueError):
        value = 0.0
    if math.isnan(value):
        return math.inf
    if value <= 0:
        raise UserError(f"{where}: {given!r} is not a number above zero", hint="None: the target was not reached")
    return value


def _array(studies: Mapping[str, Mapping[str, list[float]]], workloads: list[str]) -> np.ndarray[Any, Any]:
    """Returns shape (submissions, workloads, studies); all owe as many studies as the fullest cell has."""
    most = max((len(given) for of_workloads in studies.values() for given in of_workloads.values()), default=0)
    array = np.full((len(studies), len(workloads), max(most, 1)), np.inf)
    for row, of_workloads in enumerate(studies.values()):
        for name, given in of_workloads.items():
            array[row, workloads.index(name), : len(given)] = given
    return array


def _table(scores: list[ResultScore]) -> Table:
    if all(row.low is None for row in scores):
        ranks = [(1 + sum(other.score > row.score for other in scores),) * 2 for row in scores]
    else:
        ranks = rank_ranges([(row.low, row.high) for row in scores])
    columns: dict[str, list[Any]] = {
        "rank": [str(best) if best == worst else f"{best}–{worst}" for best, worst in ranks],
        "submission": [row.submission for row in scores],
        "score": [row.score for row in scores],
        "low": [row.low for row in scores],
        "high": [row.high for row in scores],
        "exact": [row.exact for row in scores],
        "solved": [sum(ratio is not None for ratio in row.ratios.values()) for row in scores],
        "workloads": [len(row.ratios) for row in scores],
    }
    return Table(columns, title="Time to result", kinds={"low": "float", "high": "float"})
