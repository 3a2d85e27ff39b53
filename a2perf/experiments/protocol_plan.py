"""The runs that a protocol requires of a submission.

A root folder ``<task>/seed_<n>`` holds the training run and the evaluation of one seed. The packaged gin files of the
task define the tracking; the settings that the protocol fixes override them binding by binding.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2perf.domains.registry import get_domain, packaged_gin_file
from a2perf.errors import ConfigError
from a2perf.experiments.planning import PlannedRun
from a2perf.launch.run_spec import RunSpec
from a2perf.metrics.protocol import Protocol, ProtocolTask, Track
from a2perf.submission.evaluator.submitted.folder_content import identify_submission
from a2perf.submission.run_options import RunOptions, service_options

STEPS_VARIABLE, ENERGY_VARIABLE = "A2PERF_TRAIN_STEPS", "A2PERF_TRAIN_ENERGY_KWH"
"""Environment variables with the budget of a training run, for the participant."""

_OF_THE_PLAN = tuple(f"Submission.{name}" for name in ("mode", "domain", "seed", "public_seeds", "seeds_from"))
RUN_OPTIONS = (
    "sandbox",
    "python_env",
    "participant_python",
    "datasets_path",
    "public_seeds",
    *(option.name for option in service_options() if not option.one_run),
)
"""Options of every run that a protocol does not fix, in the order of their flags."""


@dataclass(frozen=True)
class SubmitRequest:
    """The request of `a2perf submit`.

    Attributes:
        tasks: names of tasks or of views of them, in the protocol's order.
        bindings: further gin bindings for every run; they cannot set values that the protocol fixes.
        options: the options of every run in ``RUN_OPTIONS``. With ``public_seeds`` the protocol's rule gives the seeds
            of the episodes, and the submission can know them; by default they are derived from this evaluator's secret.
    """

    submission: Path
    protocol: Protocol
    tasks: tuple[str, ...]
    track: Track
    quick: bool = False
    generalization: bool = True
    participant_args: str = ""
    bindings: tuple[str, ...] = ()
    options: RunOptions = field(default_factory=RunOptions)

    @property
    def public_seeds(self) -> bool:
        """Whether the submission can know the episodes."""
        return bool(self.options.get("public_seeds"))

    @property
    def models(self) -> list[str]:
        """Names of the language models, or of others outside of the host, that the submission may use."""
        return [name for service in self.options.services() for name in service.names()]


def requested_tasks(found: Protocol, tasks: Sequence[str], domain: str | None) -> list[str]:
    """Returns the names of the given tasks or views of tasks, or of the core tasks of one or all domains.

    Raises:
        ConfigError: tasks and a domain are both given, no such domain, or the domain has no core task.
        UserError: the protocol does not have a task.
    """
    if tasks and domain is not None:
        raise ConfigError("--task and --domain are both given", hint="give one of them")
    if tasks:
        return [found.task(task).name for task in tasks]
    core = found.core_tasks()
    if domain is not None:
        only = get_domain(domain).name
        core = [task for task in core if task.domain == only]
        if not core:
            raise ConfigError(f"protocol {found.name} has no core task of {only}", hint="name tasks with --task")
    return [task.name for task in core]


def plan(request: SubmitRequest, folder: Path) -> list[RunSpec]:
    """Returns the runs sorted by task and seed, each named by the path of its bundle below the folder.

    Raises:
        ConfigError: a binding sets a value that the protocol fixes.
        UserError: the protocol does not have a task.
    """
    learns = trains(request.submission)
    content = identify_submission(request.submission.absolute(), root=folder).sha256
    specs: list[RunSpec] = []

    def add(task: ProtocolTask, seed: int, mode: str, fixed: Mapping[str, Any], after: RunSpec | None) -> RunSpec:
        specs.append(_spec(request, folder, content, task, seed, mode, fixed, after))
        return specs[-1]

    for name in request.tasks:
        task = request.protocol.task(name)
        generalization = request.protocol.generalization.get(task.domain)
        trained_on = None if generalization is None else generalization.trained_on
        on_this = request.generalization and trained_on == request.protocol.ranked_task(name)
        for number, seed in enumerate(seeds_of(task, request)):
            trained = add(task, seed, "train", _training(request, task), None) if learns else None
            add(task, seed, "inference", _inference(request, task, first=number == 0), trained)
            if on_this and generalization is not None:
                episodes = _least(generalization.episodes, request.protocol.quick.episodes, request)
                fixed = {
                    "Submission.num_generalization_episodes": episodes,
                    "Submission.generalization_tasks": list(generalization.tasks),
                    **_bindings(get_domain(task.domain).view_arguments(task.env_kwargs)),
                }
                add(task, seed, "generalization", fixed, trained)
    return specs


def env_ids(request: SubmitRequest, spec: RunSpec) -> list[str]:
    """Returns the ids of the environments that a run makes."""
    task = request.protocol.task(str(spec.data["task"]))
    if spec.data["mode"] != "generalization":
        return [task.env_id]
    return [get_domain(task.domain).task(name).env_id for name in request.protocol.generalization[task.domain].tasks]


def seeds_of(task: ProtocolTask, request: SubmitRequest) -> Sequence[int]:
    """Returns the training seeds of a request."""
    return task.training_seeds[: request.protocol.quick.seeds] if request.quick else task.training_seeds


def trains(submission: Path) -> bool:
    """Returns whether ``train`` of a submission does anything, from its source; nothing is executed.

    A body of a docstring, ``pass``, ``...`` or a bare ``return`` does nothing; no training run is planned then.
    """
    try:
        tree = ast.parse((submission / "train.py").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return True  # the training run reports the error
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "train"]
    if len(found) != 1:
        return True
    for statement in found[0].body:
        match statement:
            case ast.Return(value=None) | ast.Pass() | ast.Expr(value=ast.Constant()):
                continue
        return True
    return False


def _training(request: SubmitRequest, task: ProtocolTask) -> dict[str, Any]:
    fixed: dict[str, Any] = {
        "Submission.train_energy_limit_kwh": task.budget.energy_kwh if request.track == "fixed_energy" else None,
        "Submission.train_time_limit_s": request.protocol.quick.train_time_limit_s if request.quick else None,
        "create_domain.env_name": task.env_id,
    }
    passed = list(_budget_variables(request, task))
    if passed:
        fixed["Submission.pass_environment"] = passed
    return fixed | _bindings({**task.env_kwargs, **task.train_kwargs})


def _inference(request: SubmitRequest, task: ProtocolTask, *, first: bool) -> dict[str, Any]:
    evaluation, quick = task.evaluation, request.protocol.quick
    fixed: dict[str, Any] = {
        "Submission.num_inference_episodes": _least(evaluation.episodes, quick.episodes, request),
        "Submission.num_inference_steps": None,  # the scored steps are timed, and further calls if they are few
        "Submission.num_warmup_steps": _least(evaluation.warmup_calls, quick.warmup_calls, request),
        "Submission.time_participant_code": True,
        "Submission.inference_data": "fresh",
        "Submission.fresh_policy": "run",  # one policy process for all episodes
        "Submission.record_frames": 8 if first else 0,  # pictures of one seed are enough
        "create_domain.env_name": task.env_id,
    }
    return fixed | _bindings(task.env_kwargs)


def _bindings(env_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the gin bindings of arguments of the environment."""
    return {f"create_domain.{name}": value for name, value in env_kwargs.items()}


