"""Tables of recorded data: columns with units and provenance, which reports draw and pandas reads.

Shown numbers of a column share one unit; ``≈`` marks the estimates of a model. pandas is imported on conversion only.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex, TypeAlias, TypeVar, overload

import msgspec
import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from a2perf.errors import ConfigError, MissingDependency, did_you_mean
from a2perf.plain_text import plain_text, terminal_line
from a2perf.report import tables as drawn
from a2perf.report.notebook import view
from a2perf.report.numbers_text import Scale, counted, marks_of, normalised_text, row_scale, written

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")
Kind: TypeAlias = Literal["float", "int", "bool", "text"]
Stored: TypeAlias = NDArray[Any] | tuple[Any, ...]

WIDTH = 80
_KINDS: tuple[tuple[type, Kind], ...] = ((bool, "bool"), (int, "int"), (float, "float"), (str, "text"))
_DTYPES: dict[Kind, Any] = {"float": np.float64, "int": np.int64, "bool": np.bool_}
_PANDAS_DTYPES: dict[Kind, str] = {"int": "Int64", "bool": "boolean"}
"""Types of pandas for whole numbers and truth values with missing ones."""
_TEXT_ENDS, _HTML_ENDS = 5, 10  # rows at each end
_TEXT_WIDTHS = (28, 20, 14)
_LONGEST = 60  # characters of a text
_MOST_HIDDEN = 12


class Immutable:
    """Base of values that never change."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; {name!r} cannot be deleted")


class Tabular:
    """Base of everything that converts to a data frame; a subclass defines ``table``."""

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
                f"a data frame needs the package {error.name}, which is not installed", hint="pip install pandas"
            ) from error

        table = self.table()
        series: dict[str, Any] = {}
        for name in table:
            values = table[name]
            if isinstance(values, np.ndarray):
                series[name] = values.copy()
            else:
                series[name] = pandas.Series(list(values), dtype=_PANDAS_DTYPES.get(table.kinds[name], "object"))
        frame = pandas.DataFrame(series, columns=list(series))
        frame.attrs = {"units": dict(table.units), "provenance": dict(table.provenance), "title": table.title}
        return frame


