"""``create_domain``, ``load`` and ``wrap_env``: the environment that a gin file describes.

Names and parameters are those of the earlier public platform, and its gin files still work
(``create_domain.env_name = ...``, any further ``create_domain.<kwarg>``, ``load.discount``, ``wrap_env.auto_reset``).
The Gymnasium environment needs nothing of TensorFlow; importing this module imports neither Gymnasium, nor TF-Agents,
nor a domain. ``load`` and ``wrap_env`` always make a TF-Agents environment; ``create_domain`` does so when asked.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gin

from a2perf.domains import any_environment
from a2perf.domains.registry import ANY, all_environments, find_environment, load_attribute, register_environments
from a2perf.errors import ConfigError, MissingDependency, did_you_mean, install_hint

if TYPE_CHECKING:
    import gymnasium

FRAMEWORKS = ("gymnasium", "tf_agents")
"""What ``create_domain`` can make."""

Wrapper = Callable[[Any], Any]


@gin.configurable(module="suite_gym")
def create_domain(
    env_name: str | None = None,
    root_dir: str | None = None,
    env_wrappers: Sequence[Wrapper] = (),
    gym_env_wrappers: Sequence[Wrapper] = (),
    framework: str | None = None,
    **env_kwargs: Any,
) -> Any:
    """Makes the configured environment.

    Args:
        env_name: a registered id or alias; by default the one in ``A2PERF_ENV_ID``.
        root_dir: folder of the run, for domains that write files; by default ``ROOT_DIR``.
        env_wrappers: wrappers applied last, around the environment of the framework.
        gym_env_wrappers: wrappers applied first, directly around the Gymnasium environment.
        framework: ``"gymnasium"``, or ``"tf_agents"`` for the environment of ``load`` with actions clipped to their
            range. By default TF-Agents if ``env_wrappers`` contains a wrapper of TF-Agents, otherwise Gymnasium.
        **env_kwargs: keyword arguments of the environment; they override ``A2PERF_ENV_KWARGS``.

    Returns:
        The ``gymnasium.Env``, or the ``tf_agents.environments.PyEnvironment``.

    Raises:
        ConfigError: no id was given, the id is unknown, the environment does not take an argument, or the framework
            does not exist or does not fit the wrappers.
        MissingDependency: the domain's extra is not installed, or TF-Agents is requested and not installed.
    """
    del root_dir  # no domain writes files yet, except where its own arguments name them
    framework = _framework(framework, env_wrappers)
    if env_name is None:
        env_name = os.environ.get("A2PERF_ENV_ID")
        env_kwargs = {**json.loads(os.environ.get("A2PERF_ENV_KWARGS", "{}")), **env_kwargs}
    if not env_name:
        raise ConfigError(
            "create_domain was given no env_name and A2PERF_ENV_ID is not set",
            hint="add `create_domain.env_name = '<id>'` to the gin file; `a2perf envs list` shows the ids",
        )
    if framework == "tf_agents":
        # ``load`` takes any id of Gymnasium; this function only known ones
        find_environment(any_environment.register(env_name))
        wrappers = (_clip_actions, *env_wrappers)
        return load(env_name, gym_env_wrappers=gym_env_wrappers, env_wrappers=wrappers, gym_kwargs=env_kwargs)
    return _wrapped(make_environment(env_name, env_kwargs), (*gym_env_wrappers, *env_wrappers))


@gin.configurable(module="suite_gym")
def load(
    environment_name: str,
    discount: float = 1.0,
    max_episode_steps: int | None = None,
    gym_env_wrappers: Sequence[Wrapper] = (),
    env_wrappers: Sequence[Wrapper] = (),
    spec_dtype_map: Mapping[Any, Any] | None = None,
    gym_kwargs: Mapping[str, Any] | None = None,
    render_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Makes a registered Gymnasium environment as a TF-Agents one.

    Args:
        environment_name: an id of a2perf or any other id that Gymnasium knows.
        discount: that of every step but a terminal one, in [0, 1].
        max_episode_steps: steps after which an episode is truncated; by default as registered; 0 for no limit.
        gym_env_wrappers: wrappers of the Gymnasium environment, the first innermost.
        env_wrappers: wrappers of the TF-Agents environment, the first innermost.
        spec_dtype_map: dtypes by kind of space, ``{"Box": numpy.float32}``; the keys are classes or their names.
        gym_kwargs: keyword arguments of the environment, ``render_mode`` among them.
        render_kwargs: keyword arguments of the environment's ``render``, where it takes any.

    Returns:
        The ``tf_agents.environments.PyEnvironment``.

    Raises:
        ConfigError: unknown id, or an argument that does not fit.
        MissingDependency: TF-Agents or what the environment needs is not installed.
    """
    gym_env, registered_limit = _without_time_limit(environment_name, dict(gym_kwargs or {}))
    try:
        return wrap_env(
            gym_env,
            discount=discount,
            max_episode_steps=registered_limit if max_episode_steps is None else max_episode_steps,
            gym_env_wrappers=gym_env_wrappers,
            env_wrappers=env_wrappers,
            spec_dtype_map=spec_dtype_map,
            render_kwargs=render_kwargs,
        )
    except BaseException:
        gym_env.close()
        raise


