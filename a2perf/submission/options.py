"""Conventions of every a2perf command line: names of flags, sizes and durations, and ``k=v`` lists."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import click

from a2perf.errors import ConfigError


def normalised() -> dict[str, Any]:
    """Returns click context settings that accept ``--root_dir`` for ``--root-dir``."""

    def dashed(token: str) -> str:
        return token.replace("_", "-")

    return {"token_normalize_func": dashed, "help_option_names": ["-h", "--help"]}


class UnitOption(click.ParamType[float]):
    """A number with a unit, such as ``4G`` or ``90m``, in the unit without a letter.

    Args:
        units: factors by letter; the empty letter is the unit of the value.
    """

    def __init__(self, name: str, units: Mapping[str, int], example: str, *, whole: bool = False) -> None:
        self.name, self._units, self._example, self._whole = name, units, example, whole

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns the value of a text; a number stays as it is."""
        if isinstance(value, int | float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]?)(?:i?b)?", value.strip().lower())
        if found is None or found[2] not in self._units:
            flag = self.name if param is None else param.opts[0]
            raise ConfigError(f"{flag}: {value!r} is not valid", hint=f"write {self._example}")
        quantity = float(found[1]) * self._units[found[2]]
        return int(quantity) if self._whole else quantity


SIZE = UnitOption("size", {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}, "4G, 512M or bytes", whole=True)
DURATION = UnitOption("duration", {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}, "90m, 2h or seconds")


def parse_participant_args(given: str, flag: str = "--participant-args") -> dict[str, str]:
    """Splits ``k1=v1,k2=v2``; every value stays a string, and only the first ``=`` of a pair counts.

    Raises:
        ConfigError: a pair without ``=``, an empty or repeated name.
    """
    arguments: dict[str, str] = {}
    for pair in filter(None, given.split(",")):
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier():
            raise ConfigError(f"{flag}: {pair!r} is not name=value", hint="write name1=value1,name2=value2")
        if name in arguments:
            raise ConfigError(f"{flag}: {name!r} is given twice", hint="give each name once")
        arguments[name] = value
    return arguments


def set_verbosity(given: str | None) -> int:
    """Sets the level of absl's and Python's loggers from absl's ``--verbosity``.

    Args:
        given: ``"debug"``, ``"info"``, ``"warning"``, ``"error"``, ``"fatal"``, or absl's number from -3 to 9.

    Returns:
        absl's number, 1 for debug and 0 for info; below 0 a run shows no progress.

    Raises:
        ConfigError: another text.
    """
    if given is None:
        return 0
    from absl import logging as absl_logging

    names = {"debug": 1, "info": 0, "warning": -1, "warn": -1, "error": -2, "fatal": -3}
    try:
        level = names[given.lower()] if given.lower() in names else int(given)
    except ValueError:
        hint = f"write one of {', '.join(names)}, or a number from -3 to 9"
        raise ConfigError(f"--verbosity: {given!r} is not valid", hint=hint) from None
    absl_logging.set_verbosity(level)
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger().setLevel(max(logging.DEBUG, min(logging.CRITICAL, 20 - 10 * level)))
    return level
