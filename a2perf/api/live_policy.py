"""A policy object becomes a submission: finds out what it is, how it is called, and what has to travel with it."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import platform
import sys
import types
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from a2perf.api import live_policy_blame, live_policy_pickle
from a2perf.api.live_policy_folder import LivePolicy, folder_name, pinned
from a2perf.errors import UserError
from a2perf.plain_text import plain_text
from a2perf.submission.participant.adapters.live import CALLS, FORWARD

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


def live_policy(policy: Any, name: str | None = None) -> LivePolicy:
    """Prepares a policy for its process, without importing any framework.

    Args:
        policy: a function of one observation; an object with ``infer_once``, ``act``, ``predict`` or ``__call__``; a
            model of Stable-Baselines3; a policy of TF-Agents; or a ``torch.nn.Module``.
        name: its name; by default the name of the function or class.

    Raises:
        UserError: it cannot be called with one observation, or cannot be pickled; the message names the part.
    """
    title = plain_text(_default_name(policy) if name is None else name)
    plain = folder_name(title)
    if _is_instance(policy, "stable_baselines3.common.base_class", "BaseAlgorithm"):
        return of_sb3_model(policy, plain, title)
    if _is_instance(policy, "tf_agents.policies.tf_policy", "TFPolicy"):
        return of_tf_agents_policy(policy, plain, title)
    call = _call_of(policy)
    try:
        content, identity = live_policy_pickle.pickled(policy), live_policy_pickle.identity(policy)
    except Exception as error:  # __reduce__ and __getstate__ of the caller's classes may raise anything
        raise live_policy_blame.unpicklable(policy, error) from error
    python = ".".join(platform.python_version_tuple()[:2])
    return LivePolicy(
        plain, title, identity, "live", f'"policy.pkl", call="{call}", python="{python}"',
        write=lambda folder: (folder / "policy.pkl").write_bytes(content),
        packages=live_policy_pickle.packages_of(content),
        framework="PyTorch" if call == FORWARD else "",
    )  # fmt: skip


def _call_of(policy: Any) -> str:
    """Returns how a policy is called, after checking that it can be called with one observation."""
    if isinstance(policy, type):
        raise UserError(
            f"the policy is the class {policy.__name__}, not an object", hint=f"give an object: {policy.__name__}(...)"
        )
    if isinstance(policy, types.ModuleType):
        raise UserError(
            f"the policy is the module {policy.__name__}",
            hint="give the folder of the submission as a path, or one function of the module",
        )
    is_module = _is_instance(policy, "torch.nn.modules.module", "Module")
    methods = [name for name in CALLS if callable(getattr(policy, name, None))]
    chosen = next((name for name in methods if name != "__call__"), FORWARD if is_module else None)
    if chosen is None:
        if not methods:
            raise UserError(
                f"the policy is a {type(policy).__name__}, which has none of {', '.join(CALLS)}",
                hint="give a function of one observation, an object with act(observation), or a submission folder",
            )
        chosen = "__call__"
    if chosen == "__call__":
        _check_call(policy, _default_name(policy))
    else:
        _check_call(getattr(policy, chosen), f"{type(policy).__name__}.{chosen}")
    return chosen


def _check_call(function: Any, shown: str) -> None:
    plain = function.func if isinstance(function, functools.partial) else function
    if asyncio.iscoroutinefunction(plain) or inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise UserError(
            f"the policy {shown} is async or a generator", hint="give a plain function that returns an action"
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions of compiled code have no signature
        return
    try:
        signature.bind(None)
    except TypeError:
        stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        names = ", ".join(
            f"{stars.get(one.kind, '')}{one.name}" + ("" if one.default is one.empty else "=...")
            for one in signature.parameters.values()
        )
        raise UserError(
            f"the policy {shown}({names}) cannot be called with one observation",
            hint="give a function of one observation, such as `lambda observation: policy(observation, ...)`",
        ) from None


def _default_name(policy: Any) -> str:
    if isinstance(policy, functools.partial):
        return _default_name(policy.func)
    if isinstance(policy, types.MethodType):
        owner = policy.__self__
        return owner.__name__ if isinstance(owner, type) else type(owner).__name__
    if isinstance(policy, types.FunctionType | types.BuiltinFunctionType):
        return "policy" if policy.__name__ == "<lambda>" else policy.__name__
    return type(policy).__name__


def _is_instance(value: Any, module: str, name: str) -> bool:
    """Returns whether a value is an instance of a framework's class; a framework that is not imported made no value."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


_LIBRARIES = {"stable_baselines3": "stable-baselines3", "sb3_contrib": "sb3-contrib"}
_MODEL, _CLASS, _NORMALIZATION = "model.zip", "algorithm.pkl", "normalization.pkl"
_HASHED = (np.ndarray, types.FunctionType, functools.partial)
_FOLDER, _NAME = "policies", "policy"


