"""Environments by the name of their task: list them, make one, make several copies that step together.

Listing imports no environment; its spaces are read on first use.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from a2perf.api.views.table import Records, Table, table_html
from a2perf.domains import any_environment, registry
from a2perf.domains.availability import needed_command
from a2perf.domains.registry import Domain, Task
from a2perf.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    import gymnasium
    from gymnasium import spaces

_NAMESPACE = "a2perf:"  # `gymnasium.make("a2perf:ID")` imports a2perf first
_OF_GYMNASIUM = ("max_episode_steps", "disable_env_checker")
_OF_VECTORS = ("vector_kwargs", "wrappers")
VECTORIZATION_MODES = ("sync", "async", "vector_entry_point")
"""What ``make_vec`` can make: a loop in this process, one process per copy, or the domain's own vector environment."""


@dataclass(frozen=True)
class TaskInfo:
    """One task of the benchmark, or a registered environment id without a task.

    Attributes:
        name: the name that ``task=`` and ``--task`` take.
        title: name for people, ``"Dog, pace"``.
        domain: name of the domain.
        env_id: id in Gymnasium's registry.
        kwargs: arguments of the environment that make it this task.
        summary: one line.
    """

    name: str
    title: str
    domain: str
    env_id: str
    kwargs: Mapping[str, Any] = field(default_factory=dict, hash=False)
    summary: str = ""

    @property
    def qualified_id(self) -> str:
        """The id for another process, with the package that registers it."""
        return self.name if self.domain == registry.ANY else self.env_id

    @property
    def needs(self) -> str:
        """The command that installs or fetches what is missing, or required arguments; "" if the task is ready."""
        domain, environment = registry.find_environment(self.env_id)
        return needed_command(domain, environment) or ("" if self.kwargs else environment.required_arguments)

    @property
    def available(self) -> bool:
        """Whether ``make`` works on this machine without further arguments."""
        return not self.needs

    @property
    def role(self) -> str:
        """Its role in the latest protocol: ``"core"`` counts in the overall score, ``"test"`` does not; else ""."""
        from a2perf.metrics import protocol

        found = protocol.load().tasks.get(self.name)
        return "" if found is None else "core" if found.core else "test"

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """The space of the observations; the first use makes the environment."""
        return self._spaces[0]

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The space of the actions; the first use makes the environment."""
        return self._spaces[1]

    @functools.cached_property
    def _spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        env = make(self.name)
        try:
            return env.observation_space, env.action_space
        finally:
            env.close()

    def __str__(self) -> str:
        return self.name


class Tasks(Records[TaskInfo]):
    """An immutable sequence of tasks; a slice is one too.

    Example:
        >>> import a2perf
        >>> tasks = a2perf.tasks("circuit_training")
        >>> tasks[0].title
        'Toy circuit'
        >>> [task.name for task in tasks if task.role == "core"]
        ['toy_macro_stdcell', 'ariane']
    """

    @property
    def names(self) -> list[str]:
        """The names, in order."""
        return [task.name for task in self]

    def table(self) -> Table:
        """Returns one row per task."""
        return Table(
            {
                "task": self.names,
                "title": [task.title for task in self],
                "protocol": [task.role for task in self],
                "needs": [task.needs for task in self],
                "domain": [task.domain for task in self],
                "environment": [task.env_id for task in self],
            },
            title="Tasks",
            descriptions={
                "protocol": "core counts in the overall score of the latest protocol, test does not",
                "needs": "the command that installs or fetches what is missing, or required arguments",
            },
            kinds=dict.fromkeys(("task", "title", "protocol", "needs", "domain", "environment"), "text"),
        )

    def __repr__(self) -> str:
        width = max((len(task.name) for task in self), default=0)
        lines = [f"  {task.name:<{width}}  {task.title}" for task in self]
        return "\n".join([f"{len(self)} tasks", *lines])

    def _repr_html_(self) -> str:
        return str(table_html(self.table(), ends=len(self)))


def tasks(domain: str | None = None) -> Tasks:
    """Lists the tasks of the benchmark. Imports no environment.

    Args:
        domain: only those of this domain, ``"quadruped_locomotion"``; by default all.

    Returns:
        The tasks, domain by domain.

    Raises:
        ConfigError: no such domain; the message names the nearest one.

    Example:
        >>> import a2perf
        >>> a2perf.tasks("quadruped_locomotion").names[:3]
        ['dog_pace', 'dog_trot', 'dog_spin']
    """
    chosen = registry.domains().values() if domain is None else [registry.get_domain(domain)]
    return Tasks([_of_task(owner, task) for owner in chosen for task in owner.tasks])


def find_task(given: str | TaskInfo) -> TaskInfo:
    """Returns the task of a name; for a Gymnasium id, an entry with the id as its name and no arguments.

    Raises:
        ConfigError: no task or environment has that name; the message names the nearest one.
    """
    if isinstance(given, TaskInfo):
        return given
    if not isinstance(given, str):
        raise ConfigError(
            f"an environment is given by its id, not as a {type(given).__name__}: every run makes its own",
            hint='in a module my_envs.py: gymnasium.register("Mine-v0", make_mine); then give "my_envs:Mine-v0"',
        )
    name = given.removeprefix(_NAMESPACE)
    if name in registry.all_environments() or any_environment.is_id(name):
        owner, environment = registry.find_environment(any_environment.register(name))
        title = environment.title or environment.id
        if owner.name == registry.ANY:  # a run in another process imports the package again
            name = any_environment.qualified_id(environment.id)
            return TaskInfo(name, title, owner.name, environment.id)
        return TaskInfo(environment.id, title, owner.name, environment.id, {}, environment.summary)
    return _of_task(*registry.find_task(name))


def make(task: str | TaskInfo, *, render_mode: str | None = None, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Makes the environment of a task.

    Args:
        task: name of a task (``"dog_pace"``) or id of an environment.
        render_mode: ``"rgb_array"`` for pictures, ``"human"`` for a window; by default nothing is drawn.
        **kwargs: arguments of the environment, which override those of the task; ``max_episode_steps`` too.

    Returns:
        The environment, as ``gymnasium.make`` makes it.

    Raises:
        ConfigError: no such task, or the environment does not take an argument or its value.
        MissingDependency: a package that the domain needs is not installed; the hint installs it.
        AssetUnavailable: a data file is missing; the hint fetches it.

    Example:
        >>> import a2perf
        >>> env = a2perf.make("toy_macro_stdcell")
        >>> observation, info = env.reset(seed=0)
        >>> env.close()
    """
    from a2perf.domains.tfa.suite_gym import make_environment

    found = find_task(task)
    settings = {name: kwargs.pop(name) for name in _OF_GYMNASIUM if name in kwargs}
    drawn = {} if render_mode is None else {"render_mode": render_mode}
    env: gymnasium.Env[Any, Any] = make_environment(found.env_id, {**found.kwargs, **drawn, **kwargs}, **settings)
    return env


