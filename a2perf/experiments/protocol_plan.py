"""Which runs a protocol asks of a submission, each as the command of one evaluator.

A root folder ``<task>/seed_<n>`` holds the training and the evaluation of one seed. The packaged gin files of the task
say how runs are tracked; what the protocol fixes overrides them binding by binding.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2perf.errors import ConfigError
from a2perf.experiments.plan import LOCK_WAIT_S
from a2perf.launch.entry import Entry
from a2perf.launch.interface import RunCommand
from a2perf.metrics.protocol import Protocol, ProtocolTask, Track
from a2perf.submission.configuration import CONFIGS
from a2perf.submission.evaluator.folder_content import identify_submission

STEPS_VARIABLE, ENERGY_VARIABLE = "A2PERF_TRAIN_STEPS", "A2PERF_TRAIN_ENERGY_KWH"
"""Environment variables by which a participant learns the budget of its training."""

_OF_THE_PLAN = tuple(f"Submission.{name}" for name in ("mode", "domain", "seed", "public_seeds", "seeds_from"))
_PASSED_ON = ("participant_args", "sandbox", "python_env", "participant_python", "datasets_path")
"""Flags of a submission that are flags of every one of its runs."""


@dataclass(frozen=True)
class Asked:
    """What a person asked for.

    Attributes:
        submission: the submission's folder.
        protocol: which protocol.
        tasks: names of its tasks, in the protocol's order.
        track: whose budget the trainings keep.
        quick: the reduced protocol.
        public_seeds: the episodes of the protocol's own rule, which the submission can know; by default the same
            number of episodes with seeds that are keyed with this evaluator's secret.
        generalization: evaluate on further tasks where the protocol defines that.
        participant_args: ``k=v,...`` for ``train`` and ``load_policy``.
        bindings: further gin bindings for every run; none of them may set what the protocol fixes.
        sandbox: level of confinement; None is the default.
        python_env, participant_python: the participant's Python, see ``a2perf run``; None is this one.
        datasets_path: where offline data sets lie; None is the usual place.
    """

    submission: Path
    protocol: Protocol
    tasks: tuple[str, ...]
    track: Track
    quick: bool = False
    public_seeds: bool = False
    generalization: bool = True
    participant_args: str = ""
    bindings: tuple[str, ...] = ()
    sandbox: str | None = None
    python_env: str | None = None
    participant_python: str | None = None
    datasets_path: str | None = None


@dataclass(frozen=True)
class PlannedRun:
    """One run.

    Attributes:
        task: the protocol's task; for generalization the one trained on.
        seed: training seed.
        mode: ``"train"``, ``"inference"`` or ``"generalization"``.
        after: key of the run that has to be finished before; None where nothing is learnt.
        gin_file: below the packaged files of the task's domain.
        flags: of the evaluator, beyond submission, gin file and root folder.
        env: variables beyond those of this process.
    """

    task: str
    seed: int
    mode: str
    after: str | None
    gin_file: str
    flags: tuple[str, ...]
    env: tuple[tuple[str, str], ...]

    @property
    def root(self) -> str:
        """The run's root folder, below the folder of the whole submission."""
        return f"{self.task}/seed_{self.seed}"

    @property
    def key(self) -> str:
        """The bundle's folder, which is also what the run is called."""
        return f"{self.root}/{self.mode}"


def plan(asked: Asked) -> list[PlannedRun]:
    """Returns the runs in the order in which they are best seen: seed by seed within a task.

    Raises:
        ConfigError: a binding sets what the protocol fixes.
        UserError: a task is not the protocol's.
    """
    learns = trains(asked.submission)
    runs: list[PlannedRun] = []
    for name in asked.tasks:
        task = asked.protocol.task(name)
        generalization = asked.protocol.generalization.get(task.domain)
        on_this = asked.generalization and generalization is not None and generalization.trained_on == name
        for number, seed in enumerate(seeds_of(task, asked)):
            after = None
            if learns:
                runs.append(_run(asked, task, seed, "train", None, _training(asked, task)))
                after = runs[-1].key
            runs.append(_run(asked, task, seed, "inference", after, _inference(asked, task, first=number == 0)))
            if on_this and generalization is not None:
                episodes = _least(generalization.episodes, asked.protocol.quick.episodes, asked)
                fixed = {
                    "Submission.num_generalization_episodes": episodes,
                    "Submission.generalization_tasks": list(generalization.tasks),
                }
                runs.append(_run(asked, task, seed, "generalization", after, fixed))
    return runs


