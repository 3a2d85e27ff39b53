"""Reading what others recorded: folders of the earlier public platform, trainers' logs, single CSV files.

The earlier platform's folders: ``<domain>/<experiment>/<task>/<algorithm>/<... seed_N ...>/<work unit>/`` with
``metrics/`` and, in distributed runs, ``collect/<host>/metrics/`` and ``collect/<host>/summaries/<i>/``. Its later
launcher dropped most of that; then the folder's own name stands for the algorithm.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.metrics.values import Values
from a2perf.runs.event_cache import EventCache
from a2perf.runs.recorded_curves import CurveFiles, curve_of_table, find_curve_files, kind_of, read_curve
from a2perf.runs.recorded_emissions import read_emissions
from a2perf.runs.recorded_runs import EARLIER, LOGS, RecordedRun, RunFolder, RunIdentity
from a2perf.runs.recorded_tables import read_table
from a2perf.storage import read_json

_SEED = re.compile(r"(?:^|[_\-])seed[_\-=]?(\d+)", re.IGNORECASE)
_RUN_NUMBER = re.compile(r"^(.*?)[_\-](\d+)$")
_DOMAINS = ("web_navigation", "quadruped_locomotion", "circuit_training")


def identify(run: RunFolder) -> RunIdentity:
    """Says what a run is a run of, by its path."""
    path = Path(os.path.abspath(run.path))
    parts = path.parts
    seeded = [index for index, part in enumerate(parts) if _SEED.search(part)]
    if run.layout == EARLIER and seeded and seeded[-1] >= 4:
        index = seeded[-1]
        domain = next((part for part in reversed(parts[:index]) if part in _DOMAINS), parts[index - 4])
        return RunIdentity(domain=domain, task=parts[index - 2], algorithm=parts[index - 1], seed=_seed(parts[index]))
    domain = next((part for part in reversed(parts) if part in _DOMAINS), "")
    if seeded:
        part = parts[seeded[-1]]
        rest = _SEED.sub("", part).strip("_-")
        return RunIdentity(domain=domain, algorithm=rest or parts[seeded[-1] - 1], seed=_seed(part), mode=_mode(run))
    name = path.stem if path.is_file() and kind_of(path.name) is None else path.name
    if path.is_file() and kind_of(path.name) is not None:
        name = path.parent.name
    numbered = _RUN_NUMBER.match(name)
    if numbered is not None and run.layout != EARLIER:
        # Stable-Baselines3 numbers the runs of one algorithm: PPO_1, PPO_2
        return RunIdentity(domain=domain, algorithm=numbered[1], seed=int(numbered[2]), mode=_mode(run))
    return RunIdentity(domain=domain, algorithm=name, mode=_mode(run))


def read(run: RunFolder) -> RecordedRun:
    """Reads a run of any layout but a bundle."""
    if run.layout == EARLIER:
        return _earlier(run)
    found = RecordedRun(identify(run))
    if run.layout == LOGS:
        # a folder further down that holds logs is a run of its own
        files = CurveFiles()
        for entry in sorted(os.scandir(run.path), key=lambda entry: entry.name):
            kind = kind_of(entry.name)
            if kind is not None and entry.is_file(follow_symlinks=False):
                getattr(files, kind).append(Path(entry.path))
        root = run.path
    else:
        kind, root = kind_of(run.path.name), run.path.parent
        files = CurveFiles()
        if kind is not None:
            getattr(files, kind).append(run.path)
    if files.all():
        found.curve, found.conditions = read_curve(files, root, EventCache())
    else:
        table = read_table(run.path)
        found.conditions = [f"{run.path.name}: {condition}" for condition in table.conditions]
        found.curve = curve_of_table(table, "CSV file")
    if found.curve is None:
        found.conditions.append("no returns in these files")
    return found


def _earlier(run: RunFolder) -> RecordedRun:
    found = RecordedRun(identify(run))
    folders = [run.path / "metrics"]
    folders += sorted(path for path in (run.path / "collect").glob("*/metrics") if path.is_dir())
    for mode in ("train", "inference"):
        tables = [folder / f"{mode}_emissions.csv" for folder in folders]
        tables = [path for path in tables if path.exists() or path.is_symlink()]
        if tables:
            columns, conditions = read_emissions(tables, run.path)
            if columns:
                found.emissions[mode] = columns
            found.conditions += conditions
    results = _json(run.path / "metrics" / "inference_metrics_results.json", found)
    times = _values(results.get("inference_time"))
    if times is not None:
        found.latency_s["infer_once"] = times
        if len(times):
            found.latency_first_s["infer_once"] = float(times[0])
    returns = _values(results.get("rollout_returns"))
    if returns is not None:
        found.returns["inference"] = {found.identity.task or "task": returns}
    tasks = _json(run.path / "metrics" / "generalization_rollouts.json", found)
    for task, values in sorted(tasks.items()):
        array = _values({"values": values})
        if array is None:
            found.conditions.append(f"metrics/generalization_rollouts.json: {task} holds no list of numbers")
        else:
            found.returns.setdefault("generalization", {})[task] = array
    found.curve, conditions = read_curve(find_curve_files(run.path), run.path, EventCache())
    found.conditions += conditions
    return found


def _json(path: Path, found: RecordedRun) -> dict[str, Any]:
    name = f"metrics/{path.name}"
    if path.is_symlink():
        found.conditions.append(f"{name}: symbolic link, not followed")
        return {}
    if not path.exists():
        return {}
    try:
        value = read_json(path)
    except (OSError, ValueError) as error:
        found.conditions.append(f"{name} could not be read: {str(error).replace(str(path), name)}")
        return {}
    if not isinstance(value, dict):
        found.conditions.append(f"{name} could not be read: not a JSON object")
        return {}
    return value


def _values(entry: Any) -> Values | None:
    values = entry.get("values") if isinstance(entry, dict) else entry
    if not isinstance(values, list):
        return None
    try:
        return np.array([math.nan if value is None else float(value) for value in values], np.float64)
    except (TypeError, ValueError):
        return None


def _mode(run: RunFolder) -> str:
    return "" if run.layout == EARLIER else "train"


def _seed(part: str) -> int | None:
    found = _SEED.search(part)
    return None if found is None else int(found[1])
