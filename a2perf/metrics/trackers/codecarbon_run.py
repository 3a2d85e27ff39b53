"""codecarbon beside a run: started in the background, never waited for, kept quiet.

Its import and start take seconds of processor time, so a thread begins them only after a grace period; a run that is
over by then never meets codecarbon. A run that ends in between leaves the thread behind, which holds up nothing: it is
a daemon, and the long steps (the imports) are taken in it and not in the pool that codecarbon starts, whose threads the
interpreter would wait for at its exit. What it measures is the evaluator's process with its children, by
sampling alone; a2perf takes its carbon intensity and keeps its own energy, and records codecarbon's account beside it.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from a2perf.metrics.trackers.carbon_factors import codecarbon_version
from a2perf.metrics.trackers.emissions import EmissionsSettings, make_tracker
from a2perf.metrics.trackers.host import describe_host
from a2perf.runs.tracking_record import CodecarbonResult

GRACE_S = 1.0
STOP_S = 1.0
_answering = threading.Lock()


class CodecarbonRun:
    """One codecarbon tracker in a daemon thread.

    Args:
        settings: what to pass on.
        log_file: where its log goes; nothing of it reaches standard output or error.
        cpu_watts: power of all processors at full load, for codecarbon's model when the settings give none.
        grace_s: how long to wait before it is imported.
    """

    def __init__(
        self, settings: EmissionsSettings, log_file: Path, *, cpu_watts: float | None = None, grace_s: float = GRACE_S
    ) -> None:
        self._settings = settings
        self._log_file = log_file
        self._cpu_watts = cpu_watts
        self._grace_s = grace_s
        self._end = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="a2perf-codecarbon", daemon=True)
        self._began_s = time.perf_counter()
        self._state = "not started"
        self._ready_after_s: float | None = None
        self._latest: Any = None
        self._kg_per_kwh: float | None = None
        self._quiet: _ToFile | None = None
        self._start_cpu_s: float | None = None

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    @property
    def kg_per_kwh(self) -> float | None:
        """The carbon intensity that codecarbon uses, ``None`` until it has measured."""
        return self._kg_per_kwh

    def stop(self) -> CodecarbonResult:
        """Ends it; one that is ready has ``STOP_S`` seconds to close, one that is not is left behind."""
        self._end.set()
        if self._ready_after_s is not None:
            self._done.wait(STOP_S)
        elif self._quiet is not None:
            self._quiet.close()
        latest = self._latest
        told = self._ready_after_s is not None or self._state.startswith("failed")
        return CodecarbonResult(
            state=self._state if told else "not ready in time",
            version=codecarbon_version(),
            ready_after_s=self._ready_after_s,
            start_cpu_seconds=self._start_cpu_s,
            kg_per_kwh=self.kg_per_kwh,
            duration_s=float(latest.duration) if latest is not None else None,
            energy_kwh=float(latest.energy_consumed) if latest is not None else None,
            emissions_kg_co2eq=float(latest.emissions) if latest is not None else None,
        )

    def _run(self) -> None:
        if self._end.wait(self._grace_s):
            return
        self._quiet = _ToFile(self._log_file, self._settings.log_level)
        try:
            self._track()
        except Exception as error:
            self._state = f"failed: {type(error).__name__}: {error}"
        finally:
            self._quiet.close()
            logging.getLogger("codecarbon").removeFilter(self._quiet)
            self._done.set()

    def _track(self) -> None:
        from codecarbon.output_methods.base_output import BaseOutput

        if self._end.is_set():
            return
        # codecarbon would import it in its pool.
        with suppress(ImportError):
            importlib.import_module("pandas")

        if self._end.is_set():
            return

        class Keep(BaseOutput):  # type: ignore[misc]
            def live_out(_, total: Any, delta: Any) -> None:  # noqa: N805
                self._ran()  # its first measurement may come before `start` returns
                self._keep(total)

            def out(_, total: Any, delta: Any) -> None:  # noqa: N805
                self._keep(total)

        tracker = make_tracker(self._settings.is_offline, self._arguments(Keep()))
        if self._end.is_set():
            return
        with known_processor():
            tracker.start()
        # A tracker whose constructor failed has said so only in its log.
        if getattr(tracker, "_start_time", None) is None:
            self._state = "failed: codecarbon did not start, its log says why"
            return
        self._start_cpu_s = time.thread_time()
        if not self._end.is_set():
            self._ran()
        self._end.wait()
        tracker.stop()

    def _keep(self, total: Any) -> None:
        self._latest = total
        # Only from the first measurement: at the end codecarbon's own thread may still add energy between the moments
        # at which emissions and energy are read, and their ratio is then not the intensity.
        if self._kg_per_kwh is None and total.energy_consumed > 0:
            self._kg_per_kwh = float(total.emissions / total.energy_consumed)

    def _ran(self) -> None:
        if self._ready_after_s is None:
            self._state, self._ready_after_s = "ran", time.perf_counter() - self._began_s

    def _arguments(self, handler: Any) -> dict[str, Any]:
        arguments = self._settings.codecarbon_arguments()
        outputs = self._settings.outputs()
        if self._settings.output_dir is None and self._settings.output_file is None:
            # The emissions file of the run is the sampler's; codecarbon writes its own only where it is told to.
            outputs = [method for method in outputs if method != "csv"]
        elif self._settings.output_dir is None:
            arguments["output_dir"] = str(self._log_file.parent)
        arguments["output_methods"] = ",".join(outputs)
        arguments["output_handlers"] = [*arguments.get("output_handlers", ()), handler]
        arguments.setdefault("api_call_interval", 1)
        arguments.setdefault("measure_power_secs", 1.0)
        arguments.setdefault("tracking_mode", "process")
        if self._cpu_watts is not None:
            arguments.setdefault("force_cpu_power", self._cpu_watts)
        # Its lock would install signal handlers, which only a main thread may do, and a second run would go silent.
        arguments["allow_multiple_runs"] = True
        return arguments


@contextmanager
def known_processor() -> Iterator[None]:
    """Answers codecarbon's question for the processor's name.

    It asks py-cpuinfo, which starts two further interpreters and takes two seconds to find what ``/proc/cpuinfo`` says.
    """
    answer = types.ModuleType("cpuinfo")
    model = describe_host().cpu_model
    answer.get_cpu_info = lambda: {"brand_raw": model}  # type: ignore[attr-defined]
    # Several runs may start at once in one evaluator, and each puts back what it found.
    with _answering:
        real = sys.modules.get("cpuinfo")
        sys.modules["cpuinfo"] = answer
        try:
            yield
        finally:
            del sys.modules["cpuinfo"]
            if real is not None:
                sys.modules["cpuinfo"] = real


class _ToFile(logging.Filter):
    """Takes every record of codecarbon's logger off its stream and into a file."""

    def __init__(self, path: Path, level: str | int | None) -> None:
        super().__init__()
        name = str(level or "warning").upper()
        self._level = level if isinstance(level, int) else logging.getLevelNamesMapping().get(name, logging.WARNING)
        self._path = path
        self._lock = threading.Lock()
        self._open = True
        logging.getLogger("codecarbon").addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Writes the record down and keeps it from the handlers."""
        with self._lock:
            if self._open and record.levelno >= self._level:
                try:
                    with self._path.open("a", encoding="utf-8") as file:
                        file.write(f"{time.strftime('%H:%M:%S')} {record.levelname} {record.getMessage()}\n")
                except OSError:
                    self._open = False
        return False

    def close(self) -> None:
        """Writes nothing any more; the logger stays quiet as long as the thread lives, which may outlive the run."""
        with self._lock:
            self._open = False