def entries(asked: Asked, runs: Sequence[PlannedRun], folder: Path) -> list[Entry]:
    """Returns the runs as entries of the queue; the same run of other code or configuration has another key.

    Args:
        asked: what was asked for.
        runs: its plan.
        folder: of the whole submission.
    """
    submission = asked.submission.absolute()
    content = identify_submission(submission, root=folder).sha256
    found: list[Entry] = []
    for run in runs:
        domain = asked.protocol.task(run.task).domain
        gin_file = CONFIGS / domain / run.gin_file
        root = (folder / run.root).absolute()
        command = RunCommand.evaluator(
            [
                "--participant-module-path", str(submission),
                "--submission-gin-config-path", str(gin_file),
                "--root-dir", str(root),
                *run.flags,
            ],
            name=run.key,
            env={"A2PERF_LOCK_WAIT_S": str(LOCK_WAIT_S), **dict(run.env)},
            log=root / f"{run.mode}.log",
            domain=domain,
            readable=(submission, gin_file),
            writable=(root,),
        )  # fmt: skip
        what = {"submission": submission.name, "task": run.task, "seed": run.seed, "mode": run.mode}
        places = {"root": str(root), "bundle": str(root / run.mode)}
        after = None if run.after is None else next(entry.key for entry in found if entry.command.name == run.after)
        identity = json.dumps([content, run.gin_file, run.flags, run.env])
        key = f"{run.key}@{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
        found.append(Entry(key, command, {**what, **places}, after=after))
    return found


def seeds_of(task: ProtocolTask, asked: Asked) -> Sequence[int]:
    """Returns the training seeds that are asked for."""
    return task.training_seeds[: asked.protocol.quick.seeds] if asked.quick else task.training_seeds


def trains(submission: Path) -> bool:
    """Says whether ``train`` of a submission does anything; its source is read, not run.

    A body of a docstring, ``pass``, ``...`` or a bare ``return`` does nothing, and then no training is run.
    """
    try:
        tree = ast.parse((submission / "train.py").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return True  # the training says what is wrong
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "train"]
    return len(found) != 1 or any(not _idle(statement) for statement in found[0].body)


def _idle(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return):
        return statement.value is None
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass)


def _training(asked: Asked, task: ProtocolTask) -> dict[str, Any]:
    fixed: dict[str, Any] = {
        "Submission.train_energy_limit_kwh": task.budget.energy_kwh if asked.track == "fixed_energy" else None,
        "Submission.train_time_limit_s": asked.protocol.quick.train_time_limit_s if asked.quick else None,
        "create_domain.env_name": task.env_id,
    }
    passed = [variable for variable, _ in _budget_variables(asked, task)]
    if passed:
        fixed["Submission.pass_environment"] = passed
    return fixed | {f"create_domain.{name}": value for name, value in {**task.env_kwargs, **task.train_kwargs}.items()}


def _inference(asked: Asked, task: ProtocolTask, *, first: bool) -> dict[str, Any]:
    evaluation, quick = task.evaluation, asked.protocol.quick
    fixed: dict[str, Any] = {
        "Submission.num_inference_episodes": _least(evaluation.episodes, quick.episodes, asked),
        "Submission.num_inference_steps": _least(evaluation.timed_calls, quick.timed_calls, asked),
        "Submission.num_warmup_steps": _least(evaluation.warmup_calls, quick.warmup_calls, asked),
        "Submission.time_participant_code": True,
        "Submission.inference_data": "fresh",
        "Submission.fresh_policy": "run",  # one policy process for all episodes: what it learns from them is its own
        "Submission.clip_actions": True,
        "Submission.record_frames": 8 if first else 0,  # pictures of one seed show what all do
        "create_domain.env_name": task.env_id,
    }
    return fixed | {f"create_domain.{name}": value for name, value in task.env_kwargs.items()}


def _run(
    asked: Asked, task: ProtocolTask, seed: int, mode: str, after: str | None, fixed: dict[str, Any]
) -> PlannedRun:
    fixed = {"Submission.run_offline_metrics_only": False, **fixed}
    for binding in asked.bindings:
        name = binding.partition("=")[0].strip()
        if name in fixed or name in _OF_THE_PLAN:
            raise ConfigError(
                f"{name} is fixed by protocol {asked.protocol.name}",
                hint="leave it out; `a2perf run` takes any configuration, outside the protocol",
            )
    file = {"train": "training.gin", "generalization": "generalization.gin"}.get(mode, f"{task.name}/inference.gin")
    flags = ["--seed", str(seed)]
    for name in _PASSED_ON:
        given = getattr(asked, name)
        flags += [f"--{name.replace('_', '-')}", given] if given else []
    flags += ["--public-seeds"] if asked.public_seeds else []
    for binding in (*asked.bindings, *(f"{name} = {value!r}" for name, value in fixed.items())):
        flags += ["--extra-gin-bindings", binding]
    env = _budget_variables(asked, task) if mode == "train" else ()
    return PlannedRun(task.name, seed, mode, after, file, tuple(flags), env)


def _budget_variables(asked: Asked, task: ProtocolTask) -> tuple[tuple[str, str], ...]:
    if asked.track == "fixed_samples":
        return ((STEPS_VARIABLE, str(task.budget.steps)),)
    if asked.track == "fixed_energy":
        return ((ENERGY_VARIABLE, repr(task.budget.energy_kwh)),)
    return ()


def _least(full: int, quick: int, asked: Asked) -> int:
    return min(full, quick) if asked.quick else full
