"""``a2perf.track``: energy, power, memory and time of any block of code.

A thread samples this process and its child processes with the trackers of every run; see ``metrics/trackers``.
"""

from __future__ import annotations

import collections
import functools
import inspect
import itertools
import logging
import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar, cast, overload, runtime_checkable

from a2perf.api.tracked import Tracked
from a2perf.errors import ConfigError, UserError

if TYPE_CHECKING:
    from a2perf.metrics.trackers.sampler import Sampler
    from a2perf.runs.bundles.bundle import Bundle

__all__ = ["MetricLogger", "Tracked", "TrackedBlock", "TrackedFunction", "track"]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


@runtime_checkable
class MetricLogger(Protocol):
    """An object that takes values by name."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Takes values of one step of the training, from 0; NaN and infinities are allowed."""

    def close(self) -> None:
        """Ends the record; calling it again changes nothing."""


Logger = logging.Logger | MetricLogger | Callable[[Tracked], object]
"""Receives the result at the end of a block: a ``logging.Logger`` gets one line at level INFO, a
``MetricLogger`` gets the costs by name at step 0, a callable gets the ``Tracked``."""

_OPEN_WAIT_S = 1.0
_MOST_CALLS = 1000


class TrackedFunction(Protocol[P, R_co]):
    """A function under the decorator.

    Attributes:
        tracked: the results of the last 1000 calls, oldest first.
    """

    tracked: collections.deque[Tracked]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Calls the function and tracks the call."""
        ...


@overload
def track(name: Callable[P, R]) -> TrackedFunction[P, R]: ...


@overload
def track(
    name: str | None = None,
    *,
    folder: str | Path | None = None,
    interval_s: float | None = None,
    idle_s: float = 0.0,
    task: str = "",
    seed: int = 0,
    logger: Logger | None = None,
) -> TrackedBlock: ...


def track(
    name: str | Callable[P, R] | None = None,
    *,
    folder: str | Path | None = None,
    interval_s: float | None = None,
    idle_s: float = 0.0,
    task: str = "",
    seed: int = 0,
    logger: Logger | None = None,
) -> TrackedBlock | TrackedFunction[P, R]:
    """Tracks energy, power, memory, processor time and wall time of a block of code or of each call of a function.

    Use it as a context manager or as a decorator, with or without arguments. The costs are those of this process and
    all its child processes during the block. Blocks can be nested and can run in several threads: each block counts
    the whole process, so the costs of blocks that overlap must not be added. An exception in the block passes
    unchanged, and the costs up to it stay available.

    A decorated function stores its results in ``function.tracked``.

    Entering and leaving a block takes tens of milliseconds, outside of the measured time. Sampling costs below 1 % of
    one core at the default interval.

    Args:
        name: name of the block; by default ``"block"`` or the name of the function.
        folder: records the block as a bundle in ``folder/train``, which ``a2perf.read_runs``, ``a2perf score`` and
            ``a2perf report`` read. Event files written to ``tracked.artifacts`` become its learning curve. An earlier
            record in the same folder moves to ``folder/attic``. Calls of a decorated function are recorded in
            ``folder/call_0``, ``folder/call_1``, ...
        interval_s: time between samples in seconds; 1 s by default. The first samples are taken at shorter intervals.
        idle_s: seconds to wait before the block and to measure the idle power in. Net energy then excludes it.
        task: task of the record.
        seed: seed of the record; records that differ only in the seed are scored together.
        logger: receives the result at the end: a ``logging.Logger``, a ``MetricLogger`` or a callable.
            A failure of it is a warning.

    Returns:
        A context manager that yields ``Tracked``; it is a decorator too.

    Raises:
        ConfigError: an argument is not valid, or ``folder`` cannot be written.

    Example:
        >>> import a2perf
        >>> with a2perf.track("sort") as tracked:
        ...     numbers = sorted(range(100_000), key=lambda number: -number)
        >>> tracked.cpu_time.value > 0
        True

        >>> @a2perf.track
        ... def fit(steps):
        ...     return sum(range(steps))
        >>> fit(1000), len(fit.tracked)
        (499500, 1)
    """
    if callable(name):
        return TrackedBlock()(name)
    return TrackedBlock(name, folder=folder, interval_s=interval_s, idle_s=idle_s, task=task, seed=seed, logger=logger)


@dataclass
class TrackedBlock:
    """A block to track: a context manager for one block, and a decorator. ``a2perf.track`` creates it."""

    name: str | None = None
    folder: str | Path | None = None
    interval_s: float | None = None
    idle_s: float = 0.0
    task: str = ""
    seed: int = 0
    logger: Logger | None = None

    def __post_init__(self) -> None:
        if self.name is not None and not isinstance(self.name, str):
            raise ConfigError(f"the name of a block is text, not {type(self.name).__name__}", hint='track("training")')
        if self.interval_s is not None and not self.interval_s > 0:
            raise ConfigError(f"interval_s = {self.interval_s!r} is not a positive number", hint="give seconds: 1.0")
        if not self.idle_s >= 0:
            raise ConfigError(f"idle_s = {self.idle_s!r} is negative", hint="give seconds, such as 2.0")
        if not (isinstance(self.logger, logging.Logger | MetricLogger | None) or callable(self.logger)):
            raise ConfigError(
                f"a {type(self.logger).__name__} cannot receive the result",
                hint="give a logging.Logger, an object with log(step, values), or a function of one argument",
            )
        self._tracked: Tracked | None = None
        self._sampler: Sampler | None = None
        self._record: Bundle | None = None
        self._pid = 0

    def __enter__(self) -> Tracked:
        from a2perf.metrics.trackers.sampler import Sampler

        if self._tracked is not None:
            raise UserError("this block has been entered before", hint="call a2perf.track() for each block")
        name = self.name or "block"
        if self.folder is not None:
            from a2perf.api.tracked_bundle import open_record

            self._record = open_record(Path(self.folder), name, task=self.task, seed=self.seed)
        self._pid = os.getpid()
        self._sampler = Sampler(
            directory=None if self._record is None else self._record.metrics,
            interval_s=float(self.interval_s or 1.0),
            with_codecarbon=False,
            own_process=True,
            idle=self.idle_s > 0,
        )
        self._sampler.prepare()
        # An open counter measures from the first moment of the block.
        self._sampler.wait_opened(_OPEN_WAIT_S)
        if self.idle_s:
            time.sleep(self.idle_s)
        self._sampler.attach(self._pid)
        bundle = None if self._record is None else self._record.path
        self._tracked = Tracked(name, self._sampler, task=self.task, seed=self.seed, bundle=bundle)
        return self._tracked

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._sampler is not None
        assert self._tracked is not None
        if os.getpid() != self._pid:  # a fork of this process leaves the block; the parent still measures it
            return
        report = self._sampler.stop()
        # a block also ends as planned by sys.exit(0), or in a generator that is closed
        is_normal = isinstance(error, GeneratorExit) or (isinstance(error, SystemExit) and not error.code)
        failed = None if is_normal else error
        self._tracked._end(report, "" if failed is None else f"{type(failed).__name__}: {failed}")
        if self._record is not None:
            from a2perf.api.tracked_bundle import close_record

            try:
                close_record(self._record, report, failed)
            except (UserError, OSError) as problem:
                # The block itself succeeded, perhaps after days: a full disk must not turn it into a failure.
                warnings.warn(f"the record {self._record.path} is not complete: {problem}", stacklevel=2)
        try:
            self._log(self._tracked)
        except Exception as problem:  # a tracker may raise anything, and must not turn the block into a failure
            warnings.warn(f"the costs of {self._tracked.name} were not logged: {problem}", stacklevel=2)

    def _log(self, tracked: Tracked) -> None:
        if isinstance(self.logger, logging.Logger):
            self.logger.info("%s", tracked.summary())
        elif isinstance(self.logger, MetricLogger):
            known = {name: cost.value for name, cost in tracked.costs.items() if cost.value is not None}
            self.logger.log(0, {f"a2perf/{name}": value for name, value in known.items()})
        elif self.logger is not None:
            self.logger(tracked)

    def __call__(self, function: Callable[P, R]) -> TrackedFunction[P, R]:
        """Returns the function with each call tracked.

        Raises:
            ConfigError: a call of it only begins the work.
        """
        begins = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        if any(kind(function) for kind in begins):
            raise ConfigError("a generator or coroutine cannot be decorated", hint="write `with a2perf.track():` in it")
        results: collections.deque[Tracked] = collections.deque(maxlen=_MOST_CALLS)
        numbers = itertools.count()

        name = self.name or getattr(function, "__qualname__", type(function).__name__)

        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
            folder = None if self.folder is None else Path(self.folder) / f"call_{next(numbers)}"
            with replace(self, name=name, folder=folder) as tracked:
                try:
                    return function(*args, **kwargs)
                finally:
                    results.append(tracked)

        vars(wrapped)["tracked"] = results
        return cast("TrackedFunction[P, R]", wrapped)
