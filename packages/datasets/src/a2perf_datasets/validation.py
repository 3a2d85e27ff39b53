"""Checks a dataset without running anything: files, hashes, shapes, dtypes, counts, and the ends of its episodes.

Every problem names its file and its path in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from a2perf.errors import UserError
from a2perf.storage import read_record, sha256_of
from a2perf_datasets import hdf5_file, naming
from a2perf_datasets.hdf5_file import EpisodeArrays
from a2perf_datasets.reader import OfflineDataset
from a2perf_datasets.records import DatasetRecord
from a2perf_datasets.space_json import Space, leaves


def problems_of(data: OfflineDataset) -> list[str]:
    """Returns the problems of a dataset; an empty list for a valid one."""
    return list(_problems(data))


def _problems(data: OfflineDataset) -> Iterator[str]:
    try:
        observation, action = data.observation_space, data.action_space
    except UserError as error:
        yield error.message
        return
    record: DatasetRecord | None = None
    if data.record:
        try:
            record = read_record(data.path / naming.RECORD_FILE, DatasetRecord)
        except UserError as error:
            yield error.message
    if not data.file.is_file():
        yield f"{data.file} does not exist"
        return
    if record is not None and sha256_of(data.file) != record.file_sha256:
        yield f"{data.file}: the SHA-256 of the file differs from the recorded one"
    try:
        with hdf5_file.opened(data.file) as stream:
            yield from _file(stream, data, record, observation, action)
    except UserError as error:
        yield error.message


def _file(
    stream: Any, data: OfflineDataset, record: DatasetRecord | None, observation: Space, action: Space
) -> Iterator[str]:
    count = hdf5_file.episode_count(stream)
    if count != data.metadata.get("total_episodes"):
        yield f"{data.file}: {count} episodes, but metadata.json has {data.metadata.get('total_episodes')}"
    steps, hashes = 0, []
    for index in range(count):
        try:
            group = hdf5_file.group_of(stream, index)
            episode = hdf5_file.read_episode(stream, index)
            recorded = dict(group.attrs.items())
        except UserError as error:
            yield error.message
            continue
        except (OSError, RuntimeError, ValueError) as error:
            yield hdf5_file.damaged(stream, f"/{hdf5_file.name_of(index)}", error).message
            continue
        place = f"{data.file}, /{hdf5_file.name_of(index)}"
        yield from (f"{place}{problem}" for problem in _episode(episode, observation, action))
        if "rewards" not in episode.arrays:
            continue
        steps += episode.steps
        if record is not None:
            hashes.append(episode.sha256())
            yield from (f"{place}{problem}" for problem in _hashes(episode, recorded, index))
    if steps != data.metadata.get("total_steps"):
        yield f"{data.file}: {steps} steps, but metadata.json has {data.metadata.get('total_steps')}"
    if record is None:
        return
    if hdf5_file.content_hash(hashes) != record.content_sha256:
        yield f"{data.file}: the SHA-256 of the episodes differs from the recorded one"
    if (record.episodes, record.steps) != (count, steps):
        wrong = f"{record.episodes} episodes and {record.steps} steps, but the data has {count} and {steps}"
        yield f"{data.path / naming.RECORD_FILE}: {wrong}"
    if sum(policy.episodes for policy in record.policies) != record.episodes:
        yield f"{data.path / naming.RECORD_FILE}: the policies' episodes do not add up to {record.episodes}"


def _episode(episode: EpisodeArrays, observation: Space, action: Space) -> Iterator[str]:
    arrays = episode.arrays
    missing = [name for name in ("rewards", "terminations", "truncations") if name not in arrays]
    yield from (f"/{name} is missing" for name in missing)
    if missing:
        return
    steps = episode.steps
    if not steps:
        yield " has no steps"
        return
    for name in ("terminations", "truncations"):
        if arrays[name].shape != (steps,) or arrays[name].dtype != np.bool_:
            yield f"/{name} is {arrays[name].dtype} {arrays[name].shape}, not bool ({steps},)"
    if arrays["rewards"].dtype.kind != "f" or not np.isfinite(arrays["rewards"]).all():
        yield "/rewards contains a number that is not finite"
    for space, name, rows in ((observation, "observations", steps + 1), (action, "actions", steps)):
        for path, leaf in leaves(space, name):
            yield from _array(arrays.get(path), path, leaf, rows)
    for path, array in arrays.items():
        if path.startswith("infos/") and array.ndim and len(array) != steps + 1:
            yield f"/{path} has {len(array)} rows, not {steps + 1}"
    ended = arrays["terminations"] | arrays["truncations"]
    if ended[:-1].any():
        yield f"/terminations or /truncations: true at step {int(np.argmax(ended))} of {steps}, before the last step"
    if not ended[-1]:
        yield "/terminations and /truncations: both are false at the last step"


def _array(array: Any, path: str, space: Space, rows: int) -> Iterator[str]:
    if array is None:
        yield f"/{path} is missing"
        return
    expected = (rows, *(space.shape or ()))
    if array.shape != expected:
        yield f"/{path} has the shape {array.shape}, not {expected}"
    elif array.dtype != space.dtype:
        yield f"/{path} is of type {array.dtype}, not {space.dtype}"
    elif array.dtype.kind == "f" and not np.isfinite(array).all():
        yield f"/{path} row {int(np.argwhere(~np.isfinite(array))[0][0])} contains a number that is not finite"
    elif path.startswith("actions"):
        outside = next((row for row in range(rows) if array[row] not in space), None)
        if outside is not None:
            yield f"/{path} row {outside} is not an action of {space}"


def _hashes(episode: EpisodeArrays, recorded: dict[str, Any], index: int) -> Iterator[str]:
    digests = episode.digests()
    kept = [int(value) for value in recorded.get("digests", ())]
    ours = [int.from_bytes(digest[:8], "big") for digest in digests.values()]
    if len(kept) == len(ours):
        for name, one, other in zip(digests, kept, ours, strict=True):
            if one != other:
                yield f"/{name}: the hash of the values differs from the recorded one"
    elif recorded:
        yield f" has {len(ours)} arrays, but {len(kept)} were recorded"
    if episode.sha256() != recorded.get("sha256"):
        yield ": its hash differs from the recorded one"
    for name, value in (("id", index), ("total_steps", episode.steps)):
        if int(recorded.get(name, -1)) != value:
            yield f": {name} is {recorded.get(name)}, not {value}"
