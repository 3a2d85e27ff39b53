"""The process trees of a run as one: several at the same time or one after the other.

What ended trees have used stays in the counters.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from a2perf.metrics.trackers.process_tree import Tree, TreeSample, known_sum

_NOTHING = TreeSample(
    pids=frozenset(), cpu_seconds=0.0, cpu_method="", threads=0, rss_bytes=0, pss_bytes=None, memory_peak_bytes=None,
    io_read_bytes=0, io_write_bytes=0, root_alive=True,
)  # fmt: skip


class TreeSum:
    """A ``Tree`` of changing parts; the threads that sample it and that change it may differ."""

    def __init__(self) -> None:
        self._living: dict[int, Tree] = {}
        self._earlier = _NOTHING
        self._lock = threading.Lock()

    def begin(self, root: int, tree: Tree) -> None:
        """Adds a tree by the process id of its root."""
        with self._lock:
            self._living[root] = tree

    def end(self, root: int, *, cpu_s: float = 0.0, memory_peak_bytes: int | None = None) -> None:
        """Removes a tree that has ended; what it used stays in the sum.

        Args:
            cpu_s: processor time until its end, as its guard counted it; the last sample may be older.
            memory_peak_bytes: its peak memory from its control group, if it had one.
        """
        with self._lock:
            tree = self._living.pop(root, None)
            if tree is not None:
                last = tree.sample()
                last = replace(
                    last, cpu_seconds=max(last.cpu_seconds, cpu_s), pids=frozenset(), threads=0, rss_bytes=0,
                    pss_bytes=None, memory_peak_bytes=memory_peak_bytes,
                    memory_method=last.memory_method if memory_peak_bytes is None else "cgroup",
                )  # fmt: skip
                self._earlier = _sum([self._earlier, last])

    def sample(self, *, thorough: bool = False) -> TreeSample:
        """Reads the living trees; without one the counters stand still."""
        with self._lock:
            return _sum([self._earlier, *(tree.sample(thorough=thorough) for tree in self._living.values())])


def _sum(samples: list[TreeSample]) -> TreeSample:
    """Returns the sum of samples; of the last one what cannot be added."""
    last = samples[-1]
    rss = sum(sample.rss_bytes for sample in samples)
    peaks = [sample.memory_peak_bytes for sample in samples if sample.memory_peak_bytes is not None]
    return replace(
        last,
        pids=frozenset().union(*(sample.pids for sample in samples)),
        cpu_seconds=sum(sample.cpu_seconds for sample in samples),
        threads=sum(sample.threads for sample in samples),
        rss_bytes=rss,
        pss_bytes=known_sum(sample.pss_bytes for sample in samples),
        # Peaks of different moments do not add up: the largest one and the present sum are both lower bounds.
        memory_peak_bytes=max([*peaks, rss]) if peaks else None,
        io_read_bytes=sum(sample.io_read_bytes for sample in samples),
        io_write_bytes=sum(sample.io_write_bytes for sample in samples),
        root_alive=any(sample.root_alive for sample in samples[1:] or samples),
    )
