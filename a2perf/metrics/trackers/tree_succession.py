"""Several process trees one after the other, as one: what the earlier ones used stays in the counters."""

from __future__ import annotations

import threading
from dataclasses import replace

from a2perf.metrics.trackers.process_tree import Tree, TreeSample

_NOTHING = TreeSample(
    pids=frozenset(), cpu_seconds=0.0, cpu_method="", threads=0, rss_bytes=0, pss_bytes=None, memory_peak_bytes=None,
    io_read_bytes=0, io_write_bytes=0, root_alive=True,
)  # fmt: skip


class TreeSuccession:
    """A ``Tree`` that changes; the thread that samples it and the one that changes it may be two.

    Args:
        tree: the first one.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree: Tree | None = tree
        self._earlier = _NOTHING
        self._lock = threading.Lock()

    def sample(self, *, thorough: bool = False) -> TreeSample:
        """Reads the present tree; between two of them there is none, and the counters stand still."""
        with self._lock:
            if self._tree is None:
                return self._earlier
            return self._with_earlier(self._tree.sample(thorough=thorough))

    def end(self) -> None:
        """Takes the last sample of the present tree, which is about to be killed."""
        with self._lock:
            if self._tree is not None:
                last = self._with_earlier(self._tree.sample())
                self._earlier = replace(
                    last, pids=frozenset(), threads=0, rss_bytes=0, pss_bytes=None, memory_peak_bytes=None
                )
                self._tree = None

    def begin(self, tree: Tree) -> None:
        """Names the next tree."""
        # end() takes the lock itself, which is not reentrant.
        self.end()
        with self._lock:
            self._tree = tree

    def _with_earlier(self, sample: TreeSample) -> TreeSample:
        return replace(
            sample,
            cpu_seconds=sample.cpu_seconds + self._earlier.cpu_seconds,
            io_read_bytes=sample.io_read_bytes + self._earlier.io_read_bytes,
            io_write_bytes=sample.io_write_bytes + self._earlier.io_write_bytes,
        )
