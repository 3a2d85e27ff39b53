"""Pieces of Markdown, and descriptions of parameters and fields from docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Sequence

_GENERATED = re.compile(r"^\*Generated table: (\w+) \(`make docs`\)\*\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}[A-Za-z_][\w, *]*)(?: \([^)]*\))?: (.*)$")
_SECTION = re.compile(r"^(Args|Attributes|Arguments):$")


def cell(text: str) -> str:
    """Returns text that is safe in a table: one line, no bare pipe, no HTML outside of code."""
    pieces = re.split(r"(`+[^`]*`+)", " ".join(text.split()))
    plain = [piece if piece.startswith("`") else piece.replace("<", "&lt;").replace("*", r"\*") for piece in pieces]
    return "".join(plain).replace("|", r"\|")


def code(text: object) -> str:
    """Returns text set as code, or nothing for nothing."""
    return f"`{text}`" if str(text) else ""


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table, or an empty text without rows."""
    lines = [f"| {' | '.join(cell(text) for text in row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join([f"| {' | '.join(headers)} |", "|" + " --- |" * len(headers), *lines]) + "\n"


def with_tables(page: str, make: Callable[[str], str]) -> str:
    """Returns a page with the tables that it names; ``make`` returns a table by its name."""
    return _GENERATED.sub(lambda match: make(match[1]), page)


def summary(documented: object) -> str:
    """Returns the first paragraph of a docstring on one line."""
    return " ".join((inspect.getdoc(documented) or "").partition("\n\n")[0].split())


def described(documented: object) -> dict[str, str]:
    """Returns the ``Args`` and ``Attributes`` of a docstring by name; ``a, b: text`` describes both."""
    lines = (inspect.getdoc(documented) or "").splitlines()
    found: dict[str, str] = {}
    names: list[str] = []
    inside = False
    for line in lines:
        if not line.startswith(" "):
            inside, names = bool(_SECTION.match(line)) or (inside and not line.strip()), []
            continue
        if not inside:
            continue
        depth = len(line) - len(line.lstrip())
        entry = _ENTRY.match(line.strip()) if depth == 4 else None
        if entry:
            names = [name.strip(" *") for name in entry[1].split(",")]
            for name in names:
                found[name] = entry[2]
        else:
            for name in names:
                found[name] += " " + line.strip()
    return found


def described_with_bases(kind: type) -> dict[str, str]:
    """Returns descriptions by name: of a class, its initialiser and its bases, else the help of a field's option."""
    declared = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    found: dict[str, str] = {entry.name: entry.metadata["help"] for entry in declared if "help" in entry.metadata}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] != "builtins":
            found |= described(base) if base.__doc__ else {}
            found |= described(vars(base).get("__init__"))
    return found
