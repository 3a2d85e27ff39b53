"""Programs that run confined, and hosts that lack something."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from a2perf.sandbox import Ending, SandboxSpec, get_sandbox, interface, limits


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Starts Python code confined, in ``tmp_path/work``; whatever is left at the end of a test is killed."""
    running = []

    def begin(code: str, level: str = "process", **changes: Any) -> Any:
        for name in ("work", "logs"):
            (tmp_path / name).mkdir(exist_ok=True)
        given = {
            "argv": (sys.executable, "-I", "-S", "-c", textwrap.dedent(code)),
            "cwd": tmp_path / "work",
            "env": {"PATH": os.defpath, "ONLY": "this"},
            "writable": [tmp_path / "work"],
            "stdout": tmp_path / "logs" / "out",
            "stderr": tmp_path / "logs" / "err",
            **changes,
        }
        running.append(get_sandbox(level).start(SandboxSpec(**given)))
        return running[-1]

    yield begin
    for confined in running:
        confined.kill_tree()


@pytest.fixture
def run(start: Callable[..., Any], tmp_path: Path) -> Callable[..., tuple[Ending, list[str], str]]:
    """Runs Python code confined to its end; returns its ending and what it printed."""

    def run(code: str, level: str = "process", **changes: Any) -> tuple[Ending, list[str], str]:
        ending = start(code, level, **changes).wait(300)
        assert ending is not None
        out, err = ((tmp_path / "logs" / name).read_text() for name in ("out", "err"))
        return ending, out.splitlines(), err

    return run


@pytest.fixture
def no_control_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "place", lambda: limits.GroupParent(2, {}))


@pytest.fixture
def registry_restored() -> Iterator[None]:
    before = dict(interface._levels)
    yield
    interface._levels.clear()
    interface._levels.update(before)
