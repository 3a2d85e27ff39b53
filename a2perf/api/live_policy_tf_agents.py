"""A policy of TF-Agents as a submission: a SavedModel of ``PolicySaver`` and the adapter ``tf_agents``."""

from __future__ import annotations

import functools
import hashlib
import types
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.api import live_policy_pickle
from a2perf.api.live_policy_folder import LivePolicy, pinned
from a2perf.errors import UserError

_HASHED = (np.ndarray, types.FunctionType, functools.partial)
_FOLDER, _NAME = "policies", "policy"


def of_policy(policy: Any, name: str, title: str) -> LivePolicy:
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
