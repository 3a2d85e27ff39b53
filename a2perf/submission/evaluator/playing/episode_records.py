"""The recorded episodes of a run: those in its journal, and new ones as they end. Threads may add episodes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from a2perf.records import (
    FURTHER_EPISODE,
    SCORED_EPISODE,
    Episode,
    LatencyResults,
    RolloutResults,
    StepCosts,
)
from a2perf.runs.bundles.layout import LATENCY_FILE, ROLLOUTS_FILE, STEPS_FILE
from a2perf.storage import Journal, read_record, record_text, write_atomic
from a2perf.submission.evaluator.playing import step_account
from a2perf.submission.evaluator.progress import RunProgress
from a2perf.submission.evaluator.submitted.identity import RunTask

_KINDS = (SCORED_EPISODE, FURTHER_EPISODE)


class EpisodeRecords:
    """The episodes of one task."""

    def __init__(self, journal: Journal, progress: RunProgress) -> None:
        self._journal, self._progress = journal, progress
        # Only their indices are kept in memory: a run may have a million episodes.
        self._done = {entry["episode"]["index"] for entry in journal.entries() if entry.get("kind") in _KINDS}
        self._lock = threading.Lock()
        progress.advance(len(self._done))

    def has(self, index: int) -> bool:
        """Returns whether an episode is recorded."""
        return index in self._done

    def add_scored(self, episode: Episode, steps: Mapping[str, Any]) -> None:
        """Records a scored episode with its steps."""
        self._add(episode, {"kind": SCORED_EPISODE, "episode": msgspec.to_builtins(episode), "steps": dict(steps)})

    def add_further(self, episode: Episode) -> None:
        """Records a repeated or perturbed episode."""
        self._add(episode, {"kind": FURTHER_EPISODE, "episode": msgspec.to_builtins(episode)})

    def _add(self, episode: Episode, entry: dict[str, Any]) -> None:
        with self._lock:
            self._journal.append(entry)
            self._done.add(episode.index)
            self._progress.advance(len(self._done), f"last return {episode.episode_return:.2f}")

    def write(self, folder: Path, task: RunTask, costs: StepCosts | None) -> list[str]:
        """Writes ``rollouts.json`` and ``rollout_steps.npz``."""
        if costs is not None and (folder / LATENCY_FILE).exists():
            timed = read_record(folder / LATENCY_FILE, LatencyResults).costs
            if timed is not None and step_account.unlike(timed, costs):
                costs.flags.append(step_account.UNLIKE_TIMED)
        results = RolloutResults(task=task.name, env_id=task.env_id, episodes=[], costs=costs)
        write_rollouts(folder / ROLLOUTS_FILE, results, self._journal)
        step_account.write_steps(folder / STEPS_FILE, self._journal.entries())
        text = None if costs is None else step_account.warning(costs, "scored episodes")
        return [] if text is None else [text]


def write_rollouts(path: Path, results: RolloutResults, journal: Journal) -> None:
    """Writes ``rollouts.json`` with the episodes of a journal, one per line, in place of those of ``results``.

    Of an episode only its line is kept in memory: a run may have a million.
    """
    lines: dict[str, dict[int, bytes]] = {kind: {} for kind in _KINDS}
    for entry in journal.entries():
        if entry.get("kind") in _KINDS:
            episode = msgspec.convert(entry["episode"], Episode)
            lines[entry["kind"]][episode.index] = record_text(episode).encode()
    write_atomic(path, _with_lines(msgspec.structs.replace(results, episodes=[], further=[]), lines))


def _with_lines(results: RolloutResults, lines: dict[str, dict[int, bytes]]) -> Iterator[bytes]:
    rest = record_text(results).encode()
    for name, of_kind in zip((b"episodes", b"further"), lines.values(), strict=True):
        before, empty, rest = rest.partition(b'"%s":[]' % name)
        yield before + empty[:-1]
        for number, index in enumerate(sorted(of_kind)):
            yield (b",\n" if number else b"\n") + of_kind[index]
        yield b"\n]"
    yield rest + b"\n"


def recorded_returns(journal: Journal) -> list[float]:
    """Returns the returns of the scored episodes in a journal, ordered by index."""
    scored = (entry["episode"] for entry in journal.entries() if entry.get("kind") == SCORED_EPISODE)
    found = {episode["index"]: episode["episode_return"] for episode in scored}
    return [found[index] for index in sorted(found)]
