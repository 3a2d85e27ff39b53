"""The structure of the package: no import cycle, one meaning per class name, one place for the names of files."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.building import budget, import_graph

SHARED_CLASS_NAMES: dict[str, str] = {
    "Table": "a2perf.Table holds data; a2perf.report.tables.Table, the table of a page, belongs to report sections",
}
"""Class names that several modules may define, each with the reason."""


def test_sizes_stay_below_their_ceilings(repository: Path) -> None:
    numbers, ceilings = budget.measured(repository), budget.ceilings(repository)
    assert set(numbers) == set(ceilings)
    assert {name: count for name, count in numbers.items() if count > 1.01 * ceilings[name]} == {}


def test_no_folder_has_more_modules_than_a_reader_scans(repository: Path) -> None:
    counts = Counter(path.parent for path in (repository / "a2perf").rglob("*.py"))
    assert {str(folder): count for folder, count in counts.items() if count > 25} == {}


def test_no_module_imports_itself_through_others() -> None:
    assert import_graph.cycles(import_graph.imports()) == []


def test_folders_of_recorded_runs_import_downwards_only() -> None:
    order = ["packed", "bundles", "events", "foreign", "stores"]

    def place(module: str) -> int:
        folder = module.removeprefix("a2perf.runs.").partition(".")[0]
        return order.index(folder) if folder in order else -1

    graph = import_graph.imports()
    up = [(module, other) for module, others in graph.items() for other in others if 0 <= place(module) < place(other)]
    assert up == []


def test_no_module_of_a_distribution_imports_itself_through_others(repository: Path) -> None:
    packages = [path.parent for path in repository.glob("packages/*/src/*/__init__.py")]
    assert len(packages) == len([*repository.glob("packages/*/pyproject.toml")])
    found = {
        package.name: import_graph.cycles(import_graph.imports(package.parent, package.name)) for package in packages
    }
    assert {name: groups for name, groups in found.items() if groups} == {}


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, [["a", "b", "c"]]),
        ({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}}, [["a", "b"], ["c", "d"]]),
    ],
)
def test_cycles_are_found(graph: dict[str, set[str]], found: list[list[str]]) -> None:
    assert import_graph.cycles({name: frozenset(others) for name, others in graph.items()}) == found


def test_late_imports_and_those_for_types_count() -> None:
    tree = ast.parse(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a2perf.b import B\n"
        "def late():\n    import a2perf.c\n"
    )
    known = dict.fromkeys(("a2perf", "a2perf.a", "a2perf.b", "a2perf.c"), tree)
    assert import_graph._imported(tree, known) == {"a2perf.b", "a2perf.c"}


def test_a_class_name_has_one_meaning() -> None:
    shared = import_graph.shared_class_names()
    assert set(shared) == set(SHARED_CLASS_NAMES), {
        name: shared.get(name) for name in {*shared} ^ {*SHARED_CLASS_NAMES}
    }
    assert len(SHARED_CLASS_NAMES) <= 15


def test_one_module_spells_the_file_names_of_a_bundle(repository: Path) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (repository / "a2perf").rglob("*.py")}
    spelled = [
        path.relative_to(repository).as_posix()
        for path, text in texts.items()
        if "manifest.json" in text
        and any(isinstance(node, ast.Constant) and node.value == "manifest.json" for node in ast.walk(ast.parse(text)))
    ]
    assert spelled == ["a2perf/runs/bundles/layout.py"]


def test_the_files_that_the_architecture_names_exist(repository: Path) -> None:
    text = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_/]+\.py)`", text)
    assert len(named) > 40
    assert [
        name for name in named if not ((repository / "a2perf" / name).exists() or (repository / name).exists())
    ] == []


def test_each_path_of_the_architecture_is_connected_by_imports(repository: Path) -> None:
    text = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.partition("## Three paths through the code\n")[2].partition("\n## ")[0]
    paths = re.split(r"^\*\*", section, flags=re.MULTILINE)[1:]
    assert len(paths) == 3
    for path in paths:
        files = {f"a2perf.{name.removesuffix('.py').replace('/', '.')}" for name in re.findall(r"`([\w/]+\.py)`", path)}
        links = {file: import_graph.imports()[file] & files for file in files}
        reached, waiting = set(), [min(files)]
        while waiting:
            file = waiting.pop()
            if file not in reached:
                reached.add(file)
                waiting += [*links[file], *(other for other in files if file in links[other])]
        assert sorted(files - reached) == [], path.partition(".")[0]


WAY_TO_THE_LOOP = {
    "a2perf/cli/run.py": "run",
    "a2perf/submission/main_submission.py": "run",
    "a2perf/submission/evaluator/inference.py": "run",
    "a2perf/submission/evaluator/playing/play.py": "play",
    "a2perf/submission/evaluator/playing/rollouts.py": "rollout",
    "a2perf/submission/evaluator/process/participant_process.py": "infer",
}
"""The functions from the command to a step, each called by the one before; the second one runs in a new process."""


def test_each_function_on_the_way_to_the_loop_calls_the_next(repository: Path) -> None:
    calls = {}
    for file, name in WAY_TO_THE_LOOP.items():
        tree = ast.parse((repository / file).read_text(encoding="utf-8"))
        (found,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
        called = (node.func for node in ast.walk(found) if isinstance(node, ast.Call))
        calls[file] = {ast.unparse(function).rpartition(".")[2] for function in called}
    _, _, *inside = WAY_TO_THE_LOOP.values()
    assert [name for name, of_file in zip(inside, list(calls.values())[1:], strict=False) if name not in of_file] == []
    assert "step" in calls["a2perf/submission/evaluator/playing/rollouts.py"]


def test_reports_receive_runs_and_only_the_leaderboard_reads_them() -> None:
    reading = {
        "a2perf.runs.bundle_reading",
        "a2perf.runs.bundles.files",
        "a2perf.runs.bundles.inventory",
        "a2perf.runs.signing",
        "a2perf.runs.reading",
        "a2perf.runs.stores.finding",
    }
    assert reading - set(import_graph.imports()) == set()
    readers = {
        name
        for name, others in import_graph.imports().items()
        if name.startswith("a2perf.report.") and reading & others
    }
    assert readers
    assert {name for name in readers if not name.startswith("a2perf.report.leaderboard.")} == set()


def test_the_packages_of_the_architecture_are_the_layers_of_the_contract(repository: Path) -> None:
    text = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("## Packages\n")[2].partition("\n## ")[0]
    named = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    contracts = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = [contract["layers"] for contract in contracts["contracts"] if contract["type"] == "layers"]
    of_contract = [name for layer in layers for name in re.findall(r"a2perf\.(\w+)", layer)]
    assert [name for row in named for name in re.findall(r"`(\w+)`", row)] == of_contract


CLOCK = re.compile(r"\b(monotonic|perf_counter|time\.time)\(\)")
WITHOUT_A_LIMIT = {
    "evaluation.wait()": "the package's own wait, which takes no limit",
    "tests/launch/docker_engine.py": "its daemon serves a session, and it ends it",
    "tests/launch/slurm_cluster.py": "its daemons serve a session, and it ends them",
}
"""Calls and files that a rule about waits leaves alone, each with the reason."""
COMMANDS = ("run_command", "run_python", "run_a2perf", "launch")


def upper_bounds_on_durations(tree: ast.Module) -> list[int]:
    took = {
        ast.unparse(node.targets[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and CLOCK.search(text := ast.unparse(node.value)) and " - " in text
    }
    found = []
    for test in (node.test for node in ast.walk(tree) if isinstance(node, ast.Assert)):
        for node in (node for node in ast.walk(test) if isinstance(node, ast.Compare)):
            sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
            for left, sign, right in zip(sides, node.ops, sides[1:], strict=False):
                bounded = {ast.Lt: left, ast.LtE: left, ast.Gt: right, ast.GtE: right}.get(type(sign), "")
                found += [node.lineno] * bool(bounded in took or CLOCK.search(bounded))
    return found


def hasty_or_endless_waits(tree: ast.Module) -> list[int]:
    found = []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        owner, _, name = ast.unparse(call.func).rpartition(".")
        limits = [word.value for word in call.keywords if word.arg in ("timeout", "timeout_s")]
        if name in ("wait", "join") and owner != "os.path" and not owner.endswith(("'", '"')):
            limits += call.args
        elif name not in ("communicate", *COMMANDS) and owner != "subprocess":
            continue
        limits = [limit for limit in limits if not isinstance(limit, ast.Constant) or type(limit.value) in (int, float)]
        # below a second it is a look at what still runs
        hasty = any(isinstance(limit, ast.Constant) and 1 <= limit.value < 60 for limit in limits)
        endless = not limits and name in ("wait", "join", "communicate") and ast.unparse(call) not in WITHOUT_A_LIMIT
        if hasty or endless or name == "Popen":  # a `tests.waiting.Child` ends with its test
            found.append(call.lineno)
    return found


@pytest.mark.parametrize("rule", [upper_bounds_on_durations, hasty_or_endless_waits])
def test_no_test_depends_on_how_busy_the_machine_is(rule: Callable[[ast.Module], list[int]], repository: Path) -> None:
    found = {
        path.relative_to(repository).as_posix(): lines
        for path in (repository / "tests").rglob("*.py")
        if path.name != "waiting.py" and (lines := rule(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert {name: lines for name, lines in found.items() if name not in WITHOUT_A_LIMIT} == {}
    assert [name for name in WITHOUT_A_LIMIT if name.startswith("tests/") and not (repository / name).exists()] == []


@pytest.mark.parametrize(
    ("rule", "code", "count"),
    [
        (upper_bounds_on_durations, "assert time.monotonic() - begun < 5", 1),
        (upper_bounds_on_durations, "took = perf_counter() - begun\nassert 5 > took", 1),
        (upper_bounds_on_durations, "took = perf_counter() - begun\nassert took >= 5", 0),
        (hasty_or_endless_waits, "process.wait()\nthread.join(20)\nprocess.communicate('x')", 3),
        (hasty_or_endless_waits, "subprocess.run(words, timeout=30)\nsubprocess.Popen(words)", 2),
        (hasty_or_endless_waits, "process.wait(300)\n', '.join(words)\nos.path.join('a', 'b')", 0),
    ],
)
def test_waits_and_bounds_are_found(rule: Callable[[ast.Module], list[int]], code: str, count: int) -> None:
    assert len(rule(ast.parse(code))) == count
