"""A run's use of language models in memory: the summary of usage, and the times of its answers.

The journal of calls may hold gigabytes of requests, so it is read line by line and its contents are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from a2perf.arrays import Values
from a2perf.runs.bundles.bundle_reader import BundleReader
from a2perf.runs.bundles.files import BundleFiles
from a2perf.runs.bundles.layout import MODEL_CALLS, MODEL_USAGE
from a2perf.runs.run import BUNDLE, Run
from a2perf.stranger_files import StrangerFileError
from a2perf_agents.calls import entries_in, joined, usage_of, without_contents
from a2perf_agents.record import CallOutcome, ModelEntry, ModelUsage
from a2perf_agents.transcripts import EpisodeTranscript, Wanted, transcripts_of

KEPT = "language models"
"""Name of the use in ``Run.kept``."""


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


def use_of(run: Run) -> ModelUse | None:
    """Returns the use of models by a run; None if it used none. It is read once; damage becomes a condition."""
    if KEPT not in run.kept:
        run.kept[KEPT] = _read(run) if run.folder.layout == BUNDLE else None
    found: ModelUse | None = run.kept[KEPT]
    return found


def _read(run: Run) -> ModelUse | None:
    reader = BundleReader(run.folder.files(), run.manifest)
    usage = reader.record(MODEL_USAGE, ModelUsage)
    entries = reader.tolerant(MODEL_CALLS, lambda name: list(map(without_contents, _entries(reader.files, name)))) or []
    run.conditions += reader.conditions
    if usage is None:  # a killed run: the journal gives the usage
        if not entries:
            return None
        total, scopes = usage_of(entries)
        usage = ModelUsage(total=total, scopes=scopes)
    answers = [call.answer for call in joined(entries) if call.outcome is CallOutcome.OK and call.answer is not None]
    return ModelUse(
        usage,
        np.array([answer.first_s for answer in answers if answer.first_s is not None], np.float64),
        np.array([answer.total_s for answer in answers], np.float64),
    )


def transcripts_in(run: Run, wanted: Wanted) -> list[EpisodeTranscript]:
    """Reads the transcripts of the wanted episodes of a bundle; empty without a journal of calls to a model."""
    if run.folder.layout != BUNDLE:
        return []
    reader = BundleReader(run.folder.files(), run.manifest)
    if not reader.listed(MODEL_CALLS):
        return []
    try:
        return transcripts_of(lambda: _entries(reader.files, MODEL_CALLS), wanted)
    except (StrangerFileError, OSError):
        return []


def _entries(files: BundleFiles, name: str) -> Iterator[ModelEntry]:
    with files.open(name) as stream:
        yield from (entry for _, entry in entries_in(stream))
