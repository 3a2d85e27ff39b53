"""``main_data.hdf5`` as Minari lays it out: one group an episode, with a data set for each array of its steps.

Written with h5py alone, since Minari's own writer needs JAX. Small arrays lie contiguously, so that one read is one
copy; large ones are in chunks of some steps, compressed without loss. Every episode carries its seed and the hashes of
its arrays. No clock enters the file: made again in the same way it has the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.errors import MissingDependency, UserError

INSTALL = "pip install 'a2perf[datasets]', or h5py"
_COMPRESSED_FROM_BYTES = 2048  # of one step; below it a chunk's overhead costs more than it saves
_CHUNK_BYTES = 2**19

Array = NDArray[Any]


@dataclass
class EpisodeArrays:
    """One episode as flat arrays.

    Attributes:
        seed: of ``env.reset``.
        arrays: by path: ``"observations/..."`` of n + 1 rows, ``"actions/..."``, ``"rewards"`` (float64),
            ``"terminations"`` and ``"truncations"`` (bool) of n rows, ``"infos/..."`` of n + 1 rows.
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
        """Returns the SHA-256 of the type, the shape and the values of each array, by path."""
        return {name: _digest(name, self.arrays[name]) for name in sorted(self.arrays)}

    def sha256(self) -> str:
        """Returns the hash of the whole episode: its seed and its arrays."""
        return _episode_hash(self.seed, self.digests())


def h5py() -> Any:
    """Returns the module h5py.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        return importlib.import_module("h5py")
    except ModuleNotFoundError as error:
        raise MissingDependency("data sets need h5py, which is not installed", mend=INSTALL) from error


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Opens a file to read it.

    Raises:
        UserError: there is none, or it is not HDF5.
    """
    if not path.is_file():
        raise UserError(f"{path} does not exist", mend="make the data set again, or copy all of its folder")
    try:
        stream = h5py().File(path, "r")
    except OSError as error:
        raise UserError(f"{path} cannot be opened: {_first_line(error)}", mend="make or copy it again") from error
    with stream:
        yield stream


def create(path: Path) -> Any:
    """Makes an empty file; the caller closes it."""
    return h5py().File(path, "w", track_order=True)


def write_episode(stream: Any, index: int, episode: EpisodeArrays) -> None:
    """Adds an episode to a file.

    Args:
        stream: the open file.
        index: its number in the file; they are consecutive from 0.
        episode: what is written.
    """
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


def copy_episodes(
    target: Any, first: int, source: Any, *, policies: Mapping[int, int] | None = None
) -> tuple[int, int, list[str]]:
    """Copies the episodes of a file behind those of another, without unpacking them.

    Args:
        target: the open file that grows.
        first: how many episodes it holds.
        source: the open file they come from.
        policies: new number of each policy.

    Returns:
        The number of episodes and of steps copied, and the hash of each episode.
    """
    count, steps, hashes = episode_count(source), 0, []
    for index in range(count):
        source.copy(source[name_of(index)], target, name=name_of(first + index))
        attributes = target[name_of(first + index)].attrs
        attributes["id"] = first + index
        if policies is not None and "policy" in attributes:
            attributes["policy"] = policies[int(attributes["policy"])]
        steps += int(attributes["total_steps"])
        hashes.append(str(attributes["sha256"]))
    return count, steps, hashes


def read_episode(stream: Any, index: int, *, only: Sequence[str] | None = None) -> EpisodeArrays:
    """Reads an episode.

    Args:
        stream: the open file.
        index: its number.
        only: paths of the arrays that are read; all of them by default.

    Raises:
        UserError: the file is damaged there; the message names file and place.
    """
    group = group_of(stream, index)
    names = array_names(group) if only is None else only
    arrays = {name: read_array(stream, group, name) for name in names}
    kept = {name: value for name, value in group.attrs.items() if name not in ("id", "seed", "digests")}
    return EpisodeArrays(int(group.attrs.get("seed", -1)), arrays, kept)


def read_array(stream: Any, group: Any, name: str) -> Array:
    """Reads one array of an episode.

    Raises:
        UserError: it is not there, or cannot be read; the message names file and place.
    """
    try:
        return np.asarray(group[name][()])
    except (KeyError, OSError, TypeError, ValueError, RuntimeError) as error:
        raise damaged(stream, f"{group.name}/{name}", error) from error


