"""Policies of Stable-Baselines3 and TF-Agents as submissions: the files that their libraries save, and an adapter.

A model of Stable-Baselines3 is the file of ``model.save`` and the adapter ``sb3``; a policy of TF-Agents is a
SavedModel of ``PolicySaver`` and the adapter ``tf_agents``.
"""

from __future__ import annotations

import functools
import hashlib
import types
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from a2perf.api import live_policy_blame, live_policy_pickle
from a2perf.api.live_policy_folder import LivePolicy, pinned
from a2perf.errors import UserError

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

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
