"""Configurations of performance tests, in the YAML shape of the original.

A file holds the overrides of one test in the format of the original's configuration system: ``env``, ``algorithm`` with
its keys, ``performance_testing_conditions``, ``hydra.sweeper``; or a ``command`` or ``submission`` to test.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from a2perf.errors import ConfigError, UserError, did_you_mean
from a2perf.experiments.needs import find_submission
from a2perf.experiments.performance_test.condition import PassCondition
from a2perf.experiments.runners.stable_baselines3 import check_algorithm

CONF = Path("conf", "performance")
MAX_DURATION_MINUTES = 10_080.0
SUFFIXES = (".yaml", ".yml")
_REQUIRED = ("total_runs", "succ_runs", "eval_columns", "eval_value")
_CONDITION_KEYS = {*_REQUIRED, "max_steps", "direction", "statistic", "last_n", "seeds", "base_seed", "on_crash"}
_TOP_KEYS = {
    "defaults",
    "env",
    "env_kwargs",
    "algorithm",
    "performance_testing_conditions",
    "hydra",
    "seed",
    "eval_after_n_steps",
    "n_test_rollouts",
    "n_epochs",
    "early_stop_data_column",
    "early_stop_threshold",
    "early_stop_last_n",
    "command",
    "submission",
    "gin_configs",
    "flags",
}
_IGNORED_KEYS = {
    "wandb",
    "render",
    "render_freq",
    "render_args",
    "save_model_freq",
    "restore_policy",
    "base_logdir",
    "hyperopt_criterion",
}
"""Keys of the original that have no meaning here."""
_NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?")
_HINT = "see compatibility/conf/performance in the repository"
N = TypeVar("N", int, float)


@dataclass(frozen=True)
class TrainingSpec:
    """The training run of the packaged runner.

    Attributes:
        eval_after_n_steps: environment steps of an epoch; an evaluation closes each.
        n_test_rollouts: episodes of an evaluation.
        early_stop_column: a run ends when this column has reached the threshold; None for no early stop.
        early_stop_last_n: number of evaluations in the mean of the column, and their least number. The last one must
            reach the threshold too; otherwise a run could be stopped that does not meet the condition.
    """

    algorithm: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    eval_after_n_steps: int = 2000
    n_epochs: int = 1
    n_test_rollouts: int = 10
    early_stop_column: str | None = None
    early_stop_threshold: float = 0.0
    early_stop_last_n: int = 3
    direction: str = ">="


@dataclass(frozen=True)
class PerformanceTest:
    """One test.

    Attributes:
        name: ``FetchReach/sac_her-test``.
        max_duration_minutes: the test ends after this time, even if runs are missing.
        abort_on_crash: whether a crashed run ends the test, instead of counting as a run that missed.
        training: the training run of the packaged runner; None for a command or a submission.
    """

    name: str
    path: Path
    env: str
    condition: PassCondition
    seeds: tuple[int, ...]
    n_jobs: int = 1
    study_name: str = ""
    max_duration_minutes: float = MAX_DURATION_MINUTES
    abort_on_crash: bool = False
    training: TrainingSpec | None = None
    command: str | None = None
    submission: Path | None = None
    gin_configs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def find_tests(given: Iterable[str], *, conf: Path = CONF) -> list[Path]:
    """Finds the files of tests by name, path or glob, each once and in a stable order.

    Args:
        given: ``FetchReach/sac_her-test``, ``conf/performance/x.yaml``, ``'FetchReach/*'``.
        conf: the folder of named tests.

    Raises:
        ConfigError: no test has that name; the message lists the existing ones.
    """
    names = {name_of(path, conf): path for path in sorted(conf.rglob("*")) if path.suffix in SUFFIXES}
    found: dict[Path, None] = {}
    for word in given:
        if word in names:
            found[names[word]] = None
        elif Path(word).is_file():
            found[Path(word)] = None
        elif matches := sorted(name for name in names if Path(name).match(word) or Path(name).match(f"{word}*")):
            found.update(dict.fromkeys(names[name] for name in matches))
        else:
            existing = f"there are: {', '.join(names)}" if names else f"{conf} holds none"
            raise ConfigError(
                f"{word!r} is not a performance test{did_you_mean(word, names)}", hint=f"{existing}; a path works too"
            )
    return list(found)


def is_test(path: Path) -> bool:
    """Returns whether a file is a test: by its name, or by its block of conditions.

    Folders of tests also hold other configurations, such as hyperparameter searches (``sac-opti.yaml``).
    """
    return path.stem.endswith("-test") or "performance_testing_conditions" in _read_yaml(path)


def name_of(path: Path, conf: Path = CONF) -> str:
    """Returns the name of a test: its path below the folder of tests, without the suffix."""
    absolute = path.absolute()
    relative = absolute.relative_to(conf.absolute()) if absolute.is_relative_to(conf.absolute()) else absolute.name
    return Path(relative).with_suffix("").as_posix()


def read_test(path: Path, *, conf: Path = CONF) -> PerformanceTest:
    """Reads a test; ``algorithm/NAME.yaml`` beside the folder ``conf`` has defaults of an algorithm.

    Raises:
        ConfigError: the file cannot be read or is invalid.
    """
    values = _read_yaml(path)
    try:
        return _test_of(name_of(path, conf), path, _with_defaults(values, conf.parent / "algorithm"))
    except UserError as error:
        raise ConfigError(f"{path}: {error.message}", hint=error.hint) from error


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", hint="check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{path}{line}: not a YAML file: {problem}", hint="fix that line") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds no keys", hint=_HINT)
    return {str(key): _numbers(value) for key, value in values.items()}


def _with_defaults(values: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Adds the keys of ``conf/algorithm/<name>.yaml``, if it exists, as defaults of the keys in the test."""
    if values.get("command") or values.get("submission"):
        return values
    name = _algorithm(values)
    path = folder / f"{name}.yaml"
    if not path.is_file():
        check_algorithm(name)
        return values
    defaults = _read_yaml(path)
    nested = defaults.get("algorithm")
    algorithm = _merged(dict(_mapping(nested)) if nested is not None else defaults, _mapping(values.get("algorithm")))
    check_algorithm(str(algorithm.get("name") or name))
    return {**values, "algorithm": algorithm}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        is_nested = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if is_nested else value
    return merged


