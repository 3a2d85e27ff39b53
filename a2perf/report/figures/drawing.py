"""From a chart to bytes: one style, SVG and PDF, the same bytes for the same input.

Charts are drawn in the named colours of ``INK``. Files for papers keep them; in a page each becomes a CSS variable, and
one drawing serves light and dark. Ids of a series' artists begin with its key, and ``Chart.data`` has the position of
the axes; with these the script of the page hides series and reads values.
matplotlib is imported when the first chart is drawn.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import io
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from markupsafe import Markup, escape

from a2perf.plain_text import terminal_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
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
    "teal": "#1f8fa3",
    "pink": "#c24f8c",
    "olive": "#7f7f26",
    "brown": "#8c5a3c",
}
"""Colour of each role on a light page; the page's style sheet defines ``--NAME`` for light and dark."""

SERIES = ("blue", "orange", "green", "violet", "red", "teal", "pink", "olive", "brown")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.2, 1.2)))
"""Line styles; each is used with all colours before the next one starts."""
POINTS_SHOWN = 160
"""Points of a series that the page can read out; more would be indistinguishable on a screen."""
FEWEST_POINTS, POINTS_OF_A_CHART = 32, 4_800
"""A chart of many series has fewer points of each, one per 10 points of its width or more."""
WIDTH_IN = 5.4
"""Width of a chart; at this width 9-point text is readable on a phone and not too large on a screen."""

