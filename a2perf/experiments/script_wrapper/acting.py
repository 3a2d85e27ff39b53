"""Finds the policy of a script after its training, and runs episodes with it."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from a2perf.experiments.script_wrapper.live_values import as_array
from a2perf.submission.participant.adapters.sb3 import changing_wrappers

Act = Callable[[Any], Any]
_LOOKED_FOR = "get_action, agent, policy or model"
_METHODS = ("predict", "get_action", "act")
MAX_STEPS = 100_000
"""Limit on the steps of one episode, for environments that never end."""


@dataclass(frozen=True)
class Acting:
    """A callable that chooses actions.

    Attributes:
        name: for people, such as ``agent.predict``.
        choose: maps an observation to an action, or to a tuple that begins with one.
    """

    name: str
    choose: Act
    raw: Any


class NotFound(Exception):
    """A script leaves nothing of the kind that was looked for; the message gives the reason."""


class NotAnAction(NotFound):
    """The callable of a script does not return actions of its environment."""


def find_acting(names: dict[str, Any]) -> Acting:
    """Returns the policy that a script leaves.

    A ``model`` acts by ``predict(observation, deterministic=...)`` only, since it may be a value function.

    Raises:
        NotFound: there is none.
    """
    if callable(names.get("get_action")):
        return Acting("get_action", names["get_action"], names["get_action"])
    for name in ("agent", "policy", "model"):
        holder = names.get(name)
        for method in _METHODS if holder is not None else ():
            found = getattr(holder, method, None)
            if not callable(found):
                continue
            takes = "deterministic" in parameters_of(found)
            if takes or name != "model":
                choose: Act = functools.partial(found, deterministic=True) if takes else found
                return Acting(f"{name}.{method}", choose, found)
        if name != "model" and callable(holder) and not isinstance(holder, type):
            return Acting(name, holder, holder)
    raise NotFound(f"no acting function ({_LOOKED_FOR})")


def for_environment(acting: Acting, wrappers: Iterable[str]) -> Acting:
    """Returns what acts in an environment that has only these wrappers: a model gets its normalization.

    Raises:
        NotFound: a model of Stable-Baselines3 learned through other wrappers, which may change values.
    """
    model = getattr(acting.raw, "__self__", None)
    if not callable(getattr(model, "get_vec_normalize_env", None)):
        return acting
    if missing := [name for name in changing_wrappers(model) if name not in wrappers]:
        names = ", ".join(missing)
        raise NotFound(
            f"{acting.name} learned through wrappers that are missing in a new environment: {names}; name it env"
        )
    normalization = model.get_vec_normalize_env()  # type: ignore[union-attr]
    if normalization is None:
        return acting
    return replace(acting, choose=lambda observation: acting.choose(normalization.normalize_obs(observation)))


def names_of_wrappers(env: Any) -> list[str]:
    """Returns the class names of an environment and its wrappers, the outermost first."""
    names = []
    while env is not None:
        names.append(type(env).__name__)
        env = getattr(env, "env", None)
    return names


def play(env: Any, acting: Acting, seed: int | None, on_frame: Callable[[Any], None] | None = None) -> float:
    """Runs one episode in an environment with the interface of Gymnasium or the older gym.

    Args:
        on_frame: called with the environment after the reset and after every step.

    Raises:
        RuntimeError: the episode did not end.
        NotAnAction: the policy returns a value outside the environment's action space.
    """
    parameters = parameters_of(env.reset)
    takes_seed = "seed" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    reset = env.reset(seed=seed) if seed is not None and takes_seed else env.reset()
    observation = reset[0] if isinstance(reset, tuple) and len(reset) == 2 and isinstance(reset[1], dict) else reset
    total = 0.0
    for _ in range(MAX_STEPS):
        if on_frame is not None:
            on_frame(env)
        result = env.step(action_for(env, acting, observation))
        observation = result[0]
        total += float(np.sum(as_array(result[1])))
        if any(bool(np.all(as_array(flag))) for flag in result[2:-1]):
            if on_frame is not None:
                on_frame(env)
            return total
    raise RuntimeError(f"the episode did not end within {MAX_STEPS} steps")


def action_for(env: Any, acting: Acting, observation: Any) -> Any:
    """Gets an action and converts it to the shape of the environment's space; tries a tensor if arrays fail.

    Raises:
        NotAnAction: the result is not an action of the space.
    """
    try:
        answer = acting.choose(observation)
    except (TypeError, AttributeError, RuntimeError, IndexError):
        torch = sys.modules.get("torch")
        if torch is None:
            raise
        with torch.no_grad():
            answer = acting.choose(torch.as_tensor(np.asarray(observation), dtype=torch.float32).unsqueeze(0))
    action = as_array(answer[0] if isinstance(answer, tuple) and answer else answer)
    space: Any = getattr(env, "action_space", None)
    if getattr(space, "shape", None) is None:
        return action
    is_of_kind = np.can_cast(action.dtype, space.dtype, "same_kind")
    if action.size != int(np.prod(space.shape)) or not is_of_kind:
        kind = f"a {action.dtype} array of shape {action.shape}"
        raise NotAnAction(f"{acting.name} returns {kind}, which is not an action of {space}")
    action = action.reshape(space.shape).astype(space.dtype)
    return action if space.shape else action.item()


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter]:
    """Returns the parameters of a callable; none if it does not tell them."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
