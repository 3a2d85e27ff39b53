"""``create_domain``: the environment that a gin file describes.

The name and the parameters are those of the earlier public platform, so that its gin files go on working
(``create_domain.env_name = ...``, any further ``create_domain.<kwarg>``). The Gymnasium environment needs nothing of
TensorFlow; importing this module imports neither Gymnasium nor a domain.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gin

from a2perf.domains.registry import find_environment, load_attribute, register_environments
from a2perf.errors import ConfigError, MissingDependency, did_you_mean

if TYPE_CHECKING:
    import gymnasium


@gin.configurable(module="suite_gym")
def create_domain(
    env_name: str | None = None,
    root_dir: str | None = None,
    env_wrappers: Sequence[Callable[[Any], Any]] = (),
    gym_env_wrappers: Sequence[Callable[[Any], Any]] = (),
    **env_kwargs: Any,
) -> gymnasium.Env[Any, Any]:
    """Makes the configured environment.

    Args:
        env_name: a registered id or alias; by default the one in ``A2PERF_ENV_ID``.
        root_dir: folder of the run, for domains that write files; by default ``ROOT_DIR``.
        env_wrappers: wrappers applied last.
        gym_env_wrappers: wrappers applied first, directly around the environment.
        **env_kwargs: keyword arguments of the environment; they override ``A2PERF_ENV_KWARGS``.

    Returns:
        The Gymnasium environment.

    Raises:
        ConfigError: no id was given, the id is unknown, or the environment does not take an argument.
        MissingDependency: the domain's extra is not installed.
    """
    del root_dir  # no domain writes files yet unless an argument of its own asks for it
    if env_name is None:
        env_name = os.environ.get("A2PERF_ENV_ID")
        env_kwargs = {**json.loads(os.environ.get("A2PERF_ENV_KWARGS", "{}")), **env_kwargs}
    if not env_name:
        raise ConfigError(
            "create_domain was given no env_name and A2PERF_ENV_ID is not set",
            mend="add `create_domain.env_name = '<id>'` to the gin file; `a2perf envs list` shows the ids",
        )
    env: Any = make_environment(env_name, env_kwargs)
    for wrapper in (*gym_env_wrappers, *env_wrappers):
        env = wrapper(env)
    return env  # type: ignore[no-any-return]


def make_environment(env_id: str, env_kwargs: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    """Makes a registered environment, with errors that a person can mend.

    Raises:
        ConfigError: unknown id, or an argument that the environment does not take.
        MissingDependency: the domain's extra is not installed.
    """
    domain, environment = find_environment(env_id)
    import gymnasium

    register_environments()
    try:
        constructor = load_attribute(environment.entry_point)
        _check_arguments(env_id, constructor, env_kwargs)
        return gymnasium.make(env_id, **env_kwargs)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] not in domain.requires:
            raise
        raise MissingDependency(
            f"{env_id} needs the package {error.name!r}, which is not installed",
            mend=f"pip install 'a2perf[{domain.extra}]'",
        ) from error


def _check_arguments(env_id: str, constructor: Callable[..., Any], env_kwargs: dict[str, Any]) -> None:
    import inspect

    parameters = inspect.signature(constructor).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in env_kwargs:
        if name not in parameters:
            raise ConfigError(
                f"{env_id} takes no argument {name!r}{did_you_mean(name, parameters)}",
                mend=f"its arguments are: {', '.join(parameters)}",
            )
