"""A policy object becomes a submission: finds out what it is, how it is called, and what has to travel with it."""

from __future__ import annotations

import asyncio
import functools
import inspect
import platform
import sys
import types
from typing import Any

from a2perf.api import live_policy_blame, live_policy_pickle
from a2perf.api.live_policy_folder import LivePolicy, folder_name
from a2perf.errors import UserError
from a2perf.plain_text import plain_text
from a2perf.submission.participant.adapters.live import CALLS, FORWARD


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
        from a2perf.api.live_policy_frameworks import of_sb3_model

        return of_sb3_model(policy, plain, title)
    if _is_instance(policy, "tf_agents.policies.tf_policy", "TFPolicy"):
        from a2perf.api.live_policy_frameworks import of_tf_agents_policy

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
