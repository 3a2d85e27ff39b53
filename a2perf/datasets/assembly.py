"""Puts a dataset together from files of episodes, and into its place at once.

Everything is written in a hidden folder beside the target and renamed when it is complete: no reader sees a part of a
dataset.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from a2perf._version import __version__
from a2perf.datasets import hdf5_file, naming
from a2perf.datasets.hdf5_file import minari
from a2perf.datasets.naming import DatasetId
from a2perf.datasets.records import DatasetRecord, Returns
from a2perf.datasets.space_json import Space
from a2perf.errors import UserError
from a2perf.fault_point import fault_point
from a2perf.storage import sha256_of, write_record

_NAMESPACE_FILE = "namespace_metadata.json"


def work_folder(root: Path, name: DatasetId) -> Path:
    """Returns the hidden folder in which a dataset is made."""
    return root / name.namespace / f".{name.folder}.making"


def join(parts: Sequence[tuple[Path, Mapping[int, int] | None]], target: Path) -> tuple[int, int, str, list[float]]:
    """Writes the episodes of several files behind one another into a new file.

    Args:
        parts: the files in order, each with the new numbers of its policies (None leaves them).
        target: the new file.

    Returns:
        The number of episodes and of steps, the hash of the content, and the return of each episode.
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    target.parent.mkdir(parents=True, exist_ok=True)
    episodes, steps, hashes = 0, 0, []
    returns: list[float] = []
    try:
        with hdf5_file.create(unfinished) as stream:
            for path, policies in parts:
                with hdf5_file.opened(path) as source:
                    try:
                        count, more, found = hdf5_file.copy_episodes(stream, episodes, source, policies=policies)
                    except (KeyError, OSError, RuntimeError, ValueError) as error:
                        raise hdf5_file.damaged(source, "one of its episodes", error) from error
                for index in range(episodes, episodes + count):
                    returns.append(float(stream[hdf5_file.name_of(index)].attrs["episode_return"]))
                episodes, steps = episodes + count, steps + more
                hashes += found
        fault_point("datasets: joined")
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    return episodes, steps, hdf5_file.content_hash(hashes), returns


def publish(
    root: Path,
    name: DatasetId,
    made: Path,
    record: DatasetRecord,
    spaces: tuple[Space, Space],
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Writes the two descriptions beside the data and moves all of it to its place.

    Args:
        root: the folder of all datasets.
        name: of this one.
        made: folder that holds ``data/main_data.hdf5``; it is moved.
        record: what becomes ``a2perf.json``.
        spaces: of observations and of actions.
        metadata: further entries of Minari's ``metadata.json``.

    Returns:
        The folder of the dataset.

    Raises:
        UserError: there is one of this name already.
    """
    data, target = made / "data", naming.dataset_folder(root, name)
    write_record(data / naming.RECORD_FILE, record)
    episodes, aside = data / naming.DATA_FILE, made / naming.DATA_FILE
    os.replace(episodes, aside)  # Minari makes an empty file, and refuses to where there is one
    storage = minari("dataset.minari_storage").MinariStorage.new(data, *spaces, jpeg_encoding=False)
    os.replace(aside, episodes)
    storage.update_metadata(
        {
            **(metadata or {}),
            "dataset_id": str(name),
            "minari_version": importlib.metadata.version("minari"),
            "total_episodes": record.episodes,
            "total_steps": record.steps,
            "dataset_size": round(episodes.stat().st_size / 1e6, 1),
            "algorithm_name": ", ".join(dict.fromkeys(policy.submission for policy in record.policies)),
        }
    )
    fault_point("datasets: described")
    if target.exists():
        raise UserError(f"there is a dataset {name} already", hint="give another --id, or --force to replace it")
    _name_spaces(root, name)
    os.rename(made, target)
    return target


def env_spec_of(env: Any) -> dict[str, str]:
    """Returns the entry of ``metadata.json`` from which Minari makes the environment again, if there can be one."""
    with contextlib.suppress(AttributeError, TypeError, ValueError):  # arguments that JSON cannot hold
        return {"env_spec": env.spec.to_json()}
    return {}


def put_aside(folder: Path) -> None:
    """Moves a dataset that is replaced to a hidden name beside it."""
    number = 1
    while (aside := folder.with_name(f".{folder.name}.replaced_{number}")).exists():
        number += 1
    os.rename(folder, aside)


def common_fields(data: Path, returns: Sequence[float]) -> dict[str, Any]:
    """Returns the fields of a record that every way of making fills alike."""
    return {
        "a2perf_version": __version__,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "returns": Returns.of(returns),
        "file_sha256": sha256_of(data / naming.DATA_FILE),
    }


def remove(folder: Path) -> None:
    """Deletes a working folder."""
    shutil.rmtree(folder, ignore_errors=True)


def _name_spaces(root: Path, name: DatasetId) -> None:
    """Leaves Minari's file in every folder of the namespace, so that it lists them."""
    folder = root
    folder.mkdir(parents=True, exist_ok=True)
    for part in name.namespace.split("/") if name.namespace else ():
        folder = folder / part
        folder.mkdir(exist_ok=True)
        if not (folder / _NAMESPACE_FILE).exists():
            (folder / _NAMESPACE_FILE).write_text(json.dumps({}), encoding="utf-8")
