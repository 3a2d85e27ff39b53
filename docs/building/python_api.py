"""The page of the public names, written from their docstrings."""

from __future__ import annotations

import functools
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import a2perf

GROUPS = {
    "Environments": ("tasks", "make", "make_vec"),
    "Run": ("evaluate", "train", "submit", "check", "track", "reproduce"),
    "Read and compare": ("read_run", "read_runs", "score", "compare"),
    "Write": ("write_report", "write_leaderboard"),
    "Types": (
        "Result",
        "Runs",
        "Scores",
        "Table",
        "Comparison",
        "TaskInfo",
        "Tasks",
        "Submitted",
        "CheckReport",
        "Tracked",
        "Reproduced",
        "RunSettings",
    ),
    "Errors": ("UserError", "RunFailed"),
}

_SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example", "Examples")
_SKIP = re.compile(r" *# doctest: \+\w+")
_ENTRY = re.compile(r"^(\*{0,2}[\w.]+)(?: \([^)]*\))?: (.*)$", re.DOTALL)

_HEAD = """# Python API

`import a2perf` gives these functions and types. The commands call the same functions.

<!-- not executed: the policy and the runs are yours -->
```python
import a2perf

result = a2perf.evaluate(policy, task="dog_pace", episodes=20, seed=0)
print(result)
runs = a2perf.read_runs("runs/")
frame = runs.scores().to_pandas()
a2perf.compare(runs, baseline="v1", candidate="v2").plot()
```

Importing takes less than 50 ms. Each name is imported on first use, and optional packages when a function needs them,
as pandas for `to_pandas()`. Errors are exceptions of the type `a2perf.UserError` with
the text that the commands print; nothing ends the process.
"""

_STABILITY = """## Stability

Public are the names on this page, their parameters, and the attributes and methods without a leading underscore. They
follow [semantic versioning](https://semver.org): a minor version adds names and keyword parameters; only a major
version removes or renames them. A name works for one minor version with a `DeprecationWarning` before it is removed.
Modules below `a2perf` that this page does not name can change in every version.
"""


def sections(docstring: str) -> dict[str, str]:
    """Splits a docstring into the text before the first section, under ``""``, and its sections."""
    found: dict[str, list[str]] = {"": []}
    current = ""
    for line in inspect.cleandoc(docstring).splitlines():
        if line.removesuffix(":") in _SECTIONS and line.endswith(":"):
            current = line.removesuffix(":")
            found[current] = []
        else:
            found[current].append(line)
    return {name: textwrap.dedent("\n".join(lines)).strip() for name, lines in found.items()}


def page() -> str:
    """Returns the page."""
    parts = [_HEAD, "## Public names\n"]
    for heading, names in GROUPS.items():
        rows = [f"| [`{name}`](#{_anchor(name)}) | {_first_line(getattr(a2perf, name))} |" for name in names]
        parts.append(f"**{heading}**\n\n| name | description |\n| --- | --- |\n" + "\n".join(rows) + "\n")
    for heading, names in GROUPS.items():
        parts.append(f"## {heading}\n")
        parts += [_type(name) if inspect.isclass(getattr(a2perf, name)) else _function(name) for name in names]
    parts.append(_STABILITY)
    return "\n".join(parts).rstrip() + "\n"


def _function(name: str) -> str:
    function = getattr(a2perf, name)
    return "\n".join([f"### `{name}`\n", _signature(name, function), *_described(function)])


def _type(name: str) -> str:
    kind = getattr(a2perf, name)
    return "\n".join([f"### `{name}`\n", *_described(kind), *_members(kind)])


def _described(named: Any) -> Iterator[str]:
    for section, text in sections(named.__doc__ or "").items():
        if section == "":
            yield _prose(text) + "\n"
        elif section.startswith("Example"):
            yield f"```pycon\n{_SKIP.sub('', text)}\n```\n"
        elif section in ("Args", "Attributes", "Raises"):
            label = {"Args": "Parameters", "Attributes": "Attributes", "Raises": "Raises"}[section]
            yield f"{label}:\n\n" + "\n".join(_items(text)) + "\n"
        else:
            yield f"{section}: {_prose(text)}\n"


def _items(text: str) -> Iterator[str]:
    entries: list[str] = []
    for line in text.splitlines():
        inside = line.strip()
        if inside.startswith("* "):  # a list inside an entry
            entries.append(f"  - {inside.removeprefix('* ')}")
        elif line.startswith(" ") and entries:
            entries[-1] += f" {inside}"
        elif inside:
            match = _ENTRY.match(line)
            entries.append(f"- `{match[1]}`: {match[2]}" if match else f"- {inside}")
    for entry in entries:
        yield entry.replace("``", "`")


def _members(kind: type) -> Iterator[str]:
    attributes, methods = [], []
    for name, member in inspect.getmembers(kind):
        if name.startswith("_") or not (member.__doc__ or "").strip() or _inherited(kind, name):
            continue
        if isinstance(member, property | functools.cached_property):
            attributes.append(f"| `.{name}` | {_first_line(member)} |")
        elif inspect.isroutine(member):
            methods.append(f"| `.{name}{_parameters(member)}` | {_first_line(member)} |")
    if attributes or methods:
        yield "| member | description |\n| --- | --- |\n" + "\n".join([*attributes, *methods]) + "\n"


def _inherited(kind: type, name: str) -> bool:
    """Returns whether a member comes from outside the package, such as those of a sequence."""
    owner = next(base for base in kind.__mro__ if name in vars(base))
    return not owner.__module__.startswith("a2perf")


def _parameters(member: Any) -> str:
    names = [
        {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "") + parameter.name
        for parameter in inspect.signature(member).parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    return f"({', '.join(names)})"


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    lines = [f"    {text}," for text in _parameter_texts(signature)]
    result = "" if signature.return_annotation is signature.empty else f" -> {_type_text(signature.return_annotation)}"
    return "```python\n" + "\n".join([f"def {name}(", *lines, f"){result}: ..."]) + "\n```\n"


def _parameter_texts(signature: inspect.Signature) -> Iterator[str]:
    keyword_only = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(one.kind is one.VAR_POSITIONAL for one in signature.parameters.values()):
                yield "*"
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
        default = "" if parameter.default is parameter.empty else f" = {_value_text(parameter.default)}"
        yield f"{stars}{parameter.name}: {_type_text(parameter.annotation)}{default}"


def _value_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _type_text(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.replace("os.PathLike[str]", "PathLike")


def _first_line(named: Any) -> str:
    text = sections(named.__doc__ or "")[""].split("\n\n")[0]
    return _prose(" ".join(text.split())).replace("|", "\\|")


def _prose(text: str) -> str:
    """Returns text with Markdown's code marks, one paragraph per line."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return "\n\n".join(paragraphs).replace("``", "`")


def _anchor(name: str) -> str:
    """Returns the anchor of a heading; the second one of equal spelling (``Tasks`` after ``tasks``) gets a number."""
    same = [one for names in GROUPS.values() for one in names if one.lower() == name.lower()]
    place = same.index(name)
    return f"{name.lower()}-{place}" if place else name.lower()


def write(path: Path) -> None:
    """Writes the page."""
    path.write_text(page(), encoding="utf-8")
