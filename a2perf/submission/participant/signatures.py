"""The files and functions of the contract: which signatures are accepted, and how each function is called.

There is one rule per function, applied to the signature of the imported function. The rules also accept the signatures
of the earlier public runner, its templates and its tutorial.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from a2perf.errors import with_hint

FILES = {
    "train.py": "write train.py with `def train(**participant_args):`",
    "inference.py": "write inference.py with load_policy, preprocess_observation and infer_once",
    "requirements.txt": "list what the submission needs in requirements.txt; it may be empty",
    "__init__.py": "add an empty __init__.py",
}
"""The files of a submission, with the fix for a missing one."""

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_OBSERVATION_NAMES = ("observation", "preprocessed_observation", "obs")
_POLICY_NAMES = ("policy", "model")


class ContractError(Exception):
    """A function of the submission violates the contract."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return with_hint(self.message, self.hint)


@dataclass(frozen=True)
class Role:
    """One function of the contract.

    Attributes:
        names: its name, followed by older names that are accepted too.
        accepts: raises ``ContractError`` if a signature cannot be called as the contract requires; by default, if it
            cannot be called with one positional argument.
    """

    file: str
    names: tuple[str, ...]
    expected: str
    accepts: Callable[[inspect.Signature], object] | None = None

    def check(self, signature: inspect.Signature) -> None:
        """Checks the signature of its function.

        Raises:
            ContractError: it cannot be called as the contract requires.
        """
        if self.accepts is None:
            _accept(self, signature, misfit(signature, None))
        else:
            self.accepts(signature)


def accepted_args(
    name: str, signature: inspect.Signature, given: Mapping[str, str], *, env: bool = False
) -> dict[str, str]:
    """Returns the participant arguments as keywords for a function, after checking that it accepts each one.

    Raises:
        ContractError: an argument that the function does not accept, or a required parameter without an argument.
    """
    parameters = list(signature.parameters.values())
    own = parameters
    if env:  # as the first parameter, or by name
        by_position = parameters[:1] and parameters[0].kind in _POSITIONAL
        own = parameters[1:] if by_position else [item for item in parameters if item.name != "env"]
    taken = [item.name for item in own if item.kind in _KEYWORDS]
    if not any(item.kind is inspect.Parameter.VAR_KEYWORD for item in own):
        unknown = [argument for argument in given if argument not in taken]
        if unknown:
            accepts = f"it accepts {', '.join(taken)}" if taken else "it accepts no arguments"
            got = f"got {_arguments('unexpected', unknown)} from --participant-args"
            raise ContractError(
                f"{name}{names_of(signature)} {got}; {accepts}",
                "remove it from --participant-args, or add **participant_args to the function",
            )
    empty = [
        item.name for item in own if item.default is item.empty and item.name not in given and item.kind in _KEYWORDS
    ]
    if empty:
        raise ContractError(
            f"{name}() is missing the {_arguments('required', empty)}",
            f"add --participant-args={empty[0]}=..., or give the parameter a default",
        )
    return dict(given)


def _arguments(kind: str, names: list[str]) -> str:
    return f"{kind} argument{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


def check_train(signature: inspect.Signature) -> None:
    """Accepts ``train()``, ``train(**participant_args)`` and ``train(x, y=1)``: parameters that can be passed by name.

    Raises:
        ContractError: a required parameter is positional only.
    """
    _accept(TRAIN, signature, misfit(signature, **_required(signature)))


def check_load_policy(signature: inspect.Signature) -> str | None:
    """Accepts ``load_policy(env, **kwargs)``.

    Returns:
        ``None`` if the environment is passed as first positional argument, else the keyword for it.

    Raises:
        ContractError: it has no parameter for the environment.
    """
    problem = misfit(signature, None, **_required(signature, after=1))
    if problem is not None and misfit(signature, **{**_required(signature), "env": None}) is None:
        return "env"
    _accept(LOAD_POLICY, signature, problem)
    return None


def check_infer_once(signature: inspect.Signature) -> tuple[str, str] | None:
    """Accepts ``infer_once(policy, observation)``, by position or by keyword, in either order.

    Returns:
        The keywords for policy and observation, or ``None`` if both are passed by position.

    Raises:
        ContractError: it has no parameters for policy and observation, or requires further ones.
    """
    names = [item.name for item in signature.parameters.values() if item.kind in (*_POSITIONAL, *_KEYWORDS)]
    policy = next((name for name in _POLICY_NAMES if name in names), "policy")
    observation = next((name for name in _OBSERVATION_NAMES if name in names), "preprocessed_observation")
    by_position = misfit(signature, None, None)
    is_swapped = names[:2] == [observation, policy]
    if (by_position is None and not is_swapped) or misfit(signature, **{policy: None, observation: None}) is not None:
        _accept(INFER_ONCE, signature, by_position)
        return None
    return policy, observation


def check_infer_batch(signature: inspect.Signature) -> None:
    """Accepts ``infer_batch(policy, observations)`` by position.

    Raises:
        ContractError: it cannot be called so.
    """
    _accept(INFER_BATCH, signature, misfit(signature, None, None))


def check_preprocess(signature: inspect.Signature) -> bool:
    """Accepts ``preprocess_observation(observation)``, with or without ``time_step_spec``.

    Returns:
        Whether it has the parameter ``time_step_spec``.

    Raises:
        ContractError: it has no parameter for the observation, or requires further ones.
    """
    takes_spec = misfit(signature, None, time_step_spec=None) is None
    _accept(PREPROCESS, signature, None if takes_spec else misfit(signature, None))
    return takes_spec


