"""Identifies a run: its task, the content of its submission, its seeds and its Python; the start of a manifest."""

from __future__ import annotations

import difflib
import json
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from a2perf._version import __version__
from a2perf.constants import BenchmarkMode
from a2perf.domains import any_environment
from a2perf.domains.package_code import environment_package, package_sha256
from a2perf.domains.registry import ANY, HeldOutTask, find_environment, get_domain, other_engine, stored_fingerprint
from a2perf.errors import ConfigError
from a2perf.records import Manifest, RunState, TaskView
from a2perf.runs.bundles.bundle import given_resources
from a2perf.runs.bundles.inventory import artifacts_sha256, stored_artifacts
from a2perf.runs.bundles.layout import MANIFEST, bundle_path
from a2perf.sandbox import STRONGEST, strongest_level
from a2perf.storage import read_record
from a2perf.stranger_files import StrangerFileError, read_file
from a2perf.submission import configuration
from a2perf.submission.evaluator import seed_secret
from a2perf.submission.evaluator.playing.seeds import RunSeeds
from a2perf.submission.evaluator.process.participant_python import required_packages
from a2perf.submission.evaluator.submitted.folder_content import identify_submission
from a2perf.submission.given_paths import settled
from a2perf.submission.settings import Submission

_TASK_FILE_BYTES = 16 * 2**20
_NOT_ENV_KWARGS = {"env_name", "root_dir", "env_wrappers", "gym_env_wrappers", "framework"}


@dataclass(frozen=True)
class RunTask:
    """The task of a run: an environment id with its arguments.

    Attributes:
        env_id: the id alone; one that is given with its package, ``my_envs:Lander-v0``, is registered.
        env_kwargs: arguments of the evaluator's environment.
        public_kwargs: arguments that are passed to the participant; ``None`` for the same.
    """

    domain: str
    name: str
    env_id: str
    env_kwargs: dict[str, Any]
    public_kwargs: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Imports the package that the id names.

        Raises:
            ConfigError: it cannot be imported.
        """
        object.__setattr__(self, "env_id", any_environment.register(self.env_id))

    @property
    def qualified_id(self) -> str:
        """The id for another process, with the package that registers it."""
        return any_environment.qualified_id(self.env_id) if self.domain == ANY and self.env_id else self.env_id

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles it with its package, which the other process imports."""
        return RunTask, (self.domain, self.name, self.qualified_id, self.env_kwargs, self.public_kwargs)

    @classmethod
    def configured(cls, domain_name: str) -> RunTask:
        """Reads the task from ``create_domain`` in the gin configuration; the domain's first task by default.

        Raises:
            ConfigError: the id is unknown or belongs to another domain.
        """
        domain = get_domain(domain_name)
        bound = configuration.bound_parameters("create_domain")
        env_kwargs = {name: value for name, value in bound.items() if name not in _NOT_ENV_KWARGS}
        for name in env_kwargs:  # an argument of an environment, unless it is a misspelt one of create_domain itself
            if near := difflib.get_close_matches(name, _NOT_ENV_KWARGS, n=1, cutoff=0.8):
                raise ConfigError(
                    f"create_domain has no parameter {name!r}; did you mean {near[0]!r}?", hint=f"write {near[0]}"
                )
        if "env_name" not in bound and not domain.tasks:
            raise ConfigError(f"no environment of {domain.name} was chosen", hint="add `--env-id ID`")
        if "env_name" not in bound:
            first = domain.tasks[0]
            return cls(domain.name, first.name, first.env_id, {**first.kwargs, **env_kwargs})
        owner, environment = find_environment(any_environment.register(str(bound["env_name"])))
        if owner.name != domain.name:
            raise ConfigError(
                f"{bound['env_name']} belongs to {owner.name}, but Submission.domain is {domain.name}",
                hint=f"set `Submission.domain = '{owner.name}'` or choose an id of {domain.name}",
            )
        fitting = [
            task
            for task in domain.tasks
            if task.env_id == environment.id and all(env_kwargs.get(key) == value for key, value in task.kwargs.items())
        ]
        # A view of a task sets one argument more than the task.
        found = max(fitting, key=lambda task: len(task.kwargs), default=None)
        return cls(domain.name, environment.id if found is None else found.name, environment.id, env_kwargs)

    @classmethod
    def held_out(cls, domain_name: str, file: Path) -> RunTask:
        """Reads a secret task from an organizer's file; the participant gets the arguments of a public task instead.

        Raises:
            ConfigError: the file cannot be read, or its environment is unknown or belongs to another domain.
        """
        try:
            task = msgspec.json.decode(read_file(file, max_bytes=_TASK_FILE_BYTES), type=HeldOutTask)
        except (StrangerFileError, msgspec.DecodeError) as error:
            raise ConfigError(
                f"the held-out task {file} cannot be read: {error}",
                hint="create such files with `a2perf competition init`",
            ) from error
        owner, environment = find_environment(any_environment.register(task.env_id))
        if owner.name != domain_name:
            raise ConfigError(
                f"{task.env_id} belongs to {owner.name}, but Submission.domain is {domain_name}",
                hint=f"set `Submission.domain = '{owner.name}'`",
            )
        return cls(domain_name, task.name, environment.id, dict(task.kwargs), dict(task.told))

    @classmethod
    def named(cls, domain_name: str, task_name: str) -> RunTask:
        """Returns a task of the domain by name, with the arguments that the configuration adds to every task.

        Raises:
            ConfigError: the domain has no such task.
        """
        domain = get_domain(domain_name)
        task = domain.task(any_environment.register(task_name))
        bound = configuration.bound_parameters("create_domain")
        shared = {name: value for name, value in bound.items() if name not in _NOT_ENV_KWARGS}
        return cls(domain.name, task.name, task.env_id, {**shared, **task.kwargs})

    @property
    def view(self) -> TaskView | None:
        """The form in which the participant sees the task; None for the domain's default."""
        domain = get_domain(self.domain)
        arguments = domain.view_arguments(self.env_kwargs)
        return TaskView(task=domain.ranked_task(self.name), arguments=arguments) if arguments else None