def _numbers(value: Any) -> Any:
    """Converts numbers that YAML 1.1 reads as text (``1e-3``)."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value.replace("_", ""))
    return value


def _test_of(name: str, path: Path, values: Mapping[str, Any]) -> PerformanceTest:
    block = values.get("performance_testing_conditions")
    if not isinstance(block, Mapping):
        raise ConfigError("there is no block performance_testing_conditions", hint=_HINT)
    for key in block:
        if key not in _CONDITION_KEYS:
            raise ConfigError(
                f"performance_testing_conditions.{key} is not known{did_you_mean(str(key), _CONDITION_KEYS)}",
                hint=f"use one of: {', '.join(sorted(_CONDITION_KEYS))}",
            )
    for key in _REQUIRED:
        if key not in block:
            raise ConfigError(f"performance_testing_conditions.{key} is missing", hint="add it")
    columns = tuple(map(str, _items(block["eval_columns"])))
    bounds = [_number(float, "eval_value", value) for value in _items(block["eval_value"])]
    max_steps = block.get("max_steps")
    condition = PassCondition(
        total_runs=_number(int, "total_runs", block["total_runs"]),
        succ_runs=_number(int, "succ_runs", block["succ_runs"]),
        columns=columns,
        values=tuple(bounds * len(columns) if len(bounds) == 1 else bounds),
        direction=block.get("direction", ">="),
        statistic=block.get("statistic", "last"),
        last_n=_number(int, "last_n", block.get("last_n", 3)),
        max_steps=None if max_steps is None else _number(int, "max_steps", max_steps),
    )
    if not values.get("env"):
        raise ConfigError("env is missing", hint="name the environment: `env: 'FetchReach-v2'`")
    on_crash = block.get("on_crash", "count_as_failure")
    if on_crash not in ("count_as_failure", "abort"):
        raise ConfigError(f"on_crash = {on_crash!r} is unknown", hint="choose one of: count_as_failure, abort")
    command, submission = values.get("command") or None, values.get("submission")
    if command and submission:
        raise ConfigError("command and submission are both given", hint="give one of them")
    sweeper = _mapping(_mapping(values.get("hydra")).get("sweeper"))
    minutes = sweeper.get("max_duration_minutes") or MAX_DURATION_MINUTES
    return PerformanceTest(
        name=name,
        path=path,
        env=str(values["env"]),
        condition=condition,
        seeds=_seeds(block, values, condition.total_runs),
        n_jobs=max(1, _number(int, "n_jobs", sweeper.get("n_jobs") or 1)),
        study_name=str(sweeper.get("study_name") or name.replace("/", "_")),
        max_duration_minutes=_number(float, "max_duration_minutes", minutes),
        abort_on_crash=on_crash == "abort",
        training=None if command or submission else _training(values, condition),
        command=command,
        submission=find_submission(Path(str(submission)), path) if submission else None,
        gin_configs=tuple(map(str, _items(values.get("gin_configs") or ()))),
        flags=tuple(map(str, _items(values.get("flags") or ()))),
        notices=tuple(f"{key} is not known and was left out" for key in values if key not in _TOP_KEYS | _IGNORED_KEYS),
    )


def _training(values: Mapping[str, Any], condition: PassCondition) -> TrainingSpec:
    """Derives the length of a run and its early stop from the condition, as in the comments of the original."""

    def number(kind: type[N], name: str, default: N) -> N:
        return _number(kind, name, values.get(name, default))

    epoch = number(int, "eval_after_n_steps", TrainingSpec.eval_after_n_steps)
    n_epochs = number(int, "n_epochs", 60) if condition.max_steps is None else condition.max_steps // epoch
    if condition.max_steps is not None and n_epochs < 1:
        raise ConfigError(
            f"max_steps = {condition.max_steps} is less than one evaluation (eval_after_n_steps = {epoch})",
            hint="raise max_steps or lower eval_after_n_steps",
        )
    return TrainingSpec(
        algorithm=_algorithm(values),
        parameters={key: value for key, value in _mapping(values.get("algorithm")).items() if key != "name"},
        env_kwargs=dict(_mapping(values.get("env_kwargs"))),
        eval_after_n_steps=epoch,
        n_epochs=n_epochs,
        n_test_rollouts=number(int, "n_test_rollouts", TrainingSpec.n_test_rollouts),
        early_stop_column=str(values.get("early_stop_data_column", condition.columns[0])),
        early_stop_threshold=number(float, "early_stop_threshold", condition.values[0]),
        early_stop_last_n=number(int, "early_stop_last_n", TrainingSpec.early_stop_last_n),
        direction=condition.direction,
    )


def _algorithm(values: Mapping[str, Any]) -> str:
    """Returns the name of the algorithm; a name among its keys takes precedence over the file of defaults."""
    if named := _mapping(values.get("algorithm")).get("name"):
        return str(named)
    for entry in values.get("defaults") or ():
        for key, value in _mapping(entry).items():
            if str(key).split("/")[-1].strip() == "algorithm":
                return str(value)
    raise ConfigError(
        "no algorithm is chosen, and neither command nor submission is given",
        hint="add `defaults: [override /algorithm: sac]`",
    )


def _seeds(block: Mapping[str, Any], values: Mapping[str, Any], total: int) -> tuple[int, ...]:
    given = block.get("seeds")
    if given is None:
        base = _number(int, "base_seed", block.get("base_seed", values.get("seed") or 0))
        return tuple(range(base, base + total))
    seeds = tuple(_number(int, "seeds", seed) for seed in _items(given))
    if len(seeds) != total or len(set(seeds)) != total:
        raise ConfigError(f"seeds has {len(set(seeds))} different seeds for {total} runs", hint="give one seed per run")
    return seeds


def _number(kind: type[N], name: str, value: Any) -> N:
    try:
        return kind(value)
    except (ValueError, TypeError, OverflowError) as error:
        text, example = ("a whole number", 3) if kind is int else ("a number", 0.5)
        raise ConfigError(f"{name} = {value!r} is not {text}", hint=f"write `{name}: {example}`") from error


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
