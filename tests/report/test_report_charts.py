"""Charts lose no peak, cope with the least of data, and are the same bytes for the same input."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

from a2perf.report.figures import charts
from a2perf.report.figures import compared_charts as compared
from a2perf.report.figures.compared_charts import Lines
from a2perf.report.figures.drawing import INK, POINTS_SHOWN, inline_svg, interactive, pictures
from a2perf.report.learning import pooled_over_runs
from a2perf.runs.bundles.tables import CsvTable


def test_thinning_keeps_every_peak_and_both_ends() -> None:
    x = np.arange(100_000, dtype=float)
    y = np.zeros_like(x)
    y[31_415], y[27_182] = 9.0, -9.0
    few_x, few_y = charts.thinned(x, y, 600)
    assert few_x.size <= 602
    assert (few_x[0], few_x[-1]) == (0.0, 99_999.0)
    assert few_x[few_y.argmax()] == 31_415
    assert few_x[few_y.argmin()] == 27_182


def test_rates_over_a_moment_and_costs_of_an_ended_tree_are_blanked() -> None:
    seconds = np.array([0.0005, 1.0, 2.0, 2.5])
    trace = CsvTable(
        {
            "processes": np.array([2.0, 2.0, 2.0, 0.0]),
            "cpu_percent": np.array([9342.0, 90.0, 80.0, 0.0]),
            "rss_bytes": np.array([1e6, 2e6, 3e6, 0.0]),
        },
        4,
    )
    kept = charts.reliable(trace, seconds).columns
    assert np.isnan(kept["cpu_percent"]).tolist() == [True, False, False, True]
    assert np.isnan(kept["rss_bytes"]).tolist() == [False, False, False, True]


def _trace(rows: int, **numbers: float) -> CsvTable:
    return CsvTable({name: np.full(rows, value) for name, value in numbers.items()}, rows)


ONE = Lines("run", 0, [("seed 1", np.array([5.0]), np.array([1.0]))])


@pytest.mark.parametrize(
    "build",
    [
        partial(charts.episode_returns, np.array([3.0])),
        partial(compared.times, [("a", 0, np.array([1e-4]))]),
        partial(compared.times, [("a", 0, np.full(10, 2e-3)), ("b", 1, np.array([1e-9, 40.0]))]),
        partial(compared.times, [("a", 0, np.full(10, 2e-3))], log=False),
        partial(compared.dots, [("$\\frac{", 0, [np.array([1.0])]), ("ü 猫 <b>", 10, [np.zeros(2), np.ones(1)])]),
        partial(compared.intervals, [("a", 0, -0.5, None), ("x" * 300, 0, 0.0, (0.0, 0.0))], x_name="reward"),
        partial(compared.lines, [ONE], x_name="steps", y_name="return"),
        partial(compared.lines, [ONE] * 30, x_name="time", y_name="power", x_unit="s", y_unit="W", log=True),
        partial(charts.system_over_time, _trace(2, cpu_percent=0.0), np.array([0.0, 1.0])),
        partial(charts.system_over_time, _trace(2, rss_bytes=5e9, cpu_power_w=np.nan), np.array([0.0, 0.0])),
    ],
)
def test_charts_draw_the_least_of_data(build: partial) -> None:  # type: ignore[type-arg]
    made = pictures(build)
    assert made["svg"].startswith(b"<?xml")
    assert made["pdf"].startswith(b"%PDF")


def test_a_chart_is_the_same_bytes_whatever_the_users_settings_are() -> None:
    import matplotlib

    build = partial(charts.episode_returns, np.array([1.0, 2.0]))
    first = pictures(build)
    with matplotlib.rc_context({"font.size": 31, "axes.grid": False, "text.usetex": True}):
        assert pictures(build) == first


def test_inside_the_page_colours_follow_the_theme_and_names_are_escaped() -> None:
    drawn = [('<b>"', 0, 1.5, (1.0, 2.0))]
    chart = interactive(
        "n", 'A "title"', "c", "<description>", {"linear": partial(compared.intervals, drawn, x_name="x")}
    )
    text = inline_svg(chart, "p1")
    assert text.startswith('<svg role="img" aria-label="A &#34;title&#34;. &lt;description&gt;"')
    assert not [colour for colour in INK.values() if colour in text]
    assert "var(--blue)" in text
    assert "<b>" not in text
    assert 'id="p1-' in text
    assert "url(#p1-" in text or 'href="#p1-' in text


def _learning(name: str, place: int, level: float) -> Lines:
    steps = np.arange(0.0, 1000.0, 10.0)
    runs = [(steps, level + steps / 100 + offset) for offset in (-1.0, 0.0, 1.0)]
    named = [(f"seed {number}", x, y) for number, (x, y) in enumerate(runs)]
    return Lines(name, place, named, *(pooled_over_runs(runs) or ()))


def test_the_line_of_several_runs_is_their_mean_and_its_band_holds_it() -> None:
    lines = _learning("ppo", 0, 5.0)
    assert lines.x is not None
    assert lines.mean is not None
    assert lines.low is not None
    assert lines.high is not None
    assert lines.mean == pytest.approx(5.0 + lines.x / 100, abs=0.06)
    assert (lines.low < lines.mean).all()
    assert (lines.mean < lines.high).all()
    # Student's interval of three values that lie 1 apart: 4.303 standard errors to either side
    assert float((lines.high - lines.low).max()) == pytest.approx(2 * 4.30265 / 3**0.5, rel=0.01)


def test_runs_that_share_no_range_have_no_common_line() -> None:
    early, late = np.arange(5.0), np.arange(10.0, 15.0)
    assert pooled_over_runs([(early, early), (late, late)]) is None


def test_artists_of_a_series_are_found_by_its_key_and_points_by_the_frame() -> None:
    algorithms = [_learning("a", 0, 5.0), _learning("b", 1, 9.0)]
    chart = interactive(
        "n",
        "t",
        "c",
        "d",
        {
            "linear": partial(compared.lines, algorithms, x_name="steps", y_name="return"),
            "log": partial(compared.lines, algorithms, x_name="steps", y_name="return", log=True),
        },
    )
    assert [view.name for view in chart.views] == ["n", "n-log"]
    assert [series.label for series in chart.groups] == ["a", "b"]
    assert [series.label for series in chart.members][:2] == ["a, seed 0", "a, seed 1"]
    text = inline_svg(chart, "p")
    for series in chart.series:
        assert f'id="p-{series.key}' in text
    data = chart.data()
    linear, log = data["views"]
    assert (linear["y"][2], log["y"][2]) == ("linear", "log")
    # the first point of a line lies where the drawing has it
    first = data["series"][1]["points"][0]
    left, top, width, height = linear["box"]
    x = left + width * (first[0] - linear["x"][0]) / (linear["x"][1] - linear["x"][0])
    y = top + height * (1 - (first[1] - linear["y"][0]) / (linear["y"][1] - linear["y"][0]))
    drawn = re.search(r'id="s0-r0-line2d0">\s*<path d="M ([\d.]+) ([\d.]+)', chart.svg.decode())
    assert drawn is not None
    assert (float(drawn[1]), float(drawn[2])) == pytest.approx((x, y), abs=0.01)


def test_a_long_series_is_read_out_at_as_many_points_as_a_screen_shows() -> None:
    steps = np.arange(100_000.0)
    lines = [Lines("a", 0, [("seed 1", steps, steps)])]
    chart = interactive("n", "t", "c", "d", {"linear": partial(compared.lines, lines, x_name="x", y_name="y")})
    (series,) = chart.data()["series"]
    assert len(series["points"]) == POINTS_SHOWN
    assert series["points"][0] == [0.0, 0.0]
    assert series["points"][-1] == [99_999.0, 99_999.0]
