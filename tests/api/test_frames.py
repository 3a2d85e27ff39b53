"""Tables: read-only columns, data frames with units, and text that strangers cannot abuse."""

from __future__ import annotations

import math
import pickle
import sys
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2perf.api.views.table import Table
from a2perf.errors import ConfigError, MissingDependency


@pytest.fixture
def table() -> Table:
    """Two rows with each kind of column and missing values."""
    return Table(
        {
            "run": ["a", None],
            "seed": [1, None],
            "steps": [10, 20],
            "latency": [0.0012, None],
            "ok": [True, None],
            "value": [1.5, 2e-6],
            "unit": ["s", "kWh"],
            "how": ["measured", "estimated"],
        },
        title="Calls",
        units={"latency": "s"},
        provenance={"latency": "measured"},
        row_units={"value": "unit"},
        row_provenance={"value": "how"},
        descriptions={"seed": "root seed"},
    )


def test_columns_are_arrays_that_cannot_be_changed(table: Table) -> None:
    assert table.columns == ("run", "seed", "steps", "latency", "ok", "value", "unit", "how")
    np.testing.assert_array_equal(table["latency"], [0.0012, np.nan])
    assert table["seed"] == (1, None)
    assert table["run"] == ("a", None)
    with pytest.raises(ValueError, match="read-only"):
        table["latency"][0] = 1.0  # type: ignore[index]
    assert len(table) == 2
    assert "seed" in table
    assert "sead" not in table
    assert list(table) == list(table.columns)


def test_an_array_that_is_given_stays_the_callers() -> None:
    values = np.array([1.0, 2.0])
    table = Table({"x": values})
    values[0] = 9.0
    assert table["x"].tolist() == [1.0, 2.0]  # type: ignore[union-attr]


def test_rows_are_python_values(table: Table) -> None:
    first, second = table.rows()
    assert first == {
        "run": "a",
        "seed": 1,
        "steps": 10,
        "latency": 0.0012,
        "ok": True,
        "value": 1.5,
        "unit": "s",
        "how": "measured",
    }
    assert type(first["steps"]) is int
    assert second["run"] is None
    assert math.isnan(second["latency"])


