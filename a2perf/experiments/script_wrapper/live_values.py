"""Every value that a wrapped script logs, written the moment it is logged: event file first, mirrors after it."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from a2perf.runs.event_writer import EventWriter


class Mirror(Protocol):
    """A further place for live values."""

    def log(self, tag: str, value: float, step: int) -> None:
        """Takes one value."""

    def close(self) -> None:
        """Writes what is left; nothing comes after it."""


class LiveValues:
    """Takes scalars and writes them down.

    Args:
        folder: gets the event file.

    Attributes:
        counts: values written by tag.
        refused: values by tag that were no single number.
        failures: mirrors that failed, in words.
        training: whether what happens belongs to the training.
    """

    def __init__(self, folder: Path) -> None:
        self._writer = EventWriter(folder, suffix="wrap")
        self._mirrors: list[Mirror] = []
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.failures: list[str] = []
        self.training = True

    def add_mirror(self, mirror: Mirror) -> None:
        """Sends every further value, once it is written, to ``mirror`` too; one that fails is dropped."""
        self._mirrors.append(mirror)

    def log(self, tag: str, value: Any, step: int | None = None) -> None:
        """Writes one value.

        Args:
            tag: its name.
            value: a number, an array or tensor of one element, or anything else, which is only counted.
            step: where in the training; the number of values of this tag so far unless given.
        """
        number = scalar(value)
        if number is None:
            self.refused[tag] += 1
            return
        with self._lock:
            position = self.counts[tag] if step is None else int(step)
            self.counts[tag] += 1
            self._writer.scalar(tag, number, max(position, 0))
        for mirror in list(self._mirrors):
            self._shielded(mirror, functools.partial(mirror.log, tag, number, position))

    def close(self) -> None:
        """Closes the file and the mirrors."""
        self._writer.close()
        for mirror in list(self._mirrors):
            self._shielded(mirror, mirror.close)

    def _shielded(self, mirror: Mirror, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # a tracker that fails never takes the run down
            self._mirrors.remove(mirror)
            self.failures.append(f"a mirror failed and was left out: {type(error).__name__}: {error}")


def scalar(value: Any) -> float | None:
    """Returns the number that a value is, or None when it is not exactly one."""
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return float(value)
    if isinstance(value, str | bytes):
        return None
    with contextlib.suppress(Exception):  # any object may come from a script
        # a tensor has both; `detach` of a stream would take it apart
        detached = value.detach().cpu() if hasattr(value, "detach") and hasattr(value, "cpu") else value
        array = np.asarray(detached, dtype=np.float64)
        if array.size == 1:
            return float(array.reshape(()))
    return None