def misfit(signature: inspect.Signature, *values: None, **named: None) -> str | None:
    """Returns why a function cannot be called like this, or ``None`` if it can."""
    try:
        signature.bind(*values, **named)
    except TypeError as error:
        return str(error)
    return None


def _required(signature: inspect.Signature, after: int = 0) -> dict[str, None]:
    """Returns the parameters without a default as keywords, except the first ``after`` ones."""
    parameters = list(signature.parameters.values())[after:]
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {item.name: None for item in parameters if item.default is item.empty and item.kind not in open_ended}


def _accept(role: Role, signature: inspect.Signature, problem: str | None) -> None:
    if problem is not None:
        name = role.names[0]
        raise ContractError(
            f"{name} has the wrong signature: {problem}; expected {role.expected}, found {name}{names_of(signature)}",
            f"change it to `def {role.expected}:`",
        )


TRAIN = Role("train.py", ("train",), "train(**participant_args)", check_train)
LOAD_POLICY = Role(
    "inference.py", ("load_policy", "load_model"), "load_policy(env, **participant_args)", check_load_policy
)
PREPROCESS = Role("inference.py", ("preprocess_observation",), "preprocess_observation(observation)", check_preprocess)
INFER_ONCE = Role("inference.py", ("infer_once",), "infer_once(policy, observation)", check_infer_once)
INFER_BATCH = Role("inference.py", ("infer_batch",), "infer_batch(policy, observations)", check_infer_batch)
"""Optional. It maps observations of several episodes, stacked, to one action per row."""
BATCH_ATTRIBUTE = "infer_batch"
"""Attribute of ``infer_once`` in which adapters keep it."""
REPORT_CONFIDENCE = Role("inference.py", ("report_confidence",), "report_confidence(policy)")
"""Optional. It is called after each scored episode and returns the probability that the episode succeeded."""


def find(module: object, role: Role) -> Callable[..., Any]:
    """Returns the function of a role from an imported module.

    Raises:
        ContractError: it is missing, not a plain function, or its signature is wrong.
    """
    for name in role.names:
        function = getattr(module, name, None)
        if function is None:
            continue
        if not callable(function):
            raise ContractError(f"{role.file}: {name} is a {type(function).__name__}, not a function", _write(role))
        kind = "a generator (it contains yield)" if inspect.isgeneratorfunction(function) else ""
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            kind = "async"
        if kind:
            raise ContractError(f"{role.file}: {name} is {kind}; a2perf needs a plain function", _write(role))
        role.check(signature_of(function))
        return function  # type: ignore[no-any-return]
    raise ContractError(f"{role.file} has no function {role.names[0]}", _write(role))


_IS_DONE: Mapping[tuple[str, str], Callable[[Any], bool]] = {
    ("concurrent.futures", "Future"): lambda future: future.done(),
    ("asyncio", "Future"): lambda future: future.done(),
    ("threading", "Thread"): lambda thread: thread.ident is not None and not thread.is_alive(),
    ("multiprocessing.process", "BaseProcess"): lambda process: process.exitcode is not None,
    ("subprocess", "Popen"): lambda process: process.poll() is not None,
    ("multiprocessing.pool", "ApplyResult"): lambda result: result.ready(),
}


def require_done(name: str, result: Any) -> None:
    """Checks that a call has done its work, and not only created an object that would do it.

    The exception of a finished future is raised. A finished thread, process or future is accepted.

    Raises:
        ContractError: the result is awaitable, lazy (an iterator, a partial), or still has work to do.
    """
    fix = f"wait for its end in {name}"
    kind = next((kind for kind in _IS_DONE if is_a(result, *kind)), None)
    if kind is not None:
        waiting = not _IS_DONE[kind](result)
        if not waiting and kind[1] == "Future":
            result.result()
    elif inspect.isawaitable(result):
        waiting, fix = True, f"use asyncio.run(...) in {name}"
    elif isinstance(result, functools.partial):
        waiting, fix = True, f"call it in {name}"
    else:
        waiting = isinstance(result, Iterator | AsyncIterator) and not hasattr(result, "fileno")
        fix = f"iterate over it in {name}"
    if inspect.iscoroutine(result):
        result.close()  # otherwise Python warns that it was never awaited
    if waiting:
        raise ContractError(f"{name}() returned a {type(result).__name__}, its work is not done", fix)


def is_a(value: object, module: str, name: str) -> bool:
    """Returns whether a value has a class of a module, without importing the module: that would delay every start."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Returns a function's signature; ``(*args, **kwargs)`` if it cannot be inspected."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        kinds = inspect.Parameter
        return inspect.Signature([kinds("args", kinds.VAR_POSITIONAL), kinds("kwargs", kinds.VAR_KEYWORD)])


def _write(role: Role) -> str:
    return f"write `def {role.expected}:` in {role.file}"


def names_of(signature: inspect.Signature) -> str:
    """Returns only the parameter names: annotations and defaults are the participant's and may be long."""
    names = []
    for item in signature.parameters.values():
        star = "*" if item.kind is item.VAR_POSITIONAL else "**" if item.kind is item.VAR_KEYWORD else ""
        names.append(f"{star}{item.name}" + ("=..." if item.default is not item.empty else ""))
    return f"({', '.join(names)})"
