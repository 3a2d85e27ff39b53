"""Live loggers: values of a running training or measurement go to a tracker as they arise.

The loggers of MLflow, Weights & Biases and TensorBoard have the same two methods, so callbacks accept any of them, and
any other object with these methods. A tracker that fails never stops the training: the logger warns once and continues.
"""

from __future__ import annotations

import abc
import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import Self


class TrackerLogger(abc.ABC):
    """Base of the loggers: warns about the first failure of the tracker and continues after each.

    A logger is a context manager that closes itself.
    """

    tracker: str

    def __init__(self) -> None:
        self.failures = 0
        """Calls that the tracker did not accept."""
        self._is_open = True

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Logs values of one step; see ``a2perf.api.tracking.MetricLogger``."""
        try:
            self._log(int(step), {name: float(value) for name, value in values.items()})
        except Exception as error:  # a tracker may raise anything, and the training must continue
            self._failed("values", error)

    def close(self) -> None:
        """Ends the record in the tracker; calling it again changes nothing."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._close()
        except Exception as error:  # as above
            self._failed("the end of the run", error)

    def __enter__(self) -> Self:
        """Returns the logger."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the logger."""
        self.close()

    @abc.abstractmethod
    def _log(self, step: int, values: Mapping[str, float]) -> None: ...

    @abc.abstractmethod
    def _close(self) -> None: ...

    def _failed(self, what: str, error: Exception) -> None:
        self.failures += 1
        if self.failures == 1:
            reason = str(error).partition("\n")[0] or type(error).__name__
            message = f"{self.tracker} did not accept {what}: {reason}; later failures are not reported"
            warnings.warn(message, RuntimeWarning, stacklevel=3)
