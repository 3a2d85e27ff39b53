"""The distribution of the episode returns of a dataset; matplotlib is imported when it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from a2perf.plain_text import terminal_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_BINS = 24


def histogram(returns: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns the number of episodes in each bin of returns, and the edges of the bins."""
    return np.histogram(returns, bins=min(_MOST_BINS, max(1, len(returns))))


def return_figure(name: str, returns: NDArray[np.float64], steps: int) -> Figure:
    """Returns the distribution of the episode returns as a figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0, 2.6), layout="constrained")
    axes = figure.add_subplot()
    axes.stairs(*histogram(returns), fill=True, color="#3b6ea5")
    axes.axvline(float(returns.mean()), color="#222222", linewidth=1)
    axes.set_xlabel("episode return (line: mean)")
    axes.set_ylabel("episodes")
    axes.locator_params(axis="y", integer=True)
    title = f"{terminal_line(name, most=200)}\n{len(returns)} episodes, {steps} steps"
    axes.set_title(title, fontsize=9, loc="left", parse_math=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure
