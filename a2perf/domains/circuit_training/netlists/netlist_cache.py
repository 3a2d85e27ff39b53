"""Arrays in the user's cache: computed once, read by the next process.

An entry is one uncompressed ``.npz`` file, named by a hash of all inputs of its content and written
atomically. A cache that cannot be written or is damaged costs time, never an error.
"""

from __future__ import annotations

import hashlib
import io
import logging
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.assets import cache_dir
from a2perf.domains.circuit_training.netlists.netlist import Names, Netlist, netlist_paths
from a2perf.domains.circuit_training.netlists.netlist_reader import keep_scanner, read_netlist
from a2perf.storage import write_atomic

ENGINE_VERSION = 1  # goes up with every change of what the engine computes or of the columns' layout

_log = logging.getLogger(__name__)


def digest(*parts: Any) -> str:
    """Returns a hash of the parts and the engine's version: arrays, netlists, paths (their content) and values."""
    total = hashlib.sha256(repr(ENGINE_VERSION).encode())
    for part in parts:
        if isinstance(part, Path):
            content = part.read_bytes()
        elif isinstance(part, np.ndarray):
            content = f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes()
        elif isinstance(part, Netlist):
            content = digest(*_columns(part).values()).encode()
        else:
            content = repr(part).encode()
        # Type and length first, or ("ab", "c") and ("a", "bc") would have the same hash.
        total.update(f"{type(part).__name__}:{len(content)}:".encode())
        total.update(content)
    return total.hexdigest()


def cached_arrays(key: str, make: Callable[[], Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Returns the arrays kept under a key, making and keeping them the first time.

    Args:
        key: hash of everything that they depend on, from `digest`.
    """
    path = cache_dir() / "circuit_training" / f"{key}.npz"
    found = _read(path)
    if found is not None:
        return found
    made: dict[str, Any] = {name: np.asarray(array) for name, array in make().items()}
    buffer = io.BytesIO()
    np.savez(buffer, **made)  # its allow_pickle is new in NumPy 2.2; before, it would be stored as one of the arrays
    try:
        write_atomic(path, buffer.getvalue())
    except OSError as error:
        _log.debug("not cached: %s", error)
    return made


def _read(path: Path) -> dict[str, NDArray[Any]] | None:
    try:
        with np.load(path, allow_pickle=False) as stored:
            # Read before the file closes: an npz loads its arrays on access.
            return {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        _log.debug("damaged cache entry %s: %s", path, error)
        return None


def load_netlist(netlist_file: str | Path) -> Netlist:
    """Returns a netlist from the cache, or from its text, which then goes into the cache.

    Raises:
        NetlistError: a file is missing or is not a netlist.
    """
    key = digest("netlist", *netlist_paths(netlist_file))
    columns = cached_arrays(key, lambda: _columns(read_netlist(netlist_file)))
    keep_scanner()
    names = Names(columns.pop("names_blob"), columns.pop("names_spans"))
    return Netlist(source=str(netlist_file), names=names, **columns)


def _columns(netlist: Netlist) -> dict[str, NDArray[Any]]:
    columns = {
        field.name: getattr(netlist, field.name) for field in fields(netlist) if field.name not in ("source", "names")
    }
    return {**columns, "names_blob": netlist.names.blob, "names_spans": netlist.names.spans}
