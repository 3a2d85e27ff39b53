"""Kinds of experiments that installed packages add.

A kind is a function that returns run specifications. A package adds one with an entry point of the group
``a2perf.experiments``; ``a2perf experiment NAME`` then runs it::

    [project.entry-points."a2perf.experiments"]
    my_kind = "my_package.kinds:my_kind"

The function takes the folder of the experiment and, by keyword, its options as text.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

from a2perf.errors import ConfigError, did_you_mean
from a2perf.launch import RunSpec
from a2perf.plugins import load_plugin, plugin_names

GROUP = "a2perf.experiments"
"""Group of the entry points with which installed packages add kinds."""


def kind_names() -> list[str]:
    """Returns the names of the kinds of installed packages."""
    return plugin_names(GROUP)


def plan_kind(name: str, root: Path, options: Mapping[str, str]) -> list[RunSpec]:
    """Returns the runs of an experiment.

    Raises:
        ConfigError: the kind or an option is unknown, its package is broken, an option is missing, or two runs have
            the same key.
    """
    kind = load_plugin(GROUP, name, "kind of experiment", gives="run specifications")
    parameters = list(inspect.signature(kind).parameters.values())[1:]  # the first one is the folder
    known = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    takes_any = len(known) < len(parameters)
    unknown = [option for option in options if option not in known and not takes_any]
    listed = f"its options are: {', '.join(known)}" if known else "it has no options"
    if unknown:
        near = did_you_mean(unknown[0], known)
        raise ConfigError(f"the kind of experiment {name!r} has no option {unknown[0]!r}{near}", hint=listed)
    required = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    if missing := [option for option in required if option not in options]:
        hint = " ".join(f"-o {option}=VALUE" for option in missing)
        raise ConfigError(f"the kind of experiment {name!r} requires {', '.join(missing)}", hint=f"add {hint}")
    specs = list(kind(root, **options))
    keys = [spec.key for spec in specs]
    if repeated := [key for key in dict.fromkeys(keys) if keys.count(key) > 1]:
        raise ConfigError(f"two runs of {name!r} have the key {repeated[0]!r}", hint="give every run its own key")
    return specs
