"""Conversion of columns to data frames. pandas, polars and pyarrow are imported on first use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from a2perf._version import __version__
from a2perf.api.columns import Kind, Stored
from a2perf.errors import MissingDependency, install_hint

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Library: TypeAlias = Literal["pandas", "polars", "arrow"]
LIBRARIES: tuple[Library, ...] = ("pandas", "polars", "arrow")
_PANDAS_DTYPES: dict[Kind, str] = {"int": "Int64", "bool": "boolean"}
"""Types of pandas for whole numbers and truth values with missing ones."""


def pandas_frame(
    columns: Mapping[str, Stored], kinds: Mapping[str, Kind], attrs: Mapping[str, Any]
) -> pandas.DataFrame:
    """Returns a pandas data frame with these ``attrs``."""
    library = _package("pandas")
    series = {}
    for name, values in columns.items():
        if isinstance(values, np.ndarray):
            series[name] = values.copy()
        else:
            series[name] = library.Series(list(values), dtype=_PANDAS_DTYPES.get(kinds[name], "object"))
    frame: pandas.DataFrame = library.DataFrame(series, columns=list(columns))
    frame.attrs.update(attrs)
    return frame


def arrow_table(
    columns: Mapping[str, Stored], kinds: Mapping[str, Kind], described: Mapping[str, Mapping[str, str]], title: str
) -> pyarrow.Table:
    """Returns an Arrow table.

    Args:
        columns: values by name; NaN becomes null.
        kinds: kind by name.
        described: metadata of the fields: key -> column -> value.
        title: metadata of the schema.
    """
    library = _package("pyarrow")
    types = {"float": library.float64(), "int": library.int64(), "bool": library.bool_(), "text": library.string()}
    fields, arrays = [], []
    for name, values in columns.items():
        metadata = {key: held[name] for key, held in described.items() if name in held}
        fields.append(library.field(name, types[kinds[name]], metadata=metadata or None))
        # from_pandas makes NaN null
        arrays.append(library.array(values, type=types[kinds[name]], from_pandas=True))
    schema = library.schema(fields, metadata={"title": title, "a2perf_version": __version__})
    return library.Table.from_arrays(arrays, schema=schema)


def polars_frame(table: pyarrow.Table) -> polars.DataFrame:
    """Returns an Arrow table as a polars data frame."""
    return _package("polars").from_arrow(table)


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingDependency(
            f"a data frame needs the package {error.name or name}, which is not installed",
            hint=install_hint("frames"),
        ) from error
