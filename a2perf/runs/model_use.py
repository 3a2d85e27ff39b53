"""A run's use of language models in memory: the summary of usage, and the times of its answers.

The journal of calls may hold gigabytes of requests, so it is read line by line and its contents are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from a2perf.arrays import Values
from a2perf.runs.files import BundleFiles
from a2perf.runs.model_calls import decode_entry, joined, usage_of
from a2perf.runs.model_record import AnswerEntry, CallEntry, CallOutcome, ModelEntry, ModelUsage
from a2perf.storage import MAX_LINE_BYTES


@dataclass(frozen=True, eq=False)
class ModelUse:
    """Use of language models by one run.

    Attributes:
        usage: calls, tokens, cost and errors, of the run and of each episode.
        first_token_s: time to the first token of each streamed answer, in seconds.
        answer_s: duration of each answered call, in seconds.
    """

    usage: ModelUsage
    first_token_s: Values
    answer_s: Values


def model_use(usage: ModelUsage | None, entries: Iterable[ModelEntry]) -> ModelUse | None:
    """Returns the use of models by a run; None if it used none.

    Args:
        usage: its summary; None for a killed run: the journal then gives the usage.
        entries: of its journal.
    """
    kept = list(entries)
    answers = [
        call.answer for call in joined(kept) if call.outcome is CallOutcome.OK and call.answer is not None
    ]  # fmt: skip
    if usage is None:
        if not kept:
            return None
        total, scopes = usage_of(kept)
        usage = ModelUsage(total=total, scopes=scopes)
    return ModelUse(
        usage,
        np.array([answer.first_s for answer in answers if answer.first_s is not None], np.float64),
        np.array([answer.total_s for answer in answers], np.float64),
    )


def entries_without_contents(files: BundleFiles, name: str) -> Iterator[ModelEntry]:
    """Yields the entries of a journal without requests and answers, up to the first damaged line.

    Args:
        files: the run's files.
        name: of the journal.
    """
    for entry in entries_of(files, name):
        if isinstance(entry, CallEntry):
            entry.request, entry.changes = None, {}
        elif isinstance(entry, AnswerEntry):
            entry.chunks, entry.chunks_s = [], []
        yield entry


def entries_of(files: BundleFiles, name: str) -> Iterator[ModelEntry]:
    """Yields the entries of a journal one by one, up to the first damaged line."""
    with files.open(name) as stream:
        while line := stream.readline(MAX_LINE_BYTES):
            if not line.endswith(b"\n"):
                return
            try:
                yield decode_entry(line)
            except (msgspec.DecodeError, RecursionError):
                return
