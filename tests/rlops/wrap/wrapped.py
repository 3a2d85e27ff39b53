"""Wraps a script in a real child process and reads what it recorded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.commands import run_a2perf
from tests.event_logs import event_files_below, read_event_file

Scalars = dict[str, tuple[list[int], list[float]]]


@dataclass(frozen=True)
class Wrapped:
    """One run.

    Attributes:
        status: the exit status.
        out: standard output.
        err: standard error.
        report: ``wrap.json``; empty if there is no bundle.
        scalars: steps and values by tag.
    """

    status: int
    out: str
    err: str
    report: dict[str, Any]
    scalars: Scalars

    def said(self, what: str) -> str:
        """Returns the line that the command printed about something."""
        return "\n".join(
            line.partition(": ")[2] for line in self.out.splitlines() if line.startswith(f"Benchmarks: {what}")
        )


def wrap_text(folder: Path, text: str, *words: str, env: str = "CartPole-v1", **files: str) -> Wrapped:
    """Writes a script and files beside it, and wraps it with seed 7 and without videos."""
    (folder / "wrapped_script.py").write_text(text)
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content)
    given = ["--env", env, "--seed", "7", "--videos", "0", "--root-dir", folder / "run", *words]
    done = run_a2perf("wrap", "wrapped_script.py", *given, cwd=folder)
    artifacts = folder / "run" / "command" / "artifacts"
    path = artifacts / "wrap.json"
    report = json.loads(path.read_text()) if path.exists() else {}
    return Wrapped(done.returncode, done.stdout, done.stderr, report, scalars_below(artifacts))


def scalars_below(artifacts: Path) -> Scalars:
    """Returns steps and values by tag, of all event files: a second one is written if the process died."""
    found: Scalars = {}
    for path in event_files_below(artifacts) if artifacts.is_dir() else ():
        content = read_event_file(path)
        assert content.problems == []
        found |= {tag: (series.steps.tolist(), series.values.tolist()) for tag, series in content.scalars.items()}
    return found
