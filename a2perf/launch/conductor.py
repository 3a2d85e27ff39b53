"""The conductor: drives any list of run specifications to its end, with one live view and one handling of interrupts.

Every kind of experiment (``a2perf.experiments``) returns run specifications and hands them to ``Conductor.run``. The
launcher decides where runs execute, the queue which runs wait for which, and ``outcomes`` what the end of a job means.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from a2perf.fault_point import fault_point
from a2perf.launch.interface import Launcher, handled_signals
from a2perf.launch.local import LocalLauncher
from a2perf.launch.preparation import Restart, prepare
from a2perf.launch.queue import MAX_RETRIES, Queue
from a2perf.launch.run_spec import RunSpec
from a2perf.launch.scheduler import ExperimentResult, RunEvent, drive

if TYPE_CHECKING:
    from rich.console import Console

QUEUE_FILE = "queue.sqlite"
"""Name of the queue in an experiment's root folder."""


class Conductor:
    """Executes runs with a launcher; as a context manager it handles signals and closes the launcher at the end.

    The first SIGINT, SIGTERM or SIGHUP ends the running runs in an orderly way and starts nothing more; the second
    raises ``KeyboardInterrupt`` at once. A signal that is ignored (``nohup``) stays ignored.

    Args:
        console: where progress is shown; ``None`` shows nothing.
        live: show a live table if the console is a terminal; otherwise every event is a line.
    """

    def __init__(
        self, launcher: Launcher, workers: int = 1, *, console: Console | None = None, live: bool = True
    ) -> None:
        self.launcher, self.workers = launcher, workers
        self._console, self._live = console, live
        self._signals, self._stop_announced = 0, False
        self._signals_handled = ExitStack()

    @property
    def interrupted(self) -> bool:
        """Whether a signal asked for the end."""
        return self._signals > 0

    def __enter__(self) -> Conductor:
        # Python accepts signal handlers in the main thread only.
        if threading.current_thread() is threading.main_thread():
            self._signals_handled.enter_context(handled_signals(self._take))
        return self

    def __exit__(self, *error: object) -> None:
        self._signals_handled.close()
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
        """Executes runs; the same call again continues an interrupted one.

        Args:
            specs: the runs; a run follows the one that its ``after`` names.
            queue_file: the durable queue; created if missing. Several processes may share one.
            on_ready: called once with the queue, which counts only these runs, before anything starts.
            stop: checked in every turn; once true, running runs are cancelled and waiting ones stay queued.

        Raises:
            ConfigError: a folder of a planned run holds a finished run of another identity.
        """
        fault_point("launcher: planned")
        with Queue(queue_file, max_retries=max_retries) as queue:
            keys = [spec.key for spec in specs]
            prepare(queue, specs, restart)
            fault_point("launcher: queued")
            # The file may also hold runs of other calls; this one must neither start nor wait for them.
            queue.restrict(keys)
            on_ready(queue)
            if isinstance(self.launcher, LocalLauncher):
                self.launcher.expects_many = len(specs) > 1
            with self._view() as view:

                def shown(event: RunEvent) -> None:
                    on_event(event)
                    if view is not None:
                        view.show(event)

                result = drive(
                    queue, self.launcher, self.workers, on_event=shown, stop=lambda: self._must_stop() or stop()
                )
            fault_point("launcher: driven")
            return replace(result, entries=queue.entries(keys))

    def _view(self) -> Any:
        if self._console is None:
            return nullcontext()
        # Imported here: a call without a console does not need rich.
        from a2perf.launch.live_view import LiveView

        return LiveView(self._console, live=self._live and self._console.is_terminal)

    def _must_stop(self) -> bool:
        """Returns whether a signal came, and announces it once; the handler cannot, as it may interrupt a print."""
        if self._signals and not self._stop_announced:
            self._stop_announced = True
            if self._console is not None:
                self._console.print("stopping: waiting for the running runs to end; press Ctrl-C again to kill them")
        return self.interrupted

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            raise KeyboardInterrupt
