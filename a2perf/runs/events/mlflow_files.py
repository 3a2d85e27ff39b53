"""Runs of MLflow in a folder ``mlruns``: ``meta.yaml`` names a run, ``metrics/NAME`` holds its values line by line.

A line is ``milliseconds value step``. ``params/NAME`` holds one setting each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from a2perf.errors import UserError
from a2perf.runs.bundles.files import BundleFiles, files_of
from a2perf.runs.bundles.tables import MAX_BYTES
from a2perf.runs.events.series_cache import LogContent
from a2perf.storage import MAX_VALUES
from a2perf.stranger_files import Kind

NAME, METRICS, PARAMETERS = "meta.yaml", "metrics", "params"
_META_BYTES = 64 << 10


def read_mlflow_run(files: BundleFiles, name: str) -> LogContent:
    """Reads every metric beside a ``meta.yaml``.

    Raises:
        StrangerFileError: a file cannot be opened, or is too large.
        UserError: the metrics hold too many values.
    """
    content = LogContent({})
    left = 3 * MAX_VALUES
    for metric, text in _texts(files, name, METRICS, MAX_BYTES).items():
        rows = [line.split() for line in text.splitlines()]
        if (left := left - sum(map(len, rows))) < 0:
            raise UserError(f"holds more than {MAX_VALUES} values", hint="keep fewer metrics")
        try:
            times, values, steps = np.array([row[:3] for row in rows if len(row) > 2], np.float64).reshape(-1, 3).T
        except ValueError:
            content.problems.append((-1, f"the metric {metric} holds lines that are not numbers; left out"))
            continue
        content.columns[metric] = np.stack([steps, values, (times - times.min(initial=np.inf)) / 1000.0])
    return content


def mlflow_head(files: BundleFiles, name: str) -> tuple[str, dict[str, Any]]:
    """Returns ``EXPERIMENT/RUN`` and the parameters of a run; empty if they cannot be read."""
    try:
        above = files_of(Path(files.path).parent)
        names = (_meta(above, NAME).get("name"), _meta(files, name).get("run_name"))
        config = _texts(files, name, PARAMETERS, _META_BYTES)
    except (UserError, OSError):
        return "", {}
    return "/".join(name for name in names if isinstance(name, str) and name), dict(config)  # no nests: they expand


def _meta(files: BundleFiles, name: str) -> dict[str, Any]:
    try:
        found = yaml.safe_load(files.read(name, _META_BYTES)) if files.status(name) is not None else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _texts(files: BundleFiles, name: str, folder: str, most: int) -> dict[str, str]:
    """Returns the content of each file of a folder beside a file by the path below the folder."""
    below = f"{name.rpartition('/')[0]}/{folder}".lstrip("/")
    paths = [entry.status.path for entry in files.entries(below) if entry.status.kind is Kind.FILE]
    return {path.removeprefix(f"{below}/"): files.read(path, most).decode("utf-8", "replace") for path in paths}
