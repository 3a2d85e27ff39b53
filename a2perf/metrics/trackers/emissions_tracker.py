"""Turns the energy of a run into emissions with a carbon factor, and runs codecarbon's tracker for its outputs.

a2perf accounts for the energy itself. Codecarbon's tracker starts only if the gin file names one of its outputs: its
API, Prometheus, Logfire, a logger, a handler or a file.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from a2perf.metrics.trackers.carbon_factors import NO_FACTOR, find_factor
from a2perf.metrics.trackers.emissions import EmissionsSettings, make_tracker
from a2perf.metrics.trackers.energy import CpuEnergy
from a2perf.metrics.trackers.host import describe_host
from a2perf.metrics.trackers.tick import Tracker
from a2perf.runs.tracking_record import Emissions, TrackedEnergy

STOP_S = 1.0
LOG = "codecarbon.log"


class EmissionsTracker(Tracker):
    """Finds the carbon factor, and feeds codecarbon's outputs with the power model of the processor's tracker.

    Args:
        directory: where codecarbon's log goes; None leaves its tracker out.
    """

    name = "emissions"

    def __init__(self, settings: EmissionsSettings, directory: Path | None, cpu: CpuEnergy) -> None:
        self._settings = settings
        self._directory = directory
        self._cpu = cpu
        self._outputs: _CodecarbonOutputs | None = None
        self.factor = NO_FACTOR
        self.log_files: dict[str, str] = {}

    def start(self) -> None:
        """Finds the factor."""
        self.factor = find_factor(self._settings)

    def attach(self) -> None:
        """Starts codecarbon in the background if its outputs are wanted."""
        if self._directory is None or not self._settings.wants_codecarbon:
            return
        model = self._cpu.model
        watts = model.watts_per_thread * describe_host().cpu_count if model is not None else None
        self._outputs = _CodecarbonOutputs(self._settings, self._directory / LOG, watts)

    def stop(self) -> None:
        """Ends codecarbon; raises ``RuntimeError`` if it failed."""
        if self._outputs is None:
            return
        self._outputs.stop()
        if self._directory is not None and (self._directory / LOG).exists():
            self.log_files["codecarbon_log"] = LOG
        if self._outputs.error:
            raise RuntimeError(f"codecarbon failed: {self._outputs.error}")

    def emissions(self, energy: TrackedEnergy) -> Emissions:
        """The emissions of so much energy."""
        factor = self.factor
        return Emissions(
            kg_co2eq=energy.gross_kwh * factor.kg_per_kwh,
            kg_per_kwh=factor.kg_per_kwh,
            method=f"a2perf:{energy.cpu.method.split(':')[0]}+factor:{factor.source}",
            quality=energy.quality,
            country_name=factor.country_name,
            country_iso_code=factor.country_iso_code,
            region=factor.region,
            factor_source=factor.source,
            note=factor.note,
        )


class _CodecarbonOutputs:
    """Codecarbon's tracker in a daemon thread; it measures the evaluator with its children, by sampling alone.

    Its import and start take seconds. A run that ends earlier leaves the daemon thread behind without waiting:
    the slow imports run in this thread and not in the pool that codecarbon starts, because the interpreter waits for
    the threads of a pool when it exits.
    """

    def __init__(self, settings: EmissionsSettings, log_file: Path, cpu_watts: float | None) -> None:
        self._settings = settings
        self._log_file = log_file
        self._cpu_watts = cpu_watts
        self._end = threading.Event()
        self._running = False
        self.error = ""
        self._quiet = _ToFile(log_file, settings.log_level)
        self._thread = threading.Thread(target=self._run, name="a2perf-codecarbon", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends it; one that measures has ``STOP_S`` seconds to close, one that still starts is left behind."""
        if not self._running:
            self.error = self.error or "the run ended before it had started, so it wrote nothing"
        self._end.set()
        if self._running:
            self._thread.join(STOP_S)
        self._quiet.close()

    def _run(self) -> None:
        try:
            self._track()
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"

    def _track(self) -> None:
        # codecarbon would import it in its pool
        with suppress(ImportError):
            importlib.import_module("pandas")
        if self._end.is_set():
            return
        tracker = make_tracker(self._settings.is_offline, self._arguments())
        if self._end.is_set():
            return
        tracker.start()
        # If the constructor of the tracker failed, only its log shows it.
        if getattr(tracker, "_start_time", None) is None:
            self.error = f"it did not start; see {LOG}"
            return
        self._running = True
        self._end.wait()
        tracker.stop()

    def _arguments(self) -> dict[str, Any]:
        arguments = self._settings.codecarbon_arguments()
        if not self._settings.wants_file:
            # The sampler writes the emissions file of the run; codecarbon writes one only if it is configured.
            outputs = [method for method in self._settings.outputs() if method != "csv"]
            arguments["output_methods"] = ",".join(outputs)
        defaults = {
            "output_dir": str(self._log_file.parent),
            "api_call_interval": 1,
            "measure_power_secs": 1.0,
            "tracking_mode": "process",
        }
        if self._cpu_watts is not None:
            defaults["force_cpu_power"] = self._cpu_watts
        # Its lock would install signal handlers, which only a main thread may do, and a second run would go silent.
        return defaults | arguments | {"allow_multiple_runs": True}


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
