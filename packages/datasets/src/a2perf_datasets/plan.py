"""The plan of a collection: the environment, the policies, and the episodes in blocks.

Each block starts a new participant process with a separate seed. So the result does not depend on the number of worker
processes or on interruptions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from a2perf.errors import UserError
from a2perf.records import SCHEMA, Record
from a2perf.storage import json_text, read_record, write_record
from a2perf_datasets.naming import DatasetId
from a2perf_datasets.records import PolicyFields

PLAN_FILE = "plan.json"
_EPISODE_KEY, _BLOCK_KEY, _CHECKPOINT_KEY = 11, 12, 13
_MIN_BLOCK, _MAX_BLOCK, _BLOCKS = 5, 25, 16

RANDOM = "random"
"""Name of the policy that draws actions uniformly, within the action mask if there is one."""


class PlannedPolicy(PolicyFields, kw_only=True):
    """A policy to collect episodes from.

    Attributes:
        name: name in messages.
        root_dir: its ``ROOT_DIR``; an empty string stands for an empty folder.
        number: training step of the checkpoint; 1 for a final policy without a number.
    """

    name: str
    root_dir: str = ""
    number: int | None = None


class Block(Record, kw_only=True):
    """Consecutive episodes of one policy, which gets ``seed`` as its ``SEED``; ``first`` numbers the first of them."""

    index: int
    policy: int
    first: int
    count: int
    seed: int


class Plan(Record, kw_only=True):
    """``plan.json`` of a working folder.

    Attributes:
        purpose: ``"generate"`` keeps the episodes, ``"evaluate"`` only their returns.
        name: name of the dataset, or of the evaluated training run.
        infos: entries of ``info`` to keep.
        action_noise: see ``ActionNoise``.
        confining: settings of ``Submission`` for policies; they do not affect the episodes.
    """

    schema: int = SCHEMA
    purpose: str
    name: str
    domain: str
    task: str
    env_id: str
    env_kwargs: dict[str, Any]
    seed: int
    infos: list[str] = msgspec.field(default_factory=list)
    action_noise: float = 0.0
    policies: list[PlannedPolicy]
    blocks: list[Block]
    confining: dict[str, Any] = msgspec.field(default_factory=dict)
    skill_level: str = ""
    thresholds: dict[str, Any] = msgspec.field(default_factory=dict)
    description: str = ""
    author: str = ""

    @property
    def episodes(self) -> int:
        """The number of episodes."""
        return sum(block.count for block in self.blocks)

    def digest(self) -> str:
        """Returns a hash of everything that the episodes depend on."""
        return hashlib.sha256(json_text(_essence(self)).encode()).hexdigest()


def dataset_plan(name: str, *policies: PlannedPolicy, episodes: int, seed: int, **fields: Any) -> Plan:
    """Returns the plan of a dataset; the numbers of episodes of two policies differ by at most one.

    Raises:
        ConfigError: the name is not that of a dataset.
    """
    fields["env_kwargs"] = json.loads(json.dumps(fields["env_kwargs"]))
    least, rest = divmod(episodes, len(policies))
    blocks = blocks_of(seed, [least + (place < rest) for place in range(len(policies))])
    named = str(DatasetId.parse(name))
    return Plan(purpose="generate", name=named, seed=seed, policies=list(policies), blocks=blocks, **fields)


def episode_seed(root_seed: int, index: int) -> int:
    """Returns the seed of an episode, in [0, 2^31); it does not depend on the number of episodes."""
    return _drawn(root_seed, _EPISODE_KEY, index)


def blocks_of(root_seed: int, episodes: Sequence[int]) -> list[Block]:
    """Splits the episodes of each policy into blocks."""
    size = min(_MAX_BLOCK, max(_MIN_BLOCK, -(-sum(episodes) // _BLOCKS)))
    found: list[Block] = []
    first = 0
    for policy, count in enumerate(episodes):
        for start in range(0, count, size):
            index, size_here = len(found), min(size, count - start)
            drawn = _drawn(root_seed, _BLOCK_KEY, index)
            found.append(Block(index=index, policy=policy, first=first + start, count=size_here, seed=drawn))
        first += count
    return found


def draw_with_replacement(root_seed: int, available: int, count: int) -> list[int]:
    """Draws ``count`` checkpoints of a level, as sorted indices below ``available``."""
    generator = np.random.default_rng(np.random.SeedSequence(root_seed, spawn_key=(_CHECKPOINT_KEY,)))
    return sorted(int(index) for index in generator.integers(0, available, size=count))


def open_plan(folder: Path, plan: Plan) -> None:
    """Writes a plan to a working folder, or resumes the same plan.

    Raises:
        UserError: the folder belongs to another plan; the message lists the fields that differ.
    """
    path = folder / PLAN_FILE
    if not path.exists():
        write_record(path, plan)
        return
    there = read_record(path, Plan)
    lines = list(_differences(_essence(there), _essence(plan), ""))
    if lines:
        raise UserError(
            f"{plan.name} was started with another configuration: " + "; ".join(lines[:8]),
            hint="use the same options again to finish it, or add --force to start again",
        )
    write_record(path, plan)  # its field ``confining`` may have changed


def _essence(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(plan)
    for name in ("confining", "schema", "skill_level", "thresholds", "description", "author"):
        del found[name]
    for policy in found["policies"]:
        for name in ("training_name", "training_energy", "mean_return"):
            del policy[name]
        # A moved folder with the same content is the same policy.
        if policy["training"] or policy["submission_sha256"]:
            del policy["submission"]
        if policy["training"]:
            del policy["root_dir"]
    return found


def _differences(before: Any, now: Any, name: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            yield from _differences(before.get(key), now.get(key), f"{name}.{key}" if name else key)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _differences(one, other, f"{name}[{index}]")
    elif isinstance(before, list) and isinstance(now, list):
        yield f"{name} had {len(before)} entries and now has {len(now)}"
    elif before != now:
        yield f"{name} was {before!r} and is {now!r}"


def _drawn(root_seed: int, key: int, index: int) -> int:
    return int(np.random.SeedSequence(root_seed, spawn_key=(key, index)).generate_state(1)[0] & 0x7FFFFFFF)
