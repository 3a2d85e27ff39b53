"""Records of domains, environments and tasks, and the registry of all domains.

A domain is one frozen record. It names everything that the rest of the package needs of a domain as
``"module:attribute"`` strings, so listing the domains imports none of their dependencies. The built-in domains are the
members of ``BenchmarkDomain`` that have a folder; further ones come from the ``a2perf.domains`` entry point of an
installed package.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import json
import logging
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from a2perf.assets import Asset
from a2perf.constants import BenchmarkDomain
from a2perf.domains import any_environment
from a2perf.domains.host_support import Program, Support
from a2perf.errors import ConfigError, did_you_mean
from a2perf.plugins import entry_points

DOMAINS_FOLDER = Path(__file__).parent
DEFAULT_CONFIGS = DOMAINS_FOLDER.parent / "submission" / "configs"
"""Folder of the default gin files of every domain."""
ANY = "gymnasium"
"""Name of the domain of all other environments of Gymnasium, see ``any_environment``; ``domains`` leaves it out."""
_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Environment:
    """One registered environment id.

    Attributes:
        id: Gymnasium id with its version, ``"Name-Variant-v0"``.
        entry_point: ``"module:callable"`` that makes the environment; imported on first use.
        title: name for people, ``"Dog, pace"``.
        requires: importable modules that it needs beside those of its domain.
        install: how to get them, where the extra of the domain does not install them.
        assets: names of the data files that it cannot be made without.
        ranking: ids with different values are never ranked in one table (the physics engine, the compat rules).
        engine: distribution and version of the physics engine with which its reference scores were measured.
        vector_entry_point: ``"module:callable"`` that makes a vector environment, if the domain has one.
        example: keyword arguments for trying an id that requires some.
        max_episode_steps: largest number of steps of an episode with these arguments, which the environment ends by
            itself; ``gymnasium.spec`` shows it.
        pictures: ``"module:function"`` that draws states of the environment, its ``picture_state`` per row of an array,
            as RGB pictures. A run then records states, and a report draws them; without it a run draws by itself. The
            array may come from a stranger: the function raises ValueError for one that it cannot draw.
    """

    id: str
    entry_point: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    title: str = ""
    summary: str = ""
    requires: tuple[str, ...] = ()
    install: str = ""
    assets: tuple[str, ...] = ()
    ranking: str = ""
    engine: str = ""
    vector_entry_point: str | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    max_episode_steps: int | None = None
    pictures: str | None = None

    @property
    def required_arguments(self) -> str:
        """Example of the arguments that it cannot be made without; "" if it requires none."""
        shown = ", ".join(f"{name}={value!r}" for name, value in self.example.items())
        return f"arguments: {shown}" if shown else ""


@dataclass(frozen=True)
class Task:
    """One environment id plus the keyword arguments that make it a task of the benchmark.

    Attributes:
        title: name for people, ``"Level 2, 10 websites"``; `task_title` falls back to the name.
        view_of: name of the task that this one shows in another form; ``""`` if it is a task itself. The arguments of
            both differ only in ``Domain.views``, so episodes and returns are the same, and results are ranked together.
    """

    name: str
    env_id: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    summary: str = ""
    view_of: str = ""


@dataclass(frozen=True)
class HeldOutTask:
    """A task that an organizer generates and keeps secret until all entries were evaluated on it.

    Attributes:
        told: keyword arguments of the public task that the participant sees instead, with the same spaces.
    """

    name: str
    env_id: str
    kwargs: Mapping[str, Any]
    told: Mapping[str, Any]


@dataclass(frozen=True)
class DemonstrationRun:
    """One command of ``a2perf demo``, as a domain declares it (``Domain.demonstration``).

    Attributes:
        folder: of the run, below the demonstration's folder.
        gin_file: name of a packaged gin file below the domain's.
        first_number_s: approximate time to the first number, s; quick runs come first.
        progress: a file of the run; its new lines are shown during the run. Empty for none.
    """

    title: str
    folder: str
    submission: str
    gin_file: str
    bindings: tuple[str, ...] = ()
    participant_args: str = ""
    first_number_s: float = 0.0
    progress: str = ""


@dataclass(frozen=True)
class Perturbation:
    """A change of the environments of a domain under which the evaluator plays episodes again.

    The task stays solvable, the spaces stay the same, and an episode depends only on its seed and the actions.

    Attributes:
        wrapper: ``"module:function"``: takes a made environment, which it owns from then on, and returns the changed
            one. See ``perturbation.SeededWrapper``.
    """

    name: str
    wrapper: str
    summary: str


@dataclass(frozen=True)
class SubmissionForm:
    """Another form of a submission: one file with one function instead of train.py and inference.py.

    Attributes:
        file: the file that defines the function, ``"placer.py"``.
        expected: its signature in messages, ``"place(benchmark)"``.
        adapter: ``"module:function"``, called in the participant process with the function; returns ``load_policy``,
            ``preprocess_observation`` and ``infer_once``.
        prepare: ``"module:function"``, called without arguments in the evaluator before the participant starts; none if
            empty. Sandboxes see what it leaves in the kernel cache.
        template: folder of a submission of this form, which ``a2perf init`` offers by the name of the file.
    """

    file: str
    function: str
    expected: str
    adapter: str
    prepare: str = ""
    template: Path | None = None


@dataclass(frozen=True)
class Domain:
    """A family of environments with its tasks, assets and extra dependencies.

    Attributes:
        name: the registered name and the name of its folder of gin files.
        assets: data files that are not shipped; fetched by name and checksum.
        data_commands: ``"module:group"`` of a click group shown under ``a2perf data``.
        carries: files outside the package that its environments read: path below the domain's folder ->
            ``"module:function"`` that finds the file. They are copied into isolated Python environments.
        held_out: ``"module:function"`` that generates tasks for a competition: called with their number and a seed, it
            returns ``HeldOutTask`` records; the same seed gives the same ones.
        demonstration: ``"module:function"`` that returns its part of ``a2perf demo``: called with the seconds that a
            training run may take, it returns ``DemonstrationRun`` records.
        variables: environment variables of the participant process, each with the keyword argument of the task that
            it repeats.
        settable: keyword arguments of its environments that a submission's own gin file may set beside those of a
            task, each with the values that it may have.
        path_arguments: keyword arguments of its environments that name files or folders; the participant's process may
            read these.
        competition_profiles: ``"module:attribute"`` of each `competition_profile.CompetitionProfile` by name.
        views: keyword arguments of its environments that only change what a participant observes and how it writes its
            actions, each with its default. Seeds, dynamics and rewards do not depend on them.
        folder: of a domain outside a2perf: its folder with ``configs/TASK/*.gin`` and ``data/fingerprints.json``.
    """

    name: str
    title: str
    summary: str
    extra: str
    environments: tuple[Environment, ...]
    tasks: tuple[Task, ...]
    generalization_tasks: tuple[str, ...]
    assets: tuple[Asset, ...] = ()
    requires: tuple[str, ...] = ()
    data_commands: Mapping[str, str] = field(default_factory=dict)
    carries: Mapping[str, str] = field(default_factory=dict)
    held_out: str | None = None
    programs: tuple[Program, ...] = ()
    support: tuple[Support, ...] = ()
    demonstration: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    settable: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    path_arguments: tuple[str, ...] = ()
    perturbations: tuple[Perturbation, ...] = ()
    forms: tuple[SubmissionForm, ...] = ()
    competition_profiles: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def home(self) -> Path:
        """Folder with ``configs/TASK/*.gin`` and ``data/fingerprints.json``."""
        return self.folder or DOMAINS_FOLDER / self.name

    def perturbation(self, name: str) -> Perturbation:
        """Returns the perturbation of that name.

        Raises:
            ConfigError: no such perturbation; the message lists those that exist.
        """
        known = {perturbation.name: perturbation for perturbation in self.perturbations}
        return _looked_up(known, name, f"a perturbation of {self.name}", None if known else "it has no perturbations")

    def task(self, name: str) -> Task:
        """Returns the task of that name.

        Raises:
            ConfigError: no such task; the message lists those that exist.
        """
        return _looked_up({task.name: task for task in self.tasks}, name, f"a task of {self.name}")

    def ranked_task(self, name: str) -> str:
        """Returns the name of the task that results of a task are ranked on; an unknown name is returned as it is."""
        return next((task.view_of or name for task in self.tasks if task.name == name), name)

    def views_of(self, name: str) -> list[Task]:
        """Returns the tasks that show the task of that name in another form."""
        return [task for task in self.tasks if task.view_of == name]

    def view_arguments(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns those of an environment's arguments that select another view than the default."""
        return {name: kwargs[name] for name, default in self.views.items() if kwargs.get(name, default) != default}


class _AnyDomain(Domain):
    """Its tasks are the ids of Gymnasium, which are looked up when they are named."""

    def task(self, name: str) -> Task:
        return Task(name, find_environment(name)[1].id)


ANY_DOMAIN: Domain = _AnyDomain(
    name=ANY,
    title="Gymnasium",
    summary="Any environment that is registered with Gymnasium, by its id: CartPole-v1, HalfCheetah-v5, your own.",
    extra="",
    environments=(),
    tasks=(),
    generalization_tasks=(),
)


@functools.cache
def domains() -> Mapping[str, Domain]:
    """Returns every known domain by name; one that fails to load is logged and left out."""
    found: dict[str, Domain] = {}
    for name in (member.value for member in BenchmarkDomain):
        if not (DOMAINS_FOLDER / name).is_dir():  # the platform works without its engines
            continue
        try:
            found[name] = importlib.import_module(f"a2perf.domains.{name}").DOMAIN
        except (ImportError, AttributeError) as error:  # one broken domain must not take the others down
            _log.warning("domain %s is left out: %s", name, error)
    for entry in entry_points("a2perf.domains"):
        if entry.name in found:
            continue
        try:
            domain = entry.load()
        except Exception as error:  # a broken plug-in must not take the platform down
            _log.warning("domain %s (from %s) is left out: %s", entry.name, entry.value, error)
            continue
        if not isinstance(domain, Domain):
            _log.warning("domain %s (from %s) is left out: it is not a Domain record", entry.name, entry.value)
            continue
        found[domain.name] = domain
    return MappingProxyType(found)


def get_domain(given: str | BenchmarkDomain) -> Domain:
    """Returns the domain of that enum member or name.

    Raises:
        ConfigError: no such domain; the message lists those that exist.
    """
    name = given.value if isinstance(given, BenchmarkDomain) else str(given)
    if name.lower() == ANY:
        return ANY_DOMAIN
    return _looked_up(domains(), name.lower(), "a known domain")


def gin_folders(domain: str) -> tuple[Path, Path]:
    """Returns the folders of a domain's packaged gin files: its defaults, and those of its tasks by name.

    Raises:
        ConfigError: no such domain.
    """
    found = get_domain(domain)
    return DEFAULT_CONFIGS / found.name, found.home / "configs"


def packaged_gin_file(domain: str, name: str) -> Path | None:
    """Returns a packaged gin file: a default, ``"training.gin"``, or one of a task, ``"dog_pace/inference.gin"``."""
    return next((file for folder in gin_folders(domain) if (file := folder / name).is_file()), None)


def all_environments() -> dict[str, tuple[Domain, Environment]]:
    """Returns every id and alias with its domain and record."""
    table: dict[str, tuple[Domain, Environment]] = {}
    for domain in domains().values():
        for environment in domain.environments:
            for name in (environment.id, *environment.aliases):
                table[name] = (domain, environment)
    return table


def find_environment(env_id: str) -> tuple[Domain, Environment]:
    """Returns the domain and record of an id or alias.

    Raises:
        ConfigError: unknown id, with the nearest known one.
    """
    known = all_environments()
    if env_id not in known and any_environment.is_id(env_id):
        try:
            limit = any_environment.max_episode_steps(env_id)
        except ConfigError:
            if not did_you_mean(env_id, known):
                raise
        else:
            return ANY_DOMAIN, Environment(id=env_id, entry_point="", ranking=env_id, max_episode_steps=limit)
    return _looked_up(known, env_id, "a known environment", "`a2perf envs list` shows every id")


def find_task(name: str) -> tuple[Domain, Task]:
    """Returns the task of a name and its domain. An environment id is a task too, and may name the package to import.

    The task of such an id has the package in its ``env_id``: another process can import it.

    Raises:
        ConfigError: no domain has a task of that name, with the nearest known one.
    """
    # Backwards: of several tasks with one name that of the first domain counts.
    every = [(domain, task) for domain in domains().values() for task in domain.tasks][::-1]
    known = {task.name: (domain, task) for domain, task in every}
    if name not in known and any_environment.is_id(name):
        owner, environment = find_environment(any_environment.register(name))
        env_id = environment.id if owner is not ANY_DOMAIN else any_environment.qualified_id(environment.id)
        return owner, Task(environment.id, env_id)
    return _looked_up(known, name, "a task of any domain", "choose a task from `a2perf envs list`")


def _looked_up(known: Mapping[str, T], name: str, what: str, hint: str | None = None) -> T:
    """Returns what a name stands for; the hint of the error about an unknown one has all names by default."""
    if name not in known:
        hint = hint or f"choose one of: {', '.join(known) or ANY}"
        raise ConfigError(f"{name!r} is not {what}{did_you_mean(name, known)}", hint=hint)
    return known[name]


def stored_fingerprint(env_id: str) -> str | None:
    """Returns the recorded hash of an id, or None if none is shipped; reads one small file.

    It is of the spaces of the id and of short traces; ``tests/fingerprints`` computes and compares them. A change that
    alters an environment needs a new version of it. A bundle records the hash of its environment.
    """
    known = all_environments().get(env_id)
    recorded = None if known is None else recorded_fingerprints(known[0].name).get(known[1].id)
    return None if recorded is None else str(recorded["sha256"])


def installed_engine(name: str) -> str:
    """Returns distribution and version of an installed physics engine or of its build for ARM; "" without one."""
    for distribution in (name, f"{name}-arm64"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return f"{distribution} {importlib.metadata.version(distribution)}"
    return ""


def other_engine(env_id: str) -> str:
    """Returns the build of the engine that simulates an id here; "" if it is that of the reference scores."""
    measured = find_environment(env_id)[1].engine
    found = installed_engine(measured.partition(" ")[0]) if measured else ""
    here = f"{platform.system()} {platform.machine()}"
    is_same = (found, here) == (measured, "Linux x86_64")
    return f"{found} on {here}, references with {measured}" if found and not is_same else ""


def recorded_fingerprints(domain: str) -> Mapping[str, Any]:
    """Returns the recorded fingerprints of a domain by id; empty if none are shipped."""
    try:
        text = (get_domain(domain).home / "data" / "fingerprints.json").read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    recorded: Mapping[str, Any] = json.loads(text)
    return recorded


def register_environments() -> None:
    """Registers every id and alias with Gymnasium; calling it again changes nothing.

    ``import a2perf`` calls it as soon as Gymnasium is there.
    """
    import gymnasium

    from a2perf.domains.episode_length import OwnLengthSpec

    for name, (_, environment) in all_environments().items():
        if name not in gymnasium.registry:
            gymnasium.registry[name] = OwnLengthSpec(
                id=name,
                entry_point=environment.entry_point,
                vector_entry_point=environment.vector_entry_point,
                kwargs=dict(environment.kwargs),
                max_episode_steps=environment.max_episode_steps,
            )


def load_attribute(reference: str) -> Any:
    """Imports ``"module:attribute"`` and returns the attribute."""
    module, _, attribute = reference.partition(":")
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return loaded
