"""Skill levels: evaluates checkpoints and assigns them to levels by their returns.

    novice <= mean - 2 std;  mean - std <= intermediate <= mean + std;  expert >= mean + 2 std

Mean and standard deviation (ddof 1) are over the mean (or median) returns of the checkpoints of all training runs
together. Checkpoints in the gaps have no level (the earlier platform's rule). With few checkpoints, two standard
deviations are rarely reached. Two other rules are available on request: the task's reference scores, and quantiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from a2perf.arrays import as_finite
from a2perf.errors import UserError
from a2perf.metrics import protocol
from a2perf.metrics.values import not_enough
from a2perf.records import SCHEMA, Record
from a2perf.runs.dataset_notes import Energy
from a2perf.storage import write_record
from a2perf.submission.evaluator.progress import RunProgress
from a2perf_datasets.checkpoints import Training
from a2perf_datasets.collection import collect, energy_of
from a2perf_datasets.plan import Block, Plan, PlannedPolicy, blocks_of, open_plan
from a2perf_datasets.records import Returns

Level = Literal["novice", "intermediate", "expert"]
LEVELS: tuple[Level, ...] = ("novice", "intermediate", "expert")
Rule = Literal["sigma", "references", "quantiles"]
RULES: tuple[Rule, ...] = ("sigma", "references", "quantiles")
FOLDER = "checkpoint_evaluation"
EVALUATION_FILE = "evaluation.json"

# Shares of the way from the floor's reference score to the expert's, and of the sorted checkpoints.
_OF_REFERENCES = (0.25, 0.4, 0.75, 0.9)
_OF_QUANTILES = (0.1, 0.35, 0.65, 0.9)
_OF_POLICY = ("training_name", "training", "root_dir", "participant_args", "training_energy")


class SkillBounds(msgspec.Struct, kw_only=True, frozen=True):
    """Bounds of the skill levels, as returns; returns between them belong to no level."""

    novice_max: float
    intermediate_min: float
    intermediate_max: float
    expert_min: float

    def level(self, value: float) -> Level | None:
        """Returns the level of a checkpoint with this return, ``None`` if it lies in a gap."""
        if value <= self.novice_max:
            return "novice"
        if value >= self.expert_min:
            return "expert"
        return "intermediate" if self.intermediate_min <= value <= self.intermediate_max else None


class CheckpointEvaluation(Record, kw_only=True):
    """Evaluation of one checkpoint.

    Attributes:
        training: hash of the training run's manifest.
        path: path relative to the artifacts; empty for the final policy.
        checkpoint_number: its training step.
        rollout_returns: return of every episode; the fields before are their summary, ``std`` with ddof 1.
        total_training_energy: energy of the whole training run.
        training_energy: energy of training up to the checkpoint.
        level: None in a gap.
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


class _Evaluated(Record, kw_only=True):
    """The submission that loaded the checkpoints, and the environment of their episodes."""

    submission: str
    submission_sha256: str
    domain: str
    task: str
    env_id: str
    env_kwargs: dict[str, Any]


class EvaluationRecord(_Evaluated, kw_only=True):
    """``evaluation.json`` next to a training run: the evaluations of its checkpoints."""

    schema: int = SCHEMA
    episodes: int
    seed: int
    evaluation_energy: Energy
    checkpoints: list[CheckpointEvaluation]


class SkillLevels(_Evaluated, kw_only=True):
    """``skill_levels.json``: the checkpoints of several training runs with their levels.

    Attributes:
        measure: statistic of a checkpoint's returns, ``"mean"`` or ``"median"``.
        bounds: bounds of the levels, as returns.
        counts: number of checkpoints of each level, and ``"discarded"``.
    """

    schema: int = SCHEMA
    rule: Rule
    measure: str
    bounds: SkillBounds
    counts: dict[str, int]
    checkpoints: list[CheckpointEvaluation]
    remarks: list[str] = msgspec.field(default_factory=list)

    def of(self, level: str) -> list[CheckpointEvaluation]:
        """Returns the checkpoints of a level.

        Raises:
            UserError: there are none; the hint lists the results of the other rules.
        """
        found = [checkpoint for checkpoint in self.checkpoints if checkpoint.level == level]
        if found:
            return found
        raise UserError(
            f"no checkpoint is {level} by the rule {self.rule!r} ({returns_of(self.bounds, level)}; the returns are "
            f"{min(_measured(self.checkpoints, self.measure)):.4g} to "
            f"{max(_measured(self.checkpoints, self.measure)):.4g})",
            hint=alternatives(self, level),
        )


