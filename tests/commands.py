"""Commands that a test runs to their end: any command, Python code, and ``a2perf``, also in this process."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.waiting import PATIENCE_S


def run_command(
    argv: Sequence[object],
    cwd: str | Path | None = None,
    *,
    check: bool = False,
    timeout: float | None = 2 * PATIENCE_S,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Runs a command line to its end.

    Args:
        argv: the command and its arguments.
        cwd: its working folder.
        check: fails the test, with what the command printed, unless its exit status is 0.
        timeout: seconds after which it is killed.
        options: further arguments of ``subprocess.run``.
    """
    words = [str(word) for word in argv]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False, **options)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def run_python(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs code, which may be indented, in another process of the tests' interpreter."""
    return run_command([sys.executable, "-c", textwrap.dedent(code), *arguments], **options)


class Ended(NamedTuple):
    """A command that ran in this process."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        """Returns the output as JSON, and shows the errors if it is not JSON."""
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(f"exit status {self.status}: {self.out[-2000:]} {self.err[-2000:]}") from None


def call_a2perf(*arguments: object, check: bool = False) -> Ended:
    """Runs ``a2perf`` in this process; ``check`` fails the test unless the exit status is 0."""
    from a2perf.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    code = ended.value.code
    assert code is None or isinstance(code, int), code
    assert not (check and code), f"{arguments}: {out.getvalue()}{err.getvalue()}"
    return Ended(code or 0, out.getvalue(), err.getvalue())


def flags(**options: object) -> list[str]:
    """Returns options of the command line; ``True`` stands for an option without a value, a list for several values."""
    given: list[str] = []
    for name, value in options.items():
        given.append(f"--{name.replace('_', '-')}")
        given += map(str, value if isinstance(value, list | tuple) else [] if value is True else [value])
    return given


def bindings(*lines: str) -> list[str]:
    """Returns the words that give gin bindings on the command line."""
    return [word for line in lines for word in ("--gin_bindings", line)]


def command(*arguments: object) -> list[str]:
    """Returns the command line of ``a2perf-launch`` with the interpreter of the tests."""
    return [sys.executable, "-c", "from a2perf.cli import launch_main; launch_main()", *map(str, arguments)]


def launch(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs ``a2perf-launch`` to its end."""
    return run_command(command(*arguments), **options)


def run_a2perf(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs ``a2perf`` to its end."""
    return run_command([sys.executable, "-m", "a2perf", *arguments], **options)
