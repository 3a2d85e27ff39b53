"""The conductor: drives any list of run specifications to its end, with one live view and one handling of interrupts.

Every kind of experiment (``a2perf.experiments``) returns run specifications and hands them to ``Conductor.run``. What
executes where is the launcher's matter, which runs wait for which the queue's, what an end means ``outcomes``'.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from a2perf.fault_point import fault_point
from a2perf.launch.interface import Launcher, heeded_signals
from a2perf.launch.preparation import Restart, prepare
from a2perf.launch.queue import MAX_RETRIES, Queue
from a2perf.launch.queue_entry import QueueEntry
from a2perf.launch.run_spec import RunSpec
from a2perf.launch.scheduler import RunEvent, Summary, drive

if TYPE_CHECKING:
    from rich.console import Console

QUEUE_FILE = "queue.sqlite"
"""Name of the queue in an experiment's root folder."""


@dataclass(frozen=True)
class ExperimentResult:
    """What a list of runs came to.

    Attributes:
        entries: the runs as they stand, in the order in which they were added.
        summary: what this process did.
    """

    entries: Sequence[QueueEntry]
    summary: Summary

    @property
    def exit_code(self) -> int:
        """0 all finished, 1 some run failed, 3 the infrastructure failed one, 130 stopped before the end."""
        return self.summary.exit_code

    def as_json(self, root: Path) -> dict[str, Any]:
        """Returns the result as a JSON object; ``root`` is the experiment's folder."""
        return {
            "root": str(root),
            "exit_code": self.exit_code,
            "counts": {state.value: count for state, count in self.summary.counts.items()},
            "failed": dict(self.summary.failed),
            "wall_s": self.summary.wall_s,
            "jobs_started": self.summary.attempts,
            "runs": [entry.as_json() for entry in self.entries],
        }


class Conductor:
    """Executes runs with a launcher; used as a context it heeds signals, and closes the launcher at the end.

    The first SIGINT, SIGTERM or SIGHUP ends what runs in order and starts nothing more, the second raises
    ``KeyboardInterrupt`` at once. A signal that is ignored (``nohup``) stays ignored.

    Args:
        launcher: where runs execute.
        workers: how many at the same time.
        console: where progress is shown; ``None`` shows nothing.
        live: show a live table if the console is a terminal; otherwise every event is a line.
    """

    def __init__(
        self, launcher: Launcher, workers: int = 1, *, console: Console | None = None, live: bool = True
    ) -> None:
        self.launcher = launcher
        self._workers = workers
        self._console = console
        self._live = live
        self._signals = 0
        self._told = False
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def interrupted(self) -> bool:
        """Whether a signal asked for the end."""
        return self._signals > 0

    def __enter__(self) -> Conductor:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._take) for number in heeded_signals()}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self.launcher.close()
        sys.stderr.flush()

    def run(
        self,
        specs: Sequence[RunSpec],
        queue_file: Path,
        *,
        restart: Restart | None = None,
        max_retries: int = MAX_RETRIES,
        on_ready: Callable[[Queue], object] = lambda queue: None,
        on_event: Callable[[RunEvent], None] = lambda event: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> ExperimentResult:
        """Executes runs, or what is left of them; the same call again finishes what an interrupted one left.

        Args:
            specs: the runs; one that comes ``after`` another stands behind it.
            queue_file: the durable queue; made when missing. Several processes may share one.
            restart: which runs that are over start again.
            max_retries: how often a run is tried again after a failure of the infrastructure.
            on_ready: called once with the queue, before anything starts.
            on_event: called with every event, in this thread.
            stop: asked at every turn; once true, what runs is cancelled, what waits stays queued, and this returns.

        Raises:
            ConfigError: finished runs of another identity lie where planned ones belong.
        """
        fault_point("launcher: planned")
        with Queue(queue_file, max_retries=max_retries) as queue:
            keys = [spec.key for spec in specs]
            prepare(queue, specs, restart)
            fault_point("launcher: queued")
            on_ready(queue)
            queue.restrict(keys)
            with self._view() as view:

                def shown(event: RunEvent) -> None:
                    on_event(event)
                    if view is not None:
                        view.show(event)

                summary = drive(
                    queue, self.launcher, self._workers, on_event=shown, stop=lambda: self._must_stop() or stop()
                )
            fault_point("launcher: driven")
            return ExperimentResult(queue.entries(keys), summary)

    def _view(self) -> Any:
        if self._console is None:
            return nullcontext()
        from a2perf.launch.live_view import LiveView

        return LiveView(self._console, live=self._live and self._console.is_terminal)

    def _must_stop(self) -> bool:
        """Returns whether a signal came; says so once. A handler must not print, it may have interrupted a print."""
        if self._signals and not self._told:
            self._told = True
            if self._console is not None:
                self._console.print("stopping: the running runs are told to end; once more ends them at once")
        return self.interrupted

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            raise KeyboardInterrupt
