"""CSV tables that trackers export: a run's history, the curves of a chart, and runs saved by openrlbenchmark.

A history has columns such as ``_step``, ``_timestamp`` and ``global_step`` beside its metrics; a chart has a column of
steps and columns named ``<run> - <metric>``; a kept run is ``run_df.csv`` with ``run.json`` beside it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import UserError
from a2perf.runs.tables import CsvTable
from a2perf.runs.wandb_log import WandbLog
from a2perf.stranger_files import StrangerFileError, read_file

Column = NDArray[np.float64]
TableSeries = dict[str, tuple[Column, Column, Column]]
"""Steps, values and times by metric."""

RUN_TABLE, RUN_JSON = "run_df.csv", "run.json"
_AXES = ("global_step", "_step", "Step", "trainer/global_step")
_TIMES = ("Relative Time (Process)", "Relative Time (Wall)", "Wall Time", "_runtime", "_timestamp")
_BOUNDS = ("__MIN", "__MAX")
_MOST_BYTES = 16 << 20


def history_series(table: CsvTable) -> TableSeries:
    """Returns the series of a run's history; empty if the table is not one."""
    if table.numbers("_step") is None and table.numbers("global_step") is None:
        return {}
    columns = {name: table.numbers(name) for name in table.columns if name}
    numbers = {name: np.asarray(column) for name, column in columns.items() if column is not None}
    rows: list[dict[str, Any]] = [{} for _ in range(table.rows)]
    for name, column in numbers.items():
        for index in np.flatnonzero(~np.isnan(column)).tolist():
            rows[index][name] = float(column[index])
    return WandbLog(rows=rows).series()


def chart_curves(table: CsvTable, path: Path) -> dict[str, TableSeries]:
    """Returns the series of each run of a chart by the run's name; empty if the table is not one.

    Raises:
        UserError: its axis is time, which is not a step.
    """
    names = [name for name in table.columns if " - " in name and not name.endswith(_BOUNDS)]
    if not names:
        return {}
    axis = next((table.numbers(name) for name in _AXES if table.numbers(name) is not None), None)
    if axis is None:
        given = next((name for name in table.columns if name in _TIMES), None)
        if given is None:
            return {}
        raise UserError(
            f"{path}: the axis of this chart is {given!r}",
            hint="set the chart's x axis to global_step and export again",
        )
    steps = np.asarray(axis, np.float64)
    found: dict[str, TableSeries] = {}
    for name in names:
        column = table.numbers(name)
        run, _, metric = name.rpartition(" - ")
        if column is None:
            continue
        values = np.asarray(column, np.float64)
        logged = ~np.isnan(values) & ~np.isnan(steps)
        if logged.any():
            found.setdefault(run, {})[metric] = (steps[logged], values[logged], np.full(int(logged.sum()), np.nan))
    return found


def kept_run(path: Path) -> dict[str, Any]:
    """Returns the run's name, state, config, tags and user from ``run.json`` beside a table.

    Raises:
        UserError: the file exists but cannot be read.
    """
    beside = path.with_name(RUN_JSON)
    if path.name != RUN_TABLE or not beside.exists():
        return {}
    try:
        record = json.loads(read_file(beside, max_bytes=_MOST_BYTES))
    except (StrangerFileError, ValueError, RecursionError) as error:
        raise UserError(f"{beside} cannot be read: {error}", hint="let openrlbenchmark fetch the run again") from error
    attributes = record.get("_attrs", record) if isinstance(record, dict) else {}  # nested in its first version
    config = attributes.get("config")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            config = {}
    config = config if isinstance(config, dict) else {}
    user = attributes.get("user")
    return {
        "name": str(attributes.get("name") or path.parent.name),
        "state": str(attributes.get("state") or "finished"),
        "tags": [str(tag) for tag in attributes.get("tags") or () if isinstance(tag, str)],
        "user": str(user.get("username") or "") if isinstance(user, dict) else "",
        "config": {
            str(name): value["value"] if isinstance(value, dict) and set(value) >= {"value"} else value
            for name, value in config.items()
            if not str(name).startswith("_")
        },
    }
