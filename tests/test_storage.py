"""Files that survive a crash."""

import json
import math
import os
import signal
import sys

import numpy as np
import pytest

from a2perf.storage import Journal, read_json, write_atomic, write_json
from tests.waiting import Child, until

APPENDER = """
import sys
from pathlib import Path
from a2perf.storage import Journal
with Journal(Path(sys.argv[1])) as journal:
    for number in range(10**9):
        journal.append({"number": number, "text": "x" * 200})
"""


def test_failed_write_leaves_the_old_file_and_no_litter(tmp_path) -> None:
    path = tmp_path / "a.json"
    write_atomic(path, "old")
    with pytest.raises(TypeError):
        write_atomic(path, 3)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_json_has_no_nan_and_takes_numpy(tmp_path) -> None:
    path = tmp_path / "deep" / "a.json"
    given = {"nan": math.nan, "inf": [math.inf, -math.inf], "array": np.arange(3), "scalar": np.float32(0.5)}
    write_json(path, given)
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(given)
    for read in (json.loads(path.read_text()), *journal.entries()):
        assert read == {"nan": None, "inf": [None, None], "array": [0, 1, 2], "scalar": 0.5}


def test_broken_json_names_the_file(tmp_path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{")
    with pytest.raises(ValueError, match=r"a\.json: not a JSON document"):
        read_json(path)


def test_torn_last_line_is_dropped_and_overwritten(tmp_path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"number":0}\n{"number":1}\n{"num')
    journal = Journal(path)
    assert [entry["number"] for entry in journal.entries()] == [0, 1]
    with journal:
        journal.append({"number": 2})
    assert [entry["number"] for entry in journal.entries()] == [0, 1, 2]


def test_journal_of_a_killed_writer_is_readable_and_goes_on(tmp_path) -> None:
    path = tmp_path / "journal.jsonl"
    process = Child([sys.executable, "-c", APPENDER, str(path)])
    until(lambda: path.exists() and path.stat().st_size >= 100_000)
    process.send_signal(signal.SIGKILL)
    process.wait(300)
    numbers = [entry["number"] for entry in Journal(path).entries()]
    assert len(numbers) > 100
    assert numbers == list(range(len(numbers)))
    with Journal(path) as journal:
        journal.append({"number": len(numbers)})
    assert [entry["number"] for entry in Journal(path).entries()] == list(range(len(numbers) + 1))
