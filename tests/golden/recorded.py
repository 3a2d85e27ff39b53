"""Reads the golden values of this folder; `README.md` beside it names their origin."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).resolve().parent / "data"
CIRCUIT_FILES = ("circuit_adjacency", "circuit_costs", "circuit_env", "circuit_fd")
QUADRUPED = DATA / "quadruped_pace.masked"


def cases(name: str) -> dict[str, Any]:
    """Returns the recorded cases of ``NAME.json``."""
    return dict(json.loads((DATA / f"{name}.json").read_text()))


def arrays(name: str) -> Mapping[str, NDArray[Any]]:
    """Returns the recorded arrays of ``NAME.npz``."""
    return dict(np.load(DATA / f"{name}.npz"))


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
