"""A policy that was given to ``a2perf.evaluate`` as an object, as a submission.

    from a2perf.submission.participant.adapters import live

    load_policy, preprocess_observation, infer_once = live.contract("policy.pkl", call="predict", python="3.11")

The file is a pickle of cloudpickle. Only the participant process loads it.
"""

from __future__ import annotations

import functools
import inspect
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from a2perf.errors import AssetUnavailable, MissingDependency
from a2perf.submission.participant.adapters import callables
from a2perf.submission.participant.adapters.contract import Contract
from a2perf.submission.participant.signatures import BATCH_ATTRIBUTE, ContractError

CALLS = ("infer_once", "act", "predict", "__call__")
"""Methods that map an observation to an action, in the order of preference."""

FORWARD = "forward"
"""The call of a PyTorch module."""


def contract(file: str = "policy.pkl", *, call: str, python: str) -> Contract:
    """Returns the three functions of the contract for a pickled policy.

    Args:
        file: the pickle, relative to the submission.
        call: how the policy is called, one of ``CALLS`` or ``FORWARD``.
        python: version of the Python that wrote the pickle, ``"3.11"``.
    """

    def load(env: Any, **participant_args: str) -> Callable[[Any], Any]:
        policy = read(file, python)
        if call == FORWARD:
            return module_policy(policy, env)
        method: Callable[..., Any] = getattr(policy, call)
        act = _predicting(method) if call == "predict" else method
        rows = getattr(policy, BATCH_ATTRIBUTE, None)
        return act if rows is None else _with_rows(act, rows)

    return callables.contract(load=load)


def _with_rows(act: Callable[[Any], Any], rows: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a policy that takes one observation or, by ``infer_batch``, those of several episodes."""
    policy = functools.partial(act)  # bound methods have no attributes
    setattr(policy, BATCH_ATTRIBUTE, rows)
    return policy


def read(file: str, python: str) -> Any:
    """Loads a pickle of the submission.

    Raises:
        ContractError: this is another Python, or a package or module of the policy is not installed here.
    """
    import cloudpickle

    here = ".".join(platform.python_version_tuple()[:2])
    if here != python:
        raise ContractError(
            f"the policy was pickled by Python {python}, which Python {here} cannot read",
            "run it with the same Python, or write a submission folder",
        )
    try:
        with (Path.cwd() / file).open("rb") as stream:
            return cloudpickle.load(stream)  # safe: the participant's file in the participant's process
    except ModuleNotFoundError as error:
        raise ContractError(
            f"the policy needs the module {error.name!r}, which the participant's Python does not have",
            "install it there; import your own modules at the top of the file that defines the policy",
        ) from error


def _predicting(method: Callable[..., Any]) -> Callable[[Any], Any]:
    """Returns a function for ``predict`` as in Stable-Baselines3, which may return ``(action, state)``."""
    try:
        deterministic = "deterministic" in inspect.signature(method).parameters
    except (TypeError, ValueError):
        deterministic = False
    given = {"deterministic": True} if deterministic else {}

    def act(observation: Any) -> Any:
        answer = method(observation, **given)
        return answer[0] if isinstance(answer, tuple) and len(answer) == 2 else answer

    return act


def module_policy(module: Any, env: Any) -> Callable[[Any], Any]:
    """Returns a ``torch.nn.Module``, set to evaluation mode, as a function from an observation to an action.

    The module gets float values in the type of its parameters, with a leading batch dimension of 1. For a discrete
    action space, a float output with one value per action holds scores, and the largest one is the action.
    """
    import numpy as np
    import torch

    module = getattr(module, "_orig_mod", module)  # of torch.compile, which cannot be pickled
    module.eval()
    floating = next((value.dtype for value in module.parameters() if value.is_floating_point()), torch.float32)
    actions, start = _discrete(env)

    def tensor(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: tensor(part) for name, part in value.items()}
        if isinstance(value, tuple | list):
            return tuple(tensor(part) for part in value)
        array = torch.from_numpy(np.array(value))  # a copy: observations may be read-only
        return array.to(floating) if array.is_floating_point() else array

    def one_row(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: one_row(part) for name, part in value.items()}
        return tuple(map(one_row, value)) if isinstance(value, tuple) else value.unsqueeze(0)

    def output_of(observations: Any) -> Any:
        with torch.inference_mode():
            output = module(observations)
        if isinstance(output, tuple) and output:
            output = output[0]
        if not isinstance(output, torch.Tensor):
            raise ContractError(
                f"the module {type(module).__name__} returned a {type(output).__name__}, not a tensor",
                "wrap it: a2perf.evaluate(lambda observation: ..., task=...)",
            )
        return output

    def act(observation: Any) -> Any:
        output = output_of(one_row(tensor(observation)))
        action = output[0] if output.ndim and output.shape[0] == 1 else output
        if actions is not None and action.is_floating_point() and action.numel() == actions > 1:
            return start + int(action.argmax())
        return action.cpu().numpy()

    def rows(observations: Any) -> Any:
        output = output_of(tensor(observations))
        if actions is not None and output.is_floating_point() and output.ndim == 2 and output.shape[1] == actions > 1:
            output = start + output.argmax(dim=1)
        return output.cpu().numpy()

    return _with_rows(act, rows)


def _discrete(env: Any) -> tuple[int | None, int]:
    """Returns the number of actions and the first one; None for other spaces, or without the environment's packages."""
    try:
        space = env.action_space
    except (ImportError, MissingDependency, AssetUnavailable):
        return None, 0
    return (int(space.n), int(space.start)) if hasattr(space, "n") and hasattr(space, "start") else (None, 0)


def rebuild_tensor(data: Any, dtype: str, shape: tuple[int, ...], trainable: bool | None) -> Any:
    """Returns a PyTorch tensor on the processor from its bytes."""
    import torch

    kind = getattr(torch, dtype)
    tensor = torch.from_numpy(data.copy()).view(kind).reshape(shape) if data.size else torch.empty(shape, dtype=kind)
    return tensor if trainable is None else torch.nn.Parameter(tensor, requires_grad=trainable)


def rebuild_device(name: str) -> Any:
    """Returns a PyTorch device; the processor if this machine does not have it."""
    import torch

    there = name.split(":")[0] != "cuda" or torch.cuda.is_available()
    return torch.device(name if there else "cpu")