def evaluate(
    training: Training,
    policies: Sequence[PlannedPolicy],
    *,
    env_kwargs: dict[str, Any],
    episodes: int,
    seed: int,
    processes: int,
    progress: RunProgress,
    confining: dict[str, Any],
) -> EvaluationRecord:
    """Evaluates checkpoints of one training run and writes ``evaluation.json``; finished blocks are kept.

    The folder ``checkpoint_evaluation`` next to the training run's bundle gets the results. Every checkpoint plays this
    many episodes, with the same seeds.

    Raises:
        UserError: see ``collect``; or the folder contains an evaluation with other settings.
    """
    folder = training.root / FOLDER
    blocks: list[Block] = []
    for place in range(len(policies)):
        for block in blocks_of(seed, [episodes]):  # every checkpoint gets the same episodes
            block.index, block.policy = len(blocks), place
            blocks.append(block)
    task: dict[str, Any] = {name: getattr(training.manifest, name) for name in ("domain", "task", "env_id")}
    task["env_kwargs"] = env_kwargs
    plan = Plan(
        purpose="evaluate",
        name=training.name,
        seed=seed,
        policies=list(policies),
        blocks=blocks,
        confining=confining,
        **task,
    )
    open_plan(folder, plan)
    returns: list[list[float]] = [[] for _ in policies]
    for block_record in collect(folder, plan, processes=processes, progress=progress):
        returns[block_record.policy] += [episode.episode_return for episode in block_record.episodes]
    record = EvaluationRecord(
        submission=policies[0].submission,
        submission_sha256=policies[0].submission_sha256,
        episodes=episodes,
        seed=seed,
        evaluation_energy=energy_of(folder),
        checkpoints=[
            CheckpointEvaluation(
                path=policy.checkpoint,
                checkpoint_number=policy.number or 0,
                count=len(values),
                rollout_returns=values,
                total_training_energy=training.energy,
                **msgspec.structs.asdict(Returns.of(values)),
                **{name: getattr(policy, name) for name in _OF_POLICY},
            )
            for policy, values in zip(policies, returns, strict=True)
        ],
        **task,
    )
    write_record(folder / EVALUATION_FILE, record)
    return record


def cut(
    evaluations: Sequence[EvaluationRecord], *, rule: Rule = "sigma", measure: str = "mean", remarks: Sequence[str] = ()
) -> SkillLevels:
    """Assigns the checkpoints of all evaluations together to levels.

    Raises:
        UserError: the evaluations have different settings, or the rule cannot be applied.
    """
    first = evaluations[0]
    for other in evaluations[1:]:
        for name in ("env_id", "env_kwargs", "episodes", "seed"):
            if getattr(other, name) != getattr(first, name):
                raise UserError(
                    f"the evaluations differ in {name}: {getattr(first, name)!r} and {getattr(other, name)!r}",
                    hint="evaluate all training runs with the same settings",
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
        checkpoints=levelled,
        remarks=list(remarks),
        **{name: getattr(first, name) for name in _Evaluated.__struct_fields__},
    )
    for level in LEVELS:
        if not counts[level]:
            found.remarks.append(f"no checkpoint is {level}: {alternatives(found, level)}")
    return found


def bounds_by(rule: Rule, values: Sequence[float], task: str, env_id: str) -> SkillBounds:
    """Returns the bounds of the levels for the returns of checkpoints.

    The rules are ``"sigma"``, ``"references"`` (0.25, 0.4 to 0.75, and 0.9 of the way from the floor's reference score
    to the expert's) and ``"quantiles"`` (10 %, 35 % to 65 %, and 90 %).

    Raises:
        UserError: too few checkpoints, or the task has no reference scores.
    """
    if rule == "sigma":
        finite, _ = as_finite(values)
        if finite.size < 2:
            raise UserError(
                f"skill levels cannot be assigned: {not_enough(finite.size, 2, 'checkpoints')}",
                hint="add checkpoints, or use --thresholds references",
            )
        mean, deviation = finite.mean(), finite.std(ddof=1)
        return _bounds((mean - 2 * deviation, mean - deviation, mean + deviation, mean + 2 * deviation))
    if rule == "quantiles":
        return _bounds(np.quantile(np.asarray(values, np.float64), _OF_QUANTILES))
    wanted = protocol.protocol_task(task, env_id)
    if wanted is None or not wanted.has_references():
        raise UserError(f"the task {task} has no reference scores", hint="use --thresholds sigma or quantiles")
    return _bounds(wanted.scale().return_at(_OF_REFERENCES))


def alternatives(levels: SkillLevels, level: str) -> str:
    """Returns a text with the number of checkpoints that the other rules assign to a level."""
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
        offers.append(f"`--thresholds {rule}` gives {count} ({returns_of(bounds, level)})")
    offers.append("or evaluate more checkpoints")
    return ", ".join(offers)


def returns_of(bounds: SkillBounds, level: str) -> str:
    """Returns the range of returns of a level as text."""
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