_STYLE: dict[str, Any] = {
    "svg.hashsalt": "a2perf",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "font.family": "sans-serif",
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

_WITHOUT_DATES: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
_EXTRA: dict[str, dict[str, Any]] = {"png": {"dpi": 160, "facecolor": "white"}}


_WHOLE_FONT, _LIGHT_FONT = "DejaVu Sans", "A2perf Sans"
# Latin with its additions, Greek, Cyrillic, punctuation, super- and subscripts, currency, arrows and operators
_FONT_RANGES = ((0x20, 0x250), (0x370, 0x530), (0x2000, 0x2300))


@dataclasses.dataclass(frozen=True)
class ChartSeries:
    """What belongs together in a chart: the line, band or row of one algorithm, or the line of one of its runs.

    Attributes:
        points: what can be read out: ``(x, y)`` or ``(x, y, low, high)`` in the units of the axes.
        parent: key of the algorithm that a run belongs to.
    """

    key: str
    label: str
    colour: str
    points: Sequence[Sequence[float]] = ()
    parent: str = ""


@dataclasses.dataclass(frozen=True)
class Drawing:
    """A figure with what its one pair of axes shows.

    Attributes:
        legend_in: height in inches at the bottom that holds the legend; the page cuts it off, since it has its own.
        x_name, y_name: names in what is read out; a y name of ``""`` leaves y out.
        x_unit, y_unit: units in what is read out; seconds and bytes are scaled.
    """

    figure: Figure
    axes: Axes
    series: tuple[ChartSeries, ...]
    x_name: str
    y_name: str
    x_unit: str = ""
    y_unit: str = ""
    legend_in: float = 0.0


@dataclasses.dataclass(frozen=True)
class View:
    """One drawing of a chart: linear or logarithmic.

    Attributes:
        pdf: the same for LaTeX; empty where only a page is made.
        frame: where the axes lie in the drawing and what they span; empty for a chart that nothing is read out of.
    """

    name: str
    scale: str
    svg: bytes
    pdf: bytes
    frame: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Chart:
    """A drawn chart."""

    name: str
    title: str
    caption: str
    description: str
    views: tuple[View, ...]
    series: tuple[ChartSeries, ...] = ()

    @property
    def svg(self) -> bytes:
        """The first view as SVG."""
        return self.views[0].svg

    @property
    def groups(self) -> list[ChartSeries]:
        """The series that stand for themselves: algorithms."""
        return [series for series in self.series if not series.parent]

    @property
    def members(self) -> list[ChartSeries]:
        """The series that belong to another: single runs."""
        return [series for series in self.series if series.parent]

    def data(self) -> dict[str, Any]:
        """Returns what the page's script needs."""
        most = min(POINTS_SHOWN, max(FEWEST_POINTS, POINTS_OF_A_CHART // max(1, len(self.series))))
        return {
            "views": [view.frame for view in self.views],
            "series": [
                {
                    "key": series.key,
                    "label": series.label,
                    "parent": series.parent,
                    "points": [[float(f"{number:.7g}") for number in point] for point in _few(series.points, most)],
                }
                for series in self.series
            ],
        }


def series_key(group: int, member: int | None = None) -> str:
    """Returns the key of the ``group``-th series, or of the ``member``-th run in it."""
    return f"s{group}-" if member is None else f"s{group}-r{member}-"


def tag(key: str, *artists: Artist) -> None:
    """Gives artists ids that the page uses to find their series."""
    for number, artist in enumerate(artists):
        artist.set_gid(f"{key}{type(artist).__name__.lower()}{number}")


def new_figure(height_in: float = 2.8) -> Figure:
    """Returns an empty figure of the common width; only within ``draw``."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH_IN, height_in))


_KINDS: ContextVar[tuple[str, ...]] = ContextVar("_KINDS", default=("svg", "pdf"))


@contextlib.contextmanager
def only_in_pages() -> Iterator[None]:
    """Draws charts for a page alone, without a PDF each, which takes most of the time."""
    before = _KINDS.set(("svg",))
    try:
        yield
    finally:
        _KINDS.reset(before)


def single(name: str, title: str, caption: str, description: str, build: Callable[[], Figure]) -> Chart:
    """Draws a chart of one view that nothing is read out of."""
    made = pictures(build, _KINDS.get())
    return Chart(name, title, caption, description, (View(name, "linear", made["svg"], made.get("pdf", b"")),))


def interactive(
    name: str, title: str, caption: str, description: str, builds: dict[str, Callable[[], Drawing]]
) -> Chart:
    """Draws a chart with series that can be hidden and read out.

    Args:
        name: stem of its files; views but the first add their scale to it.
    """
    views: list[View] = []
    series: tuple[ChartSeries, ...] = ()
    for scale, build in builds.items():
        drawing, made = _pictures(build, _KINDS.get())
        assert isinstance(drawing, Drawing)
        series = drawing.series
        views.append(
            View(f"{name}-{scale}" if views else name, scale, made["svg"], made.get("pdf", b""), _frame(drawing))
        )
    return Chart(name, title, caption, description, tuple(views), series)


def pictures(build: Callable[[], Drawing | Figure], kinds: Sequence[str] = ("png", "pdf", "svg")) -> dict[str, bytes]:
    """Builds a figure in the house style and returns it in several formats, on white where a format has no page."""
    return _pictures(build, kinds)[1]


@contextlib.contextmanager
def chart_style() -> Iterator[None]:
    """Draws in the style of reports; the user's own matplotlib settings have no effect."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # a glyph missing from our font still appears in the page, which uses the reader's fonts
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(cast("Any", _STYLE))
        matplotlib.rcParams["font.sans-serif"] = _families()
        yield


@functools.cache
def _families() -> list[str]:
    """Returns the fonts to draw with: a subset of DejaVu Sans without layout tables, then the whole font.

    A PDF embeds the glyphs that it uses. Extracting them from the whole font takes longer than drawing the chart; from
    the subset, made once per process, it takes a third of that time.
    """
    import matplotlib
    from fontTools import subset  # type: ignore[import-untyped]
    from matplotlib import font_manager

    options = subset.Options(layout_features=[], hinting=False, name_IDs=["*"])
    options.drop_tables += ["GPOS", "GSUB", "GDEF", "kern", "FFTM"]
    source = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    font = subset.load_font(str(source), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=[sign for low, high in _FONT_RANGES for sign in range(low, high)])
    cutter.subset(font)
    for record in font["name"].names:
        if record.nameID in (1, 4, 16):  # names of the family
            record.string = _LIGHT_FONT
    folder = Path(tempfile.mkdtemp(prefix="a2perf-font-"))
    # matplotlib opens the file again for every chart, and it has to live as long as the process
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    font.save(str(folder / "light.ttf"))
    font_manager.fontManager.addfont(str(folder / "light.ttf"))
    return [_LIGHT_FONT, _WHOLE_FONT]


def remove_control_characters(figure: Figure) -> None:
    """Replaces the characters in the texts of a figure that SVG cannot hold."""
    from matplotlib.text import Text

    for element in figure.findobj(Text):
        text = element.get_text()
        if (printable := terminal_text(text)) != text:
            element.set_text(printable)


def _pictures(build: Callable[[], Any], kinds: Sequence[str]) -> tuple[Any, dict[str, bytes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with chart_style():
        built = build()
        figure = built.figure if isinstance(built, Drawing) else built
        FigureCanvasAgg(figure)
        for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
            if all(hasattr(axis, name) for name in _PRIVATE):
                axis.draw = functools.partial(_draw_axis, axis)  # type: ignore[method-assign]
        if {*kinds} != {"svg"}:  # in the text of an SVG they are replaced below, which takes less time
            remove_control_characters(figure)
        made = {}
        for kind in kinds:
            stream = io.StringIO() if kind == "svg" else io.BytesIO()
            figure.savefig(stream, format=kind, metadata=_WITHOUT_DATES[kind], **_EXTRA.get(kind, {}))
            content = stream.getvalue()
            made[kind] = terminal_text(content).encode() if isinstance(content, str) else content
    return built, made


_PRIVATE = ("_update_ticks", "_get_ticklabel_bboxes", "_update_label_position", "_update_offset_text_position")
"""What ``_draw_axis`` needs of matplotlib and is not public; a version without it draws its own axes."""


def _draw_axis(axis: Any, renderer: Any) -> None:
    """Draws an axis as matplotlib does, with one tick for all places: to make many takes most of a chart's time."""
    if not axis.get_visible():
        return
    renderer.open_group("matplotlib.axis")
    low, high = sorted(axis.get_transform().transform(axis.get_view_interval()))
    slack, boxes, drawn = (high - low) * 1e-10, [], []
    for which, places in (("major", axis.get_majorticklocs()), ("minor", axis.get_minorticklocs())):
        labels = getattr(axis, which).formatter.format_ticks(places)
        for place, label in zip(places, labels, strict=True):
            if low - slack <= axis.get_transform().transform(place) <= high + slack:
                tick = getattr(axis, f"{which}Ticks")[0]
                tick.update_position(place)
                tick.label1.set_text(label)
                tick.draw(renderer)
                boxes.append(tick.label1.get_window_extent(renderer))
                drawn.append(tick)
    axis._update_ticks, axis._get_ticklabel_bboxes = lambda: drawn, lambda *_: (boxes, [])
    axis._update_label_position(renderer)
    axis.label.draw(renderer)
    axis._update_offset_text_position(boxes, [])
    axis.offsetText.set_text(axis.major.formatter.get_offset())
    axis.offsetText.draw(renderer)
    renderer.close_group("matplotlib.axis")


def inline_svg(chart: Chart, prefix: str, view: int = 0) -> Markup:
    """Returns a view of a chart as an element of the page: themed, unique ids, an accessible name."""
    text = chart.views[view].svg.decode()
    text = re.sub(r"^.*?(?=<svg)", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text)
    text = re.sub(r"url\(#", f"url(#{prefix}-", text)
    text = re.sub(r"(font: (?:[\w.]+ )*[\d.]+px|font-family:) [^;\"]*", r"\1 var(--face)", text)
    text = _LINES.sub(_relative, text)
    text = re.sub(r"\n +", "\n", text)
    for name, colour in INK.items():
        text = text.replace(colour, f"var(--{name})")
    label = escape(terminal_text(f"{chart.title}. {chart.description}"))
    opening = f'<svg role="img" aria-label="{label}" '
    text = re.sub(r"<svg ", lambda _: opening, text, count=1)
    text = re.sub(r' width="[\d.]+pt"', "", text, count=1)
    text = re.sub(r' height="[\d.]+pt"', "", text, count=1)
    return Markup(text)  # made by matplotlib, which escapes the text in it


_LINES = re.compile(r"M [-\d.]+ [-\d.]+ \n(?:L [-\d.]+ [-\d.]+ \n)+")


def _relative(path: re.Match[str]) -> str:
    """Returns lines as steps, rounded to tenths of a point: a chart of many runs consists of them."""
    numbers = [round(10 * float(number)) for number in re.findall(r"[-\d.]+", path[0])]
    steps = numbers[:2] + [after - before for before, after in zip(numbers, numbers[2:], strict=False)]
    text = " ".join(f"{step / 10:g}" for step in steps).replace(" -", "-")
    return re.sub(r"\b0\.", ".", f"m{text}\n")


def _frame(drawing: Drawing) -> dict[str, Any]:
    """Returns where the axes lie, in the SVG's own units (points), and what they span."""
    width, height = (72.0 * float(side) for side in drawing.figure.get_size_inches())
    place = drawing.axes.get_position()
    box = (place.x0 * width, (1 - place.y1) * height, place.width * width, place.height * height)
    return {
        "size": [round(width, 3), round(height, 3)],
        "legend": round(72.0 * drawing.legend_in, 3),
        "box": [round(side, 3) for side in box],
        "x": [*(float(end) for end in drawing.axes.get_xlim()), drawing.axes.get_xscale()],
        "y": [*(float(end) for end in drawing.axes.get_ylim()), drawing.axes.get_yscale()],
        "names": [drawing.x_name, drawing.x_unit, drawing.y_name, drawing.y_unit],
    }


def _few(points: Sequence[Sequence[float]], most: int) -> Sequence[Sequence[float]]:
    if len(points) <= most:
        return points
    step = (len(points) - 1) / (most - 1)
    return [points[round(index * step)] for index in range(most)]
