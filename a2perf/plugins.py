"""Extensions that installed packages add: the entry points of a group. A broken package is named and stops nothing.

Each kind of extension has a group (``a2perf.metrics``, ``a2perf.launchers``, ...) and decides what it accepts.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from a2perf.errors import ConfigError, MissingDependency, did_you_mean


def entry_points(group: str) -> metadata.EntryPoints:
    """Returns the entry points of a group; the metadata of all packages is read once, which takes 10 to 30 ms."""
    found: metadata.EntryPoints = _entry_points(tuple(sys.path)).select(group=group)
    return found


@functools.lru_cache(maxsize=4)
def _entry_points(_path: tuple[str, ...]) -> Any:
    return metadata.entry_points()


class RejectedPlugin(Exception):
    """An entry point loaded an object that its group does not accept; the message gives the reason."""


@dataclass(frozen=True)
class PluginProblem:
    """An entry point that cannot be used: the object that it names, and the reason."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def load_plugins(group: str, accept: Callable[[str, Any], None]) -> dict[str, PluginProblem]:
    """Loads every entry point of a group, in the order of their names.

    Args:
        accept: called with the name of each entry point and its object; raises RejectedPlugin to refuse it.

    Returns:
        The entry points that cannot be used, by name.
    """
    problems: dict[str, PluginProblem] = {}
    for point in sorted(entry_points(group), key=lambda point: point.name):
        try:
            accept(point.name, point.load())
        except RejectedPlugin as error:
            problems[point.name] = PluginProblem(point.value, str(error))
        except Exception as error:  # anything can happen while the code of another package runs
            problems[point.name] = PluginProblem(point.value, f"{type(error).__name__}: {error}")
    return problems


@functools.cache
def is_installed(distribution: str) -> bool:
    """Returns whether a distribution is installed."""
    return any(True for _ in metadata.distributions(name=distribution))


def install_line(name: str) -> str:
    """Returns the command that installs the distribution ``packages/NAME`` of this repository."""
    return f"pip install -e packages/{name}, in a checkout"


def name_of_distribution(distribution: str, name: str) -> Any:
    """Returns a public name of the distribution ``packages/DISTRIBUTION`` of this repository.

    Raises:
        MissingDependency: the distribution is not installed.
    """
    package = f"a2perf_{distribution}"
    try:
        return getattr(importlib.import_module(package), name)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingDependency(
            f"a2perf.{name} comes with the distribution a2perf-{distribution}", hint=install_line(distribution)
        ) from error


def plugin_names(group: str) -> list[str]:
    """Returns the names of the entry points of a group, without loading them."""
    return sorted(entry_points(group).names)


def load_plugin(group: str, name: str, what: str, *, gives: str, others: Collection[str] = ()) -> Callable[..., Any]:
    """Returns the function or class that an entry point names; ``what`` the group holds is for messages.

    Raises:
        ConfigError: the name is unknown, or the package is broken.
    """
    known = [*others, *plugin_names(group)]
    if name not in entry_points(group).names:
        hint = f"choose one of: {', '.join(known)}" if known else f"install a package with the group {group}"
        raise ConfigError(f"{name!r} is not a {what}{did_you_mean(name, known)}", hint=hint)
    (point, *_) = entry_points(group).select(name=name)
    try:
        loaded: Any = point.load()
    except Exception as error:  # whatever the package raises, the person needs its name and not a traceback
        raise ConfigError(
            f"the {what} {name!r} cannot be loaded from {point.value}: {type(error).__name__}: {error}",
            hint=f"reinstall or remove the package {point.dist.name if point.dist else point.value}",
        ) from error
    if not callable(loaded):
        raise ConfigError(
            f"the {what} {name!r} is {loaded!r}, which cannot be called",
            hint=f"let the entry point {point.value} name a class or function that returns {gives}",
        )
    function: Callable[..., Any] = loaded
    return function
