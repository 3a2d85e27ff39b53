"""Skill levels: every checkpoint is evaluated, and the distribution of their returns is cut.

    novice <= mean - 2 std;  mean - std <= intermediate <= mean + std;  expert >= mean + 2 std

over the mean (or median) returns of the checkpoints of all trainings together, ddof 1; what lies between belongs to no
level (the earlier platform's rule). Few checkpoints rarely reach two standard deviations, so there are two other rules,
which are used when they are asked for and never silently: the task's reference scores, and quantiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from a2perf.datasets.checkpoints import Checkpoint
from a2perf.datasets.collection import collect, energy_of
from a2perf.datasets.plan import Block, Confining, Plan, blocks_of, open_plan
from a2perf.datasets.records import Energy
from a2perf.errors import UserError
from a2perf.metrics import protocol
from a2perf.metrics.data_cost import Level, SkillBounds, skill_levels
from a2perf.records import SCHEMA, Record
from a2perf.storage import write_record
from a2perf.submission.evaluator.progress import RunProgress

LEVELS: tuple[Level, ...] = ("novice", "intermediate", "expert")
Rule = Literal["sigma", "references", "quantiles"]
RULES: tuple[Rule, ...] = ("sigma", "references", "quantiles")
FOLDER = "checkpoint_evaluation"
EVALUATION_FILE = "evaluation.json"

# Of the way from the random policy's reference to the expert's, and of the sorted checkpoints.
_OF_REFERENCES = (0.25, 0.4, 0.75, 0.9)
_OF_QUANTILES = (0.1, 0.35, 0.65, 0.9)


class CheckpointEvaluation(Record, kw_only=True):
    """What a checkpoint did.

    Attributes:
        training_name: the last folders of its training.
        training: hash of the training's manifest.
        path: below the artifacts; empty for the final policy.
        root_dir: what its policy saw as ``ROOT_DIR``.
        participant_args: what its ``load_policy`` was given.
        checkpoint_number: its training step.
        rollout_returns: of every episode; the fields before it are their summary, ``std`` with ddof 1.
        total_training_energy: of the whole training.
        training_energy: up to the checkpoint.
        level: its skill level; None in a gap.
    """

    training_name: str
    training: str
    path: str
    root_dir: str
    participant_args: dict[str, str]
    checkpoint_number: int
    mean: float
    std: float | None
    min: float
    max: float
    median: float
    count: int
    rollout_returns: list[float]
    total_training_energy: Energy
    training_energy: Energy
    level: Level | None = None


class EvaluationRecord(Record, kw_only=True):
    """``evaluation.json`` beside a training: all of its checkpoints."""

    schema: int = SCHEMA
    submission: str
    submission_sha256: str
    domain: str
    task: str
    env_id: str
    env_kwargs: dict[str, Any]
    episodes: int
    seed: int
    evaluation_energy: Energy
    checkpoints: list[CheckpointEvaluation]


class SkillLevels(Record, kw_only=True):
    """``skill_levels.json``: the checkpoints of several trainings, cut into levels.

    Attributes:
        rule: how they were cut.
        measure: of the returns of a checkpoint, ``"mean"`` or ``"median"``.
        bounds: in return.
        counts: checkpoints of each level, and ``"discarded"``.
        remarks: what a reader should know.
    """

    schema: int = SCHEMA
    rule: Rule
    measure: str
    bounds: SkillBounds
    counts: dict[str, int]
    submission: str
    submission_sha256: str
    domain: str
    task: str
    env_id: str
    env_kwargs: dict[str, Any]
    checkpoints: list[CheckpointEvaluation]
    remarks: list[str] = msgspec.field(default_factory=list)

    def of(self, level: str) -> list[CheckpointEvaluation]:
        """Returns the checkpoints of a level.

        Raises:
            UserError: there are none; the message says what the other rules would give.
        """
        found = [checkpoint for checkpoint in self.checkpoints if checkpoint.level == level]
        if found:
            return found
        raise UserError(
            f"no checkpoint is {level} by the rule {self.rule!r} ({said(self.bounds, level)}; the best reaches "
            f"{max(_measured(self.checkpoints, self.measure)):.4g}, the least "
            f"{min(_measured(self.checkpoints, self.measure)):.4g})",
            hint=alternatives(self, level),
        )


def evaluate(
    checkpoints: Sequence[Checkpoint], submission: Path, submission_sha256: str, *, domain: str, task: str,
    env_id: str, env_kwargs: dict[str, Any], episodes: int, seed: int, processes: int, progress: RunProgress,
    participant_args: dict[str, str] | None = None, confining: Confining | None = None, work: Path | None = None,
) -> EvaluationRecord:  # fmt: skip
    """Evaluates every checkpoint of one training and writes ``evaluation.json``; finished blocks are kept.

    Args:
        checkpoints: of one training.
        submission: the folder whose ``inference.py`` loads them.
        submission_sha256: its hash.
        domain: of the environment.
        task: its name.
        env_id: its id.
        env_kwargs: its arguments.
        episodes: of each checkpoint; all have the same seeds.
        seed: root seed.
        processes: how many rollout workers there are.
        progress: where episodes are counted.
        participant_args: further arguments of ``load_policy``.
        confining: how policies are run.
        work: where results go; ``checkpoint_evaluation`` beside the training's bundle by default.

    Raises:
        UserError: as for ``collect``, or the folder holds an evaluation under other settings.
    """
    training = checkpoints[0].training
    folder = work or training.root / FOLDER
    blocks: list[Block] = []
    for place in range(len(checkpoints)):
        for block in blocks_of(seed, [episodes]):  # every checkpoint meets the same episodes
            block.index, block.policy = len(blocks), place
            blocks.append(block)
    plan = Plan(
        purpose="evaluate",
        name=training.name,
        domain=domain,
        task=task,
        env_id=env_id,
        env_kwargs=env_kwargs,
        seed=seed,
        policies=[
            checkpoint.planned(submission, submission_sha256, participant_args or {}) for checkpoint in checkpoints
        ],
        blocks=blocks,
        confining=confining or Confining(),
    )
    open_plan(folder, plan)
    played = collect(folder, plan, processes=processes, progress=progress)
    returns: list[list[float]] = [[] for _ in checkpoints]
    for block_record in played:
        returns[block_record.policy] += [episode.episode_return for episode in block_record.episodes]
    record = EvaluationRecord(
        submission=str(submission),
        submission_sha256=submission_sha256,
        domain=domain,
        task=task,
        env_id=env_id,
        env_kwargs=env_kwargs,
        episodes=episodes,
        seed=seed,
        evaluation_energy=energy_of(folder),
        checkpoints=[
            _evaluation(checkpoint, planned.participant_args, values)
            for checkpoint, planned, values in zip(checkpoints, plan.policies, returns, strict=True)
        ],
    )
    write_record(folder / EVALUATION_FILE, record)
    return record


def cut(
    evaluations: Sequence[EvaluationRecord], *, rule: Rule = "sigma", measure: str = "mean", remarks: Sequence[str] = ()
) -> SkillLevels:
    """Cuts the checkpoints of all evaluations together into levels.

    Raises:
        UserError: they are of different environments, or the rule cannot be applied.
    """
    first = evaluations[0]
    for other in evaluations[1:]:
        for name in ("env_id", "env_kwargs", "episodes", "seed"):
            if getattr(other, name) != getattr(first, name):
                raise UserError(
                    f"the evaluations differ in {name}: {getattr(first, name)!r} and {getattr(other, name)!r}",
                    hint="evaluate all trainings under the same settings",
                )
    checkpoints = [checkpoint for record in evaluations for checkpoint in record.checkpoints]
    bounds = bounds_by(rule, _measured(checkpoints, measure), first.task, first.env_id)
    levelled = [
        msgspec.structs.replace(checkpoint, level=bounds.level(value))
        for checkpoint, value in zip(checkpoints, _measured(checkpoints, measure), strict=True)
    ]
    counts: dict[str, int] = {level: sum(c.level == level for c in levelled) for level in LEVELS}
    counts["discarded"] = sum(checkpoint.level is None for checkpoint in levelled)
    found = SkillLevels(
        rule=rule,
        measure=measure,
        bounds=bounds,
        counts=counts,
        submission=first.submission,
        submission_sha256=first.submission_sha256,
        domain=first.domain,
        task=first.task,
        env_id=first.env_id,
        env_kwargs=first.env_kwargs,
        checkpoints=levelled,
        remarks=list(remarks),
    )
    for level in LEVELS:
        if not counts[level]:
            found.remarks.append(f"no checkpoint is {level}: {alternatives(found, level)}")
    return found


def bounds_by(rule: Rule, values: Sequence[float], task: str, env_id: str) -> SkillBounds:
    """Returns the bounds of the levels under a rule.

    Args:
        rule: ``"sigma"``, ``"references"`` (0.25, 0.4 to 0.75, and 0.9 of the way from the random policy's reference
            score to the expert's) or ``"quantiles"`` (10 %, 35 % to 65 %, and 90 %).
        values: mean or median return of each checkpoint.
        task: the task's name, for its references.
        env_id: its environment.

    Raises:
        UserError: too few checkpoints, or the task has no references.
    """
    if rule == "sigma":
        try:
            return skill_levels(values)
        except ValueError as error:
            raise UserError(
                f"skill levels cannot be cut: {error}", hint="give more checkpoints, or --thresholds references"
            ) from error
    if rule == "quantiles":
        return _bounds(np.quantile(np.asarray(values, np.float64), _OF_QUANTILES))
    wanted = protocol.load("v1").tasks.get(task)
    if wanted is None or wanted.env_id != env_id or not wanted.has_references():
        raise UserError(f"the task {task} has no reference scores", hint="use --thresholds sigma or quantiles")
    return _bounds(wanted.scale().return_at(_OF_REFERENCES))


def alternatives(levels: SkillLevels, level: str) -> str:
    """Says what the other rules would give for a level."""
    values = _measured(levels.checkpoints, levels.measure)
    offers = []
    for rule in RULES:
        if rule == levels.rule:
            continue
        try:
            bounds = bounds_by(rule, values, levels.task, levels.env_id)
        except UserError:
            continue
        count = sum(bounds.level(value) == level for value in values)
        offers.append(f"`--thresholds {rule}` gives {count} ({said(bounds, level)})")
    offers.append("or evaluate more checkpoints")
    return ", ".join(offers)


def said(bounds: SkillBounds, level: str) -> str:
    """Says in words what a level asks for."""
    if level == "novice":
        return f"at most {bounds.novice_max:.4g}"
    if level == "expert":
        return f"at least {bounds.expert_min:.4g}"
    return f"{bounds.intermediate_min:.4g} to {bounds.intermediate_max:.4g}"


def _bounds(cuts: Any) -> SkillBounds:
    novice, low, high, expert = (float(value) for value in cuts)
    return SkillBounds(novice_max=novice, intermediate_min=low, intermediate_max=high, expert_min=expert)


def _measured(checkpoints: Sequence[CheckpointEvaluation], measure: str) -> list[float]:
    return [checkpoint.median if measure == "median" else checkpoint.mean for checkpoint in checkpoints]


def _evaluation(
    checkpoint: Checkpoint, participant_args: Mapping[str, str], returns: Sequence[float]
) -> CheckpointEvaluation:
    values = np.asarray(returns, np.float64)
    return CheckpointEvaluation(
        training_name=checkpoint.training.name,
        training=checkpoint.training.sha256,
        path=checkpoint.path,
        root_dir=str(checkpoint.root_dir),
        participant_args=dict(participant_args),
        checkpoint_number=checkpoint.number,
        mean=float(values.mean()),
        std=float(values.std(ddof=1)) if values.size > 1 else None,
        min=float(values.min()),
        max=float(values.max()),
        median=float(np.median(values)),
        count=int(values.size),
        rollout_returns=[float(value) for value in values],
        total_training_energy=checkpoint.training.energy,
        training_energy=checkpoint.energy,
    )
