"""``make lint``: what examples, templates, scripts and code blocks of the documentation import from a2perf exists.

Modules are read, and not imported: neither distributions nor frameworks need to be installed.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("compatibility", "docs", "examples", "perf", "results", "scripts", "templates", "packages")
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


@functools.cache
def names_in(module: str) -> set[str] | None:
    """Returns the names that can be imported from a module; None if there is no such module.

    Every string of a module counts, because tables of lazy exports hold names as strings.
    """
    relative = module.replace(".", "/")
    for folder in (ROOT, *ROOT.glob("packages/*/src")):
        for path in (folder / f"{relative}.py", folder / relative / "__init__.py"):
            if path.is_file():
                names = {file.stem for file in (folder / relative).glob("[!_]*")}
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                        names.add(node.name)
                    elif isinstance(node, ast.Import | ast.ImportFrom):
                        names.update(alias.asname or alias.name for alias in node.names)
                    elif isinstance(node, ast.Name):
                        names.add(node.id)
                    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                        names.add(node.value)
                return names
    return None


def wrong_imports(tree: ast.AST) -> Iterator[str]:
    """Yields the imported names of a2perf and its distributions that do not exist."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = {alias.name: set[str]() for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = {node.module: {alias.name for alias in node.names} - {"*"}}
        else:
            continue
        for module, names in modules.items():
            if re.match(r"a2perf(_\w+)?(\.|$)", module):
                known = names_in(module)
                yield from [module] if known is None else (f"{module}.{name}" for name in sorted(names - known))


def sources() -> Iterator[tuple[Path, str]]:
    """Yields the code of each Python file, and of each block of each page."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]):
        for _, block in BLOCK.findall(path.read_text(encoding="utf-8")):
            yield path, textwrap.dedent(block)


def main() -> int:
    """Prints every wrong import, with its file, and returns the exit status."""
    found = [
        f"{path.relative_to(ROOT)}: {name} does not exist"
        for path, code in sources()
        for name in wrong_imports(ast.parse(code))
    ]
    print("\n".join(found), end="\n" * bool(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
