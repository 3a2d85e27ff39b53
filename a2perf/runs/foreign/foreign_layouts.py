"""Reading runs that other programs recorded: folders of the earlier public platform, trainers' logs, single CSV files.

The earlier platform's folders: ``<domain>/<experiment>/<task>/<algorithm>/<... seed_N ...>/<work unit>/`` with
``metrics/`` and, in distributed runs, ``collect/<host>/metrics/`` and ``collect/<host>/summaries/<i>/``. Its later
launcher dropped most of these levels; the name of the folder is then the algorithm.

The identity of other runs comes from their configuration, otherwise from the names of their folders; importers use the
same rule. A name counts as an environment only if it looks like an id of Gymnasium (``CartPole-v1``); an unknown
environment stays unknown, because a guess would average runs of different environments.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.arrays import Values
from a2perf.constants import BenchmarkDomain
from a2perf.runs.bundles.bundle_reader import BundleReader
from a2perf.runs.bundles.files import BundleFiles, folders_of
from a2perf.runs.bundles.layout import GENERALIZATION_RESULTS_FILE, INFERENCE_RESULTS_FILE, METRICS, emissions_file
from a2perf.runs.bundles.tables import read_emissions
from a2perf.runs.events.log_files import (
    TRAINER_KINDS,
    LogKind,
    find_logs,
    given_logs,
    is_trainer_log,
    log_kind,
    writer_children,
)
from a2perf.runs.events.mlflow_files import mlflow_head
from a2perf.runs.events.series_cache import CachedLog, LogContent, SeriesCache
from a2perf.runs.events.wandb_files import wandb_head
from a2perf.runs.foreign.tables_of_runs import CONFIG_KEYS, runs_of_table
from a2perf.runs.packed.packed_archive import unpacked_path
from a2perf.runs.run import EARLIER, LOGS, TABLE, Run, RunFolder, RunIdentity
from a2perf.runs.seed_groups import env_arguments
from a2perf.runs.series import SeriesReader, read_returns
from a2perf.stranger_files import Kind, StrangerFileError

UNKNOWN_ENVIRONMENT = (
    "unknown environment, therefore not averaged with other runs; put the run below a folder with the name of its "
    "environment (CartPole-v1), or use `a2perf rlops import --env-id ENV`"
)
_ARGUMENT_KEYS = ("env_kwargs", "env_args")
_ID_KEYS = ("id", "env_id", "env_name", "name", "env")
_NAMED = re.compile(r"(?P<env>.+?)__(?P<exp>.+?)__(?P<seed>\d+)(?:__\d+)?")
_SEEDED = re.compile(r"(?:^|[_\-])seed[_\-=]?(\d+)(?=$|[_\-])", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*?)[_\-](\d+)")
_ENVIRONMENT = re.compile(r"(?:[\w.]+:)?[A-Z][\w.]*(?:-[\w.]+)*-v\d+")
_INNER = ("log", "logs", "tb", "tensorboard", "train", "eval", "files", "artifacts", "results")
"""Folders inside of a run; they name no algorithm."""
_WANDB_FOLDER = re.compile(r"wandb|(?:offline-)?run-\d{8}_\d{6}-\w+")
_MOST_HEAD_BYTES = 1 << 20  # of the line of JSON at the head of a Monitor file

_SEED = re.compile(r"(?:^|[_\-])seed[_\-=]?(\d+)", re.IGNORECASE)
_DOMAINS = tuple(member.value for member in BenchmarkDomain)
_CLEANRL = "; CleanRL's scripts log none with Gymnasium 1: run them with the version that they pin"


def identify(run: RunFolder) -> RunIdentity:
    """Returns the identity of a run, guessed from its path."""
    path = unpacked_path(Path(os.path.abspath(run.path)))
    parts = path.parts
    seeded = [index for index, part in enumerate(parts) if _SEED.search(part)]
    if run.layout == EARLIER and seeded and seeded[-1] >= 4:
        index = seeded[-1]
        domain = next((part for part in reversed(parts[:index]) if part in _DOMAINS), parts[index - 4])
        seed = int(_SEED.findall(parts[index])[0])
        return RunIdentity(domain=domain, task=parts[index - 2], algorithm=parts[index - 1], seed=seed)
    domain = next((part for part in reversed(parts) if part in _DOMAINS), "")
    name = path.name
    if run.is_file:
        name = path.parent.name if is_trainer_log(path.name) else path.stem
        path = path.parent if is_trainer_log(path.name) else path
    config: dict[str, Any] = {}
    if run.layout != EARLIER:
        files = run.files()
        given, config, _ = described(files, own_logs(run))
        name = given or name
        if run.part:
            config = dict(runs_of_table(run.path)[run.part].config)
            name = name if config else run.part
    found = identity_of(name, folders_above(path), config)
    return replace(found, domain=domain, mode="" if run.layout == EARLIER else "train")


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
    logs = given_logs(folder.files(), own_logs(folder))
    logs.is_chosen = folder.layout == TABLE
    held = {}
    if folder.part:
        columns = runs_of_table(folder.path)[folder.part].columns
        held = {status.path: CachedLog.of(LogContent(columns), status) for status in logs.found[LogKind.TABLE]}
    reader = SeriesReader(logs, SeriesCache(), held=held)
    run.curve, run.conditions = read_returns(reader)
    if run.curve is None:
        of_cleanrl = any("charts/SPS" in reader.names(kind) for kind in logs.found)
        run.conditions.append(f"no returns in these files{_CLEANRL if of_cleanrl else ''}")
    return run


def _earlier(folder: RunFolder) -> Run:
    run = Run(identify(folder), folder)
    files = folder.files()
    found = []
    try:
        for file in files.entries("collect"):
            status = file.status
            if status.kind is Kind.FOLDER and status.name == METRICS and status.path.count("/") == 2:
                found.append(status.path)
    except StrangerFileError as error:
        run.conditions.append(error.message)
    places = [METRICS, *sorted(found)]
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
    run.curve, conditions = read_returns(SeriesReader(find_logs(files, "", kinds=TRAINER_KINDS), SeriesCache()))
    run.conditions += [*reader.conditions, *conditions]
    return run


def _values(entry: Any) -> Values | None:
    values = entry.get("values") if isinstance(entry, dict) else entry
    if not isinstance(values, list):
        return None
    try:
        return np.array([math.nan if value is None else float(value) for value in values], np.float64)
    except (TypeError, ValueError):
        return None


def identity_of(name: str, above: Sequence[str], config: Mapping[str, Any] | None = None) -> RunIdentity:
    """Returns algorithm, task, seed and arguments of the environment of a run, as far as they are known.

    Args:
        name: of the run: of its folder, of its file without suffix, or the one that a tracker displays.
        above: names of the folders above it, the nearest first.
        config: its configuration; it counts before all names.
    """
    config = config or {}
    parts = [part for part in (*reversed(name.split("/")), *above) if not _WANDB_FOLDER.fullmatch(part)]
    algorithm, task, seed = _from_names(parts or [name])
    value = _first(config, CONFIG_KEYS["experiment"])
    algorithm = str(value) if isinstance(value, str | int | float) else algorithm
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        seed = int(_first(config, CONFIG_KEYS["seed"]))
    configured, arguments, _ = configured_environment(config)
    return RunIdentity(task=configured or task, algorithm=algorithm, seed=seed, env_kwargs=env_arguments(arguments))


def monitor_head(files: BundleFiles, name: str) -> dict[str, Any]:
    """Returns the line of JSON at the head of a Monitor file of Stable-Baselines3; empty without a readable one."""
    try:
        with files.open(name) as stream:
            head = json.loads(stream.readline(_MOST_HEAD_BYTES).removeprefix(b"#"))
    except (StrangerFileError, OSError, ValueError, RecursionError):
        return {}
    return head if isinstance(head, dict) else {}


def logged_config(run: RunFolder) -> dict[str, Any]:
    """Returns the configuration in the logs of a trainer; empty for other layouts."""
    return described(run.files(), own_logs(run))[1] if run.layout == LOGS else {}


def mirrored_name(run: RunFolder) -> str:
    """Returns the displayed name of a run of Weights & Biases in the folder that its client created; else ``""``."""
    if run.layout != LOGS or _WANDB_FOLDER.fullmatch(run.path.name) is None:
        return ""
    return described(run.files(), own_logs(run))[0]


def described(files: BundleFiles, logs: Iterable[str]) -> tuple[str, dict[str, Any], float]:
    """Returns what the logs of one run say about it: its name, its configuration, and when it began (0 if unknown).

    Monitor files name an environment, which counts if they agree.
    """
    heads = []
    name = ""
    config: dict[str, Any] = {}
    for log in logs:
        kind = log_kind(log.rpartition("/")[2])
        if kind is LogKind.MONITOR:
            heads.append(monitor_head(files, log))
        elif kind is LogKind.WANDB:
            name, config = wandb_head(files, log)
        elif kind is LogKind.MLFLOW:
            name, config = mlflow_head(files, log)
    named = {head["env_id"] for head in heads if isinstance(head.get("env_id"), str)} - {"None", ""}
    if len(named) == 1:
        config = {"env_id": named.pop(), **config}
    starts = [start for head in heads if isinstance(start := head.get("t_start"), int | float) and math.isfinite(start)]
    return name, config, float(min(starts)) if heads and len(starts) == len(heads) else 0.0


def folders_above(path: Path) -> list[str]:
    """Returns the names of the folders above a path, the nearest first."""
    return [part.name for part in path.parents if part.name]


def _from_names(parts: Sequence[str]) -> tuple[str, str, int | None]:
    named = _NAMED.fullmatch(parts[0])
    if named is not None:
        return named["exp"], named["env"], int(named["seed"])
    at = next((place for place, part in enumerate(parts) if _SEEDED.search(part)), None)
    seed: int | None = None
    candidates = list(parts)
    if at is not None:
        found = _SEEDED.search(parts[at])
        assert found is not None
        seed = int(found[1])
        rest = _SEEDED.sub("", parts[at]).strip("_-")
        candidates = [*(part for part in parts[:at] if part.lower() not in _INNER), rest, *parts[at + 1 :]]
    elif (numbered := _NUMBERED.fullmatch(parts[0])) is not None and not _ENVIRONMENT.fullmatch(parts[0]):
        # Stable-Baselines3 numbers the runs of one algorithm: PPO_1, PPO_2
        candidates[0], seed = numbered[1], int(numbered[2])
    split = [_without_environment(part) for part in candidates]
    env = next((env for env, _ in split if env), "")
    experiment = next((rest for _, rest in split if rest), "")
    if not env:
        env = next((outer["env"] for part in parts[1:] if (outer := _NAMED.fullmatch(part)) is not None), "")
    return experiment, env, seed


def _without_environment(part: str) -> tuple[str, str]:
    """Returns the environment in a name, ``""`` without one, and the rest of the name."""
    if part.startswith("ALE_") and _ENVIRONMENT.fullmatch(part):
        return part, ""
    words = part.split("_")
    env = next((word for word in words if _ENVIRONMENT.fullmatch(word)), "")
    return env, "_".join(word for word in words if word and word != env)


def configured_environment(config: Mapping[str, Any]) -> tuple[str, dict[str, Any], str]:
    """Returns id and arguments of the configured environment, and why it could not be used; each may be empty."""
    arguments = _first(config, _ARGUMENT_KEYS)
    arguments = dict(arguments) if isinstance(arguments, Mapping) else {}
    value = _first(config, CONFIG_KEYS["env_id"])
    if isinstance(value, Mapping):
        ids = {key: value[key] for key in _ID_KEYS if isinstance(value.get(key), str) and value[key]}
        if not ids:
            return "", arguments, f"its configuration describes the environment by {', '.join(map(str, value))[:100]}"
        key, env_id = next(iter(ids.items()))
        return env_id, {**{name: held for name, held in value.items() if name != key}, **arguments}, ""
    if value is None or isinstance(value, str | int):
        return "" if value is None else str(value), arguments, ""
    return "", arguments, f"its configuration gives a {type(value).__name__} as environment"


def _first(config: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """Returns the value of the first key that has one; ``env.id`` counts as ``{"env": {"id": ...}}``."""
    for key in keys:
        if config.get(key) not in (None, ""):
            return config[key]
        for sign in "./":
            nested = {
                name.removeprefix(key + sign): held for name, held in config.items() if name.startswith(key + sign)
            }
            if nested:
                return nested
    return None
