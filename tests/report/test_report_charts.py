"""Charts lose no peak, cope with the least of data, and are the same bytes for the same input."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from a2perf.report import charts
from a2perf.report.columns import Columns
from a2perf.report.drawing import INK, Chart, draw, inline_svg


def test_thinning_keeps_every_peak_and_both_ends() -> None:
    x = np.arange(100_000, dtype=float)
    y = np.zeros_like(x)
    y[31_415], y[27_182] = 9.0, -9.0
    few_x, few_y = charts.thinned(x, y, 600)
    assert few_x.size <= 602
    assert (few_x[0], few_x[-1]) == (0.0, 99_999.0)
    assert few_x[few_y.argmax()] == 31_415
    assert few_x[few_y.argmin()] == 27_182


def test_running_mean_of_a_line_is_the_line() -> None:
    line = np.arange(50.0)
    assert charts.running_mean(line, 5)[2:-2] == pytest.approx(line[2:-2])
    assert charts.running_mean(line, 5)[0] == pytest.approx(1.0)


def test_jitter_stays_within_its_row() -> None:
    offsets = charts.jitter(1000)
    assert np.abs(offsets).max() <= 0.22
    assert abs(offsets.mean()) < 0.01


def test_rates_over_a_moment_and_costs_of_an_ended_tree_are_blanked() -> None:
    seconds = np.array([0.0005, 1.0, 2.0, 2.5])
    trace = Columns(
        {
            "processes": np.array([2.0, 2.0, 2.0, 0.0]),
            "cpu_percent": np.array([9342.0, 90.0, 80.0, 0.0]),
            "rss_bytes": np.array([1e6, 2e6, 3e6, 0.0]),
        },
        {},
        4,
        (),
    )
    kept = charts.reliable(trace, seconds).numbers
    assert np.isnan(kept["cpu_percent"]).tolist() == [True, False, False, True]
    assert np.isnan(kept["rss_bytes"]).tolist() == [False, False, False, True]


def _trace(rows: int, **numbers: float) -> Columns:
    return Columns({name: np.full(rows, value) for name, value in numbers.items()}, {}, rows, ())


@pytest.mark.parametrize(
    "build",
    [
        partial(charts.episode_returns, np.array([3.0])),
        partial(charts.latency, {"infer_once": np.array([1e-4])}),
        partial(charts.latency, {"infer_once": np.full(10, 2e-3), "round_trip": np.array([1e-9, 40.0])}),
        partial(charts.reward_terms, {"a": np.array([-0.5]), "x" * 300: np.array([0.0, 0.0])}),
        partial(charts.returns_by_group, {"$\\frac{": np.array([1.0]), "ü 猫 <b>": np.array([1.0, 2.0])}),
        partial(charts.learning_curve, [("run", np.array([5.0]), np.array([1.0]))], "steps", "return"),
        partial(charts.system_over_time, _trace(2, cpu_percent=0.0), np.array([0.0, 1.0])),
        partial(charts.system_over_time, _trace(2, rss_bytes=5e9, cpu_power_w=np.nan), np.array([0.0, 0.0])),
    ],
)
def test_charts_draw_the_least_of_data(build: partial) -> None:  # type: ignore[type-arg]
    svg, pdf = draw(build)
    assert svg.startswith(b"<?xml")
    assert pdf.startswith(b"%PDF")


def test_a_chart_is_the_same_bytes_whatever_the_users_settings_are() -> None:
    import matplotlib

    build = partial(charts.returns_by_group, {"a": np.array([1.0, 2.0])})
    first = draw(build)
    with matplotlib.rc_context({"font.size": 31, "axes.grid": False, "text.usetex": True}):
        assert draw(build) == first


def test_inside_the_page_colours_follow_the_theme_and_names_are_escaped() -> None:
    svg, pdf = draw(partial(charts.returns_by_group, {'<b>"': np.array([1.0, 2.0])}))
    chart = Chart("n", 'A "title"', "c", "<description>", svg, pdf)
    text = inline_svg(chart, "p1")
    assert text.startswith('<svg role="img" aria-label="A &#34;title&#34;. &lt;description&gt;"')
    assert not [colour for colour in INK.values() if colour in text]
    assert "var(--blue)" in text
    assert "<b>" not in text
    assert 'id="p1-' in text
    assert "url(#p1-" in text or 'href="#p1-' in text