def new_manifest(settings: Submission, task: RunTask, *, episodes: int) -> Manifest:
    """Returns the manifest of a run that is about to start."""
    drawn = run_seeds(settings, task, evaluates=bool(episodes))
    seeds = {**drawn.record(), "participant": drawn.draw("participant", 1)[0]}
    if episodes:
        seeds["latency"] = drawn.draw("latency", 1)[0]
        seeds["evaluation"] = "file" if settings.evaluation_seeds_file else "root seed"
        seeds["episode_count"] = episodes
    other = task.domain == ANY and bool(task.env_id)  # an environment that a2perf has no recorded fingerprint of
    recorded = stored_fingerprint(task.env_id) if task.env_id and not other else None
    engine = other_engine(task.env_id) if task.env_id and not other else ""
    found = any_environment.inspect(task.env_id, task.env_kwargs, limit_s=settings.stall_s) if other else None
    return Manifest(
        a2perf_version=__version__,
        a2perf_sha256=package_sha256(),
        mode=str(getattr(settings.mode, "value", settings.mode)),
        domain=task.domain,
        task=task.name,
        env_id=task.env_id or None,
        env_kwargs=json.loads(json.dumps(task.env_kwargs, default=str)),
        env_fingerprint=recorded if found is None else found.fingerprint,
        environment=environment_package(task.env_id) if other else None,
        warnings=[*([f"physics engine: {engine}"] if engine else ()), *(found.conditions if found else ())],
        submission=identify_submission(settings.folder, root=settings.root),
        root_seed=settings.seed,
        seeds=seeds,
        participant_args=settings.participant_args,
        command=command_line(),
        config_sha256=configuration.digest(),
        configuration=configuration.record(),
        state=RunState.RUNNING,
        attempts=[],
        repeats=settings.repeats if episodes else 1,
        concurrent_episodes=settings.concurrent_episodes if episodes else 1,
        perturbations=list(settings.perturbations) if episodes else [],
        models=[name for service in settings.services or () for name in service.names()],
        view=task.view,
        settings=identity_settings(settings),
        python={
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "executable": os.path.basename(sys.executable),
        },
    )


def identity_settings(settings: Submission) -> dict[str, Any]:
    """Returns what can change a number or a claim of a run and has no separate field in the manifest, by name."""
    found = {**settings.identity(), "cpus": None, "gpus": None, **given_resources()}
    if settings.sandbox == STRONGEST:  # a level that this host offers today, and did not offer before, is another one
        found["sandbox"] = strongest_level()
    if settings.mode is not BenchmarkMode.TRAIN:
        trained = bundle_path(Path(settings.trained_root_dir or settings.root), "train")
        found["training_artifacts"] = artifacts_sha256(stored_artifacts(trained))
    found["python"] = ".".join(platform.python_version_tuple()[:2])
    if settings.python_env == "shared":
        found["packages"] = required_packages(settings, settings.folder)
    found["configuration"] = configuration.digest(without="Submission")
    return found


def run_seeds(settings: Submission, task: RunTask, *, evaluates: bool) -> RunSeeds:
    """Returns the seeds of a new run: from a record, from the root seed alone, or keyed with the evaluator's secret.

    Raises:
        ConfigError: the record has another root seed, or the secret cannot be read or created.
    """
    if settings.seeds_from is not None:
        path = Path(settings.seeds_from).expanduser() / MANIFEST
        found = read_record(path, Manifest)
        if found.root_seed != settings.seed:
            raise ConfigError(
                f"{path} has the root seed {found.root_seed}, but this run has {settings.seed}",
                hint=f"add `--seed {found.root_seed}`",
            )
        return RunSeeds.recorded(found.root_seed, found.seeds)
    if settings.public_seeds:
        return RunSeeds(settings.seed)
    return RunSeeds.keyed(
        seed_secret.read(), settings.seed, domain=task.domain, env_id=task.env_id, evaluates=evaluates
    )


def command_line() -> list[str]:
    """Returns the command that repeats this run: the evaluator's flags are also the launcher's."""
    return ["a2perf-launch", *sys.argv[1:]]


def participant_environment(
    settings: Submission, task: RunTask, manifest: Manifest, *, root_dir: Path
) -> dict[str, str]:
    """Returns the participant's environment variables in addition to those of the sandbox.

    Raises:
        ConfigError: a variable named in ``pass_environment`` is not set.
    """
    kwargs = task.env_kwargs if task.public_kwargs is None else task.public_kwargs
    variables = {
        "ROOT_DIR": str(root_dir),
        "SEED": str(manifest.seeds["participant"]),
        "A2PERF_ENV_ID": task.qualified_id,
        "A2PERF_ENV_KWARGS": json.dumps(kwargs),
    }
    declared = get_domain(task.domain).variables
    variables.update({variable: str(kwargs[name]) for variable, name in declared.items() if name in kwargs})
    if settings.datasets_path is not None:
        variables["MINARI_DATASETS_PATH"] = str(settled(settings.datasets_path, settings.folder, "the datasets path"))
    if "CUDA_VISIBLE_DEVICES" in os.environ:  # set by a launcher that assigns devices to runs
        variables["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
    for name in settings.pass_environment:
        if name not in os.environ:
            raise ConfigError(
                f"Submission.pass_environment: the variable {name} is not set",
                hint=f"export {name}=..., or remove it from the list",
            )
        variables[name] = os.environ[name]
    return variables
