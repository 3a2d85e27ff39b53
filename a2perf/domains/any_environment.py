"""The domain ``gymnasium``: every environment that Gymnasium has registered, one task per id, scored by its raw return.

The package of an environment is code that the organizer trusts: the evaluator imports it, and a run records its version
and the hash of its files. Of an environment that is not Gymnasium's, the name names the package: ``my_envs:Lander-v0``.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib
import math
import os
import re
import traceback
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from a2perf.constants import LONGEST_EPISODE
from a2perf.errors import ConfigError, MissingDependency, UserError
from a2perf.system import StallError, stall_limit

FINGERPRINT_EPISODES = 3
FINGERPRINT_STEPS = 100
ACTION_SEED = 104_729
"""Random actions are drawn with another seed than the episode, else they repeat the draws of the environment."""
STALL_S = 300.0
"""Longest time in seconds that an environment may take to be made or checked."""
_IDS = re.compile(r"(?P<module>[\w.]+):(?P<id>(?:[\w:-]+/)?[\w:.-]+)|(?P<versioned>(?:[\w:-]+/)?[\w:.-]+?-v\d+)")
_STEP = "observation, reward, terminated, truncated and info"
_EARLIER = "correct it, or wrap an environment of the earlier Gym API"
_named: dict[str, str] = {}  # id -> the module that was given with it; its class may be of another package
_SPACES = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Dict", "Tuple", "Text", "Sequence")
"""Kinds with elements that can be sent if those of their parts can; of another kind an element is drawn."""


def is_id(name: str) -> bool:
    """Returns whether a name is an id: ``CartPole-v1``, ``ALE/Pong-v5``, ``my_envs:Lander``.

    Without a version it is one with the name of its package, and once that is imported.
    """
    return _IDS.fullmatch(name) is not None or name in _named


def register(name: str) -> str:
    """Imports the package of ``my_envs:Lander-v0``, which registers its environments, and returns the id alone.

    Only for names that the organizer gave: importing runs the package's code.

    Raises:
        ConfigError: the package cannot be imported, or raises any exception.
    """
    found = _IDS.fullmatch(name)
    if found is None or found["module"] is None:
        return name
    if found["module"] != "a2perf":
        try:
            importlib.import_module(found["module"])
        except (Exception, SystemExit) as error:
            absent = isinstance(error, ImportError)
            raise ConfigError(
                f"{name}: the package {found['module']} cannot be imported: "
                f"{_line(error) if absent else f'{type(error).__name__}: {_line(error)}'}",
                hint="install it, or run where it can be imported" if absent else None,
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
    limit = spec.max_episode_steps
    return LONGEST_EPISODE if limit is None or limit < 1 else limit  # Gymnasium takes -1 for no limit


def make(env_id: str, kwargs: Mapping[str, Any], **of_gymnasium: Any) -> Any:
    """Makes an environment with its registered wrappers; see ``suite_gym.make_environment``.

    Raises:
        ConfigError: it refuses its arguments, has a space with elements that cannot be sent, or needs a display.
        MissingDependency: a package that it needs is not installed.
    """
    import gymnasium

    maker = gymnasium.make_vec if "num_envs" in of_gymnasium else gymnasium.make
    given = {**of_gymnasium, **kwargs}
    if maker is gymnasium.make:
        given = {"max_episode_steps": max_episode_steps(env_id), **given}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is out of date", DeprecationWarning)  # records name older versions
            with stall_limit(STALL_S):
                env: Any = maker(env_id, **given)
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        raise _missing(env_id, error) from error
    except (Exception, SystemExit) as error:  # of any kind: its constructor is not ours
        shown = f" with {dict(kwargs)}" if kwargs else ""
        of_arguments = isinstance(error, TypeError) and "argument" in str(error)
        raise ConfigError(
            f"{env_id} cannot be made{shown}: {type(error).__name__}: {_line(error)}",
            hint="correct its arguments" if of_arguments else None,
        ) from error
    if isinstance(env.unwrapped, gymnasium.vector.VectorEnv) and "num_envs" not in of_gymnasium:
        env.close()
        raise ConfigError(f"{env_id} steps several episodes at once", hint="register it for one episode at a time")
    for name in ("observation_space", "action_space"):
        if problem := _problem_of(getattr(env, name), keys=(str, int) if name == "observation_space" else (str,)):
            env.close()
            raise ConfigError(f"the {name} of {env_id} {problem}", hint="use text, numbers, arrays, and nests of these")
    return env


@dataclass(frozen=True)
class Inspection:
    """What the first episodes of an environment show.

    Attributes:
        fingerprint: SHA-256 of the observations, rewards and ends of ``FINGERPRINT_EPISODES`` episodes of at most
            ``FINGERPRINT_STEPS`` steps with fixed seeds and actions: machines or versions on which an environment
            behaves differently have different fingerprints.
        conditions: what a reader of its scores has to know.
    """

    fingerprint: str
    conditions: tuple[str, ...]


def inspect(env_id: str, kwargs: Mapping[str, Any], *, limit_s: float = STALL_S) -> Inspection:
    """Plays the first episodes of an environment, in two copies, and checks what a2perf needs of it.

    It needs the answers of ``reset`` and ``step`` in Gymnasium's form, observations that can be sent, finite rewards,
    and the same episode for the same seed and actions. What else Gymnasium's checker finds is a condition.

    Raises:
        ConfigError: it does not give one of these, raises an exception, or hangs; the message names the step.
        MissingDependency: a package that it needs is not installed.
    """
    import gymnasium

    with _made(env_id, kwargs, limit_s) as env:
        episodes = [_first_steps(env, env_id, seed) for seed in range(FINGERPRINT_EPISODES)]
        later = _first_steps(env, env_id, 0)
    with _made(env_id, kwargs, limit_s) as env:
        fresh = _first_steps(env, env_id, 0)
        remark = api_remark(env, limit_s=limit_s)
    conditions = []
    if fresh != episodes[0]:
        text = "the same seed and actions give another episode in a new copy of it"
        if not gymnasium.spec(env_id).nondeterministic:
            raise ConfigError(
                f"{env_id}: {text}",
                hint="draw from self.np_random, which reset(seed=...) seeds, or register it as nondeterministic=True",
            )
        conditions.append(f"environment: {text}; it is registered as nondeterministic")
    elif later != fresh:
        conditions.append("environment: an episode depends on the episodes before it: the same seed gives another one")
    conditions += [f"environment: Gymnasium's checker says: {remark}"] if remark else []
    return Inspection(hashlib.sha256(b"".join(episodes)).hexdigest(), tuple(conditions))


def api_remark(env: Any, *, limit_s: float = STALL_S) -> str:
    """Returns what Gymnasium's checker finds first in an environment, which it leaves used; ``""`` if nothing."""
    from gymnasium.utils.env_checker import check_env

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice, for example on infinite bounds
            with stall_limit(limit_s):
                check_env(env.unwrapped, skip_render_check=True)
    except (Exception, SystemExit) as error:  # the checker asserts, and the environment may raise
        return _line(error) if isinstance(error, Exception) else repr(error)
    return ""


