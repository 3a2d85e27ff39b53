"""What the model reads: bytes of the messages, and the marks between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from a2perf.errors import ConfigError

QUESTION, ANSWER, END = 1, 2, 3
"""Bytes that begin a message of the user and of the assistant, and the one that ends it; text has none of them."""

VOCABULARY = 128
_UNKNOWN = ord("?")


def encoded(text: str) -> list[int]:
    """Returns the tokens of a text: its characters below 128; others are shown as a question mark."""
    return [number if 9 <= number < VOCABULARY else _UNKNOWN for number in map(ord, text)]


def decoded(tokens: Iterable[int]) -> str:
    """Returns the text of tokens."""
    return "".join(map(chr, tokens))


def question_of(instruction: str, page: str) -> str:
    """Returns the message of the user: an instruction and a page."""
    return f"{instruction}\n{page}"


def prompt_of(messages: Iterable[Mapping[str, Any]]) -> list[int]:
    """Returns the tokens of a conversation, up to the mark that begins the answer.

    The model was trained on single questions. It has no place for a system message, and forgets what came before the
    last message of the user.

    Raises:
        ConfigError: the messages have none of the user.
    """
    asked = [message.get("content") for message in messages if message.get("role") == "user"]
    if not asked or not isinstance(asked[-1], str):
        raise ConfigError("the messages have no text of the user", hint="end the messages with a question")
    return [QUESTION, *encoded(asked[-1]), ANSWER]
