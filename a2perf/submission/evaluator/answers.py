"""What the participant process answers to observations, checked before anybody uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class BadAnswer(ValueError):
    """An answer whose shape or times make no sense; the text says what is wrong, with ``it`` for the participant."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer.

    Attributes:
        action: as it came; ``actions.check_action`` checks it.
        preprocess_ns: time of ``preprocess_observation``, by the participant process's clock.
        infer_ns: time of ``infer_once``, by the same clock.
        round_trip_ns: from before the request to after the answer, by the evaluator's clock.
    """

    action: Any
    preprocess_ns: int
    infer_ns: int
    round_trip_ns: int


def word_of(reply: Any) -> str | None:
    """Returns the word that a reply begins with, or ``None`` when it is not a sequence that begins with a word."""
    return reply[0] if type(reply) is tuple and reply and type(reply[0]) is str else None


def single(reply: tuple[Any, ...], elapsed_ns: int) -> Answer:
    """Returns the answer in a reply ``("ok", action, preprocess_ns, infer_ns)``.

    Args:
        reply: what came.
        elapsed_ns: the round trip by the evaluator's clock; no time within it can be longer.

    Raises:
        BadAnswer: it is not one.
    """
    if len(reply) != 4:
        raise BadAnswer("its answer is not a message of the wire")
    _, action, preprocess_ns, infer_ns = reply
    if type(preprocess_ns) is not int or type(infer_ns) is not int or preprocess_ns < 0 or infer_ns < 0:
        raise BadAnswer("its times are not whole numbers of nanoseconds")
    if preprocess_ns + infer_ns > elapsed_ns:
        raise BadAnswer(f"it claims {preprocess_ns + infer_ns} ns, but was waited for {elapsed_ns} ns only")
    return Answer(action, preprocess_ns, infer_ns, elapsed_ns)
