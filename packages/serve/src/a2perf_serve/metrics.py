"""Counters of a server in the text format of Prometheus, version 0.0.4."""

from __future__ import annotations

import bisect
import collections
from collections.abc import Iterable, Mapping
from typing import Final

BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
"""Upper limits of the histogram of latencies, seconds."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class LatencyHistogram:
    """Latencies of one operation."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Counts one request."""
        self.counts[bisect.bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class ServerCounters:
    """What a server counts since its start."""

    def __init__(self) -> None:
        self.steps: collections.Counter[str] = collections.Counter()
        self.episodes: collections.Counter[str] = collections.Counter()
        self.sessions: collections.Counter[str] = collections.Counter()
        self.errors: collections.Counter[str] = collections.Counter()
        self.latency: dict[str, LatencyHistogram] = collections.defaultdict(LatencyHistogram)

    def text(self, gauges: Mapping[str, tuple[float, str]]) -> str:
        """Returns everything that was counted."""
        lines: list[str] = []
        for name, (value, description) in gauges.items():
            lines += [*_head(name, "gauge", description), f"a2perf_{name} {value:g}"]
        lines += _counter("sessions_total", "Sessions opened.", "task", self.sessions.items())
        lines += _counter("episodes_total", "Episodes started.", "task", self.episodes.items())
        lines += _counter("steps_total", "Steps taken.", "task", self.steps.items())
        lines += _counter("errors_total", "Errors sent to clients.", "kind", self.errors.items())
        lines += _head("request_seconds", "histogram", "Time to answer, without the network.")
        for operation, histogram in sorted(self.latency.items()):
            lines += _histogram(operation, histogram)
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, description: str) -> list[str]:
    return [f"# HELP a2perf_{name} {description}", f"# TYPE a2perf_{name} {kind}"]


def _counter(name: str, description: str, label: str, counts: Iterable[tuple[str, int]]) -> list[str]:
    rows = [f'a2perf_{name}{{{label}="{_escaped(value)}"}} {count}' for value, count in sorted(counts)]
    return _head(name, "counter", description) + rows


def _histogram(operation: str, histogram: LatencyHistogram) -> list[str]:
    rows, below = [], 0
    for limit, count in zip((*map(str, BUCKETS), "+Inf"), histogram.counts, strict=True):
        below += count
        rows.append(f'a2perf_request_seconds_bucket{{operation="{operation}",le="{limit}"}} {below}')
    rows.append(f'a2perf_request_seconds_sum{{operation="{operation}"}} {histogram.total:.6f}')
    rows.append(f'a2perf_request_seconds_count{{operation="{operation}"}} {below}')
    return rows


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
