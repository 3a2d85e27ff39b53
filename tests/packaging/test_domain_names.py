"""Everything that is specific to a domain lies in its folder: no other module names one, or what only one uses."""

import ast
import re
from pathlib import Path

import pytest

from a2perf.constants import BenchmarkDomain
from a2perf.domains.registry import all_environments, domains

# what belongs to one domain: its names, engines and programs
OWN_WORDS = ("pybullet", "mujoco", "selenium", "chromium", "chromedriver", "ariane", "laikago", "num_websites")
EXCEPTIONS = {
    "constants.py": "the registration: one member of BenchmarkDomain per domain, as gin files name it",
    "sandbox/view.py": "settings of programs of the system that a confined program sees, one of a browser",
}


def words_of_domains() -> re.Pattern[str]:
    names = {member.value for member in BenchmarkDomain}
    names |= {domains()[name].extra for name in names}
    ids = {env_id.split("-")[0] for env_id, (domain, _) in all_environments().items() if domain.name in names}
    return re.compile("|".join(sorted({*names, *ids, *OWN_WORDS})), re.IGNORECASE)


def is_example(module: str, line: str) -> bool:
    """Returns whether a line is a command in a help text, which needs the name of some domain."""
    return module.startswith("cli/") and line.strip().startswith("a2perf ")


def lines_of_docstrings(source: str) -> set[int]:
    """Returns the numbers of the lines in docstrings: the examples of public functions need the name of some task."""
    numbers: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                numbers |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return numbers


def modules(repository: Path) -> list[str]:
    package = repository / "a2perf"
    return [path.relative_to(package).as_posix() for path in sorted(package.rglob("*.py"))]


def test_no_module_outside_the_folder_of_a_domain_names_it(repository: Path) -> None:
    pattern = words_of_domains()
    found = []
    for name in modules(repository):
        if name.split("/")[0] == "domains" or name in EXCEPTIONS:
            continue
        source = (repository / "a2perf" / name).read_text(encoding="utf-8")
        examples = lines_of_docstrings(source) if name.split("/")[0] == "api" else set()
        found += [
            f"{name}:{number}: {line.strip()}"
            for number, line in enumerate(source.splitlines(), 1)
            if pattern.search(line) and number not in examples and not is_example(name, line)
        ]
    assert found == []


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_every_exception_is_needed(repository: Path, name: str) -> None:
    assert words_of_domains().search((repository / "a2perf" / name).read_text(encoding="utf-8"))


def test_a_domain_is_registered_once() -> None:
    assert list(domains())[: len(BenchmarkDomain)] == [member.value for member in BenchmarkDomain]


def test_shared_modules_of_domains_name_none(repository: Path) -> None:
    pattern = re.compile("|".join(member.value for member in BenchmarkDomain))
    for path in (repository / "a2perf" / "domains").glob("*.py"):
        assert not pattern.search(path.read_text(encoding="utf-8")), path
