"""The size of the core, against the budget in ``pyproject.toml`` and the goals of the project.

A budget is what a test allows (``tests/test_structure.py``): a change may lower it, and raises it only with a line of
reason in ``pyproject.toml``. ``python -m docs.building.import_graph --budget`` prints this table.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from docs.building.import_graph import ORDER, ROOT, lines, modules

MODULES_SIDE_BY_SIDE = 25


def measured(root: Path = ROOT) -> dict[str, int]:
    """Returns every number that has a budget."""
    from a2perf.submission.settings import Submission

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    leaves = dict(_leaves())
    options = {name: len(_options(command)) for name, command in leaves.items()}
    others = {name: count for name, count in options.items() if name not in ("run", "rlops compare")}
    rooms = lines(root)
    return {
        "lines": rooms.total(),
        "files": len(modules(root)),
        **{f"lines of {name}": rooms[name] for name in ORDER},
        "lines of tests": _lines(root / "tests"),
        "lines of distributions": sum(_lines(path) for path in (root / "packages").glob("*/src")),
        "commands": len(leaves),
        "options": sum(options.values()),
        "options of run": options["run"],
        "options of rlops compare": options["rlops compare"],
        "most options of another command": max(others.values()),
        "fields of Submission": len(dataclasses.fields(Submission)),
        "dependencies": len(project["dependencies"]),
        "extras": len(project["optional-dependencies"]),
        "words of docs": sum(
            len(path.read_text(encoding="utf-8").split()) for path in (root / "docs").rglob("*.md")
        ),
        "crowded folders": sum(count > MODULES_SIDE_BY_SIDE for count in _modules_per_folder(root).values()),
    }  # fmt: skip


def budgets(root: Path = ROOT) -> dict[str, int]:
    """Returns the budget of each number."""
    return _table(root, "budget")


def goals(root: Path = ROOT) -> dict[str, int]:
    """Returns the goal of each number that has one."""
    return _table(root, "goal")


def table(root: Path = ROOT) -> str:
    """Returns one line per number: what it is, its budget, its goal and the distance to it."""
    allowed, wanted = budgets(root), goals(root)
    rows = [f"{'':32}{'now':>9}{'budget':>9}{'goal':>9}{'to go':>9}"]
    for name, value in measured(root).items():
        goal = wanted.get(name)
        end = "" if goal is None else f"{goal:9,}{max(0, value - goal):9,}"
        rows.append(f"{name:32}{value:9,}{allowed.get(name, 0):9,}{end}")
    return "\n".join(rows)


def _table(root: Path, name: str) -> dict[str, int]:
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, int] = tomllib.loads(text)["tool"]["a2perf"][name]
    return found


def _lines(folder: Path) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py"))


def _modules_per_folder(root: Path) -> Counter[Path]:
    return Counter(path.parent for path in (root / "a2perf").rglob("*.py"))


def _leaves() -> Iterator[tuple[str, click.Command]]:
    """Yields the commands of the core that have no subcommands, by name; those of distributions do not count."""
    from a2perf.cli import cli

    def below(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is None or command.hidden or not _is_ours(command):
                continue
            if isinstance(command, click.Group):
                yield from below(command, f"{prefix}{name} ")
            else:
                yield f"{prefix}{name}", command

    yield from below(cli, "")


def _is_ours(command: click.Command) -> bool:
    return getattr(command.callback, "__module__", "").partition(".")[0] == "a2perf"


def _options(command: click.Command) -> list[click.Option]:
    """Returns the options of a command that --help shows; those of distributions do not count."""
    from a2perf.submission.run_options import service_options

    of_services = {one.name for one in service_options()}
    return [
        one
        for one in command.params
        if isinstance(one, click.Option) and not one.hidden and one.name not in of_services
    ]
