"""Finds problems in a submission's source file by parsing it in a separate process with limits.

A megabyte of source can make Python's parser use all memory or crash. So the evaluator does not parse a participant's
source itself: it starts this module, passes the source on standard input and reads a list of findings. The source is
not executed. Standard library only.
"""

from __future__ import annotations

import ast
import inspect
import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from a2perf.submission.participant.signatures import ROLES, ContractError, Role
from a2perf.system import POSIX, SYSTEM_VARIABLES, resource

MEMORY_BYTES = 2**30
"""Address space for parsing one file."""

CPU_S = 20
WALL_S = 300.0
TRIES = 3
"""Number of starts if the process is killed from outside; its own limits end it with other signals."""

_KILLS = (-getattr(signal, "SIGKILL", 0), -signal.SIGTERM)
_MOST_FINDINGS_BYTES = 2**20
_SHOWN = 200
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from a2perf.submission.evaluator.submitted.source_problems import main; main()"
)

Finding = tuple[str, int | None, str | None]
"""Message, line number and fix."""


def findings(name: str, source: bytes) -> list[Finding]:
    """Returns the problems of a source file of the contract."""
    package = str(Path(__file__).resolve().parents[4])
    command = [sys.executable, "-I", "-c", _START, package, name]
    try:
        for _ in range(TRIES):
            done = subprocess.run(
                command, input=source, capture_output=True, timeout=WALL_S, cwd="/", env=SYSTEM_VARIABLES
            )
            if done.returncode not in _KILLS:
                break
    except subprocess.TimeoutExpired:
        return [(f"cannot be parsed within {WALL_S:g} s", None, "split the file or simplify its code")]
    if done.returncode != 0 or len(done.stdout) > _MOST_FINDINGS_BYTES:
        bounds = f"{MEMORY_BYTES // 2**20} MiB and {CPU_S} s"
        return [(f"cannot be parsed within {bounds}", None, "split the file or simplify its code")]
    return [(str(message), line, hint) for message, line, hint in json.loads(done.stdout)]


def main() -> None:
    """Reads a source file from standard input and writes the findings as JSON to standard output."""
    if POSIX:  # the soft limit on time sends SIGXCPU, which is not retried
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")  # a SyntaxWarning would print a line of the participant's source
    try:
        found = list(_findings(sys.argv[2], sys.stdin.buffer.read()))
    except (RecursionError, MemoryError):
        found = [("cannot be parsed: the code is nested too deeply", None, "simplify its code")]
    json.dump(found, sys.stdout)


def _findings(name: str, source: bytes) -> Iterator[Finding]:
    try:
        tree = ast.parse(source, name)
    except SyntaxError as error:
        shown = f": {_printable(error.text.strip())}" if error.text else ""
        fix = "correct this line, then run `a2perf check` again"
        yield f"{type(error).__name__}: {_printable(error.msg)}{shown}", error.lineno, fix
        return
    except ValueError as error:
        yield f"cannot be parsed: {_printable(str(error))}", None, "save the file as UTF-8 text"
        return
    defined, complete = _definitions(tree.body)
    for role in ROLES:
        if role.file == name:
            yield from _role_findings(role, defined, complete)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:_SHOWN])


def _role_findings(role: Role, defined: Mapping[str, ast.stmt], complete: bool) -> Iterator[Finding]:
    name = next((name for name in role.names if name in defined), None)
    if name is None:
        if complete:
            yield f"has no function {role.names[0]}", None, f"write `def {role.expected}:` in {role.file}"
        return
    node = defined[name]
    if isinstance(node, ast.AsyncFunctionDef):
        yield f"{name} is async; a2perf needs a plain function", node.lineno, "remove `async`"
    elif isinstance(node, ast.FunctionDef) and not node.decorator_list:
        if (line := _yield_line(node.body)) is not None:
            yield f"{name} is a generator (it contains yield); a2perf needs a plain function", line, "remove `yield`"
        try:
            role.check(_signature(node.args))
        except ContractError as error:
            yield _printable(error.message), node.lineno, error.hint


def _yield_line(body: list[ast.stmt]) -> int | None:
    """Returns the line of a function's first ``yield`` outside of functions in it."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return node.lineno
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))
    return None


def _definitions(body: list[ast.stmt]) -> tuple[dict[str, ast.stmt], bool]:
    """Returns the statement that binds each top-level name, and whether the module can bind no others at run time."""
    names: dict[str, ast.stmt] = {}
    complete = True
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                complete = complete and alias.name != "*"
                names[alias.asname or alias.name.partition(".")[0]] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        names[part.id] = node
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for block in ("body", "orelse", "finalbody"):
                inner, whole = _definitions(getattr(node, block, []))
                names.update(inner)
                complete = complete and whole
            for handler in getattr(node, "handlers", []):
                inner, whole = _definitions(handler.body)
                names.update(inner)
                complete = complete and whole
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            complete = complete and name not in ("exec", "setattr", "update")
    return names, complete and "__getattr__" not in names


def _signature(arguments: ast.arguments) -> inspect.Signature:
    kinds = inspect.Parameter
    positional = [*arguments.posonlyargs, *arguments.args]
    without_default = len(positional) - len(arguments.defaults)
    parameters = []
    for index, item in enumerate(positional):
        kind = kinds.POSITIONAL_ONLY if index < len(arguments.posonlyargs) else kinds.POSITIONAL_OR_KEYWORD
        parameters.append(kinds(item.arg, kind, default=kinds.empty if index < without_default else ...))
    if arguments.vararg:
        parameters.append(kinds(arguments.vararg.arg, kinds.VAR_POSITIONAL))
    for item, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters.append(kinds(item.arg, kinds.KEYWORD_ONLY, default=kinds.empty if default is None else ...))
    if arguments.kwarg:
        parameters.append(kinds(arguments.kwarg.arg, kinds.VAR_KEYWORD))
    return inspect.Signature(parameters)
