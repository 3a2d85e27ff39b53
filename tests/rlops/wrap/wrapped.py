"""Wraps a script in a real child process and reads what it recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.runs.event_files import event_files_below, read_event_file


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
    scalars: dict[str, tuple[list[int], list[float]]]

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
    done = subprocess.run(
        [sys.executable, "-m", "a2perf", "wrap", "wrapped_script.py", "--env", env, "--seed", "7", "--videos", "0",
         "--root-dir", str(folder / "run"), *words],
        cwd=folder, env=dict(os.environ), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    artifacts = folder / "run" / "command" / "artifacts"
    report = artifacts / "wrap.json"
    found: dict[str, tuple[list[int], list[float]]] = {}
    for path in event_files_below(artifacts) if artifacts.is_dir() else ():
        for tag, series in read_event_file(path).scalars.items():
            found[tag] = (series.steps.tolist(), series.values.tolist())
    return Wrapped(
        done.returncode, done.stdout, done.stderr, json.loads(report.read_text()) if report.exists() else {}, found
    )
