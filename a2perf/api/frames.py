"""Data frames of recorded data: ``to_frame``, ``Table`` and the concatenation of tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from a2perf.api.columns import Kind, Stored
from a2perf.api.frame_libraries import LIBRARIES, Library
from a2perf.api.table import Table as Table
from a2perf.api.table import Tabular as Tabular
from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.plain_text import plain_text


def to_frame(given: Tabular | Iterable[Tabular], *, library: Library = "pandas") -> Any:
    """Converts results to a data frame of pandas, polars or Arrow.

    Args:
        given: a ``Table``, ``Scores``, ``Runs``, ``Result``, ``Comparison`` or ``Tasks``, or several of them in a
            sequence. Several are concatenated; a column ``run`` names the part if the parts have no such column.
        library: ``"pandas"``, ``"polars"`` or ``"arrow"``.

    Returns:
        One row per run, episode, step or score, with units in ``attrs`` (pandas) or in the metadata (Arrow). Nothing
        is averaged. A frame can hold several tasks with returns on different scales: group by ``task`` before you
        average.

    Raises:
        ConfigError: an unknown library, or an object that is not tabular.
        UserError: parts have a column of the same name in different units or of different kinds.
        MissingDependency: the library is not installed.

    Example:
        >>> frame = a2perf.to_frame(a2perf.read_runs("results/recorded"))
        >>> frame.groupby(["task", "algorithm"])["return"].mean()
    """
    if library not in LIBRARIES:
        near = did_you_mean(str(library), LIBRARIES)
        raise ConfigError(f"unknown library {library!r}{near}", hint=f"use one of {', '.join(LIBRARIES)}")
    found = _tabular(given)
    if library == "pandas":
        return found.to_pandas()
    return found.to_polars() if library == "polars" else found.to_arrow()


def concatenated(tables: Sequence[Table], *, title: str = "") -> Table:
    """Returns the rows of several tables in one; a column that a table does not have is missing in its rows.

    Raises:
        UserError: a column has different units or kinds.
    """
    names = list(dict.fromkeys(name for table in tables for name in table.columns))
    kinds: dict[str, Kind] = {name: _common_kind(name, tables) for name in names}
    columns: dict[str, Stored | list[Any]] = {}
    for name in names:
        parts = [table[name] if name in table else (None,) * len(table) for table in tables]
        arrays = [part for part in parts if isinstance(part, np.ndarray)]
        if len(arrays) == len(parts):
            columns[name] = np.concatenate(arrays)
        else:
            columns[name] = [value for part in parts for value in _values(part)]
    same = {name: {table.provenance.get(name) for table in tables if name in table} for name in names}
    return Table(
        columns,
        title=title or (tables[0].title if len({table.title for table in tables}) == 1 else ""),
        units={name: _common_unit(name, tables) for name in names},
        provenance={
            name: next(iter(of)) or "" if len(of) == 1 else "mixed" for name, of in same.items() if of != {None}
        },
        row_units=_merged(table.row_units for table in tables),
        row_provenance=_merged(table.row_provenance for table in tables),
        descriptions=_merged(table.descriptions for table in tables),
        kinds=kinds,
    )


def _tabular(given: object) -> Tabular:
    if isinstance(given, Tabular):
        return given
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        parts = list(given)
        if parts and all(isinstance(part, Tabular) for part in parts):
            return concatenated([_with_run(part.table(), number) for number, part in enumerate(parts)])
        if not parts:
            raise ConfigError("there is nothing to convert: the sequence is empty", hint="give at least one result")
        given = next(part for part in parts if not isinstance(part, Tabular))
    raise ConfigError(
        f"{type(given).__name__} cannot be converted to a data frame",
        hint="give a Table, Scores, Runs, Result, Comparison or Tasks, or a sequence of them",
    )


def _with_run(table: Table, number: int) -> Table:
    if "run" in table:
        return table
    name = plain_text(table.title) or str(number)
    return table.rebuilt({"run": [name] * len(table), **{column: table[column] for column in table.columns}})


def _common_kind(name: str, tables: Sequence[Table]) -> Kind:
    kinds = {table.kinds[name] for table in tables if name in table}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds == {"int", "float"}:
        return "float"
    raise UserError(
        f"the column {name!r} holds values of different kinds: {', '.join(sorted(kinds))}",
        hint="convert these tables one by one",
    )


def _common_unit(name: str, tables: Sequence[Table]) -> str:
    units = {table.units.get(name, "") for table in tables if name in table}
    if len(units) == 1:
        return units.pop()
    listed = ", ".join(sorted(unit or "no unit" for unit in units))
    raise UserError(f"the column {name!r} has different units: {listed}", hint="convert these tables one by one")


def _merged(mappings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: value for mapping in mappings for name, value in mapping.items()}


def _values(column: Stored) -> Iterable[Any]:
    values: Iterable[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return values
