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
from a2perf.runs.bundle_reading import BundleReader
from a2perf.runs.emissions_tables import read_emissions
from a2perf.runs.files import BundleFiles, folders_of
from a2perf.runs.layout import GENERALIZATION_RESULTS_FILE, INFERENCE_RESULTS_FILE, METRICS, emissions_file
from a2perf.runs.log_files import TRAINER_KINDS, find_logs, given_logs, is_trainer_log
from a2perf.runs.packed_archive import unpacked_path
from a2perf.runs.run import EARLIER, LOGS, Run, RunFolder, RunIdentity
from a2perf.runs.series import read_returns
from a2perf.runs.series_cache import SeriesCache
from a2perf.stranger_files import Kind, StrangerFileError

_SEED = re.compile(r"(?:^|[_\-])seed[_\-=]?(\d+)", re.IGNORECASE)
_RUN_NUMBER = re.compile(r"^(.*?)[_\-](\d+)$")
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
    if seeded:
        part = parts[seeded[-1]]
        rest = _SEED.sub("", part).strip("_-")
        return RunIdentity(domain=domain, algorithm=rest or parts[seeded[-1] - 1], seed=_seed(part), mode=_mode(run))
    name = path.stem if path.is_file() and not is_trainer_log(path.name) else path.name
    if path.is_file() and is_trainer_log(path.name):
        name = path.parent.name
    numbered = _RUN_NUMBER.match(name)
    if numbered is not None and run.layout != EARLIER:
        # Stable-Baselines3 numbers the runs of one algorithm: PPO_1, PPO_2
        return RunIdentity(domain=domain, algorithm=numbered[1], seed=int(numbered[2]), mode=_mode(run))
    return RunIdentity(domain=domain, algorithm=name, mode=_mode(run))


def read(folder: RunFolder) -> Run:
    """Reads a run of any built-in layout except a bundle."""
    if folder.layout == EARLIER:
        return _earlier(folder)
    run = Run(identify(folder), folder)
    if folder.layout == LOGS:
        # only the logs of this folder: a folder below it that holds logs is another run
        _, _, names = next(folders_of(folder.path))
        logs = given_logs(folder.files(), sorted(name for name in names if is_trainer_log(name)))
    else:
        logs = given_logs(folder.files(), [folder.path.name])
        logs.is_chosen = True
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
