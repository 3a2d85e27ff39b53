"""Conventions of every a2perf command line: dashes or underscores in flags, and ``k=v`` lists."""

from __future__ import annotations

from typing import Any

from a2perf.errors import ConfigError


def normalised() -> dict[str, Any]:
    """Returns click context settings that make ``--root_dir`` and ``--root-dir`` the same flag."""
    return {"token_normalize_func": lambda token: token.replace("_", "-"), "help_option_names": ["-h", "--help"]}


def parse_participant_args(given: str) -> dict[str, str]:
    """Splits ``k1=v1,k2=v2``; every value stays a string, and only the first ``=`` of a pair counts.

    Raises:
        ConfigError: a pair without ``=``, an empty or repeated name.
    """
    arguments: dict[str, str] = {}
    for pair in filter(None, given.split(",")):
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier():
            raise ConfigError(f"--participant-args: {pair!r} is not name=value", hint="write name1=value1,name2=value2")
        if name in arguments:
            raise ConfigError(f"--participant-args: {name!r} is given twice", hint="give each name once")
        arguments[name] = value
    return arguments