class Records(Immutable, tuple[T, ...], Tabular):
    """An immutable sequence that converts to a data frame; a slice is of the same type."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: SupportsIndex | slice) -> T | Self:
        if isinstance(index, slice):
            return type(self)(super().__getitem__(index))
        return super().__getitem__(index)


class Table(Tabular):
    """Columns of equal length with units and provenance.

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
        found = {name: _stored(name, values, (kinds or {}).get(name)) for name, values in columns.items()}
        lengths = {name: len(values) for name, (_, values) in found.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in length: {lengths}")
        self.title = title
        self.units = {name: unit for name, unit in (units or {}).items() if unit}
        self.provenance = dict(provenance or {})
        self.row_units = dict(row_units or {})
        self.row_provenance = dict(row_provenance or {})
        self.descriptions = dict(descriptions or {})
        self.kinds = {name: kind for name, (kind, _) in found.items()}
        self._columns = {name: values for name, (_, values) in found.items()}
        named = {*self.units, *self.provenance, *self.descriptions, *(kinds or {})}
        for of_rows in (self.row_units, self.row_provenance):
            named.update(of_rows, of_rows.values())
        if unknown := sorted(named - set(found)):
            raise ValueError(f"no such column: {', '.join(unknown)}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

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

    def table(self) -> Table:
        """Returns this table."""
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        mine, others = ({**vars(table), "_columns": table.columns} for table in (self, other))
        return mine == others and all(_equal(self[name], other[name]) for name in self)

    def __repr__(self) -> str:
        return table_text(self)

    def _repr_html_(self) -> str:
        return str(table_html(self))


def _stored(name: str, values: Iterable[Any], kind: Kind | None) -> tuple[Kind, Stored]:
    """Returns the kind of a column, ``"text"`` if it has no value to find it from, and its values as stored."""
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ValueError(f"the column {name!r} has {values.ndim} dimensions, not 1")
    items = values.tolist() if isinstance(values, np.ndarray) else list(values)
    items = [item.item() if isinstance(item, np.generic) else item for item in items]
    known: set[Kind] = set()
    for of_items in set(map(type, items)) - {type(None)}:
        matching = [one for of_kind, one in _KINDS if issubclass(of_items, of_kind)]
        if not matching:
            shown = of_items.__name__
            raise TypeError(f"the column {name!r} holds {shown}; a column holds numbers, truth values or texts")
        known.add(matching[0])
    default: Kind = "float" if known == {"int", "float"} else next(iter(known), "text")
    chosen: Kind = default if kind is None else kind
    if known - ({"float", "int"} if chosen == "float" else {chosen}):
        raise TypeError(f"the column {name!r} holds values of several kinds: {', '.join(sorted({*known, chosen}))}")
    if chosen == "text":
        return chosen, tuple(None if item is None else str(item) for item in items)
    if chosen != "float" and None in items:
        return chosen, tuple(items)
    array = np.array([np.nan if item is None else item for item in items], _DTYPES[chosen])
    array.setflags(write=False)
    return chosen, array


def _equal(left: Stored, right: Stored) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.array_equal(left, right, equal_nan=left.dtype.kind == "f" and right.dtype.kind == "f")
    return type(left) is type(right) and left == right


# --- text and HTML ----------------------------------------------------------------------------------------------------


def shown_rows(count: int, ends: int = _TEXT_ENDS) -> list[int]:
    """Returns the positions of the first and last rows; of all rows if few are left out."""
    return list(range(count)) if count <= 2 * ends + 1 else [*range(ends), *range(count - ends, count)]


def table_text(table: Table, omitted: int = 0, columns: Sequence[str] | None = None) -> str:
    """Returns a table as text: its first and last rows, and as many columns as 80 characters hold.

    Texts that are the same in all rows go into one line below the table.

    Args:
        omitted: rows that the caller left out of the middle of the table.
        columns: names of those to show; by default all.
    """
    title = _one_line(table.title, WIDTH - 24)
    size = f"{counted(len(table) + omitted, 'row')}, {counted(len(table.columns), 'column')}"
    names = [name for name in columns or table if name in _shown_names(table)]
    texts = [name for name in names if table.kinds[name] == "text" and len(table) > 1 and table[name][0] is not None]
    same = [name for name in texts if len(set(table[name])) == 1]
    names = [name for name in names if name not in same]
    positions = shown_rows(len(table))
    scales = _scales(table)
    tries = (_drawn(table, names, positions, most, scales) for most in _TEXT_WIDTHS)
    fitting = (drawn.narrowed(one, WIDTH, names[:0:-1]) for one in tries)
    shown = max(fitting, key=lambda one: len(one.columns))  # the first of them: the widest texts
    lines = drawn.to_text(shown).splitlines()
    if left_out := omitted + len(table) - len(positions):
        lines.insert(1 + min(_TEXT_ENDS, len(positions) // 2), f"… {left_out} more")
    if same:
        constants = ", ".join(f"{name} {_one_line(str(table[name][0]), _LONGEST)}" for name in same)
        lines.append(_filled(f"in all rows: {constants}"))
    if hidden := names[len(shown.columns) :]:
        listed = [_one_line(name, _TEXT_WIDTHS[0]) for name in hidden[:_MOST_HIDDEN]]
        more = f" and {counted(len(hidden) - _MOST_HIDDEN, 'other')}" if len(hidden) > _MOST_HIDDEN else ""
        lines.append(_filled(f"more columns: {', '.join(listed)}{more}"))
    return "\n".join([f"{title}: {size}" if title else size, *lines])


def table_html(table: Table, ends: int = _HTML_ENDS) -> Markup:
    """Returns a table as HTML: all columns, the first and last ``ends`` rows, every text escaped."""
    positions = shown_rows(len(table), ends)
    shown = _drawn(table, _shown_names(table), positions, _LONGEST, _scales(table))
    marked = any(cell.mark for row in shown.rows for cell in row if isinstance(cell, drawn.Text))
    if left_out := len(table) - len(positions):
        gap = (drawn.Text(text=f"… {left_out} more rows"),)
        shown = msgspec.structs.replace(shown, rows=(*shown.rows[:ends], gap, *shown.rows[ends:]))
    return view(drawn.to_html(shown), Markup("<p>≈ estimated by a model</p>") if marked else "")


def _shown_names(table: Table) -> list[str]:
    """Returns the columns to show: those with units and provenance of other columns are part of their cells."""
    within = {*table.row_units.values(), *table.row_provenance.values()}
    return [name for name in table if name not in within]


def _scales(table: Table) -> dict[str, Scale]:
    """Returns the unit of each column of floats; of a long table that takes most of the time."""
    numbers = {name: np.asarray(table[name]).tolist() for name in table if table.kinds[name] == "float"}
    return {name: row_scale(values, table.units.get(name, "")) for name, values in numbers.items()}


def _drawn(
    table: Table, names: Sequence[str], positions: Sequence[int], longest: int, scales: Mapping[str, Scale]
) -> drawn.Table:
    """Returns columns at these positions for the renderers of reports; texts are cut to ``longest`` characters."""
    heads, cells = [], []
    for name in names:
        kind, hint = table.kinds[name], plain_text(table.descriptions.get(name, ""))
        scale = scales.get(name)
        unit = "" if scale is None or name in table.row_units or name == "normalised_score" else scale.unit
        align: drawn.Align = "right" if kind in ("int", "float") else "left"
        heads.append(drawn.Column(key=name, title=_one_line(name, longest), align=align, detail=unit, hint=hint))
        cells.append([_cell(table, name, at, scale, longest) for at in positions])
    caption, rows = plain_text(table.title), tuple(zip(*cells, strict=True))
    return drawn.Table(name="", caption=caption, columns=tuple(heads), rows=rows)


def _cell(table: Table, name: str, at: int, scale: Scale | None, longest: int) -> drawn.Text:
    value, unit = table[name][at], ""
    if value is None or value != value:
        return drawn.Text()
    if scale is None:
        return drawn.Text(text=_one_line(str(value), longest))
    if name in table.row_units:  # numbers of a row that have one unit have one scale
        unit = str(table[table.row_units[name]][at] or "")
        beside = [table[other][at] for other in table if table.row_units.get(other) == table.row_units[name]]
        scale = row_scale(map(float, beside), unit)
        if scale.unit.startswith("10"):  # a power of ten belongs to the number, not to its unit
            scale = Scale(1.0, unit)
        unit = scale.unit
    text = normalised_text(value) if name == "normalised_score" else written(float(value), scale).text()
    source = table[table.row_provenance[name]][at] if name in table.row_provenance else table.provenance.get(name)
    return drawn.Text(text=text, unit=unit, mark=marks_of(source)[0])


def _one_line(text: str, longest: int) -> str:
    """Returns untrusted text as one printable line of at most so many characters."""
    line = terminal_line(" ".join(plain_text(text).split()))
    if len(line) <= longest:
        return line
    end = longest // 3  # names differ at their ends as often as at their starts
    return f"{line[: longest - end - 1]}…{line[len(line) - end :]}"


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
