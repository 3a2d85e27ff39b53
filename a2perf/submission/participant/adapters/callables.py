"""Any function from an observation to an action as a submission.

from a2perf.submission.participant.adapters import callables
from my_library import load_agent

load_policy, preprocess_observation, infer_once = callables.contract(load=load_agent)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from a2perf.submission.participant.adapters.contract import Contract, taking_rows
from a2perf.submission.participant.signatures import BATCH_ATTRIBUTE, ContractError


def contract(
    act: Callable[[Any], Any] | None = None,
    *,
    load: Callable[..., Callable[[Any], Any]] | None = None,
    observation: Callable[[Any], Any] | None = None,
) -> Contract:
    """Returns the three functions of the contract for a callable policy.

    Args:
        act: takes an observation and returns an action. Give either this or ``load``.
        load: takes the environment and the participant arguments by keyword, and returns a function like ``act``.
        observation: preprocesses an observation; timed separately from the policy.

    Raises:
        ContractError: both or neither of ``act`` and ``load`` are given, or an argument is not callable.
    """
    if (act is None) == (load is None):
        raise ContractError(
            "callables.contract needs either a policy or a function that loads one",
            "write contract(policy) or contract(load=load_policy)",
        )
    for name, given in (("act", act), ("load", load), ("observation", observation)):
        if given is not None and not callable(given):
            raise ContractError(
                f"callables.contract: {name}={given!r:.100} is not callable",
                f"give a function, or add __call__ to {type(given).__name__}",
            )

    def load_policy(env: Any, **participant_args: str) -> Callable[[Any], Any]:
        if load is None:
            assert act is not None
            return act
        policy = load(env, **participant_args)
        if not callable(policy):
            raise ContractError(
                f"{getattr(load, '__name__', 'load')} returned a {type(policy).__name__}, which is not callable",
                "return a function that maps an observation to an action",
            )
        return policy

    def infer_batch(policy: Any, observations: Any) -> Any:
        rows = getattr(policy, BATCH_ATTRIBUTE, None)
        if rows is None:
            raise ContractError(
                "the policy does not take observations in rows",
                "give it a method infer_batch(observations) that returns one action per row, or leave out --batch",
            )
        return rows(observations if observation is None else observation(observations))

    infer_once = taking_rows(lambda policy, observation: policy(observation), infer_batch)
    return Contract(load_policy, observation or (lambda seen: seen), infer_once)
