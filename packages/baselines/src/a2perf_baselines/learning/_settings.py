"""Settings of a training run: a dataclass, overridden by a gin file per task, overridden by participant arguments.

A file holds ``Settings.name = literal`` lines and ``include 'other.gin'``. gin parses it, but nothing is registered or
bound in gin: the values only go into the dataclass.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Protocol, TypeVar

from a2perf.domains.registry import all_environments, domains, find_environment
from a2perf.errors import ConfigError, did_you_mean

ID_VARIABLE, KWARGS_VARIABLE = "A2PERF_ENV_ID", "A2PERF_ENV_KWARGS"
CONFIG_FOLDER = "configs"
_FREE = "may_change"


class Dataclass(Protocol):
    """Any instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


S = TypeVar("S", bound=Dataclass)
T = TypeVar("T")


def may_change(default: T) -> T:
    """Declares a field that may differ in a resumed training run, such as its length or the number of processes."""
    field: T = dataclasses.field(default=default, metadata={_FREE: True})
    return field


def fixed_fields(settings: Dataclass) -> dict[str, Any]:
    """Returns the settings that must not change in a resumed training run, by name."""
    return {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if not field.metadata.get(_FREE)
    }


def read_settings(kind: type[S], participant_args: Mapping[str, str], folder: Path) -> S:
    """Returns the settings of a training run.

    Args:
        kind: a dataclass; its fields are numbers, strings, bools, or tuples of these, all with defaults.
        participant_args: fields of ``kind`` as strings; ``config`` names another file or the settings of another task.
        folder: the submission; ``configs/NAME.gin`` is read for the first of ``task_names`` that has such a file.

    Raises:
        ConfigError: a name is unknown, a value has another type, or a file cannot be read; the message names the place.
    """
    given = dict(participant_args)
    file = _file(folder, given.pop("config", None))
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    values: dict[str, Any] = {}
    if file is not None:
        for name, value, place in _bindings(file, kind.__name__):
            _require_known(name, names, place)
            values[name] = _checked(value, hints[name], name, place)
    for name, text in given.items():
        _require_known(name, names, "the participant arguments")
        values[name] = _cast(text, hints[name], name)
    return kind(**values)


def task_names() -> list[str]:
    """Returns the names of settings files for the run's task, the most specific one first.

    They are the task's name, the environment's id, the domain's name and ``default``.
    """
    env_id = os.environ.get(ID_VARIABLE, "")
    kwargs = json.loads(os.environ.get(KWARGS_VARIABLE) or "{}")
    found = all_environments().get(env_id)
    if found is None:
        return [env_id, "default"] if env_id else ["default"]
    domain, environment = found
    tasks = [
        task.name
        for task in domain.tasks
        if task.env_id == environment.id and all(kwargs.get(key) == value for key, value in task.kwargs.items())
    ]
    return [*tasks[:1], environment.id, domain.name, "default"]


def domain_name() -> str:
    """Returns the name of the domain of the run's environment.

    Raises:
        ConfigError: no domain has this environment.
    """
    return find_environment(os.environ.get(ID_VARIABLE, ""))[0].name


def domain_module(folder: Path) -> ModuleType:
    """Imports the module of a submission that is named like the run's domain, for submissions to several domains.

    Args:
        folder: the submission; it is on the import path.

    Raises:
        ConfigError: the file does not exist.
    """
    name = domain_name()
    if not (folder / f"{name}.py").is_file():
        there = [domain for domain in sorted(domains()) if (folder / f"{domain}.py").is_file()]
        raise ConfigError(
            f"{folder.name} does not support {name}, the domain of {os.environ.get(ID_VARIABLE)}",
            hint=f"use an environment of: {', '.join(there) or 'no domain'}",
        )
    return importlib.import_module(name)


def _file(folder: Path, config: str | None) -> Path | None:
    configs = folder / CONFIG_FOLDER
    if config is None:
        return next((file for name in task_names() if (file := configs / f"{name}.gin").is_file()), None)
    for file in (Path(config), configs / config, configs / f"{config}.gin"):
        if file.is_file():
            return file
    there = sorted(file.stem for file in configs.glob("*.gin"))
    raise ConfigError(
        f"there are no settings {config!r}{did_you_mean(config, there)}",
        hint=f"set config=NAME with one of {', '.join(there) or 'no names (there are none)'}, or a path",
    )


def _bindings(file: Path, selector: str, above: tuple[Path, ...] = ()) -> list[tuple[str, Any, str]]:
    """Returns the bindings of a file and its included files, in order, as name, value and place."""
    from gin import config_parser

    if file in above:
        raise ConfigError(f"{file.name} includes itself", hint="remove the line")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the settings {file} cannot be read: {error}") from error
    found: list[tuple[str, Any, str]] = []
    try:
        for statement in config_parser.ConfigParser(text, _LiteralsOnly()):
            place = f"{file.name}:{statement.location.line_num}"
            if isinstance(statement, config_parser.IncludeStatement):
                found += _bindings(file.parent / statement.filename, selector, (*above, file))
            elif isinstance(statement, config_parser.BindingStatement) and statement.selector == selector:
                found.append((statement.arg_name, statement.value, place))
            else:
                raise ConfigError(
                    f"{place} is not a line `{selector}.name = value`", hint=f"settings bind {selector} alone"
                )
    except SyntaxError as error:
        raise ConfigError(f"{file.name}:{error.lineno}: {error.msg}", hint="write `Settings.name = value`") from error
    return found


class _LiteralsOnly:
    """The parser's delegate: refuses references, because nothing is registered in gin."""

    def configurable_reference(self, scoped_name: str, evaluate: bool) -> Any:
        raise ConfigError(f"@{scoped_name} is a reference", hint="settings are numbers, strings, bools and tuples")

    def macro(self, name: str) -> Any:
        raise ConfigError(f"%{name} is a macro", hint="settings are numbers, strings, bools and tuples")


def _require_known(name: str, names: Sequence[str], place: str) -> None:
    if name not in names:
        raise ConfigError(
            f"{place}: there is no setting {name!r}{did_you_mean(name, names)}", hint=f"settings: {', '.join(names)}"
        )


def _checked(value: Any, hint: Any, name: str, place: str) -> Any:
    """Returns a literal as the field's type; an int serves as a float, a list as a tuple."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _checked(value, next(item for item in arguments if item is not type(None)), name, place)
    if origin is tuple and isinstance(value, (tuple, list)):
        return tuple(_checked(item, arguments[0], name, place) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin is None and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise ConfigError(f"{place}: {name} is {value!r}, which is not of type {_shown(hint)}")


def _cast(text: str, hint: Any, name: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    try:
        if origin in (typing.Union, types.UnionType):
            kind = next(item for item in arguments if item is not type(None))
            return None if text in ("", "None") else _cast(text, kind, name)
        if origin is tuple:
            # commas separate participant arguments, so tuples use colons or spaces
            return tuple(_cast(item, arguments[0], name) for item in text.strip("()[]").replace(":", " ").split())
        if hint is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if hint is int:
            return int(text.replace("_", ""))
        return hint(text)
    except (ValueError, KeyError) as error:
        raise ConfigError(f"the participant argument {name}={text!r} is not of type {_shown(hint)}") from error


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and typing.get_origin(hint) is None else str(hint)
