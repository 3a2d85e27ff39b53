"""The page of gin parameters: everything that a gin file can bind, with type, default and meaning."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gin

import a2perf
from a2perf.metrics.trackers.emissions import RENAMED, EmissionsSettings
from docs.building.markdown import code, described, described_with_bases, summary, table

_SOURCE = Path(a2perf.__file__).parent
# parameters of a function that are fields of a class; earlier names of a field are described by the new name
_FIELDS_OF = {"track_emissions_decorator": (EmissionsSettings, RENAMED)}
_ASKS_FOR = re.compile(r"gin\.(external_)?configurable|completed_by_gin\(")


@dataclass(frozen=True)
class Configurable:
    """Something that gin files can bind.

    Attributes:
        name: shortest name, ``"Submission"``.
        module: optional prefix of the name, ``"a2perf.submission"``.
        owner: the class or function that takes the parameters.
        descriptions: from its docstring, by parameter.
    """

    name: str
    module: str
    owner: Callable[..., Any]
    descriptions: dict[str, str]

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """Parameters that a file can bind."""
        several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        given = inspect.signature(self.owner).parameters.values()
        return [item for item in given if item.kind not in several and item.name not in ("self", "fn")]


def all_configurables() -> list[Configurable]:
    """Imports every module of a2perf that registers something with gin and returns what is registered."""
    for path in sorted(_SOURCE.rglob("*.py")):
        if _ASKS_FOR.search(path.read_text(encoding="utf-8")):
            importlib.import_module(".".join(path.relative_to(_SOURCE.parent).with_suffix("").parts))
    found = []
    for selector, registered in gin.config._REGISTRY._selector_map.items():
        home = registered.wrapped.__module__
        if not home.startswith("a2perf."):
            continue
        module, _, name = selector.rpartition(".")
        owner = _owner(name, registered.wrapped)
        if name in _FIELDS_OF:
            owner, renamed = _FIELDS_OF[name]
            earlier = {old: f"Earlier name of `{new}`." for old, new in renamed.items()}
            found.append(Configurable(name, module, registered.wrapped, {**earlier, **described_with_bases(owner)}))
            continue
        of_owner = described_with_bases(owner) if inspect.isclass(owner) else described(owner)
        found.append(Configurable(name, module, owner, {**described(registered.wrapped), **of_owner}))
    return sorted(found, key=lambda one: (one.name != "Submission", one.module, one.name))


def _owner(name: str, wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the class that takes the parameters if the registered function only passes keywords on."""
    kinds = {item.kind for item in inspect.signature(wrapped).parameters.values()}
    if kinds != {inspect.Parameter.VAR_KEYWORD}:
        return wrapped
    named = getattr(sys.modules[wrapped.__module__], name, wrapped)
    if inspect.isclass(named):
        return named
    for function in (named, wrapped):
        made = typing.get_type_hints(function).get("return")
        if inspect.isclass(made) and made is not dict:
            return made
    return wrapped


def write(path: Path) -> None:
    """Writes the page."""
    text = [
        "# Gin parameters",
        "",
        "A gin file, or `--gin-bindings`, binds parameters: `Submission.seed = 3`. If two names are alike, write the "
        "module in brackets before them: `a2perf.submission.Submission.seed = 3`. Enums are constants: "
        "`%BenchmarkMode.TRAIN`. A misspelt name is an error that suggests the nearest one. "
        "`operative_config.gin` in a bundle holds the bindings in force.",
        "",
        "Arguments of an environment can be bound here or passed to `gymnasium.make`.",
        "",
    ]
    for one in all_configurables():
        text += [f"## {one.name}", "", f"({code(one.module)}) {summary(one.owner)}", ""]
        rows = [[code(item.name), _facts(item), one.descriptions.get(item.name, "")] for item in one.parameters]
        text.append(table(["parameter", "type and default", "meaning"], rows) or "It has no parameters.\n")
    path.write_text("\n".join(text), encoding="utf-8")


def _kind(item: inspect.Parameter) -> str:
    if item.annotation is item.empty:
        return ""
    return item.annotation if isinstance(item.annotation, str) else getattr(item.annotation, "__name__", "")


def _facts(item: inspect.Parameter) -> str:
    return ", ".join(text for text in (code(_kind(item)), _default(item)) if text)


def _default(item: inspect.Parameter) -> str:
    if item.default is item.empty:
        return "required"
    shown = repr(item.default)
    if shown == "<factory>":
        return "empty"
    return code(getattr(item.default, "__name__", shown) if shown.startswith("<") else shown)
