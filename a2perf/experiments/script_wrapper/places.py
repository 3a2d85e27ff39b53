"""The place in a script that creates an environment, and whether its names refer to training or evaluation.

The call stack at the construction gives the place, the statements of its lines give the names. Standard library only.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

TRAINING, UNNAMED, EVALUATION = "training", "", "evaluation"
ROLES = (TRAINING, UNNAMED, EVALUATION)
"""Roles in the order of precedence for the training curve."""

_EVALUATION = re.compile(r"eval(uat(e|es|ed|ion|ing|or))?|test(s|ing|er)?|valid(ate|ation)?|val")
_TRAINING = re.compile(r"(train(ing)?_?)?((v|vec_?)?envs?|environments?)|train(ing)?")
_PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_PICKLED = "<dynamic-code>"  # file name of functions that cloudpickle 3.1.3 and later has sent to another process
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True)
class Place:
    """The place that created an environment.

    Attributes:
        key: the same for all environments that one call in the script creates, in every process.
        line: ``script.py:12 in main``, for people.
        role: ``"training"`` or ``"evaluation"`` if the names in those lines indicate it, otherwise ``""``.
    """

    key: str
    line: str
    role: str


def place_here(folder: str) -> Place:
    """Returns the place of the caller, from its frames in files below ``folder``, the script's folder."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if path == _PICKLED or (path.startswith(folder) and "site-packages" not in path):
            frames.append(frame)
        frame = frame.f_back
    if not frames:
        return Place("", "outside the script's folder", UNNAMED)
    trail = [(frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno, frame.f_lasti) for frame in frames]
    first = frames[0]
    name = "the script" if first.f_code.co_name == "<module>" else first.f_code.co_name
    return Place(
        hashlib.sha256(repr(trail).encode()).hexdigest()[:16],
        f"{Path(first.f_code.co_filename).name}:{first.f_lineno} in {name}",
        _role(frames),
    )


def _role(frames: list[FrameType]) -> str:
    names: set[str] = set()
    targets: set[str] = set()
    for frame in frames:
        names.add(frame.f_code.co_name)
        line = frame.f_lineno
        ends = [(node.end_lineno or node.lineno, node) for node in _statements(frame.f_code.co_filename)]
        around = [(end - node.lineno, node) for end, node in ends if node.lineno <= line <= end]
        if around:
            _, statement = min(around, key=lambda pair: pair[0])
            positions = itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
            column = next((position[2] for position in positions), None)  # of the call that the frame executes
            found, bound = _names(statement, column)
            names |= found
            targets |= bound
    if any(_EVALUATION.fullmatch(piece.lower()) for name in names for piece in _PIECES.findall(name)):
        return EVALUATION
    return TRAINING if any(_TRAINING.fullmatch(name.lower()) for name in targets) else UNNAMED


@functools.lru_cache(maxsize=64)
def _statements(path: str) -> list[ast.stmt]:
    try:
        return [node for node in ast.walk(ast.parse(Path(path).read_bytes())) if isinstance(node, ast.stmt)]
    except (OSError, SyntaxError, ValueError):
        return []


def _names(statement: ast.stmt, column: int | None) -> tuple[set[str], set[str]]:
    """Returns the identifiers of a statement without its nested blocks, and the subset that it binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}, set()
    parts: list[ast.AST] = [
        child
        for field, value in ast.iter_fields(statement)
        if field not in _BODIES
        for child in (value if isinstance(value, list) else [value])
        if isinstance(child, ast.AST)
    ]
    if isinstance(statement, ast.Assign) and column is not None:
        parts = _pair(statement, column) or parts
    names: set[str] = set()
    bound: set[str] = set()
    for node in (node for part in parts for node in ast.walk(part)):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            names.add(name)
            if isinstance(node.ctx, ast.Store):
                bound.add(name)
        elif isinstance(node, ast.keyword) and node.arg:
            names.add(node.arg)
    return names, bound


def _pair(statement: ast.Assign, column: int) -> list[ast.AST]:
    """Returns the pairs of target and value in ``train, test = make(), make()``."""
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
        return []
    for left, right in zip(target.elts, value.elts, strict=True):
        if right.col_offset <= column < (right.end_col_offset or column):
            return [left, right]
    return []
