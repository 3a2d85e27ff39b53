"""What every answer of a participant took: its round trip, and the processor time of the whole process tree.

The round trip alone can be shortened by work that is moved out of it: threads that compute while the evaluator steps
the environment, children that compute ahead. So the tree's processor time is read before and after every call, from
the clocks of its processes (0.6 us for each; exact for running threads too, which the account of a control group is
not), and compared at the end with the tree's whole account, which also holds processes that came and went.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from a2perf.metrics.trackers.process_tree import Tree, open_tree
from a2perf.records import StepCosts
from a2perf.submission.evaluator.answers import Answer
from a2perf.submission.evaluator.participant_process import ParticipantProcess

SLACK_S = 0.25e-3
"""What an honest interpreter does per step after its answer (leave the call, wait again, collect garbage) is less."""

MOST_BETWEEN = 0.25
"""Share of the mean round trip that the tree may work between calls, beyond the slack."""

MOST_OTHER = 1.5
"""Mean round trips' worth of processor time that processes of a shorter life may take per step, beyond the slack."""

BETWEEN_CALLS, SHORT_LIVED, UNLIKE_TIMED = "between calls", "short-lived processes", "unlike the timed calls"
_REFRESH_S = 0.25
_MOST_CLOCKS = 64
_COLUMNS = ("preprocess_ns", "infer_ns", "round_trip_ns", "between_cpu_ns", "call_cpu_ns")


