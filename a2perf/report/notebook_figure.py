"""Figures that ``plot()`` of the Python API returns: the style of reports, on white, shown once by a notebook."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from a2perf.report.drawing import chart_style, remove_control_characters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 110


def figure_for_notebook(build: Callable[[], Figure]) -> Figure:
    """Builds a figure for a notebook, ``savefig`` and further changes.

    It is not registered in pyplot: a notebook shows it once, and it does not stay in memory.

    Args:
        build: makes the figure; the user's own matplotlib settings have no effect on it.
    """
    with chart_style():
        figure = build()
    figure.set_facecolor("white")  # a transparent figure cannot be read in a dark notebook
    figure.set_dpi(_DPI)
    remove_control_characters(figure)
    _register_formats()
    return figure


def _register_formats() -> None:
    """Lets a Jupyter kernel show figures: their formats are registered when matplotlib's inline backend is loaded."""
    if "ipykernel" in sys.modules and "matplotlib_inline" in os.environ.get("MPLBACKEND", ""):
        importlib.import_module("matplotlib_inline.backend_inline")