def time_limit(env: Any, duration: int) -> Any:
    """Wraps an environment in TF-Agents' own ``TimeLimit``, which leaves the discount of the last step alone."""
    from a2perf.domains.tfa.legacy_keras import tf_agents_module

    return tf_agents_module("environments.wrappers").TimeLimit(env, duration)


@gin.configurable(module="suite_gym")
def wrap_env(
    gym_env: gymnasium.Env[Any, Any],
    discount: float = 1.0,
    max_episode_steps: int | None = None,
    gym_env_wrappers: Sequence[Wrapper] = (),
    time_limit_wrapper: Callable[[Any, int], Any] = time_limit,
    env_wrappers: Sequence[Wrapper] = (),
    spec_dtype_map: Mapping[Any, Any] | None = None,
    auto_reset: bool = True,
    render_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Makes a TF-Agents environment of a Gymnasium one.

    Args:
        gym_env: the environment; the result closes it.
        discount: that of every step but a terminal one, in [0, 1].
        max_episode_steps: steps after which ``time_limit_wrapper`` ends an episode; ``None`` or 0 for no such wrapper.
        gym_env_wrappers: wrappers of the Gymnasium environment, the first innermost.
        time_limit_wrapper: called with the TF-Agents environment and the number of steps.
        env_wrappers: wrappers of the TF-Agents environment, the first innermost.
        spec_dtype_map: dtypes by kind of space; see ``load``.
        auto_reset: whether ``step`` after the last step of an episode starts the next one and ignores the action.
        render_kwargs: keyword arguments of the environment's ``render``, where it takes any.

    Returns:
        The ``tf_agents.environments.PyEnvironment``.

    Raises:
        ConfigError: the discount is outside [0, 1], or ``spec_dtype_map`` names no kind of space.
        MissingDependency: TF-Agents or TensorFlow is not installed.
        SpaceMismatch: a space is not an array of fixed shape.
    """
    if not 0.0 <= discount <= 1.0:
        raise ConfigError(f"a discount of {discount!r} was given", hint="give a discount between 0 and 1")
    from a2perf.domains.tfa.py_environment import GymnasiumEnvironment

    env: Any = GymnasiumEnvironment(
        _wrapped(gym_env, gym_env_wrappers),
        discount=discount,
        spec_dtype_map=spec_dtype_map,
        auto_reset=auto_reset,
        render_kwargs=dict(render_kwargs or {}),
    )
    if max_episode_steps is not None and max_episode_steps > 0:
        env = time_limit_wrapper(env, max_episode_steps)
    return _wrapped(env, env_wrappers)


def _wrapped(env: Any, wrappers: Sequence[Wrapper]) -> Any:
    for wrapper in wrappers:
        env = wrapper(env)
    return env


def _framework(asked: str | None, env_wrappers: Sequence[Wrapper]) -> str:
    theirs = [wrapper for wrapper in env_wrappers if _is_of_tf_agents(wrapper)]
    if asked is None:
        return "tf_agents" if theirs else "gymnasium"
    if asked not in FRAMEWORKS:
        raise ConfigError(
            f"create_domain was given framework={asked!r}{did_you_mean(asked, FRAMEWORKS)}",
            hint=f"choose one of: {', '.join(FRAMEWORKS)}",
        )
    if theirs and asked == "gymnasium":
        names = ", ".join(getattr(wrapper, "__name__", repr(wrapper)) for wrapper in theirs)
        raise ConfigError(
            f"create_domain was asked for a Gymnasium environment, but {names} wraps one of TF-Agents",
            hint="remove it from create_domain.env_wrappers, where the evaluator sees it, and give it in train.py",
        )
    return asked


def _is_of_tf_agents(wrapper: Wrapper) -> bool:
    """Returns whether it is a wrapper of TF-Agents; nothing is imported, as a wrapper implies that TF-Agents is."""
    wrappers = sys.modules.get("tf_agents.environments.wrappers")
    if wrappers is None:
        return False
    given = wrapper.func if isinstance(wrapper, functools.partial) else wrapper
    return isinstance(given, type) and issubclass(given, wrappers.PyEnvironmentBaseWrapper)


def _clip_actions(env: Any) -> Any:
    from a2perf.domains.tfa.py_environment import clip_actions

    return clip_actions(env)


def _without_time_limit(env_id: str, env_kwargs: dict[str, Any]) -> tuple[gymnasium.Env[Any, Any], int | None]:
    """Makes an environment that nothing truncates but itself; returns the registered limit as well."""
    if env_id in all_environments():
        return make_environment(env_id, env_kwargs), None  # ours count for themselves
    import gymnasium

    register_environments()
    registered = any_environment.register(env_id)
    env = any_environment.make(registered, env_kwargs, max_episode_steps=-1)
    return env, gymnasium.spec(registered).max_episode_steps


def make_environment(env_id: str, env_kwargs: Mapping[str, Any], **of_gymnasium: Any) -> Any:
    """Makes a registered environment, or a vector environment of several copies, with errors that name the fix.

    Args:
        env_id: an id; the package of ``my_envs:Lander-v0`` is imported.
        **of_gymnasium: further arguments of ``gymnasium.make``; with ``num_envs``, of ``gymnasium.make_vec``.

    Raises:
        ConfigError: unknown id, or an argument that the environment does not take.
        MissingDependency: the domain's extra is not installed; the hint is the command that installs it.
    """
    domain, environment = find_environment(any_environment.register(env_id))
    if domain.name == ANY:
        return any_environment.make(environment.id, env_kwargs, **of_gymnasium)
    import gymnasium

    register_environments()
    make: Callable[..., Any] = gymnasium.make_vec if "num_envs" in of_gymnasium else gymnasium.make
    try:
        _check_arguments(env_id, load_attribute(environment.entry_point), env_kwargs)
        with warnings.catch_warnings():
            # records and protocols name older versions on purpose
            warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)
            return make(env_id, **of_gymnasium, **env_kwargs)
    except ModuleNotFoundError as error:
        top = None if error.name is None else error.name.split(".")[0]
        if top is not None and top not in (*domain.requires, *environment.requires):
            raise
        raise MissingDependency(
            f"{env_id} needs the package {error.name!r}, which is not installed",
            hint=environment.install or install_hint(domain.extra),
        ) from error


def _check_arguments(env_id: str, constructor: Callable[..., Any], env_kwargs: Mapping[str, Any]) -> None:
    import inspect

    parameters = inspect.signature(constructor).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in env_kwargs:
        if name not in parameters:
            raise ConfigError(
                f"{env_id} takes no argument {name!r}{did_you_mean(name, parameters)}",
                hint=f"its arguments are: {', '.join(parameters)}",
            )
