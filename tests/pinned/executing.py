"""Runs command lines in this process."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(os.environ.get("A2PERF_PINNED_REPOSITORY", Path(__file__).resolve().parents[2]))


@dataclass(frozen=True)
class Done:
    """A finished command."""

    status: int
    output: str
    errors: str

    def json(self) -> Any:
        """Returns the output as JSON, and shows the errors if it is not JSON."""
        try:
            return json.loads(self.output)
        except ValueError:
            raise AssertionError(f"exit status {self.status}: {self.output[-2000:]} {self.errors[-2000:]}") from None


def execute(*arguments: object) -> Done:
    """Runs ``a2perf ARGUMENTS`` in this process."""
    from a2perf.cli import main

    output, errors = io.StringIO(), io.StringIO()
    status: object = 0
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = ended.code
    return Done(int(status or 0) if isinstance(status, int | None) else 1, output.getvalue(), errors.getvalue())


@contextlib.contextmanager
def working_directory(folder: Path) -> Iterator[None]:
    """Changes to ``folder`` for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
