"""Draws the chart of ``composition.py``: success by the number of websites, a panel per set of levels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from a2perf.report.figures.drawing import INK

TITLES = {"1": "level 1", "1 2": "levels 1 and 2", "1 2 3": "levels 1 to 3"}
COLOURS = {"random": "muted", "solver": "green", "cloned": "blue", "cloned-16": "violet", "learned": "orange"}
LABELS = {
    "random": "random valid actions",
    "solver": "scripted solver",
    "cloned": "cloned solver",
    "cloned-16": "cloned, 16 profile keys",
    "learned": "learned from scratch",
}


def draw(
    rows: Mapping[tuple[str, str, int, str], Mapping[str, Any]],
    environments: Mapping[str, tuple[str, int]],
    folder: Path,
) -> list[Path]:
    """Writes ``composition.svg`` and ``composition.png``.

    Args:
        rows: measured cells by policy, levels, number of websites and order.
        environments: levels and number of websites of the environments that are marked.
        folder: where to.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(TITLES), sharey=True)
    for axes, (levels, title) in zip(panels, TITLES.items(), strict=True):
        for place, policy in enumerate(COLOURS):
            _lines(axes, rows, policy, levels, shift=1.06 ** (place - 2))
        axes.set_xscale("log", base=2)
        axes.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        axes.minorticks_off()
        axes.set_ylim(-0.03, 1.03)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("websites per episode")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color=INK["rule"], linewidth=0.6)
        for name, (of_levels, websites) in environments.items():
            if of_levels == levels:
                axes.axvline(websites, color=INK["band"], linewidth=26, zorder=0)
                axes.text(websites, 0.36, name, rotation=90, ha="center", va="center", fontsize=8, color=INK["muted"])
    panels[0].set_ylabel("episodes solved")
    muted = INK["muted"]
    handles, labels = panels[0].get_legend_handles_labels()
    handles += panels[0].plot([], [], "s", color=muted, markerfacecolor="white", markersize=4.5)
    handles += panels[0].plot([], [], ":", color=muted, linewidth=1)
    labels += ["keys in reverse order", "independent websites"]
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)
    written = [folder / f"composition.{ending}" for ending in ("svg", "png")]
    for path in written:
        figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})
    return written


def _lines(axes: Any, rows: Mapping[Any, Mapping[str, Any]], policy: str, levels: str, shift: float) -> None:
    colour = INK[COLOURS[policy]]
    for order, marker, filled in (("given", "o", True), ("reversed", "s", False)):
        found = {
            websites: rows[policy, levels, websites, order]
            for websites in (1, 2, 4, 8)
            if (policy, levels, websites, order) in rows
        }
        if not found:
            continue
        success = {websites: float(row["success"]) for websites, row in found.items()}
        low = [success[websites] - float(row["low"]) for websites, row in found.items()]
        high = [float(row["high"]) - success[websites] for websites, row in found.items()]
        places = [websites * shift * (1.0 if filled else 1.04) for websites in success]
        axes.errorbar(
            places, list(success.values()), [[max(0.0, value) for value in low], [max(0.0, value) for value in high]],
            fmt=f"{marker}{'-' if filled else ''}", color=colour, markerfacecolor=colour if filled else "white",
            markersize=4.5, linewidth=1.5, elinewidth=1.0, capsize=2,
            label=LABELS[policy] if filled else None,
        )  # fmt: skip
        if filled and 1 in success and policy != "random":
            # what independent failures on single websites would give
            axes.plot(
                [1, 2, 4, 8], [success[1] ** websites for websites in (1, 2, 4, 8)], ":", color=colour, linewidth=1
            )
