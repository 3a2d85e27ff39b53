"""The place in a script that creates an environment, and whether its names refer to training or evaluation."""

from __future__ import annotations

import ast
import functools
import hashlib
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


@dataclass(frozen=True)
class Place:
    """The place that created an environment.

    Attributes:
        key: the same for all environments that one call in the script creates, in every process.
        line: ``script.py:12 in main``, for people.
        role: ``"training"`` or ``"evaluation"`` if names of the statement or function indicate it, otherwise ``""``.
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
        around = [node for node in _assignments(frame.f_code.co_filename) if _covers(node, frame.f_lineno)]
        for node in (node for assignment in around for node in ast.walk(assignment)):
            if isinstance(node, ast.Name | ast.Attribute):
                name = node.id if isinstance(node, ast.Name) else node.attr
                names.add(name)
                if isinstance(node.ctx, ast.Store):
                    targets.add(name)
    if any(_EVALUATION.fullmatch(piece.lower()) for name in names for piece in _PIECES.findall(name)):
        return EVALUATION
    return TRAINING if any(_TRAINING.fullmatch(name.lower()) for name in targets) else UNNAMED


@functools.lru_cache(maxsize=64)
def _assignments(path: str) -> list[ast.Assign | ast.AnnAssign]:
    try:
        return [
            node
            for node in ast.walk(ast.parse(Path(path).read_bytes()))
            if isinstance(node, ast.Assign | ast.AnnAssign)
        ]
    except (OSError, SyntaxError, ValueError):
        return []


def _covers(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)
