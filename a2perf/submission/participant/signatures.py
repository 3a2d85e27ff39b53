"""The files and functions of the contract: which signatures work, and how each is called.

One rule for each function, applied to a signature that comes either from the imported function or from its source
(``evaluator.source_problems`` runs nothing). The rules accept what the earlier public runner, its templates and its
tutorial asked for. Standard library only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

FILES = {
    "train.py": "write train.py with `def train(**participant_args):`",
    "inference.py": "write inference.py with load_policy, preprocess_observation and infer_once",
    "requirements.txt": "list what the submission needs in requirements.txt; it may be empty",
    "__init__.py": "add an empty __init__.py",
}
"""The files of a submission and how to fix the lack of each."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_OBSERVATION_NAMES = ("observation", "preprocessed_observation", "obs")
_POLICY_NAMES = ("policy", "model")


class ContractError(Exception):
    """A function of the submission does not keep the contract.

    Args:
        message: what is wrong, with the expected signature and the given one.
        hint: what to write instead.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"


@dataclass(frozen=True)
class Role:
    """One function of the contract.

    Attributes:
        file: where it must be.
        names: its name and the older ones that also work.
        expected: the signature that is shown to people.
        check: raises ``ContractError`` when a signature cannot be called as the contract calls it.
    """

    file: str
    names: tuple[str, ...]
    expected: str
    check: Callable[[inspect.Signature], object]


@dataclass(frozen=True)
class InferCall:
    """How ``infer_once`` is called: by position, or by these keywords."""

    policy: str | None
    observation: str | None


def accepted_args(
    name: str, signature: inspect.Signature, given: Mapping[str, str], *, env: bool = False
) -> dict[str, str]:
    """Returns the participant arguments as keywords for a function, after checking that it takes every one.

    Args:
        name: the function's name, for the message.
        signature: its signature.
        given: the run's participant arguments.
        env: whether the platform fills one parameter itself, the first or the one named ``env``.

    Raises:
        ContractError: an argument that the function does not take, or a parameter that nothing fills.
    """
    parameters = list(signature.parameters.values())
    own = _without_env(parameters) if env else parameters
    taken = [item.name for item in own if item.kind in _KEYWORDS]
    if not any(item.kind is inspect.Parameter.VAR_KEYWORD for item in own):
        unknown = [word for word in given if word not in taken]
        if unknown:
            takes = f"takes {', '.join(taken)}" if taken else "takes no arguments"
            raise ContractError(
                f"{name}{_text(signature)} was given {', '.join(map(repr, unknown))} by the participant arguments, "
                f"but it {takes}",
                "remove it from --participant-args, or declare **participant_args",
            )
    empty = [
        item.name for item in own if item.default is item.empty and item.name not in given and item.kind in _KEYWORDS
    ]
    if empty:
        raise ContractError(
            f"{name}{_text(signature)} needs {', '.join(map(repr, empty))}, which nobody gives",
            f"give it with --participant-args={empty[0]}=..., or give the parameter a default",
        )
    return dict(given)


def _without_env(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    if parameters and parameters[0].kind in _POSITIONAL:
        return parameters[1:]
    return [item for item in parameters if item.name != "env"]


def check_train(signature: inspect.Signature) -> None:
    """``train()`` and ``train(**participant_args)``; also with the arguments it knows spelt out.

    Raises:
        ContractError: it has parameters that cannot be given by name.
    """
    for item in signature.parameters.values():
        if item.kind is inspect.Parameter.POSITIONAL_ONLY and item.default is item.empty:
            raise _wrong("train", TRAIN.expected, signature, f"{item.name!r} cannot be given by name")


def check_load_policy(signature: inspect.Signature) -> str | None:
    """``load_policy(env, **kwargs)``.

    Returns:
        ``None`` when the environment goes first by position, else the keyword it goes by.

    Raises:
        ContractError: it does not take an environment.
    """
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].kind in (*_POSITIONAL, inspect.Parameter.VAR_POSITIONAL):
        for item in parameters[1:]:
            if item.kind is inspect.Parameter.POSITIONAL_ONLY and item.default is item.empty:
                raise _wrong("load_policy", LOAD_POLICY.expected, signature, f"{item.name!r} cannot be given by name")
        return None
    named = any(item.name == "env" and item.kind is inspect.Parameter.KEYWORD_ONLY for item in parameters)
    if named or any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters):
        return "env"
    raise _wrong("load_policy", LOAD_POLICY.expected, signature, "it takes no environment")


def check_infer_once(signature: inspect.Signature) -> InferCall:
    """``infer_once(policy, observation)``, by position or with either keyword, in either order.

    Raises:
        ContractError: it does not take a policy and an observation, or wants more.
    """
    parameters = list(signature.parameters.values())
    positional = [item for item in parameters if item.kind in _POSITIONAL]
    keyword = {item.name for item in parameters if item.kind in _KEYWORDS}
    by_name_only = [item for item in parameters if item.kind is inspect.Parameter.KEYWORD_ONLY]
    open_ended = any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters)
    policy_name = next((name for name in _POLICY_NAMES if name in keyword), None)
    observation_name = next((name for name in _OBSERVATION_NAMES if name in keyword), None)
    call = None
    swapped = len(positional) >= 2 and positional[0].name in _OBSERVATION_NAMES and positional[1].name in _POLICY_NAMES
    if (len(positional) >= 2 and not swapped) or any(item.kind is item.VAR_POSITIONAL for item in parameters):
        call = InferCall(None, None)
        filled = {item.name for item in positional[:2]}
    elif policy_name and observation_name:
        call = InferCall(policy_name, observation_name)
        filled = {policy_name, observation_name}
    elif open_ended:
        call = InferCall(policy_name or "policy", observation_name or "preprocessed_observation")
        filled = {call.policy, call.observation}  # type: ignore[arg-type]
    if call is None:
        raise _wrong("infer_once", INFER_ONCE.expected, signature, "it does not take a policy and an observation")
    for item in (*positional, *by_name_only):
        if item.default is item.empty and item.name not in filled:
            raise _wrong("infer_once", INFER_ONCE.expected, signature, f"nothing fills {item.name!r}")
    return call


def check_preprocess(signature: inspect.Signature) -> bool:
    """``preprocess_observation(observation)``, with or without ``time_step_spec``.

    Returns:
        Whether it takes ``time_step_spec``.

    Raises:
        ContractError: it does not take one observation, or wants more.
    """
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in (*_POSITIONAL, inspect.Parameter.VAR_POSITIONAL):
        raise _wrong("preprocess_observation", PREPROCESS.expected, signature, "it takes no observation by position")
    rest = parameters[1:]
    for item in rest:
        if item.kind in (*_KEYWORDS, inspect.Parameter.POSITIONAL_ONLY) and item.default is item.empty:
            if item.name == "time_step_spec" and item.kind in _KEYWORDS:
                continue
            raise _wrong("preprocess_observation", PREPROCESS.expected, signature, f"nothing fills {item.name!r}")
    return any(
        item.kind is inspect.Parameter.VAR_KEYWORD or (item.name == "time_step_spec" and item.kind in _KEYWORDS)
        for item in rest
    )


TRAIN = Role("train.py", ("train",), "train(**participant_args)", check_train)
LOAD_POLICY = Role(
    "inference.py", ("load_policy", "load_model"), "load_policy(env, **participant_args)", check_load_policy
)
PREPROCESS = Role("inference.py", ("preprocess_observation",), "preprocess_observation(observation)", check_preprocess)
INFER_ONCE = Role("inference.py", ("infer_once",), "infer_once(policy, observation)", check_infer_once)
ROLES = (TRAIN, LOAD_POLICY, PREPROCESS, INFER_ONCE)


def find(module: object, role: Role) -> Callable[..., Any]:
    """Returns the function of a role from an imported module.

    Raises:
        ContractError: it is missing, no plain callable, or its signature does not fit.
    """
    for name in role.names:
        function = getattr(module, name, None)
        if function is None:
            continue
        if not callable(function):
            raise ContractError(f"{role.file}: {name} is a {type(function).__name__}, not a function", _write(role))
        if inspect.iscoroutinefunction(function):
            raise ContractError(f"{role.file}: {name} is a coroutine; a2perf calls plain functions", _write(role))
        role.check(signature_of(function))
        return function  # type: ignore[no-any-return]
    raise ContractError(f"{role.file} has no function {role.names[0]}", _write(role))


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Returns a function's signature; one that hides it counts as taking anything."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        kinds = inspect.Parameter
        return inspect.Signature([kinds("args", kinds.VAR_POSITIONAL), kinds("kwargs", kinds.VAR_KEYWORD)])


def _write(role: Role) -> str:
    return f"write `def {role.expected}:` in {role.file}"


def _wrong(name: str, expected: str, signature: inspect.Signature, why: str) -> ContractError:
    return ContractError(
        f"{name} has the wrong signature: {why}; expected {expected}, given {name}{_text(signature)}",
        f"change it to `def {expected}:`",
    )


def _text(signature: inspect.Signature) -> str:
    """The parameter names alone: annotations and defaults are the participant's and may be long."""
    words = []
    for item in signature.parameters.values():
        star = "*" if item.kind is item.VAR_POSITIONAL else "**" if item.kind is item.VAR_KEYWORD else ""
        words.append(f"{star}{item.name}" + ("=..." if item.default is not item.empty else ""))
    return f"({', '.join(words)})"
