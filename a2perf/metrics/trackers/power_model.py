"""Power of processors and memory where nothing counts it: stated watts times measured use. All of it is estimated.

A processor's thermal design power (TDP) spread evenly over its hardware threads gives watts per busy thread; one
CPU-second on it costs that many joules. A virtual machine that sees 2 of 128 threads is thereby charged for 2.
TDP, core and thread counts in ``CPUS`` are the makers' published specifications (ark.intel.com, amd.com); processors
made for one cloud have the values that the cloud's operator or codecarbon's table states.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from a2perf.metrics.trackers.carbon_factors import find_cpu_power, plain_cpu_name

# Unknown processor: the default of codecarbon 3.
DEFAULT_WATTS_PER_THREAD = 4.0
# 3 W for each 8 GB module of DDR3/DDR4, crucial.com "How much power does memory use"; codecarbon 2 used the same.
RAM_WATTS_PER_GB = 3 / 8

# Name (as in /proc/cpuinfo, plain): TDP in watts, hardware threads of one socket.
CPUS: dict[str, tuple[float, int]] = {
    "amd epyc 7302": (155, 32),
    "amd epyc 7402": (180, 48),
    "amd epyc 7452": (155, 64),
    "amd epyc 7502": (180, 64),
    "amd epyc 7543": (225, 64),
    "amd epyc 7702": (200, 128),
    "amd epyc 7713": (225, 128),
    "amd epyc 7742": (225, 128),
    "amd epyc 7763": (280, 128),
    "amd epyc 9334": (210, 64),
    "amd epyc 9354": (280, 64),
    "amd epyc 9554": (360, 128),
    "amd epyc 9654": (360, 192),
    "amd epyc 9755": (500, 256),
    "amd ryzen 5 5600x": (65, 12),
    "amd ryzen 7 3700x": (65, 16),
    "amd ryzen 7 5800x": (105, 16),
    "amd ryzen 9 3950x": (105, 32),
    "amd ryzen 9 5900x": (105, 24),
    "amd ryzen 9 5950x": (105, 32),
    "amd ryzen 9 7950x": (170, 32),
    "amd ryzen threadripper 3970x": (280, 64),
    "amd ryzen threadripper 3990x": (280, 128),
    "intel core i5-8250u": (15, 8),
    "intel core i7-10700k": (125, 16),
    "intel core i7-10750h": (45, 12),
    "intel core i7-12700k": (125, 20),
    "intel core i7-8550u": (15, 8),
    "intel core i7-8700k": (95, 12),
    "intel core i7-9750h": (45, 12),
    "intel core i9-10900k": (125, 20),
    "intel core i9-12900k": (125, 24),
    "intel core i9-13900k": (125, 32),
    "intel core i9-9900k": (95, 16),
    "intel xeon e5-2670 v3": (120, 24),
    "intel xeon e5-2680 v4": (120, 28),
    "intel xeon e5-2686 v4": (145, 36),
    "intel xeon e5-2690 v4": (135, 28),
    "intel xeon gold 6130": (125, 32),
    "intel xeon gold 6154": (200, 36),
    "intel xeon gold 6248": (150, 40),
    "intel xeon gold 6338": (205, 64),
    "intel xeon platinum 8175m": (240, 48),
    "intel xeon platinum 8259cl": (210, 48),
    "intel xeon platinum 8272cl": (195, 52),
    "intel xeon platinum 8275cl": (240, 48),
    "intel xeon platinum 8375c": (300, 64),
    "intel xeon platinum 8380": (270, 80),
    "intel xeon platinum 8468": (350, 96),
    "intel xeon platinum 8480+": (350, 112),
    "intel xeon silver 4210": (85, 20),
    "intel xeon silver 4214": (85, 24),
    "intel xeon silver 4314": (135, 32),
}

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
    """Watts of one busy hardware thread, and where they come from.

    Attributes:
        watts_per_thread: joules per CPU-second.
        source: ``"force_cpu_power"``, ``"table:<name>"``, ``"codecarbon:<name>"`` or ``"default_4w_per_thread"``.
    """

    watts_per_thread: float
    source: str

    @property
    def method(self) -> str:
        """``"tdp_model:<source>"``."""
        return f"tdp_model:{self.source}"


def choose_cpu_power(
    model: str, threads: int, *, family: tuple[int, int] | None = None, force_watts: float | None = None
) -> CpuPower:
    """Chooses the power model of a processor.

    Args:
        family: CPU family and model number, for names that a hypervisor has cut short.
        force_watts: power of all visible threads together at full load, as configured.
    """
    if force_watts is not None:
        return CpuPower(force_watts / threads, "force_cpu_power")
    name = plain_cpu_name(model)
    if name in CPUS:
        watts, of_threads = CPUS[name]
        return CpuPower(watts / of_threads, f"table:{name}")
    if name == "amd epyc" and family in EPYC_GENERATIONS:
        stand_in = EPYC_GENERATIONS[family]
        watts, of_threads = CPUS[stand_in]
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
