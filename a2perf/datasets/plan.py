"""The plan of a collection: the environment, the policies, and the episodes in blocks.

A block is collected with one participant process that was started for it, with a seed of its own: the result does not
depend on how many processes share the blocks, or on how often the work was interrupted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from a2perf.errors import UserError
from a2perf.records import SCHEMA, Record
from a2perf.storage import json_text, read_record, write_record

PLAN_FILE = "plan.json"
_EPISODE_KEY, _BLOCK_KEY, _CHECKPOINT_KEY = 11, 12, 13
_MIN_BLOCK, _MAX_BLOCK, _BLOCKS = 5, 25, 16

RANDOM = "random"
"""Name of the policy that draws actions uniformly, within the action mask where there is one."""


class PlannedPolicy(Record, kw_only=True):
    """A policy whose episodes are collected.

    Attributes:
        name: what it is called in messages.
        submission: its folder; ``RANDOM`` for uniformly drawn actions.
        submission_sha256: hash of the folder's files.
        root_dir: what it sees as ``ROOT_DIR``; empty for an empty folder.
        participant_args: what its ``load_policy`` is given.
        checkpoint: path below the artifacts of its training; empty for the final policy.
        number: training step of the checkpoint.
        training: hash of the manifest of its training; empty without one.
    """

    name: str
    submission: str
    submission_sha256: str = ""
    root_dir: str = ""
    participant_args: dict[str, str] = msgspec.field(default_factory=dict)
    checkpoint: str = ""
    number: int | None = None
    training: str = ""


class Block(Record, kw_only=True):
    """Consecutive episodes of one policy.

    Attributes:
        index: its number.
        policy: the policy's.
        first: number of the first episode.
        count: how many.
        seed: what the policy gets as ``SEED``.
    """

    index: int
    policy: int
    first: int
    count: int
    seed: int


class Confining(Record, kw_only=True):
    """How policies are run; see ``Submission``. It does not change what they answer."""

    sandbox: str = "strongest"
    allow_weaker: bool = False
    python_env: str = "shared"
    participant_python: str | None = None
    call_timeout_s: float = 60.0
    load_timeout_s: float = 300.0
    readable_paths: list[str] = msgspec.field(default_factory=list)


class Plan(Record, kw_only=True):
    """``plan.json`` of a working folder.

    Attributes:
        purpose: ``"generate"`` keeps the episodes, ``"evaluate"`` their returns alone.
        name: of the dataset, or of the training that is evaluated.
        domain: of the environment.
        task: its name.
        env_id: its id.
        env_kwargs: its arguments.
        seed: root seed.
        infos: entries of ``info`` that are kept.
        action_noise: how much actions are disturbed; see ``ActionNoise``.
        policies: whose episodes are collected.
        blocks: of episodes.
        confining: how they are run.
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
    confining: Confining = msgspec.field(default_factory=Confining)

    @property
    def episodes(self) -> int:
        """The number of episodes."""
        return sum(block.count for block in self.blocks)

    def digest(self) -> str:
        """Returns a hash of all that the episodes depend on."""
        return hashlib.sha256(json_text(_essence(self)).encode()).hexdigest()


def episode_seed(root_seed: int, index: int) -> int:
    """Returns the seed of an episode, in [0, 2^31); the next ones do not depend on how many there are."""
    return _drawn(root_seed, _EPISODE_KEY, index)


def blocks_of(root_seed: int, episodes: Sequence[int]) -> list[Block]:
    """Cuts episodes into blocks.

    Args:
        root_seed: of the plan.
        episodes: how many of each policy, in order.
    """
    size = min(_MAX_BLOCK, max(_MIN_BLOCK, -(-sum(episodes) // _BLOCKS)))
    found: list[Block] = []
    first = 0
    for policy, count in enumerate(episodes):
        for start in range(0, count, size):
            index = len(found)
            block = Block(
                index=index,
                policy=policy,
                first=first + start,
                count=min(size, count - start),
                seed=_drawn(root_seed, _BLOCK_KEY, index),
            )
            found.append(block)
        first += count
    return found


def draw_with_replacement(root_seed: int, available: int, count: int) -> list[int]:
    """Draws checkpoints of a level, as indices below ``available``; sorted, so that equal ones stand together."""
    generator = np.random.default_rng(np.random.SeedSequence(root_seed, spawn_key=(_CHECKPOINT_KEY,)))
    return sorted(int(index) for index in generator.integers(0, available, size=count))


def evenly(episodes: int, parts: int) -> list[int]:
    """Splits episodes into parts that differ by one at most."""
    return [episodes // parts + (part < episodes % parts) for part in range(parts)]


def open_plan(folder: Path, plan: Plan) -> Plan:
    """Writes a plan into a working folder, or finds the same one there, whose work then goes on.

    Raises:
        UserError: the folder holds work on another plan; the message names every field that differs.
    """
    path = folder / PLAN_FILE
    if not path.exists():
        write_record(path, plan)
        return plan
    there = read_record(path, Plan)
    lines = list(_differences(_essence(there), _essence(plan), ""))
    if lines:
        raise UserError(
            f"{plan.name} was begun with another configuration: " + "; ".join(lines[:8]),
            hint="give the same options again to finish it, or --force to start anew",
        )
    write_record(path, plan)  # how policies are confined may have changed
    return plan


def _essence(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(plan)
    del found["confining"], found["schema"]
    for policy in found["policies"]:  # a moved folder is the same policy where its content is
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