def of_sb3_model(model: BaseAlgorithm, name: str, title: str) -> LivePolicy:
    """Prepares a model with the normalization of its environment.

    Args:
        model: the model.
        name: name of the submission.
        title: name as it was given.

    Raises:
        UserError: a class of the model cannot be pickled.
    """
    kind = type(model)
    library = kind.__module__.partition(".")[0]
    normalization = model.get_vec_normalize_env()
    # a name of the library, or the caller's class from its file
    algorithm = f'"{kind.__name__}"' if library in _LIBRARIES else f'sb3.pickled_class("{_CLASS}")'
    arguments = f'"{_MODEL}", algorithm={algorithm}'
    if normalization is not None:
        arguments += f', normalization="{_NORMALIZATION}"'
    try:
        identity = live_policy_pickle.identity(_content(model, normalization))
        of_class = None if library in _LIBRARIES else live_policy_pickle.pickled(kind)
    except Exception as error:  # __reduce__ of the caller's classes may raise anything
        raise live_policy_blame.unpicklable(model.policy, error) from error

    def write(folder: Path) -> None:
        try:
            with live_policy_pickle.by_value():
                model.save(folder / _MODEL)
                if normalization is not None:
                    normalization.save(str(folder / _NORMALIZATION))
        except Exception as error:
            raise UserError(
                f"the model {name} cannot be saved: {type(error).__name__}: {error}",
                hint="try model.save(...) and remove what it names",
            ) from error
        if of_class is not None:
            (folder / _CLASS).write_bytes(of_class)

    packages = [_LIBRARIES.get(library, "stable-baselines3"), "stable-baselines3"]
    return LivePolicy(
        name, title, identity, "sb3", arguments, write,
        packages=pinned(packages),
        framework="Stable-Baselines3",
    )  # fmt: skip


def _content(model: BaseAlgorithm, normalization: Any) -> list[Any]:
    """Returns what decides about the actions; the file of ``model.save`` also holds times and addresses."""
    parts: list[Any] = [
        f"{type(model).__module__}.{type(model).__qualname__}",
        repr(model.observation_space), repr(model.action_space),
        type(model.policy), str(model.policy), model.policy.state_dict(), model.policy_kwargs,
    ]  # fmt: skip
    if type(model).__module__.partition(".")[0] not in _LIBRARIES:
        parts.append(type(model))
    if normalization is not None:
        scaled = {name: vars(normalization).get(name) for name in ("obs_rms", "clip_obs", "epsilon", "norm_obs")}
        parts.append({**scaled, "keys": getattr(normalization, "norm_obs_keys", None)})
    return parts


def of_tf_agents_policy(policy: Any, name: str, title: str) -> LivePolicy:
    """Prepares a policy.

    Args:
        policy: a ``tf_agents.policies.tf_policy.TFPolicy``.
        name: name of the submission.
        title: name as it was given.
    """

    def write(folder: Path) -> None:
        from tf_agents.policies import policy_saver

        try:
            policy_saver.PolicySaver(policy, batch_size=None).save(str(folder / _FOLDER / _NAME))
        except Exception as error:  # tracing runs the caller's code
            raise UserError(
                f"the policy {name} cannot be saved: {type(error).__name__}: {error}",
                hint="try tf_agents.policies.policy_saver.PolicySaver(policy) and correct what it names",
            ) from error

    return LivePolicy(
        name, title, _identity(policy), "tf_agents", f'"{_FOLDER}", policy_name="{_NAME}"', write,
        packages=pinned(("tf-agents", "tensorflow", "tf-keras")),
        framework="TF-Agents",
    )  # fmt: skip


def _identity(policy: Any) -> str:
    """Returns a hash of the policy's classes, specs, settings and variables."""
    digest = hashlib.sha256()
    for line in _described(policy, set()):
        digest.update(line.encode() + b"\0")
    for variable in policy.variables():
        array = variable.numpy()
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _described(policy: Any, seen: set[int]) -> list[str]:
    """Returns lines about a policy and the policies it wraps: types, specs, settings, and the caller's code."""
    seen.add(id(policy))
    kind = type(policy)
    lines = [f"{kind.__module__}.{kind.__qualname__}", repr(policy.time_step_spec), repr(policy.action_spec)]
    if not kind.__module__.startswith("tf_agents."):
        lines.append(_hash(kind))
    for key, value in sorted(vars(policy).items()):
        if "name" in key:  # TensorFlow numbers the names of a process: policy, policy_1
            continue
        if isinstance(value, bool | int | float | str | None):
            lines.append(f"{key}={value!r}")
        elif hasattr(value, "time_step_spec") and hasattr(value, "variables") and id(value) not in seen:
            lines += [key, *_described(value, seen)]
        elif type(value) in _HASHED and not str(getattr(value, "__module__", "")).startswith(
            ("tf_agents.", "tensorflow.")
        ):
            lines.append(f"{key}={_hash(value)}")
        elif hasattr(value, "get_config"):
            lines.append(f"{key}={type(value).__name__}")
    return lines


def _hash(value: Any) -> str:
    try:
        return live_policy_pickle.identity(value)
    except Exception:  # such a policy is a new one each time, which is never wrong
        return uuid.uuid4().hex
