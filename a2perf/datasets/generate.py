"""Generates a dataset: episodes of the policies of a skill level, or of a single policy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from a2perf.datasets import assembly, naming
from a2perf.datasets.checkpoints import Checkpoint
from a2perf.datasets.collection import collect, energy_of
from a2perf.datasets.naming import DatasetId
from a2perf.datasets.noise import POLICY_ACTION
from a2perf.datasets.plan import (
    RANDOM,
    Confining,
    Plan,
    PlannedPolicy,
    blocks_of,
    draw_with_replacement,
    evenly,
    open_plan,
)
from a2perf.datasets.records import NO_TRAINING, DatasetRecord, PolicyRecord, cost_of
from a2perf.datasets.rollout_worker import episodes_path
from a2perf.datasets.skill_levels import SkillLevels
from a2perf.datasets.space_json import to_json
from a2perf.domains.fingerprint import stored_fingerprint
from a2perf.domains.tfa.suite_gym import create_domain
from a2perf.errors import UserError
from a2perf.runs.dataset_notes import Energy
from a2perf.storage import read_record
from a2perf.submission.evaluator.folder_content import identify_submission
from a2perf.submission.evaluator.progress import RunProgress


@dataclass(frozen=True)
class CollectedPolicy:
    """A policy to collect episodes from.

    Attributes:
        training_name: the last folders of its training run.
        mean_return: its mean return in the evaluation of skill levels.
    """

    planned: PlannedPolicy
    training_energy: Energy = field(default_factory=Energy)
    training_name: str = ""
    mean_return: float | None = None


@dataclass(frozen=True)
class DatasetRequest:
    """A dataset to generate.

    Attributes:
        policies: the policies; each contributes the same number of episodes.
        infos: entries of ``info`` to keep.
        action_noise: amount of action noise; see ``ActionNoise``.
        skill_level: skill level of the policies, if any.
    """

    name: DatasetId
    domain: str
    task: str
    env_id: str
    env_kwargs: dict[str, Any]
    policies: Sequence[CollectedPolicy]
    episodes: int
    seed: int
    infos: tuple[str, ...] = ()
    action_noise: float = 0.0
    skill_level: str = ""
    thresholds: dict[str, Any] = field(default_factory=dict)
    description: str = ""
    author: str = ""
    confining: Confining = field(default_factory=Confining)


@dataclass(frozen=True)
class DatasetResult:
    """A finished dataset.

    Attributes:
        already: whether it existed before the call.
    """

    folder: Path
    record: DatasetRecord
    already: bool = False


def generate(
    request: DatasetRequest, root: Path, *, processes: int = 1, force: bool = False, progress: RunProgress | None = None
) -> DatasetResult:
    """Generates a dataset. A finished one is returned as it is, an interrupted one is completed.

    Args:
        processes: number of rollout workers; the episodes do not depend on it.

    Returns:
        The dataset with its record.

    Raises:
        SubmissionError: a policy failed.
        UserError: a setting is not available on this host, or another dataset has the name.
    """
    progress = progress or RunProgress()
    target, work = naming.dataset_folder(root, request.name), assembly.work_folder(root, request.name)
    plan = _plan(request)
    if force:
        assembly.remove(work)
        if target.exists():
            assembly.archive(target)
    if target.exists():
        record = read_record(target / "data" / naming.RECORD_FILE, DatasetRecord)
        if record.plan != plan.digest():
            raise UserError(
                f"the dataset {request.name} already exists with another configuration",
                hint="give another --id, or add --force to replace it",
            )
        return DatasetResult(target, record, already=True)
    with closing(create_domain(env_name=plan.env_id, framework="gymnasium", **plan.env_kwargs)) as env:
        spaces = env.observation_space, env.action_space
        metadata = {"description": request.description or _description(request), **assembly.env_spec_of(env)}
    for space in spaces:
        to_json(space)
    open_plan(work, plan)
    played = collect(work, plan, processes=processes, progress=progress)
    progress.phase("assembling the dataset")
    shutil.rmtree(work / "dataset", ignore_errors=True)
    data = work / "dataset" / "data"
    episodes, steps, content, returns = assembly.join(
        [(episodes_path(work, block.index), None) for block in plan.blocks], data / naming.DATA_FILE
    )
    counts = [0] * len(request.policies)
    for block in plan.blocks:
        counts[block.policy] += block.count
    policies = [_policy_record(policy, count) for policy, count in zip(request.policies, counts, strict=True)]
    record = DatasetRecord(
        dataset_id=str(request.name),
        domain=plan.domain,
        task=plan.task,
        env_id=plan.env_id,
        env_kwargs=plan.env_kwargs,
        env_fingerprint=stored_fingerprint(plan.env_id),
        skill_level=request.skill_level,
        thresholds=request.thresholds,
        seed=plan.seed,
        infos=[*plan.infos, *([POLICY_ACTION] if plan.action_noise else [])],
        action_noise=plan.action_noise,
        episodes=episodes,
        steps=steps,
        content_sha256=content,
        policies=policies,
        cost=cost_of(policies, energy_of(work), steps),
        sandbox=next((block.sandbox for block in played if block.sandbox is not None), None),
        plan=plan.digest(),
        **assembly.common_fields(data, returns),
    )
    author = {"author": {request.author}} if request.author else {}
    folder = assembly.publish(root, request.name, work / "dataset", record, spaces, metadata | author)
    assembly.remove(work)
    return DatasetResult(folder, record)


def random_policy() -> CollectedPolicy:
    """Returns the random policy."""
    return CollectedPolicy(PlannedPolicy(name=RANDOM, submission=RANDOM), NO_TRAINING)


def submission_policy(
    folder: Path,
    participant_args: dict[str, str],
    *,
    root_dir: Path | None = None,
    checkpoint: Checkpoint | None = None,
    training_energy: Energy | None = None,
) -> CollectedPolicy:
    """Returns the policy of a submission.

    Args:
        folder: the submission's folder.
        participant_args: arguments of its ``load_policy``.
        root_dir: its ``ROOT_DIR``; by default an empty folder.
        checkpoint: a checkpoint of a training run, instead of ``root_dir``.
        training_energy: energy of its training, if given by the user.
    """
    sha256 = identify_submission(folder).sha256
    if checkpoint is not None:
        planned = checkpoint.planned(folder.absolute(), sha256, participant_args)
        return CollectedPolicy(planned, training_energy or checkpoint.energy, checkpoint.training.name)
    planned = PlannedPolicy(
        name=folder.resolve().name,
        submission=str(folder.absolute()),
        submission_sha256=sha256,
        root_dir="" if root_dir is None else str(root_dir.absolute()),
        participant_args=participant_args,
    )
    return CollectedPolicy(planned, training_energy or Energy())


def level_policies(
    levels: SkillLevels, level: str, draws: int, seed: int, submission: Path | None
) -> list[CollectedPolicy]:
    """Draws checkpoints of a level with replacement; a checkpoint drawn twice gets twice the episodes.

    Raises:
        UserError: the level has no checkpoints, or the submission does not exist.
    """
    available = levels.of(level)
    folder = submission or Path(levels.submission)
    if not (folder / "inference.py").is_file():
        raise UserError(f"the submission {folder} does not exist", hint="give its folder with --submission DIR")
    sha256 = identify_submission(folder).sha256
    found = []
    for index in draw_with_replacement(seed, len(available), draws):
        chosen = available[index]
        planned = PlannedPolicy(
            name=f"{chosen.training_name}/{chosen.path or 'final policy'}",
            submission=str(folder.absolute()),
            submission_sha256=sha256,
            root_dir=chosen.root_dir,
            participant_args=chosen.participant_args,
            checkpoint=chosen.path,
            number=chosen.checkpoint_number,
            training=chosen.training,
        )
        found.append(CollectedPolicy(planned, chosen.training_energy, chosen.training_name, chosen.mean))
    return found


def _plan(request: DatasetRequest) -> Plan:
    return Plan(
        purpose="generate",
        name=str(request.name),
        domain=request.domain,
        task=request.task,
        env_id=request.env_id,
        env_kwargs=json.loads(json.dumps(request.env_kwargs)),
        seed=request.seed,
        infos=list(request.infos),
        action_noise=request.action_noise,
        policies=[policy.planned for policy in request.policies],
        blocks=blocks_of(request.seed, evenly(request.episodes, len(request.policies))),
        confining=msgspec.structs.replace(request.confining),
    )


def _policy_record(policy: CollectedPolicy, episodes: int) -> PolicyRecord:
    planned = policy.planned
    return PolicyRecord(
        submission=RANDOM if planned.submission == RANDOM else Path(planned.submission).name,
        submission_sha256=planned.submission_sha256,
        training=planned.training,
        training_name=policy.training_name,
        checkpoint=planned.checkpoint,
        checkpoint_number=planned.number,
        participant_args=planned.participant_args,
        mean_return=policy.mean_return,
        training_energy=policy.training_energy,
        episodes=episodes,
    )


def _description(request: DatasetRequest) -> str:
    policy = request.skill_level or request.policies[0].planned.name
    return f"{request.episodes} episodes of {request.task}, {policy}"
