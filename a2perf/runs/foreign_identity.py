"""The identity of a run that another program recorded: from its configuration, otherwise from the names of its folders.

The one rule of readers and importers. A name counts as an environment only if it looks like an id of Gymnasium
(``CartPole-v1``); an unknown environment stays unknown, because a guess would average runs of different environments.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.runs.files import BundleFiles
from a2perf.runs.tables import CsvTable, plain_cell
from a2perf.stranger_files import StrangerFileError

UNKNOWN_ENVIRONMENT = (
    "unknown environment, therefore not averaged with other runs; put the run below a folder with the name of its "
    "environment (CartPole-v1), or use `a2perf rlops import --env-id ENV`"
)
CONFIG_KEYS = {
    "env_id": ("env_id", "env", "environment", "gym_id"),
    "experiment": ("exp_name", "experiment", "algo", "algorithm"),
    "seed": ("seed",),
}
_ARGUMENT_KEYS = ("env_kwargs", "env_args")
_ID_KEYS = ("id", "env_id", "env_name", "name", "env")
_NAMED = re.compile(r"(?P<env>.+?)__(?P<exp>.+?)__(?P<seed>\d+)(?:__\d+)?")
_SEEDED = re.compile(r"(?:^|[_\-])seed[_\-=]?(\d+)(?=$|[_\-])", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*?)[_\-](\d+)")
_ENVIRONMENT = re.compile(r"(?:[\w.]+:)?[A-Z][\w.]*(?:-[\w.]+)*-v\d+")
_INNER = ("log", "logs", "tb", "tensorboard", "train", "eval", "files", "artifacts", "results")
"""Folders inside of a run; they name no algorithm."""
_MOST_HEAD_BYTES = 1 << 20  # of the line of JSON at the head of a Monitor file


@dataclass(frozen=True)
class ForeignIdentity:
    """The identity of a run, as far as it is known.

    Attributes:
        experiment: name of the algorithm; ``""`` if unknown.
        env_id: the environment; ``""`` if unknown.
        seed: the seed, or the number of the run; None if unknown.
        notice: why a configured environment could not be used; ``""`` without a reason.
    """

    experiment: str = ""
    env_id: str = ""
    seed: int | None = None
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    notice: str = ""


def identity_of(name: str, above: Sequence[str], config: Mapping[str, Any] | None = None) -> ForeignIdentity:
    """Returns the identity of a run.

    Args:
        name: of the run: of its folder, of its file without suffix, or the one that a tracker displays.
        above: names of the folders above it, the nearest first.
        config: its configuration; it counts before all names.
    """
    config = config or {}
    experiment, env_id, seed = _from_names([name, *above])
    value = _first(config, CONFIG_KEYS["experiment"])
    experiment = str(value) if isinstance(value, str | int | float) else experiment
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        seed = int(_first(config, CONFIG_KEYS["seed"]))
    configured, arguments, notice = _environment(config)
    return ForeignIdentity(experiment, configured or env_id, seed, arguments, notice)


def monitor_head(files: BundleFiles, name: str) -> dict[str, Any]:
    """Returns the line of JSON at the head of a Monitor file of Stable-Baselines3; empty without a readable one."""
    try:
        with files.open(name) as stream:
            head = json.loads(stream.readline(_MOST_HEAD_BYTES).removeprefix(b"#"))
    except (StrangerFileError, OSError, ValueError, RecursionError):
        return {}
    return head if isinstance(head, dict) else {}


def monitor_config(heads: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the environment of the Monitor files of one run; empty if they name none, or several."""
    named = {head["env_id"] for head in heads if isinstance(head.get("env_id"), str)} - {"None", ""}
    return {"env_id": named.pop()} if len(named) == 1 else {}


def runs_in_table(table: CsvTable) -> list[tuple[dict[str, str], NDArray[np.bool_]]]:
    """Returns the configuration and the rows of each run of a table that tells runs apart by columns; else none."""
    found = (next((column for column in columns if column in table.columns), None) for columns in CONFIG_KEYS.values())
    keys = [column for column in found if column is not None]
    texts = [[str(plain_cell(cell)) for cell in table.columns[column]] for column in keys]
    cells = list(zip(*texts, strict=True))
    return [
        (dict(zip(keys, group, strict=True)), np.array([cell == group for cell in cells], bool))
        for group in dict.fromkeys(cells)
    ]


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


def _environment(config: Mapping[str, Any]) -> tuple[str, dict[str, Any], str]:
    """Returns id, arguments and a notice of the configured environment."""
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
