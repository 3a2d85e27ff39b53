"""Finds the recorded submissions of the tests, as folders or packed, and runs command lines in this process."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(os.environ.get("A2PERF_PINNED_REPOSITORY", Path(__file__).resolve().parents[2]))
RECORDED = REPOSITORY / "tests" / "recorded"


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


def copy_parts(target: Path, names: Sequence[str]) -> Path:
    """Copies the parts ``names`` of the shipped results (``learning``, ``small``) to ``target``, folder or packed.

    A part lies in ``recorded/NAME/`` or in packed files ``recorded/NAME*`` with the labels of the folder.
    """
    for name in names:
        found = sorted(RECORDED.glob(f"{name}*"))
        assert found, f"no shipped results of {name}"
        for path in found:
            place = target / path.name
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, place)
            else:
                shutil.copyfile(path, place)
    return target


@contextlib.contextmanager
def working_directory(folder: Path) -> Iterator[None]:
    """Changes to ``folder`` for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
