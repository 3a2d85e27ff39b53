"""Finds ``main`` of a script and makes it say which variables it ends with, through the syntax tree.

The body of ``main`` is put into a ``try`` whose ``finally`` hands over ``locals()``; nothing else of the script
changes, so that its line numbers, its closures and its way of returning stay what they were. Text is never cut:
decorators, tabs, signatures over several lines and one-line bodies are all the same tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from a2perf.errors import UserError

CAPTURE = "__a2perf_capture__"
"""Name under which the script finds the function that takes its variables."""

LOCALS = "__a2perf_locals__"
"""Name under which it finds the built-in ``locals``, which the script may have a variable of its own for."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Instrumented:
    """A script that is ready to be executed.

    Attributes:
        code: its compiled module.
        captures: whether the variables of ``main`` will be seen; not where ``main`` is imported or made by a call.
    """

    code: CodeType
    captures: bool


def instrument(path: Path) -> Instrumented:
    """Reads a script and wraps the body of its ``main``.

    Raises:
        UserError: there is no such file, it is no Python, it has no ``main``, or its ``main`` cannot be called with
            ``env`` alone.
    """
    tree = _parse(path)
    mains = [node for node in _module_level(tree) if isinstance(node, _Function) and node.name == "main"]
    if not mains and not _binds_main(tree):
        names = [node.name for node in _module_level(tree) if isinstance(node, _Function | ast.ClassDef)]
        has = f"it defines {', '.join(names)}" if names else "it defines no function"
        raise UserError(f"{path} has no function main; {has}", mend="give the script a `def main(env='CartPole-v1'):`")
    for main in mains:
        _check_parameters(path, main)
        _wrap(main)
    ast.fix_missing_locations(tree)
    return Instrumented(compile(tree, str(path), "exec", dont_inherit=True), captures=bool(mains))


def _parse(path: Path) -> ast.Module:
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise UserError(
            f"the script {path} {kind}", mend="give the path of a Python file with a function main(env=...)"
        )
    try:
        return ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        line = f"\n    {error.text.strip()}" if error.text else ""
        raise UserError(f"{path}:{error.lineno}: {error.msg}{line}", mend="mend the script; nothing was run") from error
    except ValueError as error:
        raise UserError(f"{path} is not a Python file: {error}", mend="give the path of a Python file") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", mend="make it readable") from error


def _module_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yields the statements that the module itself executes, those under ``if``, ``try`` and ``with`` included."""
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


def _binds_main(tree: ast.Module) -> bool:
    for node in _module_level(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            if any((alias.asname or alias.name) in ("main", "*") for alias in node.names):
                return True
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.ClassDef):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
            if any(getattr(target, "id", getattr(target, "name", "")) == "main" for target in targets):
                return True
    return False


def _check_parameters(path: Path, main: _Function) -> None:
    """Refuses a ``main`` that cannot be called with ``env`` alone; a decorator may change what it takes."""
    if any(ast.unparse(decorator).startswith("click.") for decorator in main.decorator_list):
        raise UserError(
            f"{path}:{main.lineno}: main is a command of click, which takes no `env` by name",
            mend="move its body into a function `def main(env='CartPole-v1'):` and call that from the command",
        )
    if main.decorator_list:
        return
    given = main.args
    optional = len(given.defaults)
    positional = [argument.arg for argument in (*given.posonlyargs, *given.args)]
    required = positional[: len(positional) - optional]
    required += [
        argument.arg for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None
    ]
    names = {argument.arg for argument in (*given.args, *given.kwonlyargs)}
    here = f"{path}:{main.lineno}: main({ast.unparse(given)})"
    if "env" not in names and given.kwarg is None:
        raise UserError(f"{here} does not take `env` by name", mend="write `def main(env='CartPole-v1'):`")
    missing = [name for name in required if name != "env"]
    if missing:
        raise UserError(
            f"{here} needs {', '.join(missing)}, which nobody gives it",
            mend="give every parameter but `env` a default",
        )


def _wrap(main: _Function) -> None:
    body = main.body
    first = body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    kept, rest = (body[:1], body[1:]) if is_docstring else ([], body)
    hand_over = ast.Expr(
        ast.Call(
            ast.Name(CAPTURE, ast.Load()), [ast.Call(ast.Name(LOCALS, ast.Load()), [], [])], []
        )
    )  # fmt: skip
    wrapped = ast.Try(body=rest or [ast.Pass()], handlers=[], orelse=[], finalbody=[hand_over])
    ast.copy_location(wrapped, rest[0] if rest else first)
    # the line of the last statement, so that a traceback never points past the function
    for node in ast.walk(hand_over):
        ast.copy_location(node, body[-1])
    main.body = [*kept, wrapped]
