"""The two parsers on damaged input: every outcome is a netlist, a placement or a user error, soon."""

import os
import random
import time
from pathlib import Path

import numpy as np
import pytest

from a2perf.domains.circuit_training.engine.placement_cost import PlacementCost
from a2perf.domains.circuit_training.netlists import netlist_reader
from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist
from a2perf.domains.circuit_training.netlists.plc_file import read_header, read_placement
from a2perf.errors import UserError
from tests.domains.circuit_training.conftest import DESIGN, random_netlist

PIECES = [b"node {", b"}", b"{", b'"', b"\\", b"attr", b"value", b"f:", b"nan", b"1e400", b"-", b"#", b"\n", b"\x00"]
PIECES += [b"\xff\xfe", b"input:", b'name: "M"', b"placeholder:", b"<", b">", b":", b"9" * 40, b"__metadata__", b"'"]
PIECES += [b"1 2 3 N 0\n"]


def damaged(text: bytes, rng: random.Random) -> bytes:
    """Returns the text with some bytes changed, cut out, doubled or put in."""
    for _ in range(rng.randint(1, 6)):
        at, length = rng.randrange(len(text) + 1), rng.randint(0, 40)
        kind = rng.randrange(6)
        if kind == 0:
            text = text[:at]
        elif kind == 1:
            text = text[:at] + text[at + length :]
        elif kind == 2:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif kind == 3:
            text = text[:at] + text[at : at + length] * rng.randint(2, 5) + text[at + length :]
        elif kind == 4:
            text = text[:at] + bytes(rng.randrange(256) for _ in range(rng.randint(1, 4))) + text[at + 1 :]
        else:
            other = rng.randrange(len(text) + 1)
            text = text[:at] + text[other : other + length] + text[at:]
    return text


def fuzz(tmp_path, monkeypatch, seconds: float, seed: int) -> dict[str, int]:
    """Feeds damaged files to both parsers for a while; returns how often each outcome was seen."""
    rng = random.Random(seed)
    netlists = [DESIGN.encode(), random_netlist(1).encode()]
    plc = PlacementCost(read_netlist(written(tmp_path / "whole.pb.txt", netlists[1])))
    plc.set_canvas_boundary_check(False)
    saved = tmp_path / "whole.plc"
    plc.save_placement(saved)
    placements = [saved.read_bytes(), b"# Width : 10.0  Height : 20.0\n# Blockage : 0 0 1 1 1\n0 1 2 N 0\n3 4 5 - 1\n"]
    seen = {"netlists": 0, "refused netlists": 0, "placements": 0, "refused placements": 0}
    refusals: list[tuple[Path, str]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        path = written(tmp_path / "fuzzed.pb.txt", damaged(rng.choice(netlists), rng))
        monkeypatch.setattr(netlist_reader, "_PIECE_BYTES", rng.choice([2**20, 2**20, 257, 1000]))
        try:
            netlist = read_netlist(path)
            assert (netlist.net_pins >= 0).all()
            assert len(netlist.net_pins) == netlist.net_start[-1]
            assert np.isfinite(netlist.width).all()
            seen["netlists"] += 1
        except UserError as error:
            refusals.append((path, error.message))
            seen["refused netlists"] += 1
        path = written(tmp_path / "fuzzed.plc", damaged(rng.choice(placements), rng))
        try:
            read_header(tmp_path / "whole.pb.txt", path)
            read_placement(path)
            plc.restore_placement(path)
            seen["placements"] += 1
        except UserError as error:
            refusals.append((path, error.message))
            seen["refused placements"] += 1
        assert all(str(path) in message for path, message in refusals)
        refusals.clear()
    return seen


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_damaged_files_are_read_or_refused(tmp_path, monkeypatch):
    seen = fuzz(tmp_path, monkeypatch, 3.0, seed=1)
    assert min(seen.values()) > 0, seen


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_damaged_files_are_read_or_refused_for_ten_minutes(tmp_path, monkeypatch):
    import resource

    fuzz(tmp_path, monkeypatch, 5.0, seed=2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = fuzz(tmp_path, monkeypatch, float(os.environ.get("A2PERF_FUZZ_SECONDS", "600")), seed=3)
    assert min(seen.values()) > 1000, seen
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB
