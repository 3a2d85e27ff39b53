"""Combines datasets of one environment; the result records the energy of each source.

Episodes keep their order and are copied unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from a2perf.errors import UserError
from a2perf.storage import read_record
from a2perf_datasets import assembly, naming
from a2perf_datasets.assembly import DatasetResult
from a2perf_datasets.naming import DatasetId
from a2perf_datasets.reader import OfflineDataset
from a2perf_datasets.records import DatasetRecord, PolicyRecord, SourceRecord, together
from a2perf_datasets.space_json import differences

_SAME = ("env_id", "env_kwargs", "env_fingerprint", "domain", "task", "infos")
"""Fields that have to agree; episodes with and without action noise differ in ``infos``."""


def combine(inputs: Sequence[OfflineDataset], name: DatasetId, root: Path, *, force: bool = False) -> DatasetResult:
    """Combines datasets in this order.

    Raises:
        UserError: the datasets have different environments, one is damaged or was not made by a2perf, or the name is
            taken.
    """
    if len(inputs) < 2:
        raise UserError(f"{len(inputs)} dataset cannot be combined", hint="give two datasets or more")
    records = [_record(data) for data in inputs]
    for data, record in zip(inputs[1:], records[1:], strict=True):
        _require_same(inputs[0], records[0], data, record)
    if naming.dataset_folder(root, name).exists() and not force:
        raise UserError(f"the dataset {name} already exists", hint="give another --id, or add --force to replace it")
    assembly.remove(assembly.work_folder(root, name))
    policies, renumbered = _policies(records)
    levels = {record.skill_level for record in records}
    first = records[0]
    count = sum(record.episodes for record in records)
    metadata = {
        **{key: inputs[0].metadata[key] for key in ("env_spec",) if key in inputs[0].metadata},
        "description": f"{count} episodes of {first.task}, combined from {len(inputs)} datasets",
        "combined_datasets": [record.dataset_id for record in records],
    }
    return assembly.assemble(
        root,
        name,
        [(data.file, numbers) for data, numbers in zip(inputs, renumbered, strict=True)],
        (inputs[0].observation_space, inputs[0].action_space),
        metadata,
        policies=policies,
        generation=together(record.cost.generation for record in records),
        replace=force,
        skill_level=levels.pop() if len(levels) == 1 else "",
        action_noise=max(record.action_noise for record in records),
        sources=[
            SourceRecord(**{field: getattr(record, field) for field in SourceRecord.__struct_fields__})
            for record in records
        ],
        **{field: getattr(first, field) for field in _SAME},
    )


def _record(data: OfflineDataset) -> DatasetRecord:
    if not data.record:
        raise UserError(f"{data.id} was not made by a2perf: it has no {naming.RECORD_FILE}", hint="minari combine")
    return read_record(data.path / naming.RECORD_FILE, DatasetRecord)


def _require_same(first: OfflineDataset, its: DatasetRecord, other: OfflineDataset, others: DatasetRecord) -> None:
    lines = [
        f"{name} is {getattr(its, name)!r} and {getattr(others, name)!r}"
        for name in _SAME
        if getattr(its, name) != getattr(others, name)
    ]
    names = (first.id, other.id)
    lines += differences(first.observation_space, other.observation_space, "observation", names=names)
    lines += differences(first.action_space, other.action_space, "action", names=names)
    if lines:
        raise UserError(
            f"{first.id} and {other.id} cannot be combined: " + "; ".join(lines),
            hint="combine datasets of the same environment",
        )


def _policies(records: Sequence[DatasetRecord]) -> tuple[list[PolicyRecord], list[dict[int, int]]]:
    """Returns every policy once, with its number of episodes in all datasets, and its new number for each dataset."""
    found: dict[bytes, PolicyRecord] = {}
    renumbered = []
    for record in records:
        numbers = {}
        for place, policy in enumerate(record.policies):
            key = msgspec.json.encode(msgspec.structs.replace(policy, episodes=0))
            # Without a hash, equal records do not prove that two datasets used the same policy.
            if not policy.training and not policy.submission_sha256 and policy.submission != "random":
                key += str((record.dataset_id, place)).encode()
            if key in found:
                found[key].episodes += policy.episodes
            else:
                found[key] = msgspec.structs.replace(policy)
            numbers[place] = list(found).index(key)
        renumbered.append(numbers)
    return list(found.values()), renumbered
