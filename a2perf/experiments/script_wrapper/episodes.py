"""The episodes of every environment that a script makes with Gymnasium, in all its processes.

``gymnasium.make`` and ``make_vec`` put Gymnasium's own statistics wrapper around an environment, so returns are those
below the wrappers of the script. ``episodes.jsonl`` has a line per environment and a line per episode. Several
processes append to it; each line is one ``write`` in append mode, so lines do not mix. At the end the training curve is
chosen from this file, even if the script was killed.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from a2perf.experiments.script_wrapper.import_hooks import after_import
from a2perf.experiments.script_wrapper.places import ROLES, TRAINING, Place, place_here
from a2perf.stranger_files import StrangerFileError, read_regular_file
from a2perf.system import files as os

JOURNAL = "episodes.jsonl"
SMOOTHING = 0.9
"""Weight of the past in ``smoothed_returns``."""

_MOST_CURVES = 16
_MAX_BYTES = 1 << 29


class EpisodeJournal:
    """Appends the episodes of the environments that are made in this process.

    Args:
        folder: folder of the journal.
        scripts: folder of the script; stack frames in it give the place where an environment was made.
    """

    def __init__(self, folder: Path, scripts: str) -> None:
        self._descriptor = os.open(folder / JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._scripts = scripts
        self._known: set[tuple[str, str]] = set()
        self._making = threading.local()
        self.training = True

    def listen(self) -> None:
        """Records the environments that are made from now on."""
        after_import("gymnasium.envs.registration", self._listen_to_registration)

    def made(self, name: str) -> tuple[str, str]:
        """Describes an environment in the journal and returns its key: the place that makes it, and its name."""
        place = place_here(self._scripts)
        key = (place.key, name)
        if key not in self._known:
            self._known.add(key)
            self._append({"key": key, "line": place.line, "role": place.role})
        return key

    def episode(self, key: tuple[str, str], total: float, length: int) -> None:
        """Appends an episode, during the training."""
        if self.training:
            self._append([key, total, length])

    def _append(self, line: Any) -> None:
        os.write(self._descriptor, msgspec.json.encode(line) + b"\n")

    def _listen_to_registration(self, module: ModuleType) -> None:
        make, make_vec = module.make, module.make_vec

        @functools.wraps(make)
        def recording_make(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._making, "now", False):  # an environment that contains another one
                return make(*args, **kwargs)
            self._making.now = True
            try:
                return self._recorded(make(*args, **kwargs))
            finally:
                self._making.now = False

        @functools.wraps(make_vec)
        def recording_make_vec(*args: Any, **kwargs: Any) -> Any:
            return self._recorded(make_vec(*args, **kwargs))

        module.make, module.make_vec = recording_make, recording_make_vec  # type: ignore[attr-defined]

    def _recorded(self, env: Any) -> Any:
        from a2perf.experiments.script_wrapper.recorder import recorded

        return recorded(env, self.made, self.episode)


@dataclass
class EpisodeCurve:
    """The episodes of one environment, or of all that one call in the script makes, in the order of their ends.

    Attributes:
        number: position in the order of creation, from 1.
        returns: sum of the rewards of each episode.
    """

    number: int
    name: str
    place: Place
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)

    def at(self) -> list[int]:
        """Returns the environment steps of all episodes up to the end of each one."""
        return list(itertools.accumulate(self.lengths))

    def title(self) -> str:
        """Returns the environment's name for people."""
        return f"environment {self.number} ({self.name}, made at {self.place.line})"


def read_curves(folder: Path) -> list[EpisodeCurve]:
    """Reads the curves of a run, without those that have no episode."""
    found: dict[tuple[str, str], EpisodeCurve] = {}
    for line in _lines(folder):
        match line:
            case {"key": [str(place), str(name)], "line": str(text), "role": str(role)} if role in ROLES:
                found.setdefault((place, name), EpisodeCurve(0, name, Place(place, text, role)))
            case [[str(place), str(name)], int() | float() as total, int(length)] if (place, name) in found:
                curve = found[place, name]
                curve.returns.append(float(total))
                curve.lengths.append(length)
    curves = [curve for curve in found.values() if curve.returns]
    for number, curve in enumerate(curves, 1):
        curve.number = number
    return curves


def choose(curves: list[EpisodeCurve]) -> tuple[EpisodeCurve, str] | None:
    """Chooses the curve of the training run, and returns the rule that decided.

    Environments that the script names ``env`` or after training come first; environments of lines or functions that
    are named after evaluation or test come last. Among equals the one with the most steps wins, then the earliest.
    """
    if not curves:
        return None
    chosen = min(curves, key=lambda curve: (ROLES.index(curve.place.role), -sum(curve.lengths), curve.number))
    if len(curves) == 1:
        return chosen, "it is the only one"
    if sum(curve.place.role == chosen.place.role for curve in curves) > 1:
        return chosen, "it took the most steps"
    if chosen.place.role == TRAINING:
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
        return None, ["no episode ended in an environment of gymnasium.make, here or in processes of multiprocessing"]
    chosen, reason = choice
    smoothed = chosen.returns[0]
    for total, length, at in zip(chosen.returns, chosen.lengths, chosen.at(), strict=True):
        smoothed = SMOOTHING * smoothed + (1.0 - SMOOTHING) * total
        log("charts/episodic_return", total, at)
        log("charts/episodic_length", length, at)
        log("smoothed_returns", smoothed, at)
    lines = [f"{len(chosen.returns)} of the training, in {chosen.title()}: {reason}"]
    others = [curve for curve in curves if curve is not chosen]
    for curve in others[:_MOST_CURVES]:
        tag = f"environments/{curve.number}/episodic_return"
        for total, at in zip(curve.returns, curve.at(), strict=True):
            log(tag, total, at)
        lines.append(f"{len(curve.returns)} in {curve.title()}, kept apart as {tag}")
    if len(others) > _MOST_CURVES:
        lines.append(f"those of {len(others) - _MOST_CURVES} further environments are in {JOURNAL} only")
    return chosen, lines


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
