"""The program that reads a submission's source: its own bounds blame the source, a kill from outside blames nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2perf.submission.evaluator.submitted import source_problems
from tests.killed_python import kill_first_starts

SOURCE = b"def train():\n    pass\n"


@pytest.mark.parametrize(("kills", "found"), [(0, 0), (2, 0), (3, 1)])
def test_a_reader_that_is_killed_from_outside_starts_again(
    kills: int, found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = kill_first_starts(monkeypatch, tmp_path, kills)
    assert len(source_problems.findings("train.py", SOURCE)) == found
    assert len(starts.read_text().splitlines()) == min(kills + 1, source_problems.TRIES)
