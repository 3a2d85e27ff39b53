"""The domain ``gymnasium``: every environment that Gymnasium has registered, one task per id, scored by its raw return.

The package of an environment is code that the organizer trusts: the evaluator imports it, and a run records its version
and the hash of its files. It is registered by Gymnasium itself, by the entry point ``gymnasium.envs`` of an installed
package, or by naming the package: ``my_envs:Lander-v0``.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import re
import warnings
from collections.abc import Mapping
from typing import Any

from a2perf.errors import ConfigError, MissingDependency
from a2perf.system import stall_limit

FINGERPRINT_EPISODES = 3
FINGERPRINT_STEPS = 100
ACTION_SEED = 104_729
"""Random actions are drawn with another seed than the episode, else they repeat the draws of the environment."""
STALL_S = 300.0
"""Longest time in seconds that an environment may take to be made or checked."""
LONGEST_EPISODE = 10_000
"""Steps after which an episode is truncated if its id has no registered limit."""
_IDS = re.compile(r"(?:(?P<module>[\w.]+):)?(?P<id>(?:[\w:-]+/)?[\w:.-]+?-v\d+)")
_named: dict[str, str] = {}  # id -> the module that was given with it; its class may be of another package
_SPACES = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict", "Tuple", "Text", "Sequence")


def is_id(name: str) -> bool:
    """Returns whether a name has the form of an id: ``CartPole-v1``, ``ALE/Pong-v5``, ``my_envs:Lander-v0``."""
    return _IDS.fullmatch(name) is not None


def register(name: str) -> str:
    """Imports the package of ``my_envs:Lander-v0``, which registers its environments, and returns the id alone.

    Only for names that the organizer gave: importing runs the package's code.

    Raises:
        ConfigError: the package cannot be imported.
    """
    found = _IDS.fullmatch(name)
    if found is None or found["module"] is None:
        return name
    if found["module"] != "a2perf":
        try:
            importlib.import_module(found["module"])
        except ImportError as error:
            raise ConfigError(
                f"{name}: the package {found['module']} cannot be imported: {error}",
                hint="install it, or run where it can be imported",
            ) from error
        _named[found["id"]] = found["module"]
    return found["id"]


def max_episode_steps(env_id: str) -> int:
    """Returns the registered limit of an id's episodes, by default ``LONGEST_EPISODE``.

    Raises:
        ConfigError: no such id, with the versions that exist, or only a vector environment.
    """
    import gymnasium

    try:
        spec = gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        message = str(error).replace(" [ ", " ").replace(" ]", "").rstrip(".")
        raise ConfigError(
            f"{env_id!r} is not a known environment: {message}",
            hint="`a2perf envs list` shows a2perf's; name the package of another one: --env-id my_envs:ID",
        ) from error
    if spec.entry_point is None:
        raise ConfigError(
            f"{env_id} is only registered as a vector environment",
            hint="register an environment for one episode at a time, with entry_point=",
        )
    return spec.max_episode_steps or LONGEST_EPISODE


def make(env_id: str, kwargs: Mapping[str, Any], **of_gymnasium: Any) -> Any:
    """Makes an environment with its registered wrappers; see ``suite_gym.make_environment``.

    Raises:
        ConfigError: it refuses its arguments, has a space of another kind, or needs a display.
        MissingDependency: a package that it needs is not installed.
    """
    import gymnasium

    maker = gymnasium.make_vec if "num_envs" in of_gymnasium else gymnasium.make
    given = {**of_gymnasium, **kwargs}
    if maker is gymnasium.make and gymnasium.spec(env_id).max_episode_steps is None:
        given = {"max_episode_steps": LONGEST_EPISODE, **given}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)  # records name older versions
            with stall_limit(STALL_S):
                env: Any = maker(env_id, **given)
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        raise _missing(env_id, error) from error
    except (Exception, SystemExit) as error:  # of any kind: its constructor is not ours
        shown = f" with {dict(kwargs)}" if kwargs else ""
        raise ConfigError(
            f"{env_id} cannot be made{shown}: {type(error).__name__}: {_line(error)}", hint="correct its arguments"
        ) from error
    if isinstance(env.unwrapped, gymnasium.vector.VectorEnv) and "num_envs" not in of_gymnasium:
        env.close()
        raise ConfigError(f"{env_id} steps several episodes at once", hint="register it for one episode at a time")
    for name in ("observation_space", "action_space"):
        if unknown := _unknown_space(getattr(env, name)):
            env.close()
            raise ConfigError(
                f"the {name} of {env_id} is of the unknown kind {unknown}", hint=f"use spaces of {', '.join(_SPACES)}"
            )
    return env


def check_api(env_id: str, kwargs: Mapping[str, Any], *, limit_s: float = STALL_S) -> None:
    """Checks an environment with Gymnasium's checker, in a separate copy.

    Raises:
        ConfigError: it breaks a rule of Gymnasium's API; the message names it.
    """
    from gymnasium.error import DependencyNotInstalled
    from gymnasium.utils.env_checker import check_env

    env = make(env_id, kwargs, disable_env_checker=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice, for example on infinite bounds
            with stall_limit(limit_s):
                check_env(env.unwrapped, skip_render_check=True)
    except DependencyNotInstalled as error:  # to draw: of one with render_mode="human"
        raise _missing(env_id, error) from error
    except (Exception, SystemExit) as error:  # the checker asserts, and the environment may raise
        text = _line(error) if isinstance(error, Exception) else repr(error)
        raise ConfigError(f"{env_id} breaks a rule of Gymnasium: {text}", hint="correct the environment") from error
    finally:
        env.close()


def fingerprint(env_id: str, kwargs: Mapping[str, Any], *, limit_s: float = STALL_S) -> str:
    """Checks an environment (``check_api``) and returns a SHA-256 of its first episodes for fixed seeds and actions.

    It covers observations, rewards and ends of ``FINGERPRINT_EPISODES`` episodes of at most ``FINGERPRINT_STEPS``
    steps: machines or versions on which an environment behaves differently have different fingerprints.

    Raises:
        ConfigError: it breaks a rule of Gymnasium's API, or raises an exception.
    """
    check_api(env_id, kwargs, limit_s=limit_s)
    digest = hashlib.sha256()
    env = make(env_id, kwargs, disable_env_checker=True)
    try:
        with stall_limit(limit_s, digest.hexdigest):
            for seed in range(FINGERPRINT_EPISODES):
                env.action_space.seed(ACTION_SEED + seed)
                observation, _ = env.reset(seed=seed)
                add_value(digest, observation)
                for _ in range(FINGERPRINT_STEPS):
                    observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
                    add_value(digest, observation)
                    digest.update(repr((float(reward), bool(terminated), bool(truncated))).encode())
                    if terminated or truncated:
                        break
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{env_id} fails with random actions: {type(error).__name__}: {_line(error)}",
            hint="correct the environment",
        ) from error
    finally:
        env.close()
    return digest.hexdigest()


def module_of(env_id: str) -> str:
    """Returns the module that was given with an id, else the top-level module of its class."""
    import gymnasium

    entry = gymnasium.spec(env_id).entry_point
    return _named.get(env_id) or str(getattr(entry, "__module__", entry)).partition(":")[0].partition(".")[0]


def participant_id(env_id: str, module: str = "") -> str:
    """Returns the id for a new process: with ``module``, by default ``module_of``, unless Gymnasium imports it."""
    module = module or module_of(env_id)
    plugins = {entry.module.partition(".")[0] for entry in importlib.metadata.entry_points(group="gymnasium.envs")}
    return env_id if module.partition(".")[0] in {"gymnasium", *plugins} else f"{module}:{env_id}"


def _unknown_space(space: Any) -> str:
    """Returns the name of a kind of space that cannot be sent, or ""."""
    kinds = [kind.__name__ for kind in type(space).__mro__]
    if not any(kind in _SPACES for kind in kinds):
        return type(space).__name__
    parts = getattr(space, "spaces", ())
    inner = [*(parts.values() if hasattr(parts, "values") else parts)]
    inner += [space.feature_space] if hasattr(space, "feature_space") else []
    return next(filter(None, map(_unknown_space, inner)), "")


def _missing(env_id: str, error: Exception) -> MissingDependency:
    import gymnasium

    entry = str(gymnasium.spec(env_id).entry_point)
    group = re.match(r"gymnasium\.envs\.(box2d|mujoco|toy_text|classic_control|phys2d|tabular)", entry)
    names = {"toy_text": "toy-text", "classic_control": "classic-control", "phys2d": "jax", "tabular": "jax"}
    hint = f"pip install 'gymnasium[{names.get(group[1], group[1])}]'" if group else "install it"
    return MissingDependency(f"{env_id} needs a package that is not installed: {_line(error)}", hint=hint)


def add_value(digest: Any, value: Any) -> None:
    """Adds an element of a space to a hash: a number, an array, a text, or mappings and sequences of these."""
    import numpy as np

    if isinstance(value, Mapping):
        for name in sorted(value):
            digest.update(f"{name}\0".encode())
            add_value(digest, value[name])
    elif isinstance(value, tuple | list):
        digest.update(f"{len(value)}\0".encode())
        for part in value:
            add_value(digest, part)
    elif isinstance(value, str):
        digest.update(value.encode() + b"\0")
    else:
        array = np.asarray(value)
        digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
