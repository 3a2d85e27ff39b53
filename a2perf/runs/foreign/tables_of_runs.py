"""Tables that hold several runs: in rows that columns distinguish, or with one column per run (``RUN - METRIC``).

The site of Weights & Biases exports the latter: the first column is the step, ``__MIN`` and ``__MAX`` are bounds of it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from a2perf.runs.bundles.tables import CsvTable, plain_cell, read_table
from a2perf.runs.events.series_cache import Columns

CONFIG_KEYS = {
    "env_id": ("env_id", "env", "environment", "gym_id"),
    "experiment": ("exp_name", "experiment", "algo", "algorithm"),
    "seed": ("seed",),
}
_BETWEEN = " - "
_BOUNDS = ("__MIN", "__MAX")
_NOT_METRICS = ("_step", "_timestamp", "_runtime")


@dataclass(frozen=True)
class TableRun:
    """One run of a table.

    Attributes:
        config: what its columns say about it.
        columns: float64, shape ``(1, rows)``, by name, as in a table of this run alone.
    """

    config: dict[str, str]
    columns: dict[str, Columns]


def runs_of_table(path: Path) -> dict[str, TableRun]:
    """Returns the runs of a CSV file by name; empty if it holds one run."""
    status = path.stat()
    return _runs(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _runs(path: Path, _size: int, _stamp: int) -> dict[str, TableRun]:
    table = read_table(path)
    return _by_column(table) or _by_row(table)


def _by_column(table: CsvTable) -> dict[str, TableRun]:
    names = list(table.columns)
    if not any(_BETWEEN in name for name in names) or _BETWEEN in names[0]:
        return {}
    found: dict[str, TableRun] = {}
    steps = table.numbers(names[0])
    for name in names[1:]:
        run, between, metric = name.rpartition(_BETWEEN)
        values = table.numbers(name)
        if not between or metric in _NOT_METRICS or metric.endswith(_BOUNDS) or values is None or steps is None:
            continue
        found.setdefault(run, TableRun({}, {"step": steps[None, :]})).columns[metric] = values[None, :]
    return found


def _by_row(table: CsvTable) -> dict[str, TableRun]:
    keys = [key for names in CONFIG_KEYS.values() if (key := next((n for n in names if n in table.columns), None))]
    texts = [[str(plain_cell(cell)) for cell in table.columns[key]] for key in keys]
    cells = list(zip(*texts, strict=True))
    numeric = {name: column for name in table.columns if (column := table.numbers(name)) is not None}
    found = {}
    for group in dict.fromkeys(cells):
        rows = np.array([cell == group for cell in cells], bool)
        columns = {name: column[rows][None, :] for name, column in numeric.items() if name not in keys}
        found["_".join(group)] = TableRun(dict(zip(keys, group, strict=True)), columns)
    return found
