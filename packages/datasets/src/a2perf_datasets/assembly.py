"""Assembles a dataset from files of episodes.

Everything is written to a hidden folder next to the target, which is renamed when it is complete: readers never see a
partial dataset.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from minari.dataset.minari_storage import MinariStorage

from a2perf._version import __version__
from a2perf.errors import UserError
from a2perf.fault_point import fault_point
from a2perf.runs.dataset_notes import Energy
from a2perf.storage import sha256_of, write_record
from a2perf_datasets import hdf5_file, naming
from a2perf_datasets.naming import DatasetId
from a2perf_datasets.records import DatasetRecord, PolicyRecord, Returns, cost_of
from a2perf_datasets.space_json import Space

_NAMESPACE_FILE = "namespace_metadata.json"
Part = tuple[Path, Mapping[int, int] | None]
"""A file of episodes, with the new numbers of its policies; None keeps them."""


@dataclass(frozen=True)
class DatasetResult:
    """A finished dataset; ``already``: it existed before the call."""

    folder: Path
    record: DatasetRecord
    already: bool = False


def work_folder(root: Path, name: DatasetId) -> Path:
    """Returns the hidden working folder of a dataset that is being generated."""
    return root / name.namespace / f".{name.folder}.making"


def join(parts: Sequence[Part], target: Path) -> tuple[int, str, list[float]]:
    """Concatenates the episodes of several files in a new file.

    Returns:
        The number of steps, the hash of the content, and the return of each episode.
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    target.parent.mkdir(parents=True, exist_ok=True)
    steps = 0
    hashes: list[str] = []
    returns: list[float] = []
    try:
        with hdf5_file.create(unfinished) as stream:
            for path, policies in parts:
                with hdf5_file.opened(path) as source:
                    try:
                        for index in range(hdf5_file.episode_count(source)):
                            name = hdf5_file.name_of(len(hashes))
                            source.copy(source[hdf5_file.name_of(index)], stream, name=name)  # stays compressed
                            attributes = stream[name].attrs
                            attributes["id"] = len(hashes)
                            if policies is not None and "policy" in attributes:
                                attributes["policy"] = policies[int(attributes["policy"])]
                            steps += int(attributes["total_steps"])
                            hashes.append(str(attributes["sha256"]))
                            returns.append(float(attributes["episode_return"]))
                    except (KeyError, OSError, RuntimeError, ValueError) as error:
                        raise hdf5_file.damaged(source, "one of its episodes", error) from error
        fault_point("datasets: joined")
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    return steps, hdf5_file.content_hash(hashes), returns


def assemble(
    root: Path,
    name: DatasetId,
    parts: Sequence[Part],
    spaces: tuple[Space, Space],
    metadata: Mapping[str, Any],
    *,
    policies: list[PolicyRecord],
    generation: Energy,
    replace: bool = False,
    **fields: Any,
) -> DatasetResult:
    """Joins files of episodes to a dataset, describes it, and moves it to its final folder.

    Args:
        spaces: the spaces of observations and actions.
        metadata: further entries of Minari's ``metadata.json``.
        generation: energy of collecting the episodes.
        replace: archive a dataset of this name.
        fields: further fields of ``a2perf.json``.

    Raises:
        UserError: an episode is damaged, or a dataset of this name exists.
    """
    work, target = work_folder(root, name), naming.dataset_folder(root, name)
    remove(work / "dataset")
    data = work / "dataset" / "data"
    steps, content, returns = join(parts, data / naming.DATA_FILE)
    record = DatasetRecord(
        dataset_id=str(name),
        a2perf_version=__version__,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        episodes=len(returns),
        steps=steps,
        returns=Returns.of(returns),
        content_sha256=content,
        file_sha256=sha256_of(data / naming.DATA_FILE),
        policies=policies,
        cost=cost_of(policies, generation, steps),
        **fields,
    )
    write_record(data / naming.RECORD_FILE, record)
    episodes, aside = data / naming.DATA_FILE, data.parent / naming.DATA_FILE
    os.replace(episodes, aside)  # Minari creates an empty data file and fails if one exists
    storage = MinariStorage.new(data, *spaces, jpeg_encoding=False)
    os.replace(aside, episodes)
    storage.update_metadata(
        {
            **metadata,
            "dataset_id": str(name),
            "minari_version": importlib.metadata.version("minari"),
            "total_episodes": record.episodes,
            "total_steps": record.steps,
            "dataset_size": round(episodes.stat().st_size / 1e6, 1),
            "algorithm_name": ", ".join(dict.fromkeys(policy.submission for policy in record.policies)),
        }
    )
    fault_point("datasets: described")
    if replace:
        archive(target)
    if target.exists():
        raise UserError(f"the dataset {name} already exists", hint="give another --id, or add --force to replace it")
    _write_namespaces(root, name)
    os.rename(data.parent, target)
    remove(work)
    return DatasetResult(target, record)


def archive(folder: Path) -> None:
    """Renames a dataset that is being replaced to a hidden name next to it, if it exists."""
    if not folder.exists():
        return
    number = 1
    while (aside := folder.with_name(f".{folder.name}.replaced_{number}")).exists():
        number += 1
    os.rename(folder, aside)


def remove(folder: Path) -> None:
    """Deletes a working folder."""
    shutil.rmtree(folder, ignore_errors=True)


def _write_namespaces(root: Path, name: DatasetId) -> None:
    """Writes Minari's marker file to every folder of the namespace; Minari lists only folders that have one."""
    folder = root
    folder.mkdir(parents=True, exist_ok=True)
    for part in name.namespace.split("/") if name.namespace else ():
        folder = folder / part
        folder.mkdir(exist_ok=True)
        if not (folder / _NAMESPACE_FILE).exists():
            (folder / _NAMESPACE_FILE).write_text(json.dumps({}), encoding="utf-8")
