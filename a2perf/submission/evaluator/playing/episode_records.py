"""The recorded episodes of a run: those in its journal."""

from __future__ import annotations

import tempfile
import zipfile
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from a2perf.records import FURTHER_EPISODE, SCORED_EPISODE, Episode, RolloutResults
from a2perf.storage import Journal, record_text, write_atomic

_KINDS = (SCORED_EPISODE, FURTHER_EPISODE)
_STEP_TYPES: dict[str, type[np.generic]] = {
    "round_trip_ns": np.int64,
    "infer_ns": np.int64,
    "preprocess_ns": np.int64,
    "cpu_ns": np.int64,
    "observation_xxh3": np.int64,
    "action_xxh3": np.int64,
    "reward": np.float64,
}


def write_rollouts(path: Path, results: RolloutResults, journal: Journal) -> None:
    """Writes ``rollouts.json`` with the episodes of a journal, one per line, in place of those of ``results``."""
    with _InOrder(path) as scored, _InOrder(path) as further:
        lines = dict(zip(_KINDS, (scored, further), strict=True))
        for entry in journal.entries():
            if entry.get("kind") in _KINDS:
                episode = msgspec.convert(entry["episode"], Episode)
                lines[entry["kind"]].add(episode.index, record_text(episode).encode())
        write_atomic(path, _with_lines(msgspec.structs.replace(results, episodes=[], further=[]), lines.values()))


def _with_lines(results: RolloutResults, lines: Iterable[_InOrder]) -> Iterator[bytes]:
    rest = record_text(results).encode()
    for name, of_kind in zip((b"episodes", b"further"), lines, strict=True):
        before, empty, rest = rest.partition(b'"%s":[]' % name)
        yield before + empty[:-1]
        for number, line in enumerate(of_kind):
            yield (b",\n" if number else b"\n") + line
        yield b"\n]"
    yield rest + b"\n"


def write_steps(path: Path, journal: Journal) -> None:
    """Writes the steps of a journal's scored episodes, in order, as ``numpy.load`` reads them.

    The arrays are ``episode``, those of ``StepAccount.steps``, and those of ``StepTrace``, if every episode has them.
    """
    with ExitStack() as opened:
        columns = {name: opened.enter_context(_InOrder(path)) for name in ("episode", *_STEP_TYPES)}
        for entry in journal.entries():
            if entry.get("kind") == SCORED_EPISODE and "steps" in entry:
                index, steps = entry["episode"]["index"], entry["steps"]
                columns["episode"].add(index, np.full(len(steps["cpu_ns"]), index, np.int64).tobytes())
                for name, kind in _STEP_TYPES.items():
                    if name not in steps:
                        columns.pop(name, None)
                    elif name in columns:
                        columns[name].add(index, np.array(steps[name], kind).tobytes())
        packed = opened.enter_context(zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED))
        for name, column in columns.items():
            dtype = np.dtype(_STEP_TYPES.get(name, np.int64))
            header = {"descr": dtype.str, "fortran_order": False, "shape": (column.size // dtype.itemsize,)}
            with packed.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, header)
                for values in column:
                    member.write(values)


class _InOrder:
    """Bytes of episodes in a file without a name, read in the order of their indices: a run may have a million.

    Attributes:
        size: number of bytes.
    """

    size = 0

    def __init__(self, beside: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=beside.parent)  # noqa: SIM115 -- __exit__ closes it
        self._indices, self._ends = array("q"), array("q", (0,))

    def __enter__(self) -> _InOrder:
        return self

    def __exit__(self, *details: object) -> None:
        self._file.close()

    def add(self, index: int, content: bytes) -> None:
        """Adds those of an episode that has none yet."""
        self.size += self._file.write(content)
        self._indices.append(index)
        self._ends.append(self.size)

    def __iter__(self) -> Iterator[bytes]:
        for place in np.argsort(self._indices).tolist():
            self._file.seek(self._ends[place])
            yield self._file.read(self._ends[place + 1] - self._ends[place])


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


def recorded_returns(journal: Journal) -> NDArray[np.float64]:
    """Returns the returns of the scored episodes in a journal, ordered by index."""
    indices, returns = array("q"), array("d")
    for entry in journal.entries():
        if entry.get("kind") == SCORED_EPISODE:
            indices.append(entry["episode"]["index"])
            returns.append(entry["episode"]["episode_return"])
    return np.array(returns)[np.argsort(indices)]
