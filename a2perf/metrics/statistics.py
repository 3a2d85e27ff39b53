"""Descriptive statistics that the metrics are made of, each a function from an array to numbers.

Percentiles interpolate linearly between order statistics. Sources: dispersion, conditional value at risk and drawdown
as in Chan et al., "Measuring the Reliability of Reinforcement Learning Algorithms" (ICLR 2020); interquartile mean as
in Agarwal et al., "Deep RL at the Edge of the Statistical Precipice" (NeurIPS 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from a2perf.arrays import Values

Tail = Literal["lower", "upper"]


def iqr(values: ArrayLike, axis: int | None = None) -> Any:
    """Returns the 75th less the 25th percentile along ``axis``."""
    array = np.asarray(values, dtype=np.float64)
    if axis is None:
        low, high = np.percentile(array, (25.0, 75.0))
        return high - low
    ordered = np.sort(array, axis=axis)
    return _quantile(ordered, 0.75, axis) - _quantile(ordered, 0.25, axis)


def mad(values: ArrayLike, axis: int | None = None) -> Any:
    """Returns the median absolute deviation from the median along ``axis``, without a consistency factor."""
    array = np.asarray(values, dtype=np.float64)
    if axis is None:
        return np.median(np.abs(array - np.median(array)))
    middle = np.expand_dims(_quantile(np.sort(array, axis=axis), 0.5, axis), axis)
    return _quantile(np.sort(np.abs(array - middle), axis=axis), 0.5, axis)


def _quantile(ordered: Values, level: float, axis: int) -> Values:
    """Quantile of sorted values; ten times faster than NumPy's over many short rows, and equal to it in every bit."""
    place = (ordered.shape[axis] - 1) * level
    below = int(place)
    share = place - below
    low = np.asarray(ordered.take(below, axis=axis))
    if share == 0.0:
        return low
    high = ordered.take(below + 1, axis=axis)
    span = high - low
    # NumPy interpolates from the nearer end; the same order of operations keeps the same bits
    return np.asarray(low + span * share if share < 0.5 else high - span * (1.0 - share))


def std(values: ArrayLike, axis: int | None = None) -> Any:
    """Returns the sample standard deviation (ddof 1) along ``axis``."""
    return np.std(np.asarray(values, dtype=np.float64), axis=axis, ddof=1)


def cvar(values: ArrayLike, alpha: float = 0.05, tail: Tail = "lower", axis: int | None = None) -> Any:
    """Returns the conditional value at risk along ``axis``: the mean of what lies in the tail, its quantile included.

    The lower tail holds the values <= the alpha-quantile, the upper one those >= the (1-alpha)-quantile. There is at
    least one value along ``axis``; ``None`` pools all values. ``alpha`` lies between 0 and 1.
    """
    if tail not in get_args(Tail):
        raise ValueError(f"tail is {tail!r}; it must be one of {', '.join(get_args(Tail))}")
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha is {alpha}; it must lie between 0 and 1")
    array = np.asarray(values, dtype=np.float64)
    percent = 100.0 * alpha if tail == "lower" else 100.0 * (1.0 - alpha)
    cut = np.percentile(array, percent, axis=axis, keepdims=True)
    # Between equal neighbours the interpolated quantile can round to one unit beyond them, and the tail be empty.
    if tail == "lower":
        inside = array <= np.maximum(cut, array.min(axis=axis, keepdims=True))
    else:
        inside = array >= np.minimum(cut, array.max(axis=axis, keepdims=True))
    return np.where(inside, array, 0.0).sum(axis=axis) / np.count_nonzero(inside, axis=axis)


def drawdown(values: ArrayLike) -> Values:
    """Returns how far a curve lies below its highest value so far, along the last axis; never negative."""
    array = np.asarray(values, dtype=np.float64)
    return np.maximum.accumulate(array, axis=-1) - array


def iqm(scores: ArrayLike) -> Any:
    """Returns the interquartile mean along the last axis: the mean without the lowest and the highest quarter.

    ``floor(n/4)`` values are cut at each end, as in the 25 % trimmed mean.
    """
    array = np.array(scores, dtype=np.float64)  # a copy: the partition would reorder the caller's scores
    count = array.shape[-1]
    cut = count // 4
    if cut:
        # the tails only have to be separated, so a partition does and a sort would cost more
        array.partition((cut, count - cut - 1), axis=-1)
    return array[..., cut : count - cut].mean(axis=-1)


def ranks(values: ArrayLike, *, best: Literal["max", "min"] = "max") -> Values:
    """Returns the rank of each algorithm along the first axis, 1 for the best; ties share the mean, NaN is last."""
    if best not in ("max", "min"):
        raise ValueError(f"best is {best!r}; it must be one of max, min")
    array = np.asarray(values, dtype=np.float64)
    signed = np.where(np.isnan(array), np.inf, -array if best == "max" else array)
    better = (signed[None, ...] < signed[:, None, ...]).sum(axis=1)
    equal = (signed[None, ...] == signed[:, None, ...]).sum(axis=1)
    return np.asarray(1.0 + better + (equal - 1) / 2.0)


def student_cdf(value: float, freedom: float) -> float:
    """Returns P(T <= value) of Student's t distribution for ``freedom`` degrees of freedom, any positive number."""
    from scipy.special import stdtr  # takes a third of a second to load

    return float(stdtr(freedom, value))


def student_quantile(probability: float, freedom: float) -> float:
    """Returns the value below which a Student's t variable lies with that probability, between 0 and 1 exclusive."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, probability))


def chunk_sizes(repetitions: int, chunk: int = 512) -> list[int]:
    """Splits a number of repetitions into chunks that stay in the processor's cache."""
    whole, rest = divmod(repetitions, chunk)
    return [chunk] * whole + ([rest] if rest else [])


Statistic = Callable[..., Any]
DISPERSIONS: dict[str, Statistic] = {"Iqr": iqr, "Mad": mad, "Stddev": std}


def stacked_windows(values: Values, starts: NDArray[np.intp], stops: NDArray[np.intp]) -> list[tuple[Any, Values]]:
    """Gathers windows of equal length into matrices: one vectorised call then serves many windows.

    Returns pairs of window numbers, shape ``(k,)``, and their values from start to before stop, shape ``(k, length)``,
    without empty windows.
    """
    lengths = stops - starts
    stacked = []
    for length in np.unique(lengths[lengths > 0]):
        of_length = np.flatnonzero(lengths == length)
        # at most ~16 MB a matrix, however long the windows are
        per_matrix = max(1, 2_000_000 // int(length))
        for first in range(0, of_length.size, per_matrix):
            numbers = of_length[first : first + per_matrix]
            stacked.append((numbers, values[starts[numbers, None] + np.arange(length)[None, :]]))
    return stacked
