"""A plot of the measured difficulty of websites by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from a2perf.domains.web_navigation.generator import EPISODES, Measured

_COLOURS = ("#4e9a06", "#c17d11", "#a40000")


def write_plot(measured: Mapping[int, Sequence[Measured]], path: Path) -> None:
    """Plots the success of the random agent and the length of the shortest solution, one histogram per level."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    floor = 0.5 / EPISODES  # where never solved is drawn on a logarithmic axis
    bins = np.geomspace(floor, 1.0, 40)
    for (level, designs), colour in zip(sorted(measured.items()), _COLOURS, strict=False):
        success = np.maximum([one.success for one in designs], floor)
        left.hist(success, bins=list(bins), color=colour, alpha=0.75, label=f"level {level}")
        lengths = [one.length for one in designs]
        right.hist(lengths, bins=list(np.arange(0.5, 26.5)), color=colour, alpha=0.75, label=f"level {level}")
    left.set_xscale("log")
    left.set_xlabel(f"solved by random valid actions (of {EPISODES} episodes)")
    left.set_ylabel("websites")
    right.set_xlabel("actions of the shortest solution")
    right.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
