"""Arguments that several functions of the API take, and their checks."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from a2perf.errors import ConfigError, did_you_mean
from a2perf.submission.run_options import OPTIONS, RunOptions
from a2perf.submission.run_services import brought_by
from a2perf.submission.settings import check_value

if TYPE_CHECKING:
    from a2perf.launch.conductor import Conductor


class RunSettings(TypedDict, total=False):
    """The options of every run; a value that is not given is decided by the gin file.

    Installed packages add more, see ``a2perf.submission.run_services``.
    """

    metric_values_dir: str | os.PathLike[str] | None
    run_offline_metrics_only: bool
    repeats: int
    perturbations: Sequence[str]
    concurrent_episodes: int
    batch: int
    public_seeds: bool
    seeds_from: str | os.PathLike[str] | None
    run_time_limit_s: float | None
    memory_limit_bytes: int | None
    sandbox: str
    allow_weaker: bool
    datasets_path: str | os.PathLike[str] | None
    python_env: str
    participant_python: str | os.PathLike[str] | None
    trust_submission_config: bool


class EvaluationSettings(RunSettings, total=False):
    """The arguments of ``evaluate`` that do not decide what it returns."""

    env: str | None
    env_kwargs: Mapping[str, Any] | None
    episodes: int | None
    seed: int
    name: str | None
    root_dir: str | os.PathLike[str] | None
    participant_args: Mapping[str, Any] | None
    gin_config: str
    bindings: Sequence[str]
    force: bool
    progress: bool | None


RunSettings.__doc__ = f"{RunSettings.__doc__}\n    Attributes:\n" + "".join(
    f"        {name}: {OPTIONS[name].help}\n" for name in RunSettings.__annotations__
)


def run_options(function: str, given: Mapping[str, Any], valid: Collection[str] = tuple(OPTIONS)) -> RunOptions:
    """Returns the options of a run that a function was given, after checking their names and types.

    Raises:
        ConfigError: an unknown name, or a value of another type.
    """
    checked = {}
    for name, value in given.items():
        if name not in valid:
            if instead := brought_by(name, f"{function}: {name}"):
                raise instead
            raise ConfigError(
                f"{function} has no option {name!r}{did_you_mean(name, valid)}",
                hint=f"its options: {', '.join(valid)}",
            )
        kind = OPTIONS[name].kind
        if kind.startswith("Sequence") and not isinstance(value, str) and value is not None:
            value = [_text(item) for item in value]
        elif value is not None or "None" in kind:
            value = _text(value)
        if value is not None:
            check_value(name, kind, value)
        checked[name] = value
    return RunOptions(checked)


def conductor_of(
    launcher: str, options: Mapping[str, str] | None, workers: int, progress: bool | Literal["lines"] | None
) -> Conductor:
    """Returns what executes the runs of a function and shows them as ``progress`` says."""
    from a2perf.launch.conductor import Conductor
    from a2perf.launch.interface import get_launcher
    from a2perf.terminal import console

    shown = None if progress is False else console(stderr=True)
    count = whole_number("workers", workers, least=1)
    return Conductor(get_launcher(launcher, **(options or {})), count, console=shown, live=progress != "lines")


def participant_arguments(given: Mapping[str, Any] | None) -> str:
    """Returns participant arguments in the form of the command line.

    Raises:
        ConfigError: a name is not an identifier, or a value contains a comma.
    """
    pairs = {} if given is None else {name: str(value) for name, value in given.items()}
    for name, value in pairs.items():
        if not str(name).isidentifier() or "," in value:
            raise ConfigError(
                f"participant_args: {name!r}: {value!r} is not valid",
                hint="use names that are Python identifiers, and values without commas",
            )
    return ",".join(f"{name}={value}" for name, value in pairs.items())


def whole_number(name: str, given: Any, *, least: int) -> int:
    """Returns a whole number; NumPy's integers are accepted.

    Raises:
        ConfigError: another type, or a smaller number.
    """
    try:
        count = None if isinstance(given, bool) else given.__index__()
    except AttributeError:
        count = None
    if count is None or count < least:
        raise ConfigError(f"{name}={given!r} is not valid", hint=f"give a whole number, {least} or more")
    return int(count)


def _text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value