def read_columns(stream: Any) -> tuple[list[int], list[float], list[int]]:
    """Reads the length, the return and the seed of every episode; -1 for a seed that is not recorded.

    Raises:
        UserError: the file is damaged; the message names file and place.
    """
    module = h5py()
    lengths, returns, seeds = [], [], []
    for index in range(episode_count(stream)):
        try:
            group = module.h5o.open(stream.id, name_of(index).encode())
            steps = _scalar(module, group, b"total_steps")
            total = _scalar(module, group, b"episode_return")
            seed = _scalar(module, group, b"seed")
        except (KeyError, OSError, RuntimeError, ValueError) as error:
            raise damaged(stream, f"/{name_of(index)}", error) from error
        if steps is None or total is None:  # of another writer
            rewards = read_array(stream, stream[name_of(index)], "rewards")
            steps, total = len(rewards), rewards.sum()
        lengths.append(int(steps))
        returns.append(float(total))
        seeds.append(-1 if seed is None else int(seed))
    return lengths, returns, seeds


class RowReader:
    """Reads rows of arrays straight to where they belong, by h5py's low-level calls: episodes are many and small.

    Args:
        stream: the open file.
        total: how many rows are wanted of every array, by path.
    """

    def __init__(self, stream: Any, total: Mapping[str, int]) -> None:
        self.arrays: dict[str, Array] = {}
        self._stream = stream
        self._total = total
        self._module = h5py()

    def read(self, index: int, path: str, first: int, rows: int) -> None:
        """Reads the first rows of an array of an episode.

        Args:
            index: number of the episode.
            path: of the array.
            first: where they go.
            rows: how many.

        Raises:
            UserError: the array is not there, does not fit the others, or cannot be read; it is named.
        """
        space = self._module.h5s
        try:
            stored = self._module.h5d.open(self._stream.id, f"{name_of(index)}/{path}".encode())
            shape, dtype = stored.shape, stored.dtype
            whole = self.arrays.get(path)
            if whole is None:
                whole = self.arrays[path] = np.empty((self._total[path], *shape[1:]), dtype)
            if not shape or shape[0] < rows or shape[1:] != whole.shape[1:] or dtype != whole.dtype:
                raise ValueError(f"{dtype} {shape}, where {whole.dtype} ({rows}, ...) is expected")
            target = whole[first : first + rows]
            if shape[0] == rows:
                stored.read(space.ALL, space.ALL, target)
                return
            count = (rows, *shape[1:])
            where = stored.get_space()
            where.select_hyperslab((0,) * len(shape), count)
            stored.read(space.create_simple(count), where, target)
        except (KeyError, OSError, ValueError, TypeError, RuntimeError) as error:
            raise damaged(self._stream, f"/{name_of(index)}/{path}", error) from error


def _scalar(module: Any, group: Any, name: bytes) -> Any:
    """Returns an attribute that is one number, or None where there is none."""
    if not module.h5a.exists(group, name):
        return None
    attribute = module.h5a.open(group, name)
    value = np.empty(attribute.shape, attribute.dtype)
    attribute.read(value)
    return value.item()


def group_of(stream: Any, index: int) -> Any:
    """Returns the group of an episode.

    Raises:
        UserError: there is none.
    """
    try:
        return stream[name_of(index)]
    except (KeyError, OSError, RuntimeError, ValueError) as error:
        raise damaged(stream, f"/{name_of(index)}", error) from error


def array_names(group: Any) -> list[str]:
    """Returns the paths of all arrays of an episode, sorted."""
    names: list[str] = []
    group.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
    return sorted(names)


def episode_count(stream: Any) -> int:
    """Returns the number of episodes of a file."""
    return sum(1 for name in stream if name.startswith("episode_"))


def name_of(index: int) -> str:
    """Returns the name of an episode's group."""
    return f"episode_{index}"


def content_hash(hashes: Sequence[str]) -> str:
    """Returns the hash of a data set from those of its episodes in order; the container does not matter to it."""
    digest = hashlib.sha256()
    for value in hashes:
        digest.update(bytes.fromhex(value))
    return digest.hexdigest()


def damaged(stream: Any, place: str, error: BaseException) -> UserError:
    """Returns the error of a place that cannot be read."""
    return UserError(
        f"{stream.filename}, {place}: cannot be read ({_first_line(error)})",
        mend="the file is damaged: copy or make the data set again; `a2perf datasets validate` lists every place",
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