@contextlib.contextmanager
def _made(env_id: str, kwargs: Mapping[str, Any], limit_s: float) -> Iterator[Any]:
    env = make(env_id, kwargs, disable_env_checker=True)
    try:
        with stall_limit(limit_s):
            yield env
    except StallError as error:
        raise ConfigError(f"{env_id} hangs: {error}", hint="correct the environment") from error
    finally:
        env.close()


def _first_steps(env: Any, env_id: str, seed: int) -> bytes:
    """Returns a hash of one short episode with random actions.

    Raises:
        ConfigError: see ``inspect``.
        StallError: it hangs.
    """
    from gymnasium.error import DependencyNotInstalled

    digest = hashlib.sha256()
    where = f"reset(seed={seed})"
    try:
        observation, _ = _answer(env.reset(seed=seed), 2, "observation and info")
        add_value(digest, observation)
        env.action_space.seed(ACTION_SEED + seed)  # after the reset, which may make a new space
        for step in range(FINGERPRINT_STEPS):
            where = f"step {step + 1} of the episode with seed {seed}"
            action = env.action_space.sample()
            add_value(hashlib.sha256(), action)
            answer = _answer(env.step(action), 5, _STEP)
            observation, reward, terminated, truncated, _ = answer
            add_value(digest, observation)
            digest.update(repr((_finite(reward), bool(terminated), bool(truncated))).encode())
            if terminated or truncated:
                break
    except DependencyNotInstalled as error:  # to draw: of one with render_mode="human"
        raise _missing(env_id, error) from error
    except StallError:
        raise
    except _Unusable as error:
        raise ConfigError(f"{env_id} in {where}: {error.message}", hint=error.hint) from error
    except (Exception, SystemExit) as error:
        if isinstance(error, ValueError) and "values to unpack" in str(error):  # of a wrapper of Gymnasium
            raise ConfigError(f"{env_id} in {where}: it did not return {_STEP}: {error}", hint=_EARLIER) from error
        raise ConfigError(
            f"{env_id} fails with random actions in {where}: {type(error).__name__}: {_line(error)}",
            hint="correct the environment",
        ) from error
    return digest.digest()


