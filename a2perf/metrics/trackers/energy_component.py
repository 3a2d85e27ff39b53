"""The account of one component: joules, idle baseline, net of idle and of others, and the uncertainty of both.

Gross energy is that of the whole machine or device if a counter is read, and that of the process tree alone if it is
modelled. Net energy leaves out the idle draw and takes the tree's share of the rest.
The idle draw is read between ``start`` (before the participant process exists) and ``attach``; when that is too short,
up to the first sample while the participant starts up. A counter's idle draw is never above the lowest interval seen.
Joules become kilowatt-hours, multiplied by the power usage effectiveness (PUE), here and nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from math import hypot

from a2perf.metrics.trackers.power_domains import UPDATE_S
from a2perf.metrics.trackers.tick import BASELINES, BEFORE, DURING, MIN_BASELINE_S, Tick, Tracker
from a2perf.metrics.trackers.uncertainty import (
    IDLE_DRIFT,
    Contributions,
    of_share,
    of_two_readings,
    rectangular,
)
from a2perf.runs.tracking_record import JOULES_PER_KWH, ComponentEnergy

MAX_START_UP_S = 1.0
BUSY_BASELINE = 0.5
"""A baseline that was taken while the participant started up may be too high by this share."""


class Component(Tracker):
    """What the components share: the account in joules, the idle baseline and the uncertainty.

    The power usage effectiveness ``pue`` is the factor from a device's energy to the data centre's.
    """

    name = ""

    def __init__(
        self,
        pue: float = 1.0,
        *,
        baselines: Collection[str] = BASELINES,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._pue = pue
        self._baselines = baselines
        self._clock = clock
        self.method = "none"
        self.quality = "none"
        self.scope = "none"
        self.joules = 0.0
        self.power_w = 0.0
        self.idle_w = 0.0
        self.baseline_s = 0.0
        self.baseline_taken = "not taken"
        self._peak_w = 0.0
        self._lowest_w = float("inf")
        self._elapsed_s = 0.0
        self._tree_s = 0.0
        self._busy_s = 0.0
        self._started_s = 0.0
        self._read: Callable[[], float] | None = None
        self._start_joules = 0.0
        self._last_joules = 0.0
        self._update_s = UPDATE_S

    @property
    def kwh(self) -> float:
        """Gross energy so far, PUE included."""
        return self.joules * self._pue / JOULES_PER_KWH

    @property
    def watts(self) -> float:
        """Mean power of the last interval, PUE included."""
        return self.power_w * self._pue

    def attach(self) -> None:
        """Ends the idle baseline if it has been long enough."""
        if self._read is not None:
            self._last_joules = self._read()
            self._end_baseline(self._last_joules, BEFORE)

    def _begin_counter(self, read: Callable[[], float]) -> None:
        self._read = read
        self._started_s = self._clock()
        self._start_joules = self._last_joules = read()

    def _end_baseline(self, joules: float, taken: str, elapsed_s: float = 0.0) -> None:
        window = self._clock() - self._started_s
        if taken not in self._baselines:
            return
        # A device that came up late has only ever been seen at work.
        if self.baseline_s == 0 and window >= MIN_BASELINE_S and elapsed_s <= MAX_START_UP_S:
            self.baseline_s, self.baseline_taken = window, taken
            self.idle_w = (joules - self._start_joules) / window

    def _sample_counter(self, tick: Tick) -> None:
        assert self._read is not None
        now = self._read()
        self._end_baseline(now, DURING, tick.elapsed_s)
        self._charge(now - self._last_joules, tick)
        self._last_joules = now

    def _charge(self, joules: float, tick: Tick) -> None:
        self.joules += joules
        self._elapsed_s = tick.elapsed_s
        self._tree_s += tick.cpu_interval_s
        # The ticks of the machine are coarse: it can seem less busy than its tree, which cannot be.
        self._busy_s += max(tick.machine_busy_s or 0.0, tick.cpu_interval_s)
        if tick.interval_s > 0:
            self.power_w = max(0.0, joules / tick.interval_s)
        # Counters advance in steps (RAPL 1 ms, processor time 10 ms): a short interval says little about power.
        if tick.interval_s >= MIN_BASELINE_S:
            self._peak_w = max(self._peak_w, self.power_w)
            self._lowest_w = min(self._lowest_w, self.power_w)

    def energy(self, *, unaccounted_s: float = 0.0) -> ComponentEnergy:
        """The account so far; ``unaccounted_s`` seconds of processor time may be missing in that of the tree."""
        idle_w = min(self.idle_w, self._lowest_w)
        above = max(0.0, self.joules - idle_w * self._elapsed_s)
        share = self._share()
        gross = self._gross_contributions(unaccounted_s)
        net = self._net_contributions(gross, above, share, idle_w, unaccounted_s)
        mean_w = self.joules / self._elapsed_s if self._elapsed_s > 0 else 0.0
        return ComponentEnergy(
            gross_kwh=self.kwh,
            net_kwh=above * share * self._pue / JOULES_PER_KWH,
            power_mean_w=mean_w * self._pue,
            power_peak_w=max(self._peak_w, mean_w) * self._pue,
            idle_w=idle_w * self._pue,
            method=self.method,
            quality=self.quality,
            scope=self.scope,
            gross_uncertainty=gross.record(self._pue),
            net_uncertainty=net.record(self._pue),
        )

    def _share(self) -> float:
        """The part of the energy above idle that is the tree's."""
        return min(1.0, self._tree_s / self._busy_s) if self.scope == "machine" and self._busy_s > 0 else 1.0

    def _share_error(self) -> float:
        """Standard uncertainty of the share."""
        return of_share(self._share()) if self.scope == "machine" else 0.0

    def _gross_contributions(self, unaccounted_s: float) -> Contributions:
        raise NotImplementedError

    def _net_contributions(
        self, gross: Contributions, above: float, share: float, idle_w: float, unaccounted_s: float
    ) -> Contributions:
        part = above / self.joules if self.joules > 0 else 0.0
        if self._read is None:  # a model charges the tree alone and has no idle draw to subtract
            return gross.scaled(part)
        idle_j = idle_w * self._elapsed_s
        late_w = of_two_readings(idle_w * self._update_s) / self.baseline_s if self.baseline_s > 0 else 0.0
        if self.baseline_s == 0:
            idle_error = min(self.joules, self._lowest_w * self._elapsed_s)
        else:
            idle_error = idle_j * (IDLE_DRIFT if self.baseline_taken == BEFORE else BUSY_BASELINE)
        missing = min(1.0 - share, unaccounted_s / self._busy_s) if self._busy_s > 0 else 0.0
        return Contributions(
            resolution=share * gross.resolution,
            sampling=share * hypot(gross.sampling, late_w * self._elapsed_s),
            attribution=hypot(
                share * rectangular(idle_error), above * self._share_error(), rectangular(above * missing)
            ),
            model=share * part * gross.model,
        )

    def _lateness(self) -> float:
        """Standard uncertainty of a counter that was read up to one update late at both ends, in joules."""
        mean_w = self.joules / self._elapsed_s if self._elapsed_s > 0 else 0.0
        return of_two_readings(max(self.power_w, mean_w) * self._update_s)
