"""Editors on Windows begin UTF-8 files with a byte-order mark: it is no part of any file that people write."""

from __future__ import annotations

import codecs
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

import a2perf
from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist
from a2perf.domains.circuit_training.netlists.plc_file import read_header, read_placement
from a2perf.runs.submission_info import described_submissions
from a2perf.storage import read_json
from a2perf.submission import configuration
from a2perf.submission.evaluator.playing.seeds import read_seed_file
from a2perf.submission.evaluator.python_env import read_requirements
from a2perf.submission.gin_origin import origin_of
from tests.domains.circuit_training.conftest import DESIGN


def _gin(path: Path) -> str:
    configuration.load(origin_of(path, None), [])
    try:
        return configuration.text()
    finally:
        configuration.clear()


FILES: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "netlist": ("netlist.pb.txt", DESIGN, lambda path: list(read_netlist(path).names)),
    "placement": ("initial.plc", "0 40.5 30 FS 1\n", read_placement),
    "header of a placement": (
        "initial.plc",
        "# Columns : 3  Rows : 4\n0 1 1 N 1\n",
        lambda path: read_header("", path),
    ),
    "gin": ("run.gin", "import a2perf.submission.submission_util\nSubmission.seed = 3\n", _gin),
    "seeds": ("episodes.txt", "7\n8\n", lambda path: read_seed_file(path, 2)),
    "JSON": ("designs.json", '{"a": [1]}', read_json),
    "TOML": ("submissions.toml", '[ada]\ntitle = "Ada"\n', described_submissions),
    "requirements": ("requirements.txt", "numpy>=1.26\n", read_requirements),
    "CSV": (
        "progress.csv",
        "time/total_timesteps,rollout/ep_rew_mean\n10,1.0\n20,2.0\n",
        lambda path: [*a2perf.read_runs(path.parent).table()],
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_byte_order_mark_changes_nothing(kind: str, tmp_path: Path) -> None:
    name, text, read = FILES[kind]
    file = tmp_path / "PPO_1" / name
    file.parent.mkdir()
    file.write_text(text)
    plain = read(file)
    assert plain
    file.write_bytes(codecs.BOM_UTF8 + text.encode())
    assert repr(read(file)) == repr(plain)
    if kind in ("netlist", "placement"):
        file.write_bytes(gzip.compress(codecs.BOM_UTF8 + text.encode()))
        assert repr(read(file)) == repr(plain)
