"""Rewrites the syntax tree of a script: ``main`` hands over its variables when it ends.

The body of ``main`` becomes the body of a ``try`` with ``locals()`` in its ``finally``. Line numbers, closures and
return values do not change. Rewriting the tree and not the text handles decorators, tabs, signatures over several lines
and one-line bodies alike.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from a2perf.errors import UserError

CAPTURE = "__a2perf_capture__"
"""Name, in the script, of the function that receives its variables."""

LOCALS = "__a2perf_locals__"
"""Name, in the script, of the built-in ``locals``: the script may use that name for a variable."""

SEED = "__a2perf_seed__"
"""Name, in the script, of the seed; it replaces the value of the global ``SEED`` after every assignment."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Instrumented:
    """A script that is ready to be executed.

    Attributes:
        captures: whether the variables of ``main`` are visible; not if ``main`` is imported or created by a call.
    """

    code: CodeType
    captures: bool


def instrument(path: Path, *, captures: bool = True) -> Instrumented:
    """Reads a script, wraps the body of its ``main`` and replaces its SEED.

    Args:
        captures: whether ``main`` hands over its variables; false in a worker process.

    Raises:
        UserError: the file does not exist, is not Python, has no ``main``, its ``main`` cannot be called with
            ``env`` alone, or it imports the old gym, which is not installed.
    """
    tree = _parse(path)
    _check_gym(path, tree)
    mains = [node for node in _module_level(tree) if isinstance(node, _Function) and node.name == "main"]
    if not mains and not any(_binds(node, "main") for node in _module_level(tree)):
        raise _no_main(path, tree)
    for main in mains:
        _check_parameters(path, main)
        if captures:
            _wrap(main)
    tree = _SeedReplacer().visit(tree)
    ast.fix_missing_locations(tree)
    # dont_inherit: the `from __future__` import of this file must not apply to the script.
    return Instrumented(compile(tree, str(path), "exec", dont_inherit=True), captures=bool(mains))


def _parse(path: Path) -> ast.Module:
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise UserError(
            f"the script {path} {kind}", hint="give the path of a Python file with a function main(env=...)"
        )
    try:
        return ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        line = f"\n    {error.text.strip()}" if error.text else ""
        raise UserError(f"{path}:{error.lineno}: {error.msg}{line}", hint="fix the script; nothing was run") from error
    except ValueError as error:
        raise UserError(f"{path} is not a Python file: {error}", hint="give the path of a Python file") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", hint="make it readable") from error


def _module_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yields the statements at module level, including those under ``if``, ``try`` and ``with``."""
    waiting: list[ast.AST] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, _Function | ast.ClassDef):
            continue
        waiting += [
            child
            for child in reversed(list(ast.iter_child_nodes(node)))
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
        ]


def _no_main(path: Path, tree: ast.Module) -> UserError:
    guarded = [node for node in tree.body if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)]
    names = [node.name for node in _module_level(tree) if isinstance(node, _Function | ast.ClassDef)]
    has = f"it defines {', '.join(names)}" if names else "it defines no function"
    if guarded:
        return UserError(
            f"{path} has no function main; its code stands under `if __name__` in line {guarded[0].lineno}, and {has}",
            hint="replace that line by `def main(env='CartPole-v1'):` and use `env` there; or run the script as it is, "
            f'if it has --env-id and --seed: a2perf benchmark --env-ids ENV --command "python {path}"',
        )
    return UserError(f"{path} has no function main; {has}", hint="give the script a `def main(env='CartPole-v1'):`")


def _check_gym(path: Path, tree: ast.Module) -> None:
    """Refuses a script that needs the old gym if that is not installed; an import in a ``try`` may fail."""
    for node in [*tree.body, *(inner for item in tree.body if isinstance(item, _Function) for inner in item.body)]:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        if not any(name.partition(".")[0] == "gym" for name in names):
            continue
        beside = path.resolve().parent
        if importlib.util.find_spec("gym") is None and not any((beside / name).exists() for name in ("gym.py", "gym")):
            raise UserError(
                f"{path}:{node.lineno}: imports gym, the predecessor of gymnasium, which is not installed",
                hint="write `import gymnasium as gym`, where reset() returns (observation, info) and step() returns "
                "(observation, reward, terminated, truncated, info); or install the old package: pip install gym",
            )


def _check_parameters(path: Path, main: _Function) -> None:
    """Refuses a ``main`` that cannot be called with only ``env``; a decorator may change the parameters."""
    given = main.args
    positional = [argument.arg for argument in (*given.posonlyargs, *given.args)]
    names = {*positional, *(argument.arg for argument in given.kwonlyargs)}
    here = f"{path}:{main.lineno}: main({ast.unparse(given)})"
    if any(ast.unparse(decorator).startswith("click.") for decorator in main.decorator_list):
        if "env" not in names and given.kwarg is None:
            raise UserError(f"{here} is a click command without `env`", hint="add `@click.option('--env')` to it")
        return
    if main.decorator_list:
        return
    required = positional[: len(positional) - len(given.defaults)]
    required += [
        argument.arg for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None
    ]
    if "env" not in names and given.kwarg is None:
        name = positional[0] if positional else ""
        change = f"rename its parameter `{name}` to `env`" if name else "write `def main(env='CartPole-v1'):`"
        raise UserError(f"{here} does not take `env` by name", hint=change)
    if missing := [name for name in required if name != "env"]:
        raise UserError(f"{here} requires {', '.join(missing)}", hint="give every parameter except `env` a default")
    if "env" in [argument.arg for argument in given.posonlyargs[1:]]:
        raise UserError(f"{here} takes `env` by position, but not first", hint="make `env` the first one")


class _SeedReplacer(ast.NodeTransformer):
    """Assigns the seed to SEED after every module-level statement that binds SEED."""

    def visit(self, node: ast.AST) -> Any:
        """Visits statements outside functions and classes."""
        if isinstance(node, _Function | ast.ClassDef):
            return node
        self.generic_visit(node)
        if not isinstance(node, ast.stmt) or not _binds(node, "SEED"):
            return node
        is_star = isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        # A star import may not bind SEED, and then the script must not get the name.
        text = f"if 'SEED' in globals(): SEED = {SEED}" if is_star else f"SEED = {SEED}"
        rebind = ast.parse(text).body[0]
        for new in ast.walk(rebind):
            ast.copy_location(new, node)
        return [node, rebind]


def _binds(node: ast.stmt, name: str) -> bool:
    """Returns whether a statement other than a function binds a name, or may bind it."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return any((alias.asname or alias.name) in (name, "*") for alias in node.names)
    if isinstance(node, ast.ClassDef):
        return node.name == name
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        found = (part for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
        return node.value is not None and any(part.id == name and isinstance(part.ctx, ast.Store) for part in found)
    return False


def _wrap(main: _Function) -> None:
    body = main.body
    first = body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    kept, rest = (body[:1], body[1:]) if is_docstring else ([], body)
    hand_over = ast.parse(f"{CAPTURE}({LOCALS}())").body[0]
    wrapped = ast.Try(body=rest or [ast.Pass()], handlers=[], orelse=[], finalbody=[hand_over])
    ast.copy_location(wrapped, rest[0] if rest else first)
    # the line of the last statement: a traceback must not point past the function
    for node in ast.walk(hand_over):
        ast.copy_location(node, body[-1])
    main.body = [*kept, wrapped]
