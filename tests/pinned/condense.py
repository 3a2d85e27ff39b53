"""Documents made small enough to commit, and compared number by number.

A pin is a tree of objects and short lists. ``write`` puts one list on one line, which keeps the diff of a regeneration
readable; ``differences`` compares with a tolerance and names every place that differs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

RELATIVE, ABSOLUTE = 2e-7, 1e-9


def rounded(value: Any) -> Any:
    """Returns ``value`` with numbers of eight significant digits."""
    if isinstance(value, bool) or not isinstance(value, float):
        return value
    return float(f"{value:.8g}") if math.isfinite(value) else str(value)


def numbers_of(value: Any) -> Iterator[float]:
    """Returns every number in ``value``, however deep."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield float(value)
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from numbers_of(value[key])
    elif isinstance(value, list):
        for entry in value:
            yield from numbers_of(entry)


def signature(value: Any) -> float:
    """Returns one number that changes if any number in ``value`` changes by more than about 1e-5 of itself.

    The inverse hyperbolic sine gives joules, bytes and milliseconds the same weight; noise below 1e-9 does not count.
    """
    return sum(math.asinh(1e6 * number) for number in numbers_of(value) if math.isfinite(number))


def shape(value: Any, kept: Iterable[str] = (), by_name: Iterable[str] = (), name: str = "") -> Any:
    """Returns the keys of ``value`` with the type of each leaf, or with its value if its key is one of ``kept``.

    A list becomes the shape of its first entry, objects of a list united. What varies from run to run is left open:
    ``null``, an empty list, an empty object, and, of an object without a fixed set of keys (``by_name``),
    all but the shape of its entries.
    """
    if isinstance(value, dict):
        if not value:
            return "object"
        if name in by_name:
            entries = list(value.values())
            return (
                {"each": shape(entries, kept, by_name)[0]}
                if all(isinstance(one, dict) for one in entries)
                else "object"
            )
        return {key: shape(entry, kept, by_name, key) for key, entry in sorted(value.items())}
    if isinstance(value, list):
        if name in kept and all(isinstance(entry, str) for entry in value):
            return value
        if not value:
            return "list"
        if all(isinstance(entry, dict) for entry in value):
            united: dict[str, Any] = {}
            for entry in value:
                for key, inner in entry.items():
                    if united.get(key) in (None, [], {}):
                        united[key] = inner
            return [shape(united, kept, by_name, name)]
        return [shape(value[0], kept, by_name)]
    if value is None:
        return "null"
    if name in kept:
        return value
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else "str"


def _open(one: Any, other: Any) -> bool:
    """Returns whether ``one`` is a part of a shape that leaves open what ``other`` is."""
    if one == "null":
        return True
    return (one == "list" and isinstance(other, list)) or (one == "object" and isinstance(other, dict))


def differences(expected: Any, actual: Any, place: str = "") -> list[str]:
    """Returns one line per place at which ``actual`` is not ``expected``; empty if they agree."""
    if _open(expected, actual) or _open(actual, expected):
        return []
    if isinstance(expected, dict) and isinstance(actual, dict):
        found = []
        for key in sorted(set(expected) | set(actual)):
            where = f"{place}/{key}"
            if key not in actual:
                found.append(f"{where}: missing, was {json.dumps(expected[key])[:200]}")
            elif key not in expected:
                found.append(f"{where}: new, {json.dumps(actual[key])[:200]}")
            else:
                found += differences(expected[key], actual[key], where)
        return found
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return [
            line
            for index, (one, other) in enumerate(zip(expected, actual, strict=True))
            for line in differences(one, other, f"{place}[{index}]")
        ]
    if isinstance(expected, float) and isinstance(actual, int | float) and not isinstance(actual, bool):
        if math.isclose(expected, actual, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
            return []
    elif expected == actual and type(expected) is type(actual):
        return []
    return [f"{place}: {json.dumps(actual)[:200]}, was {json.dumps(expected)[:200]}"]


def write(path: Path, document: Any) -> None:
    """Writes ``document`` with one leaf or one flat list per line."""
    path.write_text("\n".join(_lines(_rounded_tree(document), "")) + "\n")


def plain(document: Any) -> Any:
    """Returns ``document`` as it reads after it was written."""
    return json.loads(json.dumps(_rounded_tree(document)))


def _rounded_tree(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _rounded_tree(entry) for key, entry in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [_rounded_tree(entry) for entry in value]
    return rounded(value)


def _lines(value: Any, indent: str) -> list[str]:
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict) or len(flat) + len(indent) < 110:
        return [flat]
    lines = ["{"]
    for place, (key, entry) in enumerate(value.items()):
        inner = _lines(entry, indent + " ")
        comma = "," if place < len(value) - 1 else ""
        lines += [f"{indent} {json.dumps(key)}: {inner[0]}", *inner[1:]]
        lines[-1] += comma
    return [*lines, f"{indent}}}"]
