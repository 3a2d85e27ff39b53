"""Every exception of the package keeps its text when it crosses to another process."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import a2perf
from a2perf.errors import UserError
from a2perf.records import Failure, FailureKind
from a2perf.submission.evaluator.process.answers import BadAnswer
from a2perf.submission.evaluator.process.failures import ParticipantFailure

_GIVEN: dict[str, Any] = {
    "mask": np.zeros(4, np.int32),
    "failure": Failure(kind=FailureKind.EXCEPTION, where="train()", message="no"),
    "outcome": "refused",
}


def _exceptions() -> list[type[Exception]]:
    found: dict[str, type[Exception]] = {}
    for module in pkgutil.walk_packages(a2perf.__path__, "a2perf."):
        if module.name.endswith("__main__"):
            continue
        try:
            content = vars(importlib.import_module(module.name)).values()
        except (ImportError, UserError):  # it needs an optional package
            continue
        for item in content:
            if inspect.isclass(item) and issubclass(item, Exception) and item.__module__.startswith("a2perf"):
                found[f"{item.__module__}.{item.__qualname__}"] = item
    return [found[name] for name in sorted(found)]


EXCEPTIONS = _exceptions()


def _made(kind: type[Exception]) -> Exception:
    needed = [
        name
        for name, parameter in inspect.signature(kind.__init__).parameters.items()
        if name != "self" and parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    return kind(*(_GIVEN.get(name, f"the {name}") for name in needed or ["message"]))


def test_the_walk_finds_the_exceptions() -> None:
    assert len(EXCEPTIONS) > 30
    assert {UserError, ParticipantFailure, BadAnswer} <= set(EXCEPTIONS)


@pytest.mark.parametrize("kind", EXCEPTIONS, ids=lambda kind: kind.__name__)
def test_an_exception_keeps_its_text_in_a_pickle(kind: type[Exception]) -> None:
    error = _made(kind)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error) != ""
    assert vars(copy).keys() == vars(error).keys()


@pytest.mark.parametrize(
    "kind",
    [kind for kind in EXCEPTIONS if issubclass(kind, UserError | ParticipantFailure)],
    ids=lambda kind: kind.__name__,
)
def test_an_exception_keeps_its_text_when_it_is_raised_again(kind: type[Exception]) -> None:
    error = _made(kind)
    assert str(kind(error)) == str(error)  # type: ignore[arg-type]


def test_an_infeasible_action_crosses_a_vector_environment() -> None:
    envs = gym.make_vec("CircuitTraining-ToyMacro-v0", 1, vectorization_mode="async")
    try:
        envs.reset(seed=0)
        with pytest.raises(ValueError, match=r"action 0 is infeasible for .*: the mask allows \d+ of 16384 cells"):
            envs.step(np.zeros(1, np.int64))
    finally:
        envs.close(terminate=True)
