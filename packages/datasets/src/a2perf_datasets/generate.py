"""Generates a dataset: episodes of the policies of a skill level, or of a single policy."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from a2perf.domains.registry import stored_fingerprint
from a2perf.domains.tfa.suite_gym import create_domain
from a2perf.errors import UserError
from a2perf.runs.dataset_notes import Energy
from a2perf.storage import read_record
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.submitted.folder_content import identify_submission
from a2perf_datasets import assembly, naming
from a2perf_datasets.assembly import DatasetResult
from a2perf_datasets.collection import collect, energy_of
from a2perf_datasets.naming import DatasetId
from a2perf_datasets.noise import POLICY_ACTION
from a2perf_datasets.plan import RANDOM, Plan, PlannedPolicy, draw_with_replacement, open_plan
from a2perf_datasets.records import NO_TRAINING, DatasetRecord, PolicyFields, PolicyRecord
from a2perf_datasets.rollout_worker import episodes_path
from a2perf_datasets.skill_levels import SkillLevels
from a2perf_datasets.space_json import to_json


def generate(
    plan: Plan, root: Path, *, processes: int = 1, force: bool = False, progress: RunProgress | None = None
) -> DatasetResult:
    """Generates a dataset with this many rollout workers; the episodes do not depend on their number.

    A finished dataset is returned as it is, an interrupted one is completed.

    Raises:
        SubmissionError: a policy failed.
        UserError: a setting is not available on this host, or another dataset has the name.
    """
    progress = progress or RunProgress()
    name = DatasetId.parse(plan.name)
    target, work = naming.dataset_folder(root, name), assembly.work_folder(root, name)
    if force:
        assembly.remove(work)
        assembly.archive(target)
    if target.exists():
        record = read_record(target / "data" / naming.RECORD_FILE, DatasetRecord)
        if record.plan != plan.digest():
            raise UserError(
                f"the dataset {name} already exists with another configuration",
                hint="give another --id, or add --force to replace it",
            )
        return DatasetResult(target, record, already=True)
    description = f"{plan.episodes} episodes of {plan.task}, {plan.skill_level or plan.policies[0].name}"
    with closing(create_domain(env_name=plan.env_id, framework="gymnasium", **plan.env_kwargs)) as env:
        spaces = env.observation_space, env.action_space
        metadata: dict[str, Any] = {"description": plan.description or description}
        metadata |= {"author": {plan.author}} if plan.author else {}
        with contextlib.suppress(AttributeError, TypeError, ValueError):  # arguments that cannot be written as JSON
            metadata["env_spec"] = env.spec.to_json()
    for space in spaces:
        to_json(space)
    open_plan(work, plan)
    played = collect(work, plan, processes=processes, progress=progress)
    progress.phase("assembling the dataset")
    return assembly.assemble(
        root,
        name,
        [(episodes_path(work, block.index), None) for block in plan.blocks],
        spaces,
        metadata,
        policies=[
            _policy_record(policy, sum(block.count for block in plan.blocks if block.policy == place))
            for place, policy in enumerate(plan.policies)
        ],
        generation=energy_of(work),
        env_fingerprint=stored_fingerprint(plan.env_id),
        infos=[*plan.infos, *([POLICY_ACTION] if plan.action_noise else [])],
        sandbox=next((block.sandbox for block in played if block.sandbox is not None), None),
        plan=plan.digest(),
        **{field: getattr(plan, field) for field in _COPIED},
    )


_COPIED = ("domain", "task", "env_id", "env_kwargs", "skill_level", "thresholds", "seed", "action_noise")


def random_policy() -> PlannedPolicy:
    """Returns the random policy."""
    return PlannedPolicy(name=RANDOM, submission=RANDOM, training_energy=NO_TRAINING)


def submission_policy(
    folder: Path, participant_args: Mapping[str, str], training_energy: Energy | None = None
) -> PlannedPolicy:
    """Returns the policy of a submission without a training run; the user may know the energy of its training."""
    return PlannedPolicy(
        name=folder.resolve().name,
        submission=str(folder.absolute()),
        participant_args=dict(participant_args),
        submission_sha256=identify_submission(folder).sha256,
        training_energy=training_energy or Energy(),
    )


def level_policies(
    levels: SkillLevels, level: str, draws: int, seed: int, submission: Path | None
) -> list[PlannedPolicy]:
    """Draws checkpoints of a level with replacement; a checkpoint drawn twice gets twice the episodes.

    Raises:
        UserError: the level has no checkpoints, or the submission does not exist.
    """
    available = levels.of(level)
    folder = submission or Path(levels.submission)
    if not (folder / "inference.py").is_file():
        raise UserError(f"the submission {folder} does not exist", hint="give its folder with --submission DIR")
    policy = submission_policy(folder, {})
    copied = ("root_dir", "participant_args", "training", "training_name", "training_energy")
    return [
        msgspec.structs.replace(
            policy,
            name=f"{chosen.training_name}/{chosen.path or 'final policy'}",
            checkpoint=chosen.path,
            number=chosen.checkpoint_number,
            mean_return=chosen.mean,
            **{name: getattr(chosen, name) for name in copied},
        )
        for chosen in (available[index] for index in draw_with_replacement(seed, len(available), draws))
    ]


def _policy_record(policy: PlannedPolicy, episodes: int) -> PolicyRecord:
    fields = {name: getattr(policy, name) for name in PolicyFields.__struct_fields__}
    if policy.submission != RANDOM:
        fields["submission"] = Path(policy.submission).name
    return PolicyRecord(**fields, checkpoint_number=policy.number, episodes=episodes)
