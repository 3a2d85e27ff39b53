"""The record ``a2perf.json`` of a dataset: its policies, the energy spent on them, and hashes.

Also defines how energies are added. Units are part of the field names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from a2perf.records import SCHEMA, Record, SandboxRecord
from a2perf.runs.dataset_notes import Energy

NO_TRAINING = Energy(kwh=0.0, provenance="none", method="a random policy is not trained")


class PolicyFields(Record, kw_only=True):
    """What a plan and a record hold of a policy.

    Attributes:
        submission: its folder, only the name of it in a record; ``"random"`` for uniformly drawn actions.
        submission_sha256: hash of the folder's files.
        training: hash of the manifest of its training run; empty without one.
        training_name: the last folders of its training run.
        checkpoint: path relative to the artifacts of its training run; empty for the final policy.
        participant_args: arguments of its ``load_policy``.
        mean_return: its mean return in the evaluation of skill levels.
        training_energy: energy of training up to the checkpoint.
    """

    submission: str
    submission_sha256: str = ""
    training: str = ""
    training_name: str = ""
    checkpoint: str = ""
    participant_args: dict[str, str] = msgspec.field(default_factory=dict)
    mean_return: float | None = None
    training_energy: Energy = Energy()


class PolicyRecord(PolicyFields, kw_only=True):
    """One policy of a dataset, with the training step of its checkpoint and the number of its episodes in it."""

    checkpoint_number: int | None = None
    episodes: int = 0


class Cost(msgspec.Struct, kw_only=True, frozen=True):
    """The energy cost of a dataset.

    Attributes:
        generation: energy of collecting the episodes, environment and policy.
        training: energy of all its training runs, each up to the latest checkpoint used.
        checkpoint_kwh: energy of each checkpoint used; their mean is the training sample cost.
        per_sample_kwh: energy of generation and training, divided by the number of steps.
    """

    generation: Energy = Energy()
    training: Energy = Energy()
    checkpoint_kwh: list[float | None] = msgspec.field(default_factory=list)
    per_sample_kwh: float | None = None


class Returns(msgspec.Struct, kw_only=True, frozen=True):
    """Distribution of the episode returns; ``std`` has ddof 1 and is None for one episode."""

    mean: float
    std: float | None
    min: float
    median: float
    max: float

    @classmethod
    def of(cls, values: ArrayLike) -> Returns:
        """Summarises at least one return."""
        array = np.asarray(values, np.float64)
        return cls(
            mean=float(array.mean()),
            std=float(array.std(ddof=1)) if array.size > 1 else None,
            min=float(array.min()),
            median=float(np.median(array)),
            max=float(array.max()),
        )


class SourceRecord(Record, kw_only=True):
    """One of the datasets that another was combined from."""

    dataset_id: str
    content_sha256: str
    episodes: int
    steps: int
    cost: Cost


class DatasetRecord(Record, kw_only=True):
    """``a2perf.json``.

    Attributes:
        env_fingerprint: hash of the environment's behaviour.
        skill_level: ``"novice"``, ``"intermediate"``, ``"expert"``, or empty.
        seed: root seed of the episodes.
        infos: recorded entries of ``info``; includes ``policy_action`` with action noise.
        action_noise: see ``ActionNoise``.
        content_sha256: hash of the episodes, independent of the file's layout.
        file_sha256: hash of ``main_data.hdf5``.
        sandbox: how the policies were confined.
        sources: the datasets it was combined from, in order; empty for a generated dataset.
        plan: hash of the configuration it was generated with.
    """

    schema: int = SCHEMA
    dataset_id: str
    a2perf_version: str
    made_at: str
    domain: str
    task: str
    env_id: str
    env_kwargs: dict[str, Any]
    env_fingerprint: str | None = None
    skill_level: str = ""
    thresholds: dict[str, Any] = msgspec.field(default_factory=dict)
    seed: int | None = None
    infos: list[str] = msgspec.field(default_factory=list)
    action_noise: float = 0.0
    episodes: int
    steps: int
    returns: Returns
    content_sha256: str
    file_sha256: str
    policies: list[PolicyRecord]
    cost: Cost
    sandbox: SandboxRecord | None = None
    sources: list[SourceRecord] = msgspec.field(default_factory=list)
    plan: str = ""


def together(energies: Iterable[Energy]) -> Energy:
    """Adds energies; the sum is unknown if one of them is, and mixed if their provenances differ."""
    given = list(energies)
    if not given or any(energy.kwh is None for energy in given):
        return Energy(method="; ".join(dict.fromkeys(energy.method for energy in given if energy.method)))
    counted = [energy for energy in given if energy.provenance != "none"] or given
    ways = {energy.provenance for energy in counted}
    return Energy(
        kwh=math.fsum(energy.kwh or 0.0 for energy in given),
        provenance=ways.pop() if len(ways) == 1 else "mixed",
        method="; ".join(dict.fromkeys(energy.method for energy in counted if energy.method)),
    )


def cost_of(policies: Sequence[PolicyRecord], generation: Energy, steps: int) -> Cost:
    """Returns the energy cost of a dataset.

    A training run with several of the policies counts once, up to the latest of them.
    """
    by_run: dict[str, Energy] = {}
    for place, policy in enumerate(policies):
        key = policy.training or f"without a record {place}"
        known = by_run.get(key)
        if known is None or (policy.training_energy.kwh or 0.0) > (known.kwh or 0.0):
            by_run[key] = policy.training_energy
    training = together(by_run.values())
    whole = together([training, generation])
    return Cost(
        generation=generation,
        training=training,
        checkpoint_kwh=[policy.training_energy.kwh for policy in policies],
        per_sample_kwh=whole.kwh / steps if whole.kwh is not None and steps else None,
    )
