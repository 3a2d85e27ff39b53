"""Numbers keep unit, spread and provenance in every format, and words of strangers cannot break out of any."""

from __future__ import annotations

import math

import pytest

from a2perf.report.numbers_text import rounded
from a2perf.report.tables import Column, Quantity, Table, Text, quantity_text, to_html, to_markdown


@pytest.mark.parametrize(
    ("value", "unit", "spread", "expected"),
    [
        (119.3421, "", 3.3712, ("119.3", "3.4", "")),
        (0.000105812, "s", None, ("106", "", "µs")),
        (0.0141, "s", None, ("14.1", "", "ms")),
        (83.24, "s", None, ("83.2", "", "s")),
        (7500.0, "s", None, ("2.08", "", "h")),
        (227 * 2**20, "bytes", None, ("227", "", "MiB")),
        (3.0812e-4, "kWh", None, ("308", "", "mWh")),
        (8.316e-6, "kWh", None, ("8.32", "", "mWh")),
        (5.01e-8, "kWh", None, ("0.180", "", "J")),
        (0.04, "kWh", 0.0012, ("40.0", "1.2", "Wh")),
        (329.799 * 2**20, "bytes", 0.055 * 2**20, ("329.8", "0.1", "MiB")),
        (1109.0, "J", None, ("1.11", "", "kJ")),
        (-12.5, "", 0.25, ("−12.50", "0.25", "")),
        (123456.0, "", None, ("123\u202f456", "", "")),
        (5.0, "", 0.0002, ("5.00000", "0.00020", "")),
        (-0.98, "", 1.1e-16, ("−0.9800", "0", "")),
        (0.0, "s", None, ("0", "", "s")),
        (-0.0001, "", 1.0, ("0.0", "1.0", "")),
        (math.nan, "W", 1.0, ("not a number", "", "W")),
        (-math.inf, "W", None, ("−∞", "", "W")),
    ],
)
def test_numbers_are_rounded_to_their_spread_and_scaled(
    value: float, unit: str, spread: float | None, expected: tuple[str, str, str]
) -> None:
    number = rounded(value, unit, spread)
    assert (number.value, number.spread, number.unit) == expected


def test_a_quantity_without_a_value_says_why() -> None:
    assert quantity_text(Quantity(value=None, note="no finished episode")) == "– (no finished episode)"


def _table(word: str) -> Table:
    return Table(
        name="t",
        caption=word,
        columns=(
            Column(key="run", title="Run"),
            Column(key="energy", title="Energy", align="right"),
            Column(key="latency", title="Latency", align="right"),
        ),
        rows=(
            (
                Text(text=word, detail=word, href="#x", state="failed"),
                Quantity(value=1 / 3, unit="W", spread=0.1, n=4, provenance="estimated", method="model"),
                Quantity(value=1e-4, unit="s", provenance="measured", beside=f"p99 {word}"),
            ),
        ),
    )


def test_estimated_values_are_marked_and_measured_ones_are_not() -> None:
    for rendered in (to_html(_table("a")), to_markdown(_table("a"))):
        assert rendered.count("≈") == 1
    assert "estimated" in to_html(_table("a"))


def test_strange_words_stay_words() -> None:
    word = '<img src=x onerror="alert(1)"> | a_b*c*\n# heading'
    html = to_html(_table(word))
    assert "<img" not in html
    assert html.count("&lt;img") == 5  # label, caption, text, detail and what stands beside a number
    lines = to_markdown(_table(word)).splitlines()
    assert len(lines) == 3
    assert lines[2].count(" | ") == 2
    assert "\\|" in lines[2]
    assert "<img" not in lines[2]
