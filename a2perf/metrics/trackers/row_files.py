"""The two files of samples of a run. Lines are written whole: after a crash every row is complete.

``<mode>_emissions.csv`` has the columns of the earlier platform's fork of codecarbon, one row per reporting interval
with cumulative energy that starts at 0 for each ``run_id``; ``system_trace.csv`` has one row per sample.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from a2perf.fault_point import fault_point

EMISSIONS_COLUMNS = (
    "timestamp",
    "project_name",
    "run_id",
    "duration",
    "emissions",
    "emissions_rate",
    "cpu_power",
    "gpu_power",
    "ram_power",
    "cpu_energy",
    "gpu_energy",
    "ram_energy",
    "energy_consumed",
    "country_name",
    "country_iso_code",
    "region",
    "cloud_provider",
    "cloud_region",
    "os",
    "python_version",
    "codecarbon_version",
    "cpu_count",
    "cpu_model",
    "gpu_count",
    "gpu_model",
    "longitude",
    "latitude",
    "ram_total_size",
    "ram_process",
    "tracking_mode",
    "on_cloud",
    "pue",
    "method",
    "quality",
)
TRACE_COLUMNS = (
    "timestamp",
    "run_id",
    "elapsed_s",
    "phase",
    "processes",
    "threads",
    "cpu_seconds",
    "cpu_percent",
    "rss_bytes",
    "pss_bytes",
    "io_read_bytes",
    "io_write_bytes",
    "cpu_power_w",
    "gpu_power_w",
    "ram_power_w",
    "gpu_memory_bytes",
    "gpu_utilization_percent",
    "load_1m",
    "steal_percent",
    "cpu_mhz",
)


class RowFile:
    """A CSV file that rows are appended to.

    A last line without its end (its writer was killed) is cut off first. A file with other columns is set aside as
    ``<name>.<n>.csv`` and not mixed with. A file that cannot be written is an ``OSError``.
    """

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self.path = path
        self._columns = columns
        header = ",".join(columns).encode() + b"\n"
        if path.exists() and path.stat().st_size:
            with path.open("rb+") as file:
                content = file.read()
                complete = content.rfind(b"\n") + 1
                if complete != len(content):
                    file.truncate(complete)
            if complete and not content.startswith(header):
                number = 1
                while (free := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
                    number += 1
                path.rename(free)
        # Unbuffered: each row is one write, so a kill leaves no half-filled buffer behind.
        self._file = path.open("ab", buffering=0)
        if os.fstat(self._file.fileno()).st_size == 0:
            self._file.write(header)

    def append(self, row: Mapping[str, Any]) -> None:
        """Appends one row; a column without a value in the row stays empty. Raises ``OSError`` if that fails."""
        line = io.StringIO()
        csv.DictWriter(line, self._columns, extrasaction="ignore", lineterminator="\n").writerow(row)
        self._file.write(line.getvalue().encode())
        fault_point("tracker: row written")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
