"""Reads the journal of a run's calls to a language model: joined calls, usage, and a version without contents.

Pure functions of the journal's entries, apart from reading and replacing the file.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from a2perf.errors import UserError
from a2perf.storage import MAX_LINE_BYTES, MAX_RECORD_BYTES, read_bounded, write_atomic
from a2perf_agents.record import (
    Amounts,
    AnswerEntry,
    CallEntry,
    CallOutcome,
    CallScope,
    ModelEntry,
    Percentiles,
    RefusedEntry,
    RetryEntry,
    ScopeUsage,
    ServedEntry,
    UsageCounts,
)

_DECODER: msgspec.json.Decoder[ModelEntry] = msgspec.json.Decoder(ModelEntry)


@dataclass
class ModelCall:
    """One call to a model.

    Attributes:
        answer: how it ended; None if that is unknown, because the relay was killed.
    """

    call: CallEntry
    answer: AnswerEntry | None = None
    retries: list[RetryEntry] = field(default_factory=list)

    @property
    def outcome(self) -> CallOutcome:
        """How it ended."""
        return CallOutcome.UNKNOWN if self.answer is None else CallOutcome(self.answer.outcome)

    @property
    def charged(self) -> Amounts:
        """The amounts that count towards the budgets."""
        end = self.call.reserved if self.answer is None else self.answer.charged
        for retry in self.retries:
            end = end.plus(retry.charged)
        return end


def request_hash(path: str, document: object) -> str:
    """Returns the hash of a request: SHA-256 of its path and its JSON with sorted keys, as hexadecimal digits."""
    return hashlib.sha256(path.encode() + b"\0" + msgspec.json.encode(document, order="sorted")).hexdigest()


def entries_in(stream: IO[bytes]) -> Iterator[tuple[int, ModelEntry]]:
    """Yields the entries of a journal one by one with their offsets, up to the first damaged line."""
    offset = 0
    while line := stream.readline(MAX_LINE_BYTES):
        if not line.endswith(b"\n"):
            return
        try:
            entry = _DECODER.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return
        yield offset, entry
        offset += len(line)


def without_contents(entry: ModelEntry) -> ModelEntry:
    """Removes the contents of a request or an answer from its entry; hashes, sizes, tokens and times stay."""
    if isinstance(entry, CallEntry):
        entry.request, entry.changes = None, {}
    elif isinstance(entry, AnswerEntry):
        entry.chunks, entry.chunks_s, entry.message = [], [], ""
    return entry


def decode_entry(line: bytes) -> ModelEntry:
    """Returns one entry.

    Raises:
        msgspec.DecodeError: it is not valid.
    """
    return _DECODER.decode(line)


def encode_entry(entry: ModelEntry) -> bytes:
    """Returns the line of an entry."""
    return msgspec.json.encode(entry) + b"\n"


def read_entries(path: Path) -> list[ModelEntry]:
    """Returns the entries of a journal; an empty list if the file does not exist.

    Raises:
        UserError: it is not a regular file, or too large.
    """
    try:
        return [entry for _, entry in entries_in(io.BytesIO(read_bounded(path, MAX_RECORD_BYTES)))]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise UserError(str(error), hint="give the folder of a run recorded by a2perf") from error


def joined(entries: Iterable[ModelEntry]) -> list[ModelCall]:
    """Joins requests with their answers and retries."""
    calls: dict[int, ModelCall] = {}
    for entry in entries:
        if isinstance(entry, CallEntry):
            calls[entry.call] = ModelCall(entry)
        elif isinstance(entry, AnswerEntry) and entry.call in calls:
            calls[entry.call].answer = entry
        elif isinstance(entry, RetryEntry) and entry.call in calls:
            calls[entry.call].retries.append(entry)
    return list(calls.values())


def busy_seconds(calls: Iterable[ModelCall]) -> float:
    """Returns the time in which at least one call was in flight, in seconds.

    A call without a known end counts as no time.
    """
    spans = sorted((call.call.at, call.call.at + call.answer.total_s) for call in calls if call.answer is not None)
    total, end = 0.0, float("-inf")
    for start, stop in spans:
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def usage_of(entries: Iterable[ModelEntry]) -> tuple[UsageCounts, list[ScopeUsage]]:
    """Returns the usage of a run, and that of each episode and phase."""
    entries = list(entries)
    calls = joined(entries)
    found: dict[CallScope, tuple[list[ModelCall], list[RefusedEntry], list[ServedEntry]]] = {}
    for call in calls:
        found.setdefault(call.call.scope, ([], [], []))[0].append(call)
    for entry in entries:
        if isinstance(entry, RefusedEntry):
            found.setdefault(entry.scope, ([], [], []))[1].append(entry)
        elif isinstance(entry, ServedEntry):
            found.setdefault(entry.scope, ([], [], []))[2].append(entry)
    scopes = [
        ScopeUsage(task=scope.task, phase=scope.phase, episode=scope.episode, usage=_counts(*parts))
        for scope, parts in sorted(found.items(), key=lambda item: _order(item[0]))
    ]
    everything = [[item for parts in found.values() for item in parts[which]] for which in range(3)]
    return _counts(*everything), scopes  # type: ignore[arg-type]


def _order(scope: CallScope) -> tuple[str, int, int]:
    phases = ("train", "load", "latency", "episode", "end")
    phase = phases.index(scope.phase) if scope.phase in phases else len(phases)
    return scope.task, phase, -1 if scope.episode is None else scope.episode


def _counts(calls: list[ModelCall], refused: list[RefusedEntry], served: list[ServedEntry]) -> UsageCounts:
    counts = UsageCounts(calls=len(calls), refused=len(refused), served=len(served))
    first: list[float] = []
    total: list[float] = []
    for call in calls:
        counts.retries += len(call.retries)
        answer = call.answer
        if call.outcome is not CallOutcome.OK:
            _count_error(counts, call.outcome.value)
        if answer is None:
            continue
        counts.call_s += answer.total_s
        counts.invalid_tool_calls += answer.invalid_tool_calls
        if answer.usage is not None:
            counts.tokens_in += answer.usage.tokens_in
            counts.tokens_out += answer.usage.tokens_out
        if answer.cost is not None:
            counts.cost = (counts.cost or 0.0) + answer.cost
        if call.outcome is CallOutcome.OK:
            counts.answered += 1
            counts.calls_without_usage += answer.usage is None
            total.append(answer.total_s)
            if answer.first_s is not None:
                first.append(answer.first_s)
    for entry in refused:
        _count_error(counts, entry.outcome)
    counts.first_token, counts.total = _percentiles(first), _percentiles(total)
    return counts


def _count_error(counts: UsageCounts, kind: str) -> None:
    counts.errors[kind] = counts.errors.get(kind, 0) + 1


def _percentiles(values: list[float]) -> Percentiles | None:
    """Returns percentiles by the nearest-rank method; None without values."""
    if not values:
        return None
    ordered = sorted(values)

    def at(share: float) -> float:
        return ordered[math.ceil(share * len(ordered)) - 1]

    return Percentiles(count=len(ordered), median_s=at(0.5), p90_s=at(0.9), p99_s=at(0.99), max_s=ordered[-1])


def redact_journal(path: Path) -> int:
    """Replaces a journal atomically by one without the contents of requests and answers, see ``without_contents``.

    Returns:
        The number of calls.

    Raises:
        UserError: it does not exist, or is not a journal.
    """
    entries = read_entries(path)
    if not entries:
        raise UserError(f"{path} holds no calls to a model", hint="give the folder of a run that used a model")
    write_atomic(path, b"".join(encode_entry(without_contents(entry)) for entry in entries))
    return sum(isinstance(entry, CallEntry) for entry in entries)
