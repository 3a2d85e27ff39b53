"""Writes ``data/`` again from the full recordings, and checks the designs of ``netlists.py`` against the originals.

python -m tests.golden.regenerate FOLDER    FOLDER holds golden/ and circuit_training/, see README.md
python -m tests.golden.regenerate --fetch   downloads the files that are not ours into the cache
"""

from __future__ import annotations

import argparse
import gzip
import io
import lzma
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf import assets
from a2perf.domains.circuit_training.netlists.netlist_reader import read_netlist
from a2perf.domains.circuit_training.netlists.plc_file import read_placement
from a2perf.domains.quadruped_locomotion import ASSETS
from a2perf.errors import UserError
from tests.golden import ariane, netlists, recorded

FUZZ = 12
# trace: steps that a test compares, of the 60 to 200 recorded ones
STEPS = {"sin_": 60, "pol_": 100, "rand_": 30, **{f"seed{seed}_sin_": 40 for seed in range(5)}}
KEPT = (
    "seed_reset_obs",
    "seed_motion_time_offset",
    "seed_warmup",
    "rand_mass",
    "rand_inertia",
    "rand_friction",
    "rand_latency",
    "obs_low",
    "obs_high",
    "act_low",
    "act_high",
)
PLACED = ("toy_macro_stdcell", "sample_clustered", "simple_with_coords")
"""Designs of which a case reads the initial placement."""


def compact_traces(full: Any) -> dict[str, NDArray[Any]]:
    """Returns the part of the quadruped's traces that tests compare."""
    kept = {name: full[name] for name in full.files if name in KEPT or name.startswith("rand_param_")}
    kept |= {f"{name}_action": full[f"{name}_action"][:100] for name in ("sin", "pol")}
    for prefix, steps in STEPS.items():
        kept[f"{prefix}obs"] = full[f"{prefix}obs"][: steps + 1]
        for part in ("reward", "terms", "terminated"):
            kept[prefix + part] = full[prefix + part][:steps]
    return kept


def differences(source: Path) -> list[str]:
    """Returns what differs between the designs of ``netlists.py`` and the originals below ``source``."""
    found = []
    with tempfile.TemporaryDirectory() as work:
        netlists.write_designs(Path(work))
        for name in netlists.DESIGNS:
            ours, original = Path(work, "circuit_training", name), source / "circuit_training" / name
            mine, theirs = (read_netlist(folder / "netlist.pb.txt") for folder in (ours, original))
            found += [
                f"{name}: {field}"
                for field in vars(mine)
                if field not in ("source", "names") and not np.array_equal(getattr(mine, field), getattr(theirs, field))
            ]
            if list(mine.names) != list(theirs.names):
                found.append(f"{name}: names")
            rows, wanted = ([row[:-1] for row in read_placement(folder / "initial.plc")] for folder in (ours, original))
            if name in PLACED and rows != wanted:
                found.append(f"{name}: initial placement")
    return found


def regenerate(source: Path) -> None:
    """Writes every file of ``data/``.

    Raises:
        UserError: the clip is not on this machine, or a design differs from the original.
    """
    if found := differences(source):
        raise UserError(f"designs that differ from the originals: {', '.join(found)}", hint="correct netlists.py")
    recorded.DATA.mkdir(exist_ok=True)
    golden = source / "golden"
    for name in recorded.CIRCUIT_FILES:
        shutil.copyfile(golden / f"{name}.npz", recorded.DATA / f"{name}.npz")
    for name in (*recorded.CIRCUIT_FILES, "reliability"):
        shutil.copyfile(golden / f"{name}.json", recorded.DATA / f"{name}.json")
    (recorded.DATA / "fuzz").mkdir(exist_ok=True)
    for number in range(FUZZ):
        text = (source / "circuit_training" / "fuzz" / f"f{number}.pb.txt").read_bytes()
        # without a time stamp: the same text gives the same bytes
        (recorded.DATA / "fuzz" / f"f{number}.pb.txt.gz").write_bytes(gzip.compress(text, mtime=0))
    with np.load(golden / "quadruped_pace.npz") as full, io.BytesIO() as stream:
        np.savez_compressed(recorded.DATA / "quadruped_rules.npz", curriculum=full["curriculum"])
        np.savez(stream, **compact_traces(full))
        packed = lzma.compress(stream.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    recorded.QUADRUPED.write_bytes(recorded.mask(packed, assets.fetch(ASSETS["motions/dog_pace.txt"])))


def main(arguments: list[str]) -> int:
    """Runs the command line and returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests.golden.regenerate", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="folder with golden/ and circuit_training/")
    parser.add_argument("--fetch", action="store_true", help="download the files that golden tests need")
    given = parser.parse_args(arguments)
    if given.fetch == (given.folder is not None):
        parser.error("give a folder, or --fetch")
    try:
        if given.fetch:
            for asset in (*ariane.ARIANE_FILES.values(), ASSETS["motions/dog_pace.txt"]):
                print(assets.fetch(asset))
        else:
            regenerate(given.folder)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
