"""What a submission asked a language model and what it answered: one transcript per episode.

Requests and answers come from a stranger and from a server. They are bounded here: at most ``MOST_CALLS`` per episode
and ``MOST_CHARACTERS`` per text, and what is left out is counted. A redacted journal gives hashes and sizes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from a2perf_agents.calls import ModelCall, joined
from a2perf_agents.record import AnswerEntry, CallEntry, CallOutcome, CallScope, ModelEntry

MOST_CALLS = 40
"""Calls of an episode that a transcript holds: the first and the last ones."""
MOST_CHARACTERS = 4000
"""Characters of one message or answer that a transcript holds."""
MOST_MESSAGES = 20
"""Messages of one request that a transcript holds: the last ones."""


Wanted: TypeAlias = Callable[[str, int | None], bool]
"""Whether an episode, given its task and number, is wanted; the number is None outside of episodes."""


@dataclass(frozen=True)
class SpokenText:
    """One message.

    Attributes:
        role: ``"system"``, ``"user"``, ``"assistant"``, ``"tool"``, or another name that the participant gave.
        left_out: number of characters after it.
    """

    role: str
    text: str
    left_out: int = 0


@dataclass(frozen=True)
class Exchange:
    """One question and its answer.

    Attributes:
        call: the recorded call, without the contents of its request and its answer.
        asked: messages of the request that the previous one of the episode did not have; None if the contents were
            removed from the record; then its hashes and sizes stand for them.
        repeated: number of messages that the previous request had, too.
        answer: text of a call that succeeded.
    """

    call: ModelCall
    asked: tuple[SpokenText, ...] | None
    repeated: int
    answer: SpokenText | None


@dataclass(frozen=True)
class EpisodeTranscript:
    """The exchanges of one episode, or of one phase outside of episodes.

    Attributes:
        exchanges: in order, without those that are left out.
        left_out: number of exchanges that are left out in the middle.
    """

    scope: CallScope
    exchanges: tuple[Exchange, ...]
    left_out: int


def shortened(role: str, text: str) -> SpokenText:
    """Returns a message with at most ``MOST_CHARACTERS``."""
    return SpokenText(role[:40], text[:MOST_CHARACTERS], max(0, len(text) - MOST_CHARACTERS))


def transcripts_of(entries: Callable[[], Iterable[ModelEntry]], wanted: Wanted) -> list[EpisodeTranscript]:
    """Returns the transcripts of the wanted episodes, in the order of their first calls.

    The journal is read twice: first to choose the calls, then for their contents.
    """
    asked: dict[CallScope, list[int]] = {}
    for entry in entries():
        if isinstance(entry, CallEntry) and wanted(entry.scope.task, entry.scope.episode):
            asked.setdefault(entry.scope, []).append(entry.call)
    shown = {scope: _ends(calls) for scope, calls in asked.items()}
    reader = _Reader({call for calls in shown.values() for call in calls})
    calls = {call.call.call: call for call in joined(reader.without_contents(entries()))}
    return [
        EpisodeTranscript(
            scope, tuple(reader.exchange(calls[number]) for number in numbers), len(asked[scope]) - len(numbers)
        )
        for scope, numbers in shown.items()
    ]


class _Reader:
    """Shortens requests and answers while the journal is read; none of them stays in memory whole."""

    def __init__(self, chosen: set[int]) -> None:
        self._chosen = chosen
        self._before: dict[CallScope, list[int]] = {}
        self._asked: dict[int, tuple[tuple[SpokenText, ...], int]] = {}
        self._said: dict[int, SpokenText] = {}

    def without_contents(self, entries: Iterable[ModelEntry]) -> Iterator[ModelEntry]:
        """Yields the entries of the chosen calls; their contents are kept in short."""
        for entry in entries:
            if isinstance(entry, CallEntry) and entry.call in self._chosen:
                if entry.request is not None:
                    self._asked[entry.call] = self._new_messages(entry.scope, entry.request)
                    entry.request = None
                yield entry
            elif isinstance(entry, AnswerEntry) and entry.call in self._chosen:
                self._said[entry.call] = shortened("answer", answer_text(entry))
                entry.chunks = []
                yield entry

    def _new_messages(self, scope: CallScope, request: str) -> tuple[tuple[SpokenText, ...], int]:
        messages = _messages(request)
        digests = [hash(_written(message)) for message in messages]
        before = self._before.get(scope, [])
        self._before[scope] = digests
        repeated = 0
        while repeated < min(len(digests), len(before)) and digests[repeated] == before[repeated]:
            repeated += 1
        new = messages[repeated:]
        shown = tuple(shortened(*_spoken(message)) for message in new[-MOST_MESSAGES:])
        return shown, repeated + max(0, len(new) - MOST_MESSAGES)

    def exchange(self, call: ModelCall) -> Exchange:
        """Returns one exchange."""
        number = call.call.call
        asked, repeated = self._asked.get(number, (None, 0))
        return Exchange(call, asked, repeated, self._said[number] if call.outcome is CallOutcome.OK else None)


def _ends(calls: Sequence[int]) -> list[int]:
    if len(calls) <= MOST_CALLS:
        return list(calls)
    return [*calls[: MOST_CALLS // 2], *calls[-MOST_CALLS // 2 :]]


def _messages(request: str) -> list[object]:
    """Returns the messages of a request; of an embedding or a plain completion its prompt."""
    document = _parsed(request)
    if not isinstance(document, dict):
        return [request]
    messages = document.get("messages")
    if isinstance(messages, list):
        return messages
    return [document.get("prompt", document.get("input", request))]


def _spoken(message: object) -> tuple[str, str]:
    if not isinstance(message, dict):
        return "prompt", message if isinstance(message, str) else _written(message)
    text = content_text(message.get("content"))
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        text = "\n".join(part for part in (text, *map(_tool_call, calls[:MOST_MESSAGES])) if part)
    return str(message.get("role", "message")), text


def content_text(content: object) -> str:
    """Returns the content of a message as text: its text parts, and one line per part of another kind."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if not isinstance(content, list):
        return _written(content)
    return "\n".join(map(_part, content[:100]))


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = str(part.get("type", "part"))[:40] if isinstance(part, dict) else "part"
    return f"[{kind}, {len(_written(part))} characters]"


def _tool_call(call: object) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return _written(call)
    return f"{function.get('name', 'tool')}({function.get('arguments', '')})"


def answer_text(answer: AnswerEntry) -> str:
    """Returns the text of an answer, streamed or not; the raw answer if it is in an unknown format."""
    raw = "".join(answer.chunks)
    if not answer.content_type.startswith("text/event-stream"):
        return _completion(_parsed(raw), "message") or raw
    parts = [
        _completion(_parsed(line.removeprefix("data:").strip()), "delta")
        for line in raw.splitlines()
        if line.startswith("data:")
    ]
    return "".join(parts) or raw


def _completion(document: object, key: str) -> str:
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return ""
    message = choices[0].get(key)
    if not isinstance(message, dict):
        return str(choices[0].get("text") or "")
    if key == "message":
        return _spoken(message)[1]
    calls = message.get("tool_calls")
    pieces = [content_text(message.get("content"))]
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            pieces += [str(function.get("name") or ""), str(function.get("arguments") or "")]
    return "".join(pieces)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _written(value: object) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return repr(type(value))