class _Unusable(UserError):
    """An environment gave what a2perf cannot use."""


def _answer(answer: Any, count: int, names: str) -> Any:
    """Returns an answer of ``reset`` or ``step`` if it has the form of Gymnasium's API."""
    if not isinstance(answer, tuple) or len(answer) != count:
        came = f"{len(answer)} values" if isinstance(answer, tuple) else f"a {type(answer).__name__}"
        raise _Unusable(f"it returned {came}, not {names}", hint=_EARLIER)
    if not isinstance(answer[-1], Mapping):
        raise _Unusable(f"its info is a {type(answer[-1]).__name__}, not a dictionary", hint="return a dictionary")
    return answer


def _finite(reward: Any) -> float:
    try:
        number = float(reward)
    except (TypeError, ValueError):
        shape = getattr(reward, "shape", None)
        came = f"an array of shape {shape}" if shape else f"a {type(reward).__name__}"
        raise _Unusable(
            f"its reward is {came}", hint="pay one number per step, for example through a wrapper"
        ) from None
    if not math.isfinite(number):
        raise _Unusable(f"its reward is {number}", hint="pay finite rewards")
    return number


def module_of(env_id: str) -> str:
    """Returns the module that was given with an id, else the top-level module of its class."""
    import gymnasium

    entry = gymnasium.spec(env_id).entry_point
    return _named.get(env_id) or str(getattr(entry, "__module__", entry)).partition(":")[0].partition(".")[0]


def qualified_id(env_id: str, module: str = "") -> str:
    """Returns the id for a new process: with ``module``, by default ``module_of``, unless it is Gymnasium's own."""
    module = module or module_of(env_id)
    return env_id if module.partition(".")[0] == "gymnasium" else f"{module}:{env_id}"


def _problem_of(space: Any, keys: tuple[type, ...]) -> str:
    """Returns why the elements of a space cannot be sent, or ``""``."""
    kinds = [kind.__name__ for kind in type(space).__mro__]
    if any(kind in _SPACES for kind in kinds):
        parts = getattr(space, "spaces", ())
        named = parts if hasattr(parts, "values") else {}
        for name in named:
            if type(name) not in keys:
                return (
                    f"has the key {name!r}; the valid kinds of keys are {' and '.join(kind.__name__ for kind in keys)}"
                )
        inner = [*named.values()] if named else [*parts]
        inner += [space.feature_space] if hasattr(space, "feature_space") else []
        return next(filter(None, (_problem_of(part, keys) for part in inner)), "")
    try:
        add_value(hashlib.sha256(), copy.deepcopy(space).sample())
    except Exception as error:  # of any kind: the space is not ours
        return f"is a {type(space).__name__}, and an element of it cannot be sent: {_line(error)}"
    return ""


def _missing(env_id: str, error: Exception) -> MissingDependency:
    import gymnasium

    entry = str(gymnasium.spec(env_id).entry_point)
    group = re.match(r"gymnasium\.envs\.(box2d|mujoco|toy_text|classic_control|phys2d|tabular)", entry)
    names = {"toy_text": "toy-text", "classic_control": "classic-control", "phys2d": "jax", "tabular": "jax"}
    hint = f"pip install 'gymnasium[{names.get(group[1], group[1])}]'" if group else "install it"
    return MissingDependency(f"{env_id} needs a package that is not installed: {_line(error)}", hint=hint)


def add_value(digest: Any, value: Any) -> None:
    """Adds an element of a space to a hash: a number, an array, a text, or mappings and sequences of these.

    Raises:
        TypeError: it is, or contains, anything else.
    """
    import numpy as np

    if isinstance(value, Mapping):
        for name in sorted(value, key=str):
            digest.update(f"{name}\0".encode())
            add_value(digest, value[name])
    elif isinstance(value, tuple | list):
        digest.update(f"{len(value)}\0".encode())
        for part in value:
            add_value(digest, part)
    elif isinstance(value, str):
        digest.update(value.encode() + b"\0")
    elif value is None:  # of a graph without edges
        digest.update(b"none\0")
    else:
        array = np.asarray(value)
        if array.dtype.kind not in "biufc" or array.dtype.itemsize > 16 or array.dtype == np.longdouble:
            raise TypeError(f"it is, or contains, a {type(value).__name__} of dtype {array.dtype}")
        digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())


def _line(error: BaseException) -> str:
    """Returns the first line of an exception's message; of one without a message, its file and line."""
    if text := str(error).strip():
        return text.splitlines()[0]
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"in {os.path.basename(last.filename)}, line {last.lineno}: {last.line}"