class StepAccount:
    """The policy of a participant process, which notes what every answer took.

    Args:
        participant: has loaded its policy.
        timeout_s: limit of one call.
    """

    def __init__(self, participant: ParticipantProcess, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._participant: ParticipantProcess | None = None
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._earlier_s = 0.0
        self.follow(participant)

    def follow(self, participant: ParticipantProcess) -> None:
        """Asks a participant process from now on; ``pause`` has ended the account of another one before."""
        if participant is self._participant:
            return
        self._participant = participant
        self._tree: Tree = open_tree(
            participant.tree_root, cgroup=participant.cgroups, clock=participant.cpu_clock, root_is_guard=True
        )
        self._clocks = _Clocks(self._tree)
        self._began_s = self._clocks.tree_s
        self._after = self._clocks.read()

    def pause(self) -> None:
        """Takes the account of a process that is about to end."""
        now_s = self._tree.sample().cpu_seconds
        self._earlier_s += now_s - self._began_s
        self._began_s = now_s

    def restart(self) -> None:
        """Forgets all calls so far: the warm-up is over."""
        self._rows.clear()
        self._earlier_s = 0.0
        self._began_s = self._tree.sample().cpu_seconds
        self._after = self._clocks.read()

    def infer(self, observation: Any) -> Answer:
        """See ``ParticipantProcess.infer``."""
        clocks = self._clocks
        assert self._participant is not None
        clocks.refresh_when_due()
        before = clocks.read()
        answer = self._participant.infer(observation, self._timeout_s)
        after = clocks.read()
        self._rows.append(
            (answer.preprocess_ns, answer.infer_ns, answer.round_trip_ns, before - self._after, after - before)
        )
        self._after = after
        return answer

    @property
    def calls(self) -> int:
        """Number of calls noted."""
        return len(self._rows)

    def columns(self, since: int = 0) -> dict[str, NDArray[np.int64]]:
        """Returns the calls from one on by column, in nanoseconds."""
        table = np.array(self._rows[since:], dtype=np.int64).reshape(-1, len(_COLUMNS))
        return {name: table[:, place] for place, name in enumerate(_COLUMNS)}

    def steps(self, since: int = 0) -> dict[str, list[int]]:
        """Returns round trips and processor times of the calls from one on, in nanoseconds."""
        columns = self.columns(since)
        cpu = columns["call_cpu_ns"] + columns["between_cpu_ns"]
        return {"round_trip_ns": columns["round_trip_ns"].tolist(), "cpu_ns": cpu.tolist()}

    def costs(self) -> StepCosts | None:
        """Returns the means per step with what is conspicuous about them; ``None`` without a call."""
        if not self._rows:
            return None
        sample = self._tree.sample()
        columns = self.columns()
        means = {name: float(values.mean()) * 1e-9 for name, values in columns.items()}
        tree_s = (self._earlier_s + sample.cpu_seconds - self._began_s) / len(self._rows)
        in_calls_s, between_s = means["call_cpu_ns"], means["between_cpu_ns"]
        found = StepCosts(
            steps=len(self._rows),
            account=sample.cpu_method,
            round_trip_s=means["round_trip_ns"],
            tree_s=max(tree_s, in_calls_s + between_s),
            in_calls_s=in_calls_s,
            between_calls_s=between_s,
            short_lived_s=max(0.0, tree_s - in_calls_s - between_s),
        )
        found.flags = conspicuous(found)
        return found


class _Clocks:
    """The processor time of the living processes of a tree, in nanoseconds from an arbitrary start."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._last: dict[int, int] = {}
        self._total = 0
        self.tree_s = 0.0
        self._refresh()

    def refresh_when_due(self) -> None:
        """Looks for new processes, now and then; what they used before is in the tree's account only."""
        if time.monotonic() >= self._due_s:
            self._refresh()

    def read(self) -> int:
        """Returns the time used so far."""
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

    def _refresh(self) -> None:
        self.read()
        sample = self._tree.sample()
        self.tree_s = sample.cpu_seconds
        for pid in sorted(sample.pids)[:_MOST_CLOCKS]:
            if pid not in self._last:
                try:
                    self._last[pid] = time.clock_gettime_ns((~pid << 3) | 2)
                except OSError:
                    continue
        self._due_s = time.monotonic() + _REFRESH_S


def write_steps(path: Path, entries: Iterable[Mapping[str, Any]]) -> None:
    """Writes the steps of a journal's episodes as ``episode``, ``round_trip_ns`` and ``cpu_ns``, in order."""
    found: dict[int, dict[str, list[int]]] = {
        entry["episode"]["index"]: entry["steps"]
        for entry in entries
        if entry.get("kind") == "episode" and "steps" in entry
    }
    steps: dict[str, Any] = {
        name: np.array([value for index in sorted(found) for value in found[index][name]], dtype=np.int64)
        for name in ("round_trip_ns", "cpu_ns")
    }
    episode = [index for index in sorted(found) for _ in found[index]["round_trip_ns"]]
    np.savez_compressed(path, episode=np.array(episode, dtype=np.int64), **steps)


def conspicuous(costs: StepCosts) -> list[str]:
    """Returns how the tree's processor time contradicts the round trips; empty for an honest policy.

    Threads that work during a call lengthen nothing and are not conspicuous, however many they are.
    """
    flags = []
    if costs.between_calls_s > SLACK_S + MOST_BETWEEN * costs.round_trip_s:
        flags.append(BETWEEN_CALLS)
    if costs.short_lived_s > SLACK_S + MOST_OTHER * costs.round_trip_s:
        flags.append(SHORT_LIVED)
    return flags


def unlike(timed: StepCosts, scored: StepCosts) -> bool:
    """Returns whether scored steps cost more than twice what the timed calls did: these were not the policy's own."""
    return scored.tree_s > 2 * timed.tree_s + 4 * SLACK_S


def warning(costs: StepCosts, phase: str) -> str | None:
    """Returns what a reader of the times should know, or ``None``."""
    if not costs.flags:
        return None
    return (
        f"{phase}: processor time outside of the timed calls ({', '.join(costs.flags)}): {costs.tree_s * 1e3:.3f} ms"
        f" per step, of which {costs.in_calls_s * 1e3:.3f} ms in calls and {costs.between_calls_s * 1e3:.3f} ms between"
        f" them, at a round trip of {costs.round_trip_s * 1e3:.3f} ms: do not rank by latency"
    )