def _spec(
    request: SubmitRequest,
    folder: Path,
    content: str,
    task: ProtocolTask,
    seed: int,
    mode: str,
    fixed: Mapping[str, Any],
    after: RunSpec | None,
) -> RunSpec:
    fixed = {"Submission.run_offline_metrics_only": False, **fixed}
    for binding in request.bindings:
        name = binding.partition("=")[0].strip()
        if name in fixed or name in _OF_THE_PLAN:
            raise ConfigError(
                f"{name} is fixed by protocol {request.protocol.name}",
                hint="remove it; `a2perf run` accepts any configuration, outside the protocol",
            )
    file = {"train": "training.gin", "generalization": "generalization.gin"}.get(mode, f"{task.name}/inference.gin")
    # without a file of the task: the file that any environment of Gymnasium has
    gin_file = packaged_gin_file(task.domain, file) or packaged_gin_file(task.domain, f"{mode}.gin")
    if gin_file is None:
        raise ConfigError(f"{task.name} needs the packaged gin file {file}", hint="install a2perf again")
    place = f"{task.name}/seed_{seed}"
    run = PlannedRun(
        submission=request.submission.absolute(),
        gin_file=gin_file,
        root=(folder / place).absolute(),
        seed=seed,
        participant_args=request.participant_args,
        options=RunOptions({name: request.options.get(name) for name in RUN_OPTIONS}),
        bindings=(*request.bindings, *(f"{name} = {value!r}" for name, value in fixed.items())),
        env=_budget_variables(request, task) if mode == "train" else {},
    )
    labels = {"submission": request.submission.absolute().name, "task": task.name, "seed": seed}
    settings = [run.participant_args, run.options.words(), run.bindings, sorted(run.env.items())]
    identity = [content, file, seed, *settings]
    return run.spec(f"{place}/{mode}", mode, labels, identity=identity, domain=task.domain, after=after)


def _budget_variables(request: SubmitRequest, task: ProtocolTask) -> dict[str, str]:
    if request.track == "fixed_samples":
        return {STEPS_VARIABLE: str(task.budget.steps)}
    if request.track == "fixed_energy":
        return {ENERGY_VARIABLE: repr(task.budget.energy_kwh)}
    return {}


def _least(full: int, quick: int, request: SubmitRequest) -> int:
    return min(full, quick) if request.quick else full
