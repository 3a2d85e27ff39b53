"""Emissions tables of both generations of their writer.

The earlier platform's fork of codecarbon wrote one row per interval with cumulative energies and a column
``ram_process``, as a2perf does; stock codecarbon writes one row per run and no ``ram_process``. Each writer of a
distributed run keeps its own table; ``run_id`` distinguishes their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from a2perf.runs.files import BundleFiles
from a2perf.runs.tables import CsvTable, stacked, table_of
from a2perf.stranger_files import Kind

NEEDED = ("run_id", "timestamp", "duration", "energy_consumed", "cpu_power", "gpu_power", "ram_power")


def read_emissions(files: BundleFiles, names: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Reads the emissions tables of one run.

    Args:
        names: one table per writer.

    Returns:
        The columns of all tables, concatenated, and their conditions.
    """
    tables: list[CsvTable] = []
    conditions: list[str] = []
    for name in names:
        status = files.status(name)
        if status is not None and status.kind is Kind.LINK:
            conditions.append(f"{status.path}: symbolic link, not followed")
            continue
        table = table_of(files, name, needs=NEEDED)
        conditions += [f"{name}: {condition}" for condition in [*table.conditions, *_remarks(table)]]
        if table.rows:
            tables.append(table)
    return (stacked(tables).columns if tables else {}), conditions


def _remarks(table: CsvTable) -> list[str]:
    if not table.rows:
        return []
    remarks = []
    identifiers = table.columns.get("run_id")
    writers = [str(cell) for cell in identifiers] if identifiers is not None else [""] * table.rows
    back = _steps_back(table.numbers("duration"), writers)
    stamps = table.columns.get("timestamp")
    if isinstance(stamps, list):
        # ISO 8601 sorts as text within one file
        back = max(back, sum(later < earlier for earlier, later in _within(stamps, writers)))
    if back:
        remarks.append(f"the clock runs backwards at {back} row(s)")
    if "ram_process" not in table.columns:
        remarks.append("no column ram_process: written by stock codecarbon; memory of the processes is not known")
    if len(set(writers)) == table.rows == 1:
        remarks.append("one row: only run totals recorded, no time series")
    return remarks


def _steps_back(values: Any, writers: list[str]) -> int:
    if values is None:
        return 0
    return sum(bool(np.isfinite(a) and np.isfinite(b) and b < a) for a, b in _within(values.tolist(), writers))


def _within(values: list[Any], writers: list[str]) -> list[tuple[Any, Any]]:
    """Returns each value with the next one of the same writer."""
    last: dict[str, Any] = {}
    pairs = []
    for value, writer in zip(values, writers, strict=True):
        if writer in last:
            pairs.append((last[writer], value))
        last[writer] = value
    return pairs
