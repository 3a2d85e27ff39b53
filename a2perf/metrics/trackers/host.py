"""The host of a run: its hardware and how busy it was.

``describe_host`` is for the record of a run; ``HostTracker`` watches load, steal time and clock frequency during
the run and reports whether its timings are reliable.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from a2perf.metrics.trackers import procfs
from a2perf.metrics.trackers.tick import BASELINES, BEFORE, DURING, MIN_BASELINE_S, Tick, Tracker
from a2perf.runs.tracking_record import HostConditions
from a2perf.system import memory_bytes, usable_processors

CONTAINER_VARIABLE = "A2PERF_CONTAINER"
"""Set by a launcher of containers: JSON of what encloses the run."""

# A host is noisy beyond these.
MAX_STEAL_PERCENT = 2.0
MAX_OTHER_CPU_PERCENT = 20.0
MIN_CLOCK_SHARE = 0.8
# Shorter runs hold too few clock ticks (10 ms each) to tell noise from rounding.
MIN_JUDGED_S = 0.5
# Reading all frequencies makes the kernel ask every processor.
_CLOCK_INTERVAL_S = 10.0
_CLOCK_PROCESSORS = 8


class HostDescription(msgspec.Struct, kw_only=True, frozen=True):
    """What the machine is.

    Attributes:
        cpu_usable: processors that this process may run on.
        cpu_family: CPU family and model number as x86 counts them, ``None`` elsewhere.
        virtualization: what hints at a virtual machine or container, ``""`` where nothing does.
        container: what the launcher that made this container says of it: engine, image, network, guarantees; empty
            outside of one.
    """

    hostname: str
    os: str
    kernel: str
    architecture: str
    python: str
    cpu_model: str
    cpu_family: tuple[int, int] | None
    cpu_count: int
    cpu_usable: int
    cpu_physical: int | None
    memory_bytes: int
    virtualization: str
    gpus: list[str] = msgspec.field(default_factory=list)
    container: dict[str, Any] = msgspec.field(default_factory=dict)


@functools.lru_cache(maxsize=1)
def describe_host() -> HostDescription:
    """Describes this machine; a few milliseconds the first time."""
    cpuinfo = _text("/proc/cpuinfo")
    family, model = _field(cpuinfo, "cpu family"), _field(cpuinfo, "model")
    cores = {
        (_field(block, "physical id"), _field(block, "core id"))
        for block in cpuinfo.split("\n\n")
        if "core id" in block
    }
    hints = []
    product = " ".join(_text(f"/sys/class/dmi/id/{name}").strip() for name in ("sys_vendor", "product_name")).strip()
    if re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE):
        hints.append(f"virtual machine ({product})" if product else "virtual machine")
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        hints.append("container")
    if "microsoft" in platform.release().lower():
        hints.append("WSL")
    return HostDescription(
        hostname=platform.node(),
        os=platform.platform(),
        kernel=platform.release(),
        architecture=platform.machine(),
        python=platform.python_version(),
        cpu_model=_field(cpuinfo, "model name") or platform.processor() or platform.machine(),
        cpu_family=(int(family), int(model)) if family.isdigit() and model.isdigit() else None,
        cpu_count=os.cpu_count() or 1,
        cpu_usable=usable_processors(),
        cpu_physical=len(cores) or None,
        memory_bytes=memory_bytes(),
        virtualization=", ".join(hints),
        gpus=[
            _field(_text(path), "Model") or path.parent.name
            for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
        ],
        container=_container(),
    )


def _container() -> dict[str, Any]:
    try:
        said = json.loads(os.environ.get(CONTAINER_VARIABLE, "{}"))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def read_clock_mhz() -> float | None:
    """Reads the mean clock frequency of the first processors, in MHz; ``None`` where the system does not say."""
    values = []
    for cpu in range(min(_CLOCK_PROCESSORS, os.cpu_count() or 1)):
        khz = _text(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq").strip()
        if khz.isdigit():
            values.append(int(khz) / 1e3)
    if not values:
        values = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*: ([\d.]+)", _text("/proc/cpuinfo"), re.MULTILINE)]
    return sum(values) / len(values) if values else None


class HostTracker(Tracker):
    """Watches how quiet the machine is; ``own_process``: the tracked tree is that of this process."""

    name = "host"

    def __init__(self, *, own_process: bool = False, baselines: Collection[str] = BASELINES) -> None:
        self._own_process = own_process
        self._baselines = baselines
        self._conditions = HostConditions(cpu_count=os.cpu_count() or 1)
        self._first: procfs.MachineCpu | None = None
        self._last: procfs.MachineCpu | None = None
        self._first_own_s = 0.0
        self._last_own_s = 0.0
        self._last_tree_s = 0.0
        self._elapsed_s = 0.0
        self._clock_due_s = 0.0
        self._idle_from: tuple[float, procfs.MachineCpu | None] = (0.0, None)
        self.baseline: tuple[float, float, str] = (0.0, 0.0, "not taken")
        """The machine before the run: seconds of the window, its utilisation in percent, when it was taken."""

    def start(self) -> None:
        """Reads the load before the run and begins the idle baseline."""
        self._conditions.load_1m_start = os.getloadavg()[0]
        self._idle_from = (time.perf_counter(), procfs.read_machine_cpu())

    def attach(self) -> None:
        """Begins the account."""
        self._first = self._last = procfs.read_machine_cpu()
        self._end_baseline(self._first, BEFORE)
        self._first_own_s = time.process_time()

    def sample(self, tick: Tick) -> None:
        """Reads load, processor time of the machine and now and then the clock frequency."""
        load = os.getloadavg()[0]
        seen = self._conditions
        seen.load_1m_peak = max(seen.load_1m_peak, load)
        tick.values["load_1m"] = round(load, 2)
        now = procfs.read_machine_cpu()
        if now is not None and self._last is not None:
            total = now.busy_s + now.idle_s + now.steal_s - self._last.busy_s - self._last.idle_s - self._last.steal_s
            tick.machine_busy_s = max(0.0, now.busy_s - self._last.busy_s)
            if total > 0:
                tick.values["steal_percent"] = round(100 * (now.steal_s - self._last.steal_s) / total, 2)
        self._end_baseline(now, DURING, tick.cpu_seconds)
        self._last = now
        self._last_own_s, self._last_tree_s, self._elapsed_s = time.process_time(), tick.cpu_seconds, tick.elapsed_s
        if tick.elapsed_s >= self._clock_due_s:
            self._clock_due_s = tick.elapsed_s + _CLOCK_INTERVAL_S
            mhz = read_clock_mhz()
            if mhz is not None:
                tick.values["cpu_mhz"] = round(mhz, 1)
                seen.cpu_mhz_min = min(seen.cpu_mhz_min or mhz, mhz)
                seen.cpu_mhz_max = max(seen.cpu_mhz_max, mhz)

    def _end_baseline(self, now: procfs.MachineCpu | None, taken: str, tree_s: float = 0.0) -> None:
        since, first = self._idle_from
        window = time.perf_counter() - since
        if first is None or now is None or window < MIN_BASELINE_S or taken not in self._baselines:
            return
        total = now.busy_s + now.idle_s + now.steal_s - first.busy_s - first.idle_s - first.steal_s
        busy = max(0.0, now.busy_s - first.busy_s - tree_s)
        self.baseline = (window, 100 * busy / total if total > 0 else 0.0, taken)
        self._idle_from = (0.0, None)

    def conditions(self) -> HostConditions:
        """Judges the time since ``attach``."""
        seen, first, last = self._conditions, self._first, self._last
        if first is None or last is None:
            return seen
        busy, steal = last.busy_s - first.busy_s, last.steal_s - first.steal_s
        total = busy + steal + last.idle_s - first.idle_s
        if total <= 0:
            return seen
        own_s = 0.0 if self._own_process else self._last_own_s - self._first_own_s  # else the tree includes it
        other = busy - own_s - self._last_tree_s
        seen.busy_percent = 100 * busy / total
        seen.steal_percent = 100 * steal / total
        seen.other_cpu_percent = max(0.0, 100 * other / total)
        reasons = []
        if self._elapsed_s >= MIN_JUDGED_S:
            if seen.steal_percent > MAX_STEAL_PERCENT:
                reasons.append(f"the hypervisor took {seen.steal_percent:.1f} % of the processor time")
            if seen.other_cpu_percent > MAX_OTHER_CPU_PERCENT:
                reasons.append(f"other processes used {seen.other_cpu_percent:.0f} % of the processors")
        if seen.cpu_mhz_max and seen.cpu_mhz_min < MIN_CLOCK_SHARE * seen.cpu_mhz_max:
            reasons.append(f"the clock went down to {seen.cpu_mhz_min:.0f} of {seen.cpu_mhz_max:.0f} MHz")
        seen.noisy, seen.reasons = bool(reasons), reasons
        return seen


def _field(text: str, name: str) -> str:
    found = re.search(rf"^{re.escape(name)}\s*:[ \t]*(.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found else ""


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
