"""Atomic checkpoints with the states of generators and counters.

A checkpoint is a folder ``resume/step_<n>``: the files that the training script wrote, ``state.msgpack``, and
``files.json`` with the size and SHA-256 of each. It is written under another name and renamed, so the last complete
checkpoint survives if the process is killed at any moment.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from a2perf.errors import UserError
from a2perf.fault_point import fault_point
from a2perf.storage import read_json, sha256_of, write_atomic, write_json

FOLDER = "resume"
KEPT = 2
_STATE, _FILES, _UNFINISHED = "state.msgpack", "files.json", ".unfinished"
_ARRAY, _BIG = 1, 2  # msgpack extension types


@dataclass(frozen=True)
class TrainingCheckpoint:
    """One checkpoint of a training run.

    Attributes:
        path: the folder with the files of the training script; read-only.
        state: the state that was passed to ``Run.save``.
        bookkeeping: state of this package: seconds trained, lengths of event files.
    """

    step: int
    path: Path
    state: dict[str, Any] = field(default_factory=dict)
    bookkeeping: dict[str, Any] = field(default_factory=dict)


class CheckpointFolder:
    """The checkpoints of one training run.

    Args:
        folder: the training run's artifacts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    def write(
        self, step: int, fill: Callable[[Path], Any] | None, state: dict[str, Any], bookkeeping: dict[str, Any]
    ) -> Path:
        """Adds a checkpoint and keeps only the newest two.

        Returns:
            Its folder.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._folder / _UNFINISHED
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        if fill is not None:
            fill(unfinished)
        packed = msgpack.packb({"state": state, "bookkeeping": bookkeeping}, default=_encoded)
        write_atomic(unfinished / _STATE, packed)
        written = sorted(path for path in unfinished.rglob("*") if path.is_file())
        contents = {
            path.relative_to(unfinished).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in written
        }
        write_json(unfinished / _FILES, {"schema": 1, "files": contents})
        for path in [*written, unfinished]:
            _to_disk(path)
        fault_point("training checkpoint")
        target = self._folder / f"step_{step:012d}"
        if target.exists():
            shutil.rmtree(target)
        unfinished.rename(target)
        _to_disk(self._folder)
        for old in self._folders()[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
        return target

    def latest(self, say: Callable[[str], None]) -> TrainingCheckpoint | None:
        """Returns the newest complete checkpoint; reports each damaged one to ``say``."""
        for folder in reversed(self._folders()):
            problem = _problem(folder)
            if problem is None:
                content = msgpack.unpackb((folder / _STATE).read_bytes(), ext_hook=_decoded, strict_map_key=False)
                return TrainingCheckpoint(int(folder.name[5:]), folder, content["state"], content["bookkeeping"])
            say(f"the checkpoint {folder.name} is ignored: {problem}")
        return None

    def _folders(self) -> list[Path]:
        return sorted(path for path in self._folder.glob("step_*") if path.is_dir())


def _problem(folder: Path) -> str | None:
    try:
        contents = read_json(folder / _FILES)["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"its list of files cannot be read ({type(error).__name__})"
    for name, wanted in contents.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != wanted["bytes"] or sha256_of(path) != wanted["sha256"]:
            return f"{name} is damaged"
    return None


def replace(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file or a folder beside ``path`` and renames it; a reader sees the old one or the new one.

    Args:
        write: called with the temporary path in the same folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".unfinished_{path.name}")
    _remove(beside)
    write(beside)
    if beside.is_dir() and path.is_dir():  # rename cannot replace a folder that is not empty
        old = path.with_name(f".old_{path.name}")
        _remove(old)
        path.rename(old)
        beside.rename(path)
        _remove(old)
    else:
        beside.replace(path)


def rng_state(generator: np.random.Generator | random.Random) -> Any:
    """Returns the state of a generator of NumPy or Python, for ``Run.save``."""
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    version, numbers, gauss = generator.getstate()
    return {"version": version, "numbers": list(numbers), "gauss": gauss}


def restore_rng(generator: np.random.Generator | random.Random, state: Any) -> None:
    """Restores the state of a generator that ``rng_state`` returned.

    Raises:
        UserError: the state belongs to a generator of another kind.
    """
    try:
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = state
        else:
            generator.setstate((state["version"], tuple(state["numbers"]), state["gauss"]))
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"the checkpoint holds the state of another kind of random generator: {error}") from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _encoded(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("an array of Python objects cannot be kept in a checkpoint")
        head = msgpack.packb([value.dtype.str, list(value.shape)])
        return msgpack.ExtType(_ARRAY, head + np.ascontiguousarray(value).tobytes())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, int):  # more than 64 bits, such as the state of PCG64
        return msgpack.ExtType(_BIG, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    raise TypeError(f"a {type(value).__name__} cannot be kept in a checkpoint")


def _decoded(code: int, data: bytes) -> Any:
    if code == _BIG:
        return int.from_bytes(data, "little", signed=True)
    if code != _ARRAY:
        return msgpack.ExtType(code, data)
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    dtype, shape = unpacker.unpack()
    return np.frombuffer(data, dtype=np.dtype(dtype), offset=unpacker.tell()).reshape(shape).copy()
