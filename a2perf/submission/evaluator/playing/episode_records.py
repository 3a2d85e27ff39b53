"""The recorded episodes of a run: those in its journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from a2perf.records import FURTHER_EPISODE, SCORED_EPISODE, Episode, RolloutResults
from a2perf.storage import Journal, record_text, write_atomic

_KINDS = (SCORED_EPISODE, FURTHER_EPISODE)


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


def recorded_indices(journal: Journal) -> set[int]:
    """Returns the indices of the episodes in a journal."""
    return {entry["episode"]["index"] for entry in journal.entries() if entry.get("kind") in _KINDS}


def scored_time(journal: Journal) -> tuple[int, float]:
    """Returns the number of steps of the scored episodes in a journal, and their wall time in seconds."""
    steps, wall_s = 0, 0.0
    for entry in journal.entries():
        if entry.get("kind") == SCORED_EPISODE:
            steps += entry["episode"]["length"]
            wall_s += entry["episode"]["wall_s"] or 0.0
    return steps, wall_s


def recorded_returns(journal: Journal) -> list[float]:
    """Returns the returns of the scored episodes in a journal, ordered by index."""
    scored = (entry["episode"] for entry in journal.entries() if entry.get("kind") == SCORED_EPISODE)
    found = {episode["index"]: episode["episode_return"] for episode in scored}
    return [found[index] for index in sorted(found)]
