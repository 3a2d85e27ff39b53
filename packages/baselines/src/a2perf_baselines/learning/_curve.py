"""The learning curve of a training run in TensorBoard event files; a resumed training run appends to it.

When a run resumes from a checkpoint, values logged after that checkpoint are removed: no step appears twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from a2perf.runs.events.event_writer import EventWriter

FOLDER = "train"
RETURN_TAG = "Metrics/AverageReturn"


class LearningCurve:
    """The event files of one training run.

    Args:
        folder: the training run's artifacts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER
        self._writer: EventWriter | None = None

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Appends values by tag at an environment step."""
        if self._writer is None:
            self._writer = EventWriter(self._folder)
        for tag, value in values.items():
            self._writer.scalar(tag, float(value), step)

    def lengths(self) -> dict[str, int]:
        """Returns the length of each file in bytes, for a checkpoint."""
        return {path.name: path.stat().st_size for path in sorted(self._folder.glob("events.out.tfevents.*"))}

    def cut(self, lengths: Mapping[str, int]) -> None:
        """Truncates the files to the lengths of a checkpoint."""
        for name, now in self.lengths().items():
            path = self._folder / name
            if name not in lengths:
                path.unlink()
            elif now > lengths[name]:
                with path.open("r+b") as stream:
                    stream.truncate(lengths[name])

    def close(self) -> None:
        """Closes the current file; further values open a new one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
