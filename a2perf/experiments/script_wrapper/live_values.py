"""Writes each value that a wrapped script logs immediately, first to the event file, then to the mirror."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from a2perf.runs.events.event_writer import EventWriter


class LiveValues:
    """Writes scalars.

    Attributes:
        refused: values by tag that were not a single number.
        mirror: a run of Weights & Biases that gets every value too; None without one.
    """

    def __init__(self, folder: Path) -> None:
        self._writer = EventWriter(folder, suffix="wrap")
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.failures: list[str] = []
        self.training = True
        self.mirror: Any = None

    def log(self, tag: str, value: Any, step: int | None = None) -> None:
        """Writes a value that ``scalar`` takes, and counts any other; the step is by default their number so far."""
        number = scalar(value)
        if number is None:
            self.refused[tag] += 1
            return
        # A script may log from several threads.
        with self._lock:
            position = self.counts[tag] if step is None else int(step)
            self.counts[tag] += 1
            self._writer.scalar(tag, number, max(position, 0))
        # The step is a separate field, because the service drops values if the step decreases.
        self._mirrored("log", {tag: number, "global_step": position})

    def close(self) -> None:
        """Closes the file and the mirror."""
        self._writer.close()
        self._mirrored("finish")

    def _mirrored(self, method: str, *given: Any) -> None:
        try:
            if self.mirror is not None:
                getattr(self.mirror, method)(*given)
        except Exception as error:  # a failing tracker must not end the run
            self.mirror = None
            self.failures.append(f"a mirror failed and was left out: {type(error).__name__}: {error}")


def scalar(value: Any) -> float | None:
    """Returns a value as a number; None if it is not a single number."""
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return float(value)
    if isinstance(value, str | bytes):
        return None
    with contextlib.suppress(Exception):  # a script may log any object
        array = np.asarray(as_array(value), dtype=np.float64)
        if array.size == 1:
            return float(array.reshape(()))
    return None


def as_array(value: Any) -> Any:
    """Returns a NumPy array of an array, a tensor on any device, or a number."""
    # both, as a tensor has: `detach` of a stream would close its buffer
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") and hasattr(value, "cpu") else value)
