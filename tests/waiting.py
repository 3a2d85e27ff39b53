"""Waits whose limit no loaded machine reaches, and child processes that end with their test."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

PATIENCE_S = 300.0

T = TypeVar("T")


def until(question: Callable[[], T | None]) -> T:
    """Waits until a question has an answer that counts as true, and returns it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := question()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing happened within {PATIENCE_S:g} s")
        time.sleep(0.02)
    return answer


def is_alive(pid: int) -> bool:
    """Returns whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Child(subprocess.Popen[Any]):
    """A child process; what runs at the end of its test is killed, with everything below it."""

    started: list[Child] = []

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        Child.started.append(self)

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if kind is not None:
            self.end()  # after a failure nobody asks the process to end, and a wait for it would last
        for pipe in (self.stdout, self.stderr, self.stdin):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.wait(PATIENCE_S)

    def end(self) -> None:
        """Kills the process, with everything below it, if it runs."""
        if self.poll() is None:
            for process in [*psutil.Process(self.pid).children(recursive=True), self]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self.wait(PATIENCE_S)
