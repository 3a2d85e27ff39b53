"""Names of parameters, metrics and series with the characters that every tracker accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_CHARACTERS = 200
"""Longest name; MLflow accepts 250 characters, and a number or a suffix may follow."""

_OUTSIDE = re.compile(r"[^\w\-./ ]", re.ASCII)


def safe_name(text: str) -> str:
    """Returns a name of ASCII letters, digits and ``_-. /``; every other character becomes ``_``.

    Empty and relative parts of a path become ``_``, because MLflow stores each metric in a file of its name.
    """
    parts = [part.strip() for part in _OUTSIDE.sub("_", text).split("/")]
    return "/".join("_" if part in ("", ".", "..") else part for part in parts)


def unique_names(names: Iterable[str]) -> list[str]:
    """Returns safe names in the given order; a name that is already taken gets a number."""
    found: dict[str, None] = {}
    for name in names:
        wanted = candidate = safe_name(name)[:MAX_CHARACTERS].rstrip("/ ")
        count = 1
        while candidate in found:
            count += 1
            candidate = f"{wanted}_{count}"
        found[candidate] = None
    return list(found)