def make_vec(
    task: str | TaskInfo, num_envs: int = 1, *, vectorization_mode: str = "sync", **kwargs: Any
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Makes several copies of a task's environment that step together.

    Args:
        task: name of a task or id of an environment.
        num_envs: number of copies.
        vectorization_mode: ``"sync"`` steps them one after the other, ``"async"`` in one process each, and
            ``"vector_entry_point"`` uses the vector environment of the domain, if it has one.
        **kwargs: arguments of the environment, which override those of the task; ``vector_kwargs`` and ``wrappers``
            as in ``gymnasium.make_vec``.

    Returns:
        The vector environment, as ``gymnasium.make_vec`` makes it.

    Raises:
        ConfigError: no such task, no such mode, a number below 1, or an argument that the environment does not take.
        MissingDependency: a package that the domain needs is not installed; the hint installs it.
        AssetUnavailable: a data file is missing; the hint fetches it.

    Example:
        >>> import a2perf
        >>> envs = a2perf.make_vec("toy_macro_stdcell", num_envs=2)
        >>> envs.num_envs
        2
        >>> envs.close()
    """
    from a2perf.api.arguments import whole_number
    from a2perf.domains.tfa.suite_gym import make_environment

    found = find_task(task)
    mode = getattr(vectorization_mode, "value", vectorization_mode)  # a member of Gymnasium's enum, or its name
    if mode not in VECTORIZATION_MODES:
        raise ConfigError(
            f"vectorization_mode is {mode!r}{did_you_mean(str(mode), VECTORIZATION_MODES)}",
            hint=f"choose one of: {', '.join(VECTORIZATION_MODES)}",
        )
    count = whole_number("num_envs", num_envs, least=1)
    if mode == "vector_entry_point" and registry.find_environment(found.env_id)[1].vector_entry_point is None:
        raise ConfigError(f"{found.env_id} has no vector environment of its domain", hint="use 'sync' or 'async'")
    settings = {name: kwargs.pop(name) for name in (*_OF_GYMNASIUM, *_OF_VECTORS) if name in kwargs}
    if mode == "async":
        # other ways to start a process import the caller's script again, which needs a __main__ guard there
        settings["vector_kwargs"] = {"context": "fork", **(settings.get("vector_kwargs") or {})}
    envs: gymnasium.vector.VectorEnv[Any, Any, Any] = make_environment(
        found.env_id, {**found.kwargs, **kwargs}, num_envs=count, vectorization_mode=mode, **settings
    )
    return envs


def _of_task(owner: Domain, task: Task) -> TaskInfo:
    return TaskInfo(task.name, task.title or task.name, owner.name, task.env_id, dict(task.kwargs), task.summary)
