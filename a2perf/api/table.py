"""Tables of recorded data.

A ``Table`` holds columns with units and provenance. pandas is imported on conversion only.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import numpy as np

from a2perf.api.columns import Columns, Kind, Stored, equal, store
from a2perf.errors import ConfigError, MissingDependency, UserError, did_you_mean, install_hint

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")
_PANDAS_DTYPES: dict[Kind, str] = {"int": "Int64", "bool": "boolean"}
"""Types of pandas for whole numbers and truth values with missing ones."""


class Tabular:
    """Base of everything that converts to a data frame; a subclass defines ``table``."""

    __slots__ = ()

    def table(self) -> Table:
        """Returns the data as a ``Table``."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a pandas data frame.

        ``frame.attrs`` holds ``units``, ``provenance`` (both by column) and ``title``. Missing numbers are NaN. Whole
        numbers and truth values with missing ones have the types ``Int64`` and ``boolean``.

        Raises:
            MissingDependency: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingDependency(
                f"a data frame needs the package {error.name}, which is not installed", hint=install_hint("frames")
            ) from error

        table = self.table()
        series: dict[str, Any] = {}
        for name, values in table.stored().items():
            if isinstance(values, np.ndarray):
                series[name] = values.copy()
            else:
                series[name] = pandas.Series(list(values), dtype=_PANDAS_DTYPES.get(table.kinds[name], "object"))
        frame = pandas.DataFrame(series, columns=list(series))
        frame.attrs = {"units": dict(table.units), "provenance": dict(table.provenance), "title": table.title}
        return frame


class Records(Sequence[T], Tabular):
    """An immutable sequence that converts to a data frame; a slice is of the same type.

    Args:
        held: the items.
    """

    _held: tuple[T, ...]

    def __init__(self, held: Iterable[T] = ()) -> None:
        object.__setattr__(self, "_held", tuple(held))

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> T | Self:
        return type(self)(self._held[index]) if isinstance(index, slice) else self._held[index]

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[T]:
        return iter(self._held)

    def __eq__(self, other: object) -> bool:
        return self._held == other._held if isinstance(other, type(self)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._held)


