"""Measures the cost of every answer: its round trip, and the processor time of the whole process tree.

A participant can shorten the round trip by moving work out of it: threads that compute while the evaluator steps the
environment, or children that compute ahead. So the processor time of the tree is read before and after every call, from
the clocks of its processes. That takes 0.6 us per process and, unlike the counter of a control group, is exact for
running threads. At the end the sum is compared with the total of the tree, which includes short-lived processes.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.metrics.trackers.process_tree import Tree, open_tree
from a2perf.records import StepCosts
from a2perf.sandbox import Confined
from a2perf.submission.evaluator.process.answers import Answer
from a2perf.submission.evaluator.process.participant_process import ParticipantProcess

SLACK_S = 0.25e-3
"""Allowed processor time per step after an answer: returning, waiting and garbage collection take less."""

MOST_BETWEEN = 0.25
"""Allowed processor time between calls, as a share of the mean round trip, in addition to the slack."""

MOST_OTHER = 1.5
"""Allowed processor time of short-lived processes per step, in mean round trips, in addition to the slack."""

UNEVEN = 3.0
"""Mean processor time per step of more medians than this, plus the slack, is named: few calls do most of the work."""

EMPTY_CALLS, EMPTY_WARMUP = 200, 20

BETWEEN_CALLS, SHORT_LIVED, UNLIKE_TIMED = "between calls", "short-lived processes", "unlike the timed calls"
FEW_CALLS = "most work in few calls"
_REFRESH_S = 0.25
# Bounds the cost of a reading; the time of further processes is still in the total of the tree.
_MOST_CLOCKS = 64
_COLUMNS = ("preprocess_ns", "infer_ns", "round_trip_ns", "between_cpu_ns", "call_cpu_ns")


class StepAccount:
    """Records the cost of every call of one participant process.

    Attributes:
        process_tree: the processes of the participant.
    """

    def __init__(self, process_tree: Confined) -> None:
        self.process_tree = tree = process_tree
        self._rows = array("q")  # of the calls since the last mark
        self._first = 0
        self._marked = StepTotals()
        self._tree = open_tree(tree.tree_root, cgroup=tree.cgroups, clock=tree.cpu_clock, root_is_guard=True)
        self._clocks = _Clocks(self._tree)
        self._began_s = self._clocks.tree_s
        self._before = self._after = self._clocks.read()

    def restart(self) -> None:
        """Discards all calls so far, at the end of the warm-up."""
        del self._rows[:]
        self._first = 0
        self._began_s = self._tree.sample().cpu_seconds
        self._after = self._clocks.read()

    def before_call(self) -> None:
        """Reads the clocks of the tree before a call."""
        if time.monotonic() >= self._clocks.due_s:
            self._clocks.refresh()
        self._before = self._clocks.read()

    def after_call(self, answer: Answer) -> None:
        """Reads the clocks of the tree after a call and records its costs."""
        before, after = self._before, self._clocks.read()
        self._rows.extend(
            (answer.preprocess_ns, answer.infer_ns, answer.round_trip_ns, before - self._after, after - before)
        )
        self._after = after

    def after_batch(self, answer: Answer, rows: int) -> int:
        """Reads the clocks after a call for several observations, and records an equal share of its costs for each.

        Returns:
            The share of processor time in nanoseconds, also between calls.
        """
        before, after = self._before, self._clocks.read()
        costs = (answer.preprocess_ns, answer.infer_ns, answer.round_trip_ns, before - self._after, after - before)
        self._rows.extend([cost // rows for cost in costs] * rows)
        share = (after - self._after) // rows
        self._after = after
        return share

    def calls(self) -> int:
        """Returns the number of recorded calls, or of observations in them."""
        return self._first + len(self._rows) // len(_COLUMNS)

    def columns(self, since: int | None = None) -> dict[str, NDArray[np.int64]]:
        """Returns the calls since the last mark, or those with index ``since`` and above, by column in nanoseconds."""
        first = 0 if since is None else since - self._first
        table = np.array(self._rows[first * len(_COLUMNS) :], dtype=np.int64).reshape(-1, len(_COLUMNS))
        return {name: table[:, place] for place, name in enumerate(_COLUMNS)}

    def steps(self, since: int) -> dict[str, list[int]]:
        """Returns times and processor times of the calls with index ``since`` and above, in nanoseconds."""
        columns = self.columns(since)
        cpu = columns["call_cpu_ns"] + columns["between_cpu_ns"]
        times = {name: columns[name].tolist() for name in ("round_trip_ns", "infer_ns", "preprocess_ns")}
        return {**times, "cpu_ns": cpu.tolist()}

    def mark(self) -> None:
        """Adds the calls so far to ``totals``, which remain even after the process has ended.

        The time of short-lived processes is read at the first mark, then once in ``_REFRESH_S``.
        """
        clocks, totals = self._clocks, self._marked
        if not self.has_marked or time.monotonic() >= clocks.due_s:
            clocks.refresh()
        columns = self.columns()
        for name, values in columns.items():
            totals.ns[name] += int(values.sum())
        # a run may have millions of steps
        totals.cpu_us.extend(((columns["call_cpu_ns"] + columns["between_cpu_ns"]) / 1000).tolist())
        totals.tree_s, totals.account = clocks.tree_s - self._began_s, clocks.method
        self._first = self.calls()
        del self._rows[:]

    @property
    def has_marked(self) -> bool:
        """Whether ``totals`` has any calls."""
        return len(self._marked.cpu_us) > 0

    def totals(self) -> StepTotals:
        """Returns the costs of the calls before the last ``mark``."""
        return self._marked


@dataclass(eq=False)
class StepTotals:
    """The costs of calls.

    Attributes:
        ns: sums by column, in nanoseconds.
        cpu_us: processor time of each call and the time before it, in microseconds.
        tree_s: processor time of the whole tree in seconds.
        account: the source of ``tree_s``.
    """

    ns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COLUMNS, 0))
    cpu_us: array[float] = field(default_factory=lambda: array("f"))
    tree_s: float = 0.0
    account: str = ""


def mean_costs(parts: Sequence[StepTotals]) -> StepCosts | None:
    """Returns the means per step with flags for suspicious ones; ``None`` without a call."""
    steps = sum(len(part.cpu_us) for part in parts)
    if not steps:
        return None
    means = {name: sum(part.ns[name] for part in parts) * 1e-9 / steps for name in _COLUMNS}
    tree_s = sum(part.tree_s for part in parts) / steps
    in_calls_s, between_s = means["call_cpu_ns"], means["between_cpu_ns"]
    found = StepCosts(
        steps=steps,
        account=parts[-1].account,
        round_trip_s=means["round_trip_ns"],
        tree_s=max(tree_s, in_calls_s + between_s),
        in_calls_s=in_calls_s,
        between_calls_s=between_s,
        short_lived_s=max(0.0, tree_s - in_calls_s - between_s),
    )
    # Threads that work during a call are not flagged, however many they are.
    flags = []
    if found.between_calls_s > SLACK_S + MOST_BETWEEN * found.round_trip_s:
        flags.append(BETWEEN_CALLS)
    if found.short_lived_s > SLACK_S + MOST_OTHER * found.round_trip_s:
        flags.append(SHORT_LIVED)
    # by processor time: load of the host makes round trips uneven
    median_s = float(np.median(np.concatenate([part.cpu_us for part in parts]))) * 1e-6
    if in_calls_s + between_s > SLACK_S + UNEVEN * median_s:
        flags.append(FEW_CALLS)
    found.flags = flags
    return found


def empty_calls(participant: ParticipantProcess, observation: Any, action: Any) -> StepCosts:
    """Returns the costs of calls that carry an observation and an action, and reach no code of the submission.

    Raises:
        ParticipantFailure: the participant failed.
    """
    participant.set_empty_answer(action)
    account = StepAccount(participant.tree)
    for number in range(EMPTY_WARMUP + EMPTY_CALLS):
        if number == EMPTY_WARMUP:
            account.restart()
        account.before_call()
        account.after_call(participant.empty(observation))
    account.mark()
    costs = mean_costs([account.totals()])
    assert costs is not None
    return costs


class _Clocks:
    """The processor time of the living processes of a tree, in nanoseconds from an arbitrary start."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._last: dict[int, int] = {}
        self._total = 0
        self.refresh()

    @property
    def tree_s(self) -> float:
        """The time of the whole tree at the last refresh, and what living processes used from then to the last read."""
        return self._tree_s + (self._total - self._total_then) * 1e-9

    def read(self) -> int:
        total = self._total
        for pid, last in list(self._last.items()):
            try:
                # clock_getcpuclockid(3) for another process; bit layout of the kernel's linux/posix-timers.h.
                now = time.clock_gettime_ns((~pid << 3) | 2)
            except OSError:
                del self._last[pid]
                continue
            total += now - last
            self._last[pid] = now
        self._total = total
        return total

    def refresh(self) -> None:
        """Looks for new processes; time that they used before is only in the total of the tree."""
        self.read()
        sample = self._tree.sample()
        self.method = sample.cpu_method
        self._tree_s, self._total_then = sample.cpu_seconds, self._total
        for pid in sorted(sample.pids)[:_MOST_CLOCKS]:
            if pid not in self._last:
                try:
                    self._last[pid] = time.clock_gettime_ns((~pid << 3) | 2)
                except (AttributeError, OSError):  # only Linux has such clocks
                    continue
        self.due_s = time.monotonic() + _REFRESH_S


def unlike(timed: StepCosts, scored: StepCosts) -> bool:
    """Returns whether scored steps cost more than twice the timed calls: another policy was timed than scored."""
    return scored.tree_s > 2 * timed.tree_s + 4 * SLACK_S


def warning(costs: StepCosts, phase: str) -> str | None:
    """Returns a warning about flagged costs, or ``None``."""
    if costs.flags == [FEW_CALLS]:
        return f"{phase}: {FEW_CALLS}: the median time per decision is far below the mean, which is ranked"
    if not costs.flags:
        return None
    return (
        f"{phase}: processor time outside of the timed calls ({', '.join(costs.flags)}): {costs.tree_s * 1e3:.3f} ms"
        f" per step, of which {costs.in_calls_s * 1e3:.3f} ms in calls and {costs.between_calls_s * 1e3:.3f} ms between"
        f" them, at a round trip of {costs.round_trip_s * 1e3:.3f} ms: do not rank by latency"
    )