def test_an_unknown_column_names_the_near_one(table: Table) -> None:
    with pytest.raises(ConfigError, match=r"no column 'laency'; did you mean 'latency'\?"):
        table["laency"]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"a": [1], "b": [1, 2]}, ValueError, "differ in length"),
        ({"a": [1, "x"]}, TypeError, "several kinds: int, text"),
        ({"a": [object()]}, TypeError, "holds object"),
        ({"a": np.zeros((2, 2))}, ValueError, "2 dimensions"),
    ],
)
def test_columns_that_are_not_columns(columns: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Table(columns)


def test_a_keyword_for_a_column_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such column: b"):
        Table({"a": [1]}, units={"b": "s"})


def test_pandas_has_units_and_provenance_in_attrs(table: Table) -> None:
    frame = table.to_pandas()
    assert frame.attrs == {"units": {"latency": "s"}, "provenance": {"latency": "measured"}, "title": "Calls"}
    assert [str(kind) for kind in frame.dtypes] == [
        "object",
        "Int64",
        "int64",
        "float64",
        "boolean",
        "float64",
        "object",
        "object",
    ]
    assert frame["seed"].tolist() == [1, pandas.NA]
    assert frame["latency"].isna().tolist() == [False, True]


def test_equal_tables_have_equal_content_units_and_provenance(table: Table) -> None:
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert Table({"x": [1.0, None]}) == Table({"x": np.array([1.0, np.nan])})
    assert Table({"x": [1.0]}) != Table({"x": [1.0]}, units={"x": "s"})
    assert Table({"x": [1]}) != Table({"x": [1.0]})
    assert Table({"x": [1]}) != "x"


def test_text_marks_estimates_scales_units_and_fits_80_columns(table: Table) -> None:
    assert repr(table).splitlines() == [
        "Calls: 2 rows, 8 columns",
        "run  seed  steps  latency (ms)  ok      value",
        "a       1     10          1.20  True   1.50 s",
        "–       –     20             –  –     ≈ 2 mWh",
    ]
    wide = Table({f"column_{number}": ["some text", "another"] * 30 for number in range(30)})
    lines = repr(wide).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[7] == "… 50 more"
    assert lines[-1].endswith("others")


def test_a_text_that_all_rows_share_is_printed_once() -> None:
    text = repr(Table({"algorithm": ["ppo"] * 3, "x": [1, 2, 3]}))
    assert text.count("ppo") == 1
    assert text.endswith("in all rows: algorithm ppo")


HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e\nsecond"


def test_names_of_strangers_are_escaped_in_text_and_html() -> None:
    table = Table({HOSTILE: [1], "b": [HOSTILE]}, title=HOSTILE, descriptions={"b": '"><script>'})
    text, html = repr(table), table._repr_html_()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert "<script" not in html
    assert "\x1b" not in html
    assert "&lt;script&gt;" in html


def test_html_shows_the_first_and_last_rows_with_units() -> None:
    html = Table({"x": np.arange(5000) * 1e-3}, units={"x": "s"}, title="Times")._repr_html_()
    assert html.count("<tr") == 22  # heading, 20 rows, the gap
    assert "4980 more rows" in html
    assert "<caption>Times</caption>" in html
    assert "script" not in html
    assert "http" not in html
    assert "#" not in html.partition("</style>")[0]  # no fixed colour


def test_a_missing_library_names_the_extra(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependency) as caught:
        table.to_pandas()
    assert str(caught.value) == (
        "a data frame needs the package pandas, which is not installed\n  Hint: pip install pandas"
    )


_TEXT = st.text(max_size=12)
_COLUMNS = {
    "float": st.none() | st.floats(allow_nan=True, allow_infinity=True),
    "int": st.none() | st.integers(-(2**62), 2**62),
    "bool": st.none() | st.booleans(),
    "text": st.none() | _TEXT.filter(lambda text: text.isprintable()),
}


@st.composite
def tables(draw: Any) -> Table:
    rows = draw(st.integers(0, 30))
    names = draw(st.lists(_TEXT.filter(lambda text: text.isprintable()), unique=True, max_size=6))
    kinds = {name: draw(st.sampled_from(sorted(_COLUMNS))) for name in names}
    columns = {name: draw(st.lists(_COLUMNS[kind], min_size=rows, max_size=rows)) for name, kind in kinds.items()}
    numbers = [name for name, kind in kinds.items() if kind == "float"]
    units = {name: draw(st.sampled_from(["s", "kWh", "bytes", "%", ""])) for name in numbers}
    return Table(columns, title=draw(_TEXT), units=units, kinds=kinds)


@pytest.mark.parametrize("value", [5e-324, 1e-300, 1.7e308, -1.7e308, math.inf, 0.0])
@pytest.mark.parametrize("unit", ["", "s", "kWh", "bytes"])
def test_the_smallest_and_largest_numbers_print(value: float, unit: str) -> None:
    for table in (
        Table({"x": [value, 1.0]}, units={"x": unit}),
        Table({"x": [value]}, units={"x": unit}),
        Table({"x": [value], "u": [unit]}, row_units={"x": "u"}),
    ):
        assert len(repr(table).splitlines()) >= 3


@settings(max_examples=60, deadline=None)
@given(tables())
def test_any_table_prints_pickles_and_converts(table: Table) -> None:
    assert pickle.loads(pickle.dumps(table)) == table
    assert max((len(line) for line in repr(table).splitlines()), default=0) <= 80
    assert "<script" not in table._repr_html_()
    frame = table.to_pandas()
    assert list(frame.columns) == list(table.columns)
    assert len(table) == len(list(table.rows())) or not table.columns
    for name in table.columns:
        wanted = [None if value is None or value != value else value for value in _plain(table, name)]
        assert [None if pandas.isna(value) else value for value in frame[name]] == wanted


def _plain(table: Table, name: str) -> list[Any]:
    values = table[name]
    return values.tolist() if isinstance(values, np.ndarray) else list(values)
