"""Reads the golden values of this folder; `README.md` beside it names their origin."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.assets import Asset, RepositoryFile
from a2perf.domains.circuit_training import ARIANE
from tests.golden import netlists

DATA = Path(__file__).resolve().parent / "data"
CIRCUIT_FILES = ("circuit_adjacency", "circuit_costs", "circuit_env", "circuit_fd")
QUADRUPED = DATA / "quadruped_pace.masked"

_INITIAL = ARIANE["initial.plc"].source
assert isinstance(_INITIAL, RepositoryFile)
ARIANE_LEGALIZED = Asset(
    name="circuit_training/ariane133_ng45/legalized.plc",
    sha256="bce97dc18c7a28ea151f4444d7d9a40b7ae9f2001ea7ea72e6a5ee925ec52a9d",
    source=RepositoryFile(
        project=_INITIAL.project,
        commit=_INITIAL.commit,
        paths=tuple(path.replace("initial.plc", "legalized.plc") for path in _INITIAL.paths),
    ),
    licence=ARIANE["initial.plc"].licence,
    summary="clustered NanGate45 Ariane-133: its legal placement",
)
ARIANE_FILES = {**ARIANE, "legalized.plc": ARIANE_LEGALIZED}
"""The files of Ariane that the golden tests read; they are not ours and are fetched by name and sha256."""


def cases(name: str) -> dict[str, Any]:
    """Returns the recorded cases of ``NAME.json``."""
    return dict(json.loads((DATA / f"{name}.json").read_text()))


def arrays(name: str) -> Mapping[str, NDArray[Any]]:
    """Returns the recorded arrays of ``NAME.npz``."""
    return dict(np.load(DATA / f"{name}.npz"))


def write_netlists(folder: Path) -> None:
    """Writes every netlist that a recorded circuit case names below ``folder``."""
    netlists.write_designs(folder)
    shutil.copytree(DATA / "fuzz", folder / "circuit_training" / "fuzz")


def quadruped(clip: Path) -> Mapping[str, NDArray[Any]]:
    """Returns the traces of the quadruped; reading them takes the clip ``dog_pace.txt``."""
    packed = mask(QUADRUPED.read_bytes(), clip)
    return dict(np.load(io.BytesIO(lzma.decompress(packed))))


def mask(content: bytes, clip: Path) -> bytes:
    """Returns ``content`` combined with a stream that is computed from the clip; twice gives the content again.

    Observations contain poses of the clip, and its licence does not allow commercial use. Masked, they can only be
    read with the clip, which each user fetches under that licence. They stay exact to the last bit.
    """
    stream = hashlib.shake_256(clip.read_bytes()).digest(len(content))
    return np.bitwise_xor(np.frombuffer(content, np.uint8), np.frombuffer(stream, np.uint8)).tobytes()
