"""Power of processors and memory where nothing counts it: stated watts times measured use. All of it is estimated.

A processor's thermal design power (TDP) spread evenly over its hardware threads gives watts per busy thread; one
CPU-second on it costs that many joules. A virtual machine that sees 2 of 128 threads is thereby charged for 2.
TDP and thread counts in ``cpu_power.csv`` are the makers' published specifications (ark.intel.com, amd.com);
processors made for one cloud have the values that the cloud's operator or codecarbon's table states.
"""

from __future__ import annotations

import csv
import functools
import re
from dataclasses import dataclass
from importlib import resources

from a2perf.metrics.trackers.carbon_factors import find_cpu_power, plain_cpu_name

# Unknown processor: the default of codecarbon 3.
DEFAULT_WATTS_PER_THREAD = 4.0
# 3 W for each 8 GB module of DDR3/DDR4, crucial.com "How much power does memory use"; codecarbon 2 used the same.
RAM_WATTS_PER_GB = 3 / 8

# A hypervisor often hides the model and leaves maker, family and model number: AMD's server generations by them, each
# with its 64-core (or largest) part.
EPYC_GENERATIONS: dict[tuple[int, int], str] = {
    (23, 49): "amd epyc 7742",
    (25, 1): "amd epyc 7763",
    (25, 17): "amd epyc 9654",
    (26, 2): "amd epyc 9755",
}


@dataclass(frozen=True)
class CpuPower:
    """Watts of one busy hardware thread (joules per CPU-second), and where they come from.

    The source is ``"force_cpu_power"``, ``"table:<name>"``, ``"codecarbon:<name>"`` or ``"default_4w_per_thread"``.
    """

    watts_per_thread: float
    source: str

    @property
    def method(self) -> str:
        """``"tdp_model:<source>"``."""
        return f"tdp_model:{self.source}"


@functools.cache
def cpus() -> dict[str, tuple[float, int]]:
    """Returns TDP in watts and hardware threads of one socket by name (as in /proc/cpuinfo, plain)."""
    text = (resources.files(__package__) / "cpu_power.csv").read_text(encoding="utf-8")
    return {row["name"]: (float(row["tdp_w"]), int(row["threads"])) for row in csv.DictReader(text.splitlines())}


def choose_cpu_power(
    model: str, threads: int, *, family: tuple[int, int] | None = None, force_watts: float | None = None
) -> CpuPower:
    """Chooses the power model of a processor.

    CPU family and model number serve for names that a hypervisor has cut short. ``force_watts`` is the configured power
    of all visible threads together at full load.
    """
    if force_watts is not None:
        return CpuPower(force_watts / threads, "force_cpu_power")
    name = plain_cpu_name(model)
    if name in cpus():
        watts, of_threads = cpus()[name]
        return CpuPower(watts / of_threads, f"table:{name}")
    if name == "amd epyc" and family in EPYC_GENERATIONS:
        stand_in = EPYC_GENERATIONS[family]
        watts, of_threads = cpus()[stand_in]
        return CpuPower(watts / of_threads, f"table:{stand_in} (for an EPYC of family {family[0]} model {family[1]})")
    try:
        found = find_cpu_power(model)
    except Exception:  # the table of codecarbon has another form: the default still serves
        found = None
    if found is not None:
        cores = re.search(r"(\d+)-Core", model)
        # The table has no number of threads per processor; some names contain the number of cores.
        return CpuPower(found[1] / max(threads, 2 * int(cores.group(1)) if cores else 1), f"codecarbon:{found[0]}")
    return CpuPower(DEFAULT_WATTS_PER_THREAD, "default_4w_per_thread")


def ram_watts(resident_bytes: float) -> float:
    """Power of the memory that holds so many bytes, ``RAM_WATTS_PER_GB`` (GB of 1e9 bytes)."""
    return RAM_WATTS_PER_GB * resident_bytes / 1e9
