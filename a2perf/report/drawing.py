"""From a chart to bytes: one style, SVG and PDF, the same bytes for the same input.

Charts are drawn in the named colours of ``INK``. The files for papers keep them; inside the page each is replaced by
a CSS variable, so that one drawing serves light and dark. matplotlib is imported when the first chart is drawn.
"""

from __future__ import annotations

import dataclasses
import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = {
    "ink": "#23272d",
    "muted": "#6a7178",
    "rule": "#d9dbd8",
    "band": "#eff0ed",
    "blue": "#2f6db5",
    "orange": "#d27a1c",
    "green": "#2e9170",
    "red": "#c2453d",
    "violet": "#7a5bb0",
}
"""Colour of each role on a light page; the page's style sheet defines ``--NAME`` for light and dark."""

SERIES = ("blue", "orange", "green", "violet", "red")
WIDTH_IN = 5.4
"""Width of a chart; at this width its 9-point words stay readable on a phone and are not large on a screen."""

_STYLE: dict[str, Any] = {
    "svg.hashsalt": "a2perf",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": INK["ink"],
    "axes.edgecolor": INK["rule"],
    "axes.labelcolor": INK["muted"],
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.formatter.useoffset": False,
    "axes.unicode_minus": True,
    "grid.color": INK["rule"],
    "grid.linewidth": 0.6,
    "xtick.color": INK["rule"],
    "ytick.color": INK["rule"],
    "xtick.labelcolor": INK["muted"],
    "ytick.labelcolor": INK["muted"],
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "xtick.minor.size": 2,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 1.2,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "path.simplify": True,
}


@dataclasses.dataclass(frozen=True)
class Chart:
    """A drawn chart.

    Attributes:
        name: stem of its files.
        title: what it shows.
        caption: how to read it, one sentence.
        description: what a reader who cannot see it needs to know, with numbers.
        svg: a complete document.
        pdf: the same for LaTeX.
    """

    name: str
    title: str
    caption: str
    description: str
    svg: bytes
    pdf: bytes


def new_figure(height_in: float = 2.8) -> Figure:
    """Returns an empty figure of the common width; only within ``draw``."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH_IN, height_in))


def draw(build: Callable[[], Figure]) -> tuple[bytes, bytes]:
    """Builds a figure in the house style and returns it as SVG and PDF.

    Args:
        build: makes the figure; the user's own matplotlib settings have no effect on it.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with matplotlib.rc_context(), warnings.catch_warnings():
        # a name in a script that the font lacks is still right in the page, whose font is the reader's
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(cast("Any", _STYLE))
        figure = build()
        FigureCanvasAgg(figure)
        svg, pdf = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return svg.getvalue(), pdf.getvalue()


def inline_svg(chart: Chart, prefix: str) -> Markup:
    """Returns a chart as an element of the page: themed, unique ids, an accessible name.

    Args:
        chart: the chart.
        prefix: put before every id, unique in the page.
    """
    text = chart.svg.decode()
    text = re.sub(r"^.*?(?=<svg)", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text)
    text = re.sub(r"url\(#", f"url(#{prefix}-", text)
    text = re.sub(r"(font: (?:[\w.]+ )*[\d.]+px) [^;\"]*", r"\1 var(--face)", text)
    for name, colour in INK.items():
        text = text.replace(colour, f"var(--{name})")
    opening = f'<svg role="img" aria-label="{escape(f"{chart.title}. {chart.description}")}" '
    text = re.sub(r"<svg ", lambda _: opening, text, count=1)
    text = re.sub(r' width="[\d.]+pt"', "", text, count=1)
    text = re.sub(r' height="[\d.]+pt"', "", text, count=1)
    return Markup(text)  # made by matplotlib, which escapes the words in it
