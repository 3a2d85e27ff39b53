"""A PyTorch module as a policy: observations become tensors, its output becomes an action.

The module gets float values in the type of its parameters, with a leading batch dimension of 1. For a discrete action
space, a float output with one value per action holds scores, and the largest one is the action. PyTorch is imported
when the policy is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from a2perf.errors import AssetUnavailable, MissingDependency
from a2perf.submission.participant.signatures import ContractError


def policy_of(module: Any, env: Any) -> Callable[[Any], Any]:
    """Returns a function from an observation to an action.

    Args:
        module: the ``torch.nn.Module``; it is set to evaluation mode.
    """
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
        return (array.to(floating) if array.is_floating_point() else array).unsqueeze(0)

    def act(observation: Any) -> Any:
        with torch.inference_mode():
            output = module(tensor(observation))
        if isinstance(output, tuple) and output:
            output = output[0]
        if not isinstance(output, torch.Tensor):
            raise ContractError(
                f"the module {type(module).__name__} returned a {type(output).__name__}, not a tensor",
                "wrap it: a2perf.evaluate(lambda observation: ..., task=...)",
            )
        action = output[0] if output.ndim and output.shape[0] == 1 else output
        if actions is not None and action.is_floating_point() and action.numel() == actions > 1:
            return start + int(action.argmax())
        return action.cpu().numpy()

    return act


def _discrete(env: Any) -> tuple[int | None, int]:
    """Returns the number of actions and the first one; None for other spaces, or without the environment's packages."""
    try:
        space = env.action_space
    except (ImportError, MissingDependency, AssetUnavailable):
        return None, 0
    return (int(space.n), int(space.start)) if hasattr(space, "n") and hasattr(space, "start") else (None, 0)
