"""Validates the participant process's answers to observations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class BadAnswer(ValueError):
    """An answer has an invalid shape or impossible times; in the message "it" is the participant."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer.

    Attributes:
        action: the unchecked action; ``actions.ActionChecker`` checks it.
        preprocess_ns: time of ``preprocess_observation`` by the participant process's clock.
        infer_ns: time of ``infer_once`` by the same clock.
        round_trip_ns: time from before the request to after the answer by the evaluator's clock.
    """

    action: Any
    preprocess_ns: int
    infer_ns: int
    round_trip_ns: int


def confidence(reply: tuple[Any, ...]) -> float:
    """Returns the confidence in a reply ``("ok", value)``.

    Raises:
        BadAnswer: the value is not a number from 0 to 1.
    """
    import numpy as np  # launchers import this module, and need no arrays

    value: Any = reply[1] if len(reply) == 2 else None
    if isinstance(value, np.ndarray | np.generic) and value.size == 1:
        value = value.item()
    if type(value) not in (int, float) or not 0.0 <= value <= 1.0:  # comparisons with NaN are false
        shown = f"{value:g}" if type(value) is float else f"a value of type {type(value).__name__}"
        raise BadAnswer(f"its confidence is {shown}; expected a number from 0 to 1")
    return float(value)


def word_of(reply: Any) -> str | None:
    """Returns the first element of a reply if that is a string, else ``None``."""
    return reply[0] if type(reply) is tuple and reply and type(reply[0]) is str else None


def single(reply: tuple[Any, ...], elapsed_ns: int) -> Answer:
    """Returns the answer in a reply ``("ok", action, preprocess_ns, infer_ns)``.

    Raises:
        BadAnswer: the reply is not valid.
    """
    if len(reply) != 4:
        raise BadAnswer("its answer is not a valid message")
    _, action, preprocess_ns, infer_ns = reply
    if type(preprocess_ns) is not int or type(infer_ns) is not int or preprocess_ns < 0 or infer_ns < 0:
        raise BadAnswer("its times are not integers of 0 nanoseconds or more")
    if preprocess_ns + infer_ns > elapsed_ns:
        raise BadAnswer(f"it reports {preprocess_ns + infer_ns} ns, but the evaluator waited only {elapsed_ns} ns")
    return Answer(action, preprocess_ns, infer_ns, elapsed_ns)
