"""``main_data.hdf5`` in the layout of Minari: one group per episode, with one HDF5 dataset per array of its steps.

Written with h5py instead of Minari's writer, which stores every array in resizable chunks without compression. That
makes files of short episodes 3 times and files of sparse arrays 10 times as large, and reading short episodes takes
1.2 to 1.9 times as long. Here small arrays are stored contiguously, and reading one is a single copy; large ones are
compressed without loss. Every episode has its seed and the hashes of its arrays. The file contains no time stamps:
the same episodes give the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from a2perf.errors import UserError

_COMPRESSED_FROM_BYTES = 2048  # bytes per step; for smaller arrays the overhead of a chunk exceeds its savings
_CHUNK_BYTES = 2**19
# A file may be untrusted: reading it must not open other files, or allocate more memory than its content can fill.
MAX_EPISODES, MAX_STEPS = 1_000_000, 2**31
MAX_EPISODE_BYTES = 512 << 20
_MOST_GROUPS = 16  # groups that RowReader keeps open
_MOST_RATIO = 1100  # deflate compresses at most 1032 to 1

UNREADABLE = (
    AssertionError,
    AttributeError,
    KeyError,
    IndexError,
    OSError,
    TypeError,
    ValueError,
    RuntimeError,
    MemoryError,
)
"""Exceptions that h5py raises for a damaged file."""

Array = NDArray[Any]


@dataclass
class EpisodeArrays:
    """One episode as flat arrays.

    Attributes:
        seed: seed of ``env.reset``.
        arrays: by path: ``"observations/..."`` with n + 1 rows, ``"actions/..."``, ``"rewards"`` (float64),
            ``"terminations"`` and ``"truncations"`` (bool) with n rows, ``"infos/..."`` with n + 1 rows.
        attributes: further scalars of the episode: ``policy``, ``success``.
    """

    seed: int
    arrays: dict[str, Array]
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The number of steps, n."""
        return int(self.arrays["rewards"].shape[0])

    @property
    def episode_return(self) -> float:
        """Undiscounted sum of the rewards."""
        return float(self.arrays["rewards"].sum())

    def digests(self) -> dict[str, bytes]:
        """Returns the SHA-256 of dtype, shape and values of each array, by path."""
        return {name: _digest(name, self.arrays[name]) for name in sorted(self.arrays)}

    def sha256(self) -> str:
        """Returns the hash of the whole episode: its seed and its arrays."""
        return _episode_hash(self.seed, self.digests())


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Opens a file for reading.

    Raises:
        UserError: it does not exist, or is not HDF5.
    """
    if not path.is_file():
        raise UserError(f"{path} does not exist", hint="generate the dataset again, or copy its whole folder")
    try:
        stream = h5py.File(path, "r")
    except OSError as error:
        raise UserError(
            f"{path} cannot be opened: {_first_line(error)}", hint="generate or copy the dataset again"
        ) from error
    with stream:
        yield stream


def create(path: Path) -> Any:
    """Creates an empty file; the caller closes it."""
    return h5py.File(path, "w", track_order=True)


def write_episode(stream: Any, index: int, episode: EpisodeArrays) -> None:
    """Adds an episode to a file; numbers are consecutive from 0."""
    group = stream.create_group(name_of(index))
    digests = episode.digests()
    group.attrs["id"] = index
    group.attrs["seed"] = episode.seed
    group.attrs["total_steps"] = episode.steps
    group.attrs["episode_return"] = episode.episode_return
    group.attrs["sha256"] = _episode_hash(episode.seed, digests)
    group.attrs["digests"] = np.array([int.from_bytes(digest[:8], "big") for digest in digests.values()], np.uint64)
    for name, value in sorted(episode.attributes.items()):
        group.attrs[name] = value
    group.create_group("infos")
    for name in digests:
        array = episode.arrays[name]
        row = array.nbytes // max(1, len(array))
        if row < _COMPRESSED_FROM_BYTES or not len(array):
            group.create_dataset(name, data=array)
            continue
        chunk = (max(1, min(len(array), _CHUNK_BYTES // row)), *array.shape[1:])
        group.create_dataset(name, data=array, chunks=chunk, shuffle=True, compression="gzip", compression_opts=1)


def read_episode(stream: Any, index: int) -> EpisodeArrays:
    """Reads an episode.

    Raises:
        UserError: the episode is damaged; the message names file and path.
    """
    group = group_of(stream, index)
    arrays = {name: read_array(stream, group, name) for name in array_names(stream, group)}
    kept = {name: value for name, value in group.attrs.items() if name not in ("id", "seed", "digests")}
    return EpisodeArrays(int(group.attrs.get("seed", -1)), arrays, kept)


def read_array(stream: Any, group: Any, name: str) -> Array:
    """Reads one array of an episode.

    Raises:
        UserError: it is missing or cannot be read; the message names file and path.
    """
    try:
        check_path(stream, f"{group.name}/{name}")
        stored = group[name]
        check_stored(stream, stored.id)
        array = np.asarray(stored[()])
        if name == "rewards" and array.ndim != 1:
            raise ValueError(f"has the shape {array.shape}, not (steps,)")
        return array
    except UNREADABLE as error:
        raise damaged(stream, f"{group.name}/{name}", error) from error


def read_columns(stream: Any) -> tuple[list[int], list[float], list[int]]:
    """Reads length, return and seed of every episode; -1 for a seed that is not recorded.

    Raises:
        UserError: the file is damaged; the message names file and path.
    """
    lengths, returns, seeds = [], [], []
    for index in range(episode_count(stream)):
        try:
            check_path(stream, name_of(index))
            group = h5py.h5o.open(stream.id, name_of(index).encode())
            steps = _scalar(group, b"total_steps")
            total = _scalar(group, b"episode_return")
            seed = _scalar(group, b"seed")
            if steps is None or total is None:  # not written by a2perf
                rewards = read_array(stream, stream[name_of(index)], "rewards")
                steps, total = len(rewards), rewards.sum()
            row = int(steps), float(total), -1 if seed is None else int(seed)
            if not 0 <= row[0] <= MAX_STEPS or not -(2**63) <= row[2] < 2**63:
                raise ValueError(f"{row[0]} steps of seed {row[2]}")
        except (KeyError, OSError, RuntimeError, ValueError, TypeError, OverflowError) as error:
            raise damaged(stream, f"/{name_of(index)}", error) from error
        lengths.append(row[0])
        returns.append(row[1])
        seeds.append(row[2])
    return lengths, returns, seeds


class RowReader:
    """Reads rows of arrays directly into their final arrays.

    Uses h5py's low-level calls: with many small episodes the overhead of the high-level ones would dominate.

    Args:
        total: number of rows of each final array, by path.
    """

    def __init__(self, stream: Any, total: Mapping[str, int]) -> None:
        self.arrays: dict[str, Array] = {}
        self._stream = stream
        self._total = total
        self._groups: dict[str, Any] = {}

    def _group(self, index: int, path: str) -> Any:
        """Returns the group of an array and checks that no part of the path is a link; keeps a few groups open."""
        above, _, name = path.rpartition("/")
        place = f"{name_of(index)}/{above}".rstrip("/")
        group = self._groups.get(place)
        if group is None:
            check_path(self._stream, place)
            if len(self._groups) > _MOST_GROUPS:
                self._groups.clear()
            group = self._groups[place] = h5py.h5g.open(self._stream.id, place.encode())
        if group.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
            raise ValueError(f"{path} is a link")
        return group

    def read(self, index: int, path: str, first: int, rows: int) -> None:
        """Reads the first rows of an array of an episode into the final array, from its row ``first`` on.

        Raises:
            UserError: the array is missing, has another shape or dtype than in other episodes, or cannot be read.
        """
        try:
            stored = h5py.h5d.open(self._group(index, path), path.rpartition("/")[2].encode())
            check_stored(self._stream, stored)
            shape, dtype = stored.shape, stored.dtype
            whole = self.arrays.get(path)
            if whole is None:
                check_size(self._stream, self._total[path] * math.prod(shape[1:]) * dtype.itemsize)
                whole = self.arrays[path] = np.empty((self._total[path], *shape[1:]), dtype)
            if not shape or shape[0] < rows or shape[1:] != whole.shape[1:] or dtype != whole.dtype:
                raise ValueError(f"{dtype} {shape}, expected {whole.dtype} ({rows}, ...)")
            target = whole[first : first + rows]
            if shape[0] == rows:
                stored.read(h5py.h5s.ALL, h5py.h5s.ALL, target)
                return
            count = (rows, *shape[1:])
            where = stored.get_space()
            where.select_hyperslab((0,) * len(shape), count)
            stored.read(h5py.h5s.create_simple(count), where, target)
        except (KeyError, OSError, ValueError, TypeError, RuntimeError, MemoryError) as error:
            raise damaged(self._stream, f"/{name_of(index)}/{path}", error) from error


def check_path(stream: Any, path: str) -> None:
    """Raises ValueError if a part of a path is a link, which may lead to another file or to a pipe."""
    hard, links = h5py.h5l.TYPE_HARD, stream.id.links
    parts = path.strip("/").split("/")
    # HDF5 follows links in every part of a path but the last, so each part is examined by itself.
    for end in range(1, len(parts) + 1):
        part = "/".join(parts[:end])
        if links.get_info(part.encode()).type != hard:
            raise ValueError(f"{part} is a link")


def check_stored(stream: Any, stored: Any) -> None:
    """Raises ValueError if an array holds no numbers, is in another file, too large, or claims more than it has."""
    if stored.dtype.kind not in "biufc":
        raise ValueError(f"its values are not numbers but {stored.dtype}")
    if stored.get_offset() is None:  # otherwise the array is stored contiguously in this file
        layout = stored.get_create_plist()
        if layout.get_layout() == h5py.h5d.VIRTUAL or layout.get_external_count():
            raise ValueError("its values are in another file")
    size = math.prod(stored.shape) * stored.dtype.itemsize
    if size > MAX_EPISODE_BYTES:
        raise ValueError(f"an array of more than {MAX_EPISODE_BYTES >> 20} MiB")
    check_size(stream, size)


def check_size(stream: Any, size: int) -> None:
    """Raises ValueError if the file is too small for so many bytes of values, even with the best compression."""
    if size > 2**20 and size > _MOST_RATIO * stream.id.get_filesize():
        raise ValueError(f"{size} bytes of values in a file of {stream.id.get_filesize()} bytes")


def _scalar(group: Any, name: bytes) -> Any:
    """Returns a scalar attribute, or None if it does not exist."""
    if not h5py.h5a.exists(group, name):
        return None
    attribute = h5py.h5a.open(group, name)
    value = np.empty(attribute.shape, attribute.dtype)
    attribute.read(value)
    return value.item()


def group_of(stream: Any, index: int) -> Any:
    """Returns the group of an episode.

    Raises:
        UserError: the episode does not exist.
    """
    try:
        check_path(stream, name_of(index))
        return stream[name_of(index)]
    except (KeyError, OSError, RuntimeError, ValueError) as error:
        raise damaged(stream, f"/{name_of(index)}", error) from error


def array_names(stream: Any, group: Any) -> list[str]:
    """Returns the paths of all arrays of an episode, sorted, with the links, which ``read_array`` refuses.

    Raises:
        UserError: the episode is damaged.
    """
    names: list[str] = []

    def visit(name: str, link: Any) -> None:
        if not isinstance(link, h5py.HardLink) or hasattr(group[name], "shape"):
            names.append(name)

    try:
        group.visititems_links(visit)
    except UNREADABLE as error:
        raise damaged(stream, group.name, error) from error
    return sorted(names)


def episode_count(stream: Any) -> int:
    """Returns the number of episodes of a file.

    Raises:
        UserError: there are more than ``MAX_EPISODES``.
    """
    count = sum(1 for name in stream if name.startswith("episode_"))
    if count > MAX_EPISODES:
        raise UserError(
            f"{stream.filename} has {count} episodes; at most {MAX_EPISODES} are supported", hint="split the dataset"
        )
    return count


def name_of(index: int) -> str:
    """Returns the name of an episode's group."""
    return f"episode_{index}"


def content_hash(hashes: Sequence[str]) -> str:
    """Returns the hash of a dataset from the hashes of its episodes; it does not depend on the file's layout."""
    digest = hashlib.sha256()
    for value in hashes:
        digest.update(bytes.fromhex(value))
    return digest.hexdigest()


def damaged(stream: Any, place: str, error: BaseException) -> UserError:
    """Returns the error for a path in a file that cannot be read."""
    return UserError(
        f"{stream.filename}, {place}: cannot be read ({_first_line(error)})",
        hint="copy or generate the dataset again; `a2perf validate DATASET` lists all damage",
    )


def _digest(name: str, array: Array) -> bytes:
    head = f"{name}\0{array.dtype.str}\0{array.shape}\0".encode()
    digest = hashlib.sha256(head)
    digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return digest.digest()


def _episode_hash(seed: int, digests: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256(f"{seed}\0".encode())
    for digest in digests.values():
        whole.update(digest)
    return whole.hexdigest()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].strip("'\"")
