"""Reading runs that other programs recorded: folders of the earlier public platform, trainers' logs, single CSV files.

The earlier platform's folders: ``<domain>/<experiment>/<task>/<algorithm>/<... seed_N ...>/<work unit>/`` with
``metrics/`` and, in distributed runs, ``collect/<host>/metrics/`` and ``collect/<host>/summaries/<i>/``. Its later
launcher dropped most of these levels; the name of the folder is then the algorithm.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.arrays import Values
from a2perf.constants import BenchmarkDomain
from a2perf.runs.bundle_reading import BundleReader, read_emissions
from a2perf.runs.files import BundleFiles, folders_of
from a2perf.runs.foreign_identity import folders_above, identity_of, monitor_config, monitor_head, runs_in_table
from a2perf.runs.layout import GENERALIZATION_RESULTS_FILE, INFERENCE_RESULTS_FILE, METRICS, emissions_file
from a2perf.runs.log_files import TRAINER_KINDS, LogKind, find_logs, given_logs, is_trainer_log, log_kind
from a2perf.runs.packed_archive import unpacked_path
from a2perf.runs.run import EARLIER, TABLE, Run, RunFolder, RunIdentity
from a2perf.runs.seed_groups import env_arguments
from a2perf.runs.series import read_returns
from a2perf.runs.series_cache import SeriesCache
from a2perf.runs.tables import table_of
from a2perf.runs.writer_children import writer_children
from a2perf.stranger_files import Kind, StrangerFileError

_SEED = re.compile(r"(?:^|[_\-])seed[_\-=]?(\d+)", re.IGNORECASE)
_DOMAINS = tuple(member.value for member in BenchmarkDomain)


def identify(run: RunFolder) -> RunIdentity:
    """Returns the identity of a run, guessed from its path."""
    path = unpacked_path(Path(os.path.abspath(run.path)))
    parts = path.parts
    seeded = [index for index, part in enumerate(parts) if _SEED.search(part)]
    if run.layout == EARLIER and seeded and seeded[-1] >= 4:
        index = seeded[-1]
        domain = next((part for part in reversed(parts[:index]) if part in _DOMAINS), parts[index - 4])
        return RunIdentity(domain=domain, task=parts[index - 2], algorithm=parts[index - 1], seed=_seed(parts[index]))
    domain = next((part for part in reversed(parts) if part in _DOMAINS), "")
    name = path.name
    if run.is_file:
        name = path.parent.name if is_trainer_log(path.name) else path.stem
        path = path.parent if is_trainer_log(path.name) else path
    config = {}
    if run.layout != EARLIER:
        files = run.files()
        monitors = [log for log in own_logs(run) if log_kind(log) is LogKind.MONITOR]
        config = monitor_config(monitor_head(files, log) for log in monitors)
        if run.layout == TABLE and not is_trainer_log(run.path.name):
            runs = runs_in_table(table_of(files, run.path.name))
            config = dict(runs[0][0]) if len(runs) == 1 else {}
    found = identity_of(name, folders_above(path), config)
    return RunIdentity(
        domain=domain, task=found.env_id, algorithm=found.experiment, seed=found.seed, mode=_mode(run),
        env_kwargs=env_arguments(found.env_kwargs),
    )  # fmt: skip


def own_logs(run: RunFolder) -> list[str]:
    """Returns the files of a run of a trainer: its own logs and those of its writer's children; not of other runs."""
    if run.is_file and not is_trainer_log(run.path.name):
        return [run.path.name]
    folder = run.path.parent if run.is_file else run.path
    _, inner, names = next(folders_of(folder), ("", [], []))
    if run.is_file:  # a file stands for all files of its kind in its folder
        return sorted(name for name in names if log_kind(name) is log_kind(run.path.name))
    children = writer_children(folder, inner, names)
    below = [f"{child}/{log}" for child, logs in children.items() for log in logs]
    return sorted([*(name for name in names if is_trainer_log(name)), *below])


def read(folder: RunFolder) -> Run:
    """Reads a run of any built-in layout except a bundle."""
    if folder.layout == EARLIER:
        return _earlier(folder)
    run = Run(identify(folder), folder)
    if folder.layout == TABLE and not is_trainer_log(folder.path.name):
        runs = runs_in_table(table_of(folder.files(), folder.path.name))
        if len(runs) > 1:  # one curve over all of them would average environments and seeds
            columns = ", ".join(runs[0][0])
            run.conditions = [f"{len(runs)} runs in one file (columns {columns}); `a2perf rlops import` separates them"]
            return run
    logs = given_logs(folder.files(), own_logs(folder))
    logs.is_chosen = folder.layout == TABLE
    run.curve, run.conditions = read_returns(logs, SeriesCache())
    if run.curve is None:
        run.conditions.append("no returns in these files")
    return run


def _earlier(folder: RunFolder) -> Run:
    run = Run(identify(folder), folder)
    files = folder.files()
    places = [METRICS, *_collectors(files, run)]
    for mode in ("train", "inference"):
        tables = [f"{place}/{emissions_file(mode)}" for place in places]
        tables = [name for name in tables if files.status(name) is not None]
        if tables:
            columns, conditions = read_emissions(files, tables)
            if columns:
                run.emissions[mode] = columns
            run.conditions += conditions
    reader = BundleReader(files, None)
    results = reader.tolerant(f"{METRICS}/{INFERENCE_RESULTS_FILE}", reader.json_object) or {}
    times = _values(results.get("inference_time"))
    if times is not None:
        run.latency_s["infer_once"] = times
        if len(times):
            run.latency_first_s["infer_once"] = float(times[0])
    returns = _values(results.get("rollout_returns"))
    if returns is not None:
        run.returns["inference"] = {run.identity.task or "task": returns}
    name = f"{METRICS}/{GENERALIZATION_RESULTS_FILE}"
    tasks = reader.tolerant(name, reader.json_object) or {}
    for task, values in sorted(tasks.items()):
        array = _values({"values": values})
        if array is None:
            run.conditions.append(f"{name}: {task} holds no list of numbers")
        else:
            run.returns.setdefault("generalization", {})[task] = array
    run.curve, conditions = read_returns(find_logs(files, "", kinds=TRAINER_KINDS), SeriesCache())
    run.conditions += [*reader.conditions, *conditions]
    return run


def _collectors(files: BundleFiles, run: Run) -> list[str]:
    """Returns the ``metrics`` folder of each host of a distributed run."""
    found = []
    try:
        for file in files.entries("collect"):
            status = file.status
            if status.kind is Kind.FOLDER and status.name == METRICS and status.path.count("/") == 2:
                found.append(status.path)
    except StrangerFileError as error:
        run.conditions.append(error.message)
    return sorted(found)


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
