"""``python -m docs.building.import_graph``: the packages of a2perf, their imports, and the measures of the structure.

The graph counts every import statement: at the top of a module, inside functions and under ``TYPE_CHECKING``. Where a
name is imported from a package (``from a2perf.sandbox import Limits``), the edge goes to the package itself.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "a2perf"
FOUNDATIONS = "foundations"
ORDER = (
    "cli",
    "api",
    "rlops",
    "report",
    "experiments",
    "launch",
    "submission",
    "metrics",
    "sandbox",
    "domains",
    "runs",
    FOUNDATIONS,
)
"""From top to bottom: imports point down."""


@functools.cache
def modules(root: Path = ROOT, package: str = PACKAGE) -> Mapping[str, ast.Module]:
    """Returns the syntax tree of every module of the package by its dotted name."""
    found = {}
    for path in sorted((root / package).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@functools.cache
def imports(root: Path = ROOT, package: str = PACKAGE) -> Mapping[str, frozenset[str]]:
    """Returns the modules of the package that each module imports, whatever the place of the statement."""
    known = modules(root, package)
    return {name: frozenset(_imported(tree, known) - {name}) for name, tree in known.items()}


def _imported(tree: ast.Module, known: Mapping[str, ast.Module]) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name and name not in known:
                name = name.rpartition(".")[0]
            if name and ("." in name or names == [name]):
                found.add(name)
    return found


def cycles(graph: Mapping[str, frozenset[str]]) -> list[list[str]]:
    """Returns the groups of modules that import one another (strongly connected components; Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(start: str) -> None:
        # an explicit stack: chains of imports are longer than Python's recursion limit would like
        work: list[tuple[str, Iterator[str]]] = [(start, iter(sorted(graph.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(sorted(graph.get(other, ())))))
                    break
                if other in stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    if len(group) > 1:
                        found.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return sorted(found)


def shared_class_names(root: Path = ROOT) -> dict[str, list[str]]:
    """Returns the public class names that several modules define, with these modules."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module, tree in modules(root).items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    return {name: places for name, places in sorted(homes.items()) if len(places) > 1}


def package_of(module: str) -> str:
    """Returns the package below ``a2perf`` that a module lies in; single files are foundations."""
    part = module.split(".")[1] if "." in module else FOUNDATIONS
    return part if part in ORDER else FOUNDATIONS


def between_packages(graph: Mapping[str, frozenset[str]]) -> Counter[tuple[str, str]]:
    """Returns how many modules of one package import modules of another."""
    found: Counter[tuple[str, str]] = Counter()
    for module, others in graph.items():
        if module in (PACKAGE, f"{PACKAGE}.__main__"):  # the entry points, which name modules of every package
            continue
        pairs = {(package_of(module), package_of(other)) for other in others if other != PACKAGE}
        found.update(pair for pair in pairs if pair[0] != pair[1])
    return found


def lines(root: Path = ROOT) -> Counter[str]:
    """Returns the lines of code, comments and blank lines included, by package."""
    found: Counter[str] = Counter()
    for path in (root / PACKAGE).rglob("*.py"):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        found[package_of(name)] += len(path.read_text(encoding="utf-8").splitlines())
    return found


def draw(path: Path, root: Path = ROOT) -> None:
    """Writes the picture: one row per importing package, one column per imported one, both from top to bottom.

    A number counts modules of the row that import the column; left of the diagonal, in red, an import points up.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    counts, sizes = between_packages(imports(root)), lines(root)
    place = {name: number for number, name in enumerate(ORDER)}
    figure, axes = pyplot.subplots(figsize=(10, 8))
    for row in range(len(ORDER)):
        axes.add_patch(pyplot.Rectangle((row - 0.5, row - 0.5), 1, 1, color="#bbbbbb"))
    for (source, target), count in counts.items():
        row, column = place[source], place[target]
        shade = min(0.85, 0.15 + 0.03 * count)
        color = "#c0392b" if column < row else "#31688e"
        axes.add_patch(pyplot.Rectangle((column - 0.5, row - 0.5), 1, 1, color=color, alpha=shade))
        axes.text(column, row, str(count), ha="center", va="center", color="white" if shade > 0.5 else "black")
    labels = [f"{name}  {sizes[name]:,} lines" for name in ORDER]
    axes.set(xlim=(-0.5, len(ORDER) - 0.5), ylim=(len(ORDER) - 0.5, -0.5), aspect="equal")
    axes.set_xticks(range(len(ORDER)), ORDER, rotation=40, ha="left")
    axes.set_yticks(range(len(ORDER)), labels)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.set_title("Modules of a package (row) that import another one (column)", pad=14)
    axes.set_xticks([line - 0.5 for line in range(1, len(ORDER))], minor=True)
    axes.set_yticks([line - 0.5 for line in range(1, len(ORDER))], minor=True)
    axes.grid(which="minor", color="#dddddd", lw=0.5)
    axes.tick_params(which="minor", length=0, top=False, bottom=False, left=False)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)


@click.command()
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("build/import_graph.png"), show_default=True
)
@click.option("--budget", is_flag=True, help="Print sizes beside their ceilings, and draw nothing.")
def main(output: Path, budget: bool) -> None:
    """Draws the imports between the packages and prints what the structure measures."""
    if budget:
        from docs.building.budget import table

        click.echo(table())
        return
    graph = imports()
    output.parent.mkdir(parents=True, exist_ok=True)
    draw(output)
    sizes, names = lines(), shared_class_names()
    for name in ORDER:
        below = sorted({target for source, target in between_packages(graph) if source == name}, key=ORDER.index)
        click.echo(f"{name:12} {sizes[name]:6,} lines  imports {', '.join(below) or 'nothing'}")
    click.echo(f"{'package':12} {sizes.total():6,} lines in {len(graph)} modules")
    click.echo(f"import cycles: {len(cycles(graph))}")
    for group in cycles(graph):
        click.echo(f"  {' '.join(group)}")
    click.echo(f"class names with several meanings: {len(names)}")
    for name, places in names.items():
        click.echo(f"  {name}: {', '.join(place.removeprefix('a2perf.') for place in places)}")
    click.echo(f"picture: {output}")


if __name__ == "__main__":
    main()
