"""``episodes.jsonl``: the episodes of all environments that a script steps, in all its processes.

A line with an object describes an environment; a line with a list is an episode of one. Several processes append to one
file; each line is one ``write`` in append mode, so lines do not mix. At the end the training curve is chosen from this
file, even if the script was killed.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import filelock
import msgspec

from a2perf.experiments.script_wrapper.places import EVALUATION, ROLES, TRAINING, Place
from a2perf.stranger_files import StrangerFileError, read_regular_file
from a2perf.system import files as os

JOURNAL = "episodes.jsonl"
REPORTED = "reported"
"""Role of a curve that a wrapper of the script reports; it counts only if no other episode was recorded."""
SMOOTHING = 0.9
"""Weight of the past in ``smoothed_returns``."""

_MOST_CURVES = 16
_STEPS = ".steps-"
_MAX_BYTES = 1 << 29
_SLOTS = 512


class StepCounter:
    """A step counter of this process or, in a mapped file, of several processes; each one has a slot in the file."""

    def __init__(self, path: Path | None = None) -> None:
        self.is_shared = path is not None
        self._counts: Any = [1, 0]
        self._slot = 1
        if path is None:
            return
        with filelock.FileLock(f"{path}.lock"), path.open("a+b") as file:
            file.truncate(8 * (_SLOTS + 1))
            self._counts = memoryview(mmap.mmap(file.fileno(), 8 * (_SLOTS + 1))).cast("q")
            self._counts[0] += 1  # slots in use
            # Processes beyond the last slot share it, at the price of steps that two of them add at once.
            self._slot = min(self._counts[0], _SLOTS)

    def add(self, count: int) -> None:
        """Adds steps of this process."""
        self._counts[self._slot] += count

    def total(self) -> int:
        """Returns the steps of all processes."""
        return sum(self._counts[1:])


class EpisodeJournal:
    """Appends to the journal of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor = os.open(folder / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def append(self, line: Any) -> None:
        """Appends one line."""
        os.write(self._descriptor, msgspec.json.encode(line) + b"\n")

    def shared_steps(self, key: str) -> StepCounter:
        """Returns the step counter of the environments from one place in all worker processes."""
        return StepCounter(self.folder / f"{_STEPS}{key}")


@dataclass
class EpisodeCurve:
    """The episodes of one environment, or of several that count as one.

    Attributes:
        number: position in the order of the first steps, from 1.
        returns: sum of the environment's original rewards of each episode.
        at: environment steps of this curve at the end of each episode.
        ends: steps of its process at the end of each episode.
    """

    number: int
    name: str
    place: Place
    workers: bool
    born: int
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """Environment steps up to the end of the last episode."""
        return max(self.at, default=0)

    def title(self) -> str:
        """Returns the environment's name for people."""
        where = ", in worker processes" if self.workers else ""
        return f"environment {self.number} ({self.name}, made at {self.place.line}{where})"

    def _take(self, other: EpisodeCurve) -> None:
        offset = self.steps if not self.workers else 0
        self.returns += other.returns
        self.lengths += other.lengths
        self.at += [step + offset for step in other.at]
        self.ends += other.ends


def read_curves(folder: Path) -> list[EpisodeCurve]:
    """Reads the curves of a run, without those that have no episode.

    Environments that worker processes create at one place form one curve. An environment that is created at the place
    of an earlier one, after the last episode of that one, continues its curve.
    """
    found: dict[str, EpisodeCurve] = {}
    for line in _lines(folder):
        match line:
            case {"env": str(ident), "name": str(name), "key": str(key), "line": str(text), "role": str(role),
                  "worker": bool(worker), "born": int(born)}:  # fmt: skip
                found.setdefault(ident, EpisodeCurve(0, name, Place(key, text, role), worker, born))
            case [str(ident), int() | float() as total, int(length), int(at), int(end)] if ident in found:
                curve = found[ident]
                curve.returns.append(float(total))
                curve.lengths.append(length)
                curve.at.append(at)
                curve.ends.append(end)
    merged: list[EpisodeCurve] = []
    counted = [curve for curve in found.values() if curve.returns]
    counted = [curve for curve in counted if curve.place.role != REPORTED] or counted
    for curve in counted:
        before = next((other for other in merged if _is_continued(other, curve)), None)
        if before is not None:
            before._take(curve)
        else:
            merged.append(curve)
    for number, curve in enumerate(merged, 1):
        curve.number = number
        if curve.workers:
            order = sorted(range(len(curve.at)), key=curve.at.__getitem__)
            for name in ("returns", "lengths", "at", "ends"):
                setattr(curve, name, [getattr(curve, name)[index] for index in order])
    return merged


def choose(curves: list[EpisodeCurve]) -> tuple[EpisodeCurve, str] | None:
    """Chooses the curve of the training run, and returns the rule that decided.

    Environments that the script names ``env`` or after training come first; environments of lines or functions that
    are named after evaluation or test come last. Among equals the one with the most steps wins, then the earliest.
    """
    if not curves:
        return None
    chosen = min(curves, key=lambda curve: (ROLES.index(_role(curve)), -curve.steps, curve.number))
    if len(curves) == 1:
        return chosen, "it is the only one"
    rivals = [curve for curve in curves if _role(curve) == _role(chosen)]
    if len(rivals) > 1:
        return chosen, "it took the most steps"
    if _role(chosen) == TRAINING:
        return chosen, "its line names it as the environment of the training"
    return chosen, "the lines of the others name evaluation"


def log_curves(folder: Path, log: Callable[[str, float, int], Any]) -> tuple[EpisodeCurve | None, list[str]]:
    """Logs the training curve under the usual names, and the other curves under the numbers of their environments.

    Returns:
        The training curve, and lines for people: which curve it is and why, and the other curves.
    """
    curves = read_curves(folder)
    choice = choose(curves)
    if choice is None:
        return None, ["no episode ended in this process or in one started with multiprocessing"]
    chosen, reason = choice
    smoothed = chosen.returns[0]
    for total, length, at in zip(chosen.returns, chosen.lengths, chosen.at, strict=True):
        smoothed = SMOOTHING * smoothed + (1.0 - SMOOTHING) * total
        log("charts/episodic_return", total, at)
        log("charts/episodic_length", length, at)
        log("smoothed_returns", smoothed, at)
    lines = [f"{len(chosen.returns)} of the training, in {chosen.title()}: {reason}"]
    others = [curve for curve in curves if curve is not chosen]
    for curve in others[:_MOST_CURVES]:
        tag = f"environments/{curve.number}/episodic_return"
        for total, at in zip(curve.returns, curve.at, strict=True):
            log(tag, total, at)
        lines.append(f"{len(curve.returns)} in {curve.title()}, kept apart as {tag}")
    if len(others) > _MOST_CURVES:
        lines.append(f"those of {len(others) - _MOST_CURVES} further environments are in {JOURNAL} only")
    return chosen, lines


def remove_step_counts(folder: Path) -> None:
    """Removes the counter files that worker processes shared."""
    for path in folder.glob(f"{_STEPS}*"):
        path.unlink(missing_ok=True)


def _role(curve: EpisodeCurve) -> str:
    return curve.place.role if curve.place.role in ROLES else EVALUATION


def _is_continued(before: EpisodeCurve, later: EpisodeCurve) -> bool:
    if before.place.key != later.place.key or not later.place.key or before.workers != later.workers:
        return False
    return before.workers or later.born >= max(before.ends)


def _lines(folder: Path) -> Iterator[Any]:
    try:
        data = read_regular_file(folder, JOURNAL, max_bytes=_MAX_BYTES)
    except (StrangerFileError, OSError):
        return
    for line in data.splitlines():
        try:
            yield msgspec.json.decode(line)
        except msgspec.DecodeError:  # incomplete after a crash
            continue