class Table(Columns, Tabular):
    """Columns of equal length with units and provenance. Immutable.

    Args:
        columns: values by column name: numbers, truth values or texts. None is a missing value.
        title: what the rows are.
        units: unit by column; ``""`` or no entry for a number without a unit, or in the unit of the reward.
        provenance: ``"measured"``, ``"estimated"``, ``"mixed"`` or ``"recorded"`` by column.
        row_units: columns with a unit per row: name of the column -> name of the text column with its units.
        row_provenance: the same for provenance.
        descriptions: one sentence by column.
        kinds: ``"float"``, ``"int"``, ``"bool"`` or ``"text"`` by column; by default found from the values.

    Attributes:
        title, units, provenance, row_units, row_provenance, descriptions, kinds: as given.

    Raises:
        ValueError: columns differ in length, or a keyword names a column that does not exist.
        TypeError: values of a column differ in kind.

    Example:
        >>> columns = {"seed": [0, 1], "latency": [0.0012, None]}
        >>> table = a2perf.Table(columns, units={"latency": "s"}, title="Calls")
        >>> table["latency"]
        array([0.0012,    nan])
        >>> table.to_pandas().attrs["units"]
        {'latency': 's'}
    """

    def __init__(
        self,
        columns: Mapping[str, Iterable[Any]],
        *,
        title: str = "",
        units: Mapping[str, str] | None = None,
        provenance: Mapping[str, str] | None = None,
        row_units: Mapping[str, str] | None = None,
        row_provenance: Mapping[str, str] | None = None,
        descriptions: Mapping[str, str] | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> None:
        stored: dict[str, Stored] = {}
        found: dict[str, Kind] = {}
        for name, values in columns.items():
            found[name], stored[name] = store(name, values, (kinds or {}).get(name))
        lengths = {len(values) for values in stored.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns differ in length: { {name: len(values) for name, values in stored.items()} }")
        given: dict[str, dict[str, Any]] = {
            "units": {name: unit for name, unit in (units or {}).items() if unit},
            "provenance": dict(provenance or {}),
            "row_units": dict(row_units or {}),
            "row_provenance": dict(row_provenance or {}),
            "descriptions": dict(descriptions or {}),
        }
        named = [*(kinds or {}), *(name for held in given.values() for name in held)]
        named += [*given["row_units"].values(), *given["row_provenance"].values()]
        if unknown := sorted(set(named) - set(stored)):
            raise ValueError(f"no such column: {', '.join(unknown)}")
        given |= {"kinds": found, "_columns": stored}
        fields = {name: MappingProxyType(values) for name, values in given.items()}
        self.__dict__.update(fields, title=title, _rows=lengths.pop() if lengths else 0)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    def __getitem__(self, name: str) -> Stored:
        """Returns a column.

        Returns:
            Numbers and truth values as a read-only array, shape ``(rows,)``: float64 with NaN for missing values, int64
            or bool. Text, and whole numbers or truth values with missing ones, as a tuple with None for them.

        Raises:
            ConfigError: the column is unknown.
        """
        try:
            return self._columns[name]
        except KeyError:
            near = did_you_mean(str(name), self._columns)
            message = f"the table has no column {name!r}{near}"
            raise ConfigError(message, hint=f"use one of {', '.join(self._columns)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields each row as a dict of Python values; a missing value is None, or NaN in a column of floats."""
        lists = [values.tolist() if isinstance(values, np.ndarray) else values for values in self._columns.values()]
        for row in zip(*lists, strict=True):
            yield dict(zip(self._columns, row, strict=True))

    def select(self, *names: str) -> Table:
        """Returns a table of these columns.

        Raises:
            ConfigError: the column is unknown.
        """
        kept = {name: self[name] for name in names}
        of_kept: dict[str, Any] = {
            key: {name: value for name, value in held.items() if name in kept} if isinstance(held, dict) else held
            for key, held in self._keywords().items()
        }
        for key in ("row_units", "row_provenance"):  # the column with the units may not be among those kept
            of_kept[key] = {name: other for name, other in of_kept[key].items() if other in kept}
        return Table(kept, **of_kept)

    def take(self, index: Sequence[int] | slice) -> Table:
        """Returns a table of the rows at these positions."""
        positions = np.arange(len(self))[index]
        return self.rebuilt(
            {
                name: values[positions] if isinstance(values, np.ndarray) else [values[at] for at in positions]
                for name, values in self._columns.items()
            }
        )

    def table(self) -> Table:
        """Returns this table."""
        return self

    # --- an immutable value -------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Table is immutable; {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Table is immutable; {name!r} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        if self.columns != other.columns or self._keywords() != other._keywords():
            return False
        return all(equal(self._columns[name], other._columns[name]) for name in self._columns)

    def __hash__(self) -> int:
        return hash((self.title, self.columns, len(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return (functools.partial(Table, **self._keywords()), (dict(self._columns),))

    def _keywords(self) -> dict[str, Any]:
        names = ("units", "provenance", "row_units", "row_provenance", "descriptions", "kinds")
        return {"title": self.title, **{name: dict(getattr(self, name)) for name in names}}

    def rebuilt(self, columns: Mapping[str, Iterable[Any]]) -> Table:
        """Returns a table of other columns with the units and the provenance of this one."""
        return Table(columns, **self._keywords())

    def __repr__(self) -> str:
        from a2perf.api.table_text import table_text

        return table_text(self)

    def _repr_html_(self) -> str:
        from a2perf.api.html import table_html

        return str(table_html(self))


def concatenated(tables: Sequence[Table]) -> Table:
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
            lists = [part.tolist() if isinstance(part, np.ndarray) else part for part in parts]
            columns[name] = [value for part in lists for value in part]
    same = {name: {table.provenance.get(name) for table in tables if name in table} for name in names}
    return Table(
        columns,
        title=tables[0].title if len({table.title for table in tables}) == 1 else "",
        units={name: _common_unit(name, tables) for name in names},
        provenance={
            name: next(iter(of)) or "" if len(of) == 1 else "mixed" for name, of in same.items() if of != {None}
        },
        kinds=kinds,
        **{
            name: {column: text for table in tables for column, text in getattr(table, name).items()}
            for name in ("row_units", "row_provenance", "descriptions")
        },
    )


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
