"""Ways of doing the same work, measured in turns in one process tree."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable, Mapping


def processor_s() -> float:
    """Returns the processor time of this process and of the children that it has waited for."""
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def in_turns(
    ways: Mapping[str, Callable[[], int]], rounds: int = 3, clock: Callable[[], float] = processor_s
) -> dict[str, float]:
    """Prints and returns the processor time per unit of work of each way in ms, and its ratio to the first one.

    Other load on the machine hardly changes processor time.

    Args:
        ways: functions that do some work and return its units.
        rounds: after one that is not counted.
        clock: ``time.perf_counter`` for wall time, on a quiet machine.
    """
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(1 + rounds):
        for name, work in ways.items():
            before = clock()
            units = work()
            spent[name].append((clock() - before) / units * 1e3)
    medians = {name: statistics.median(values[1:]) for name, values in spent.items()}
    of_peer = next(iter(medians.values()))
    for name, value in medians.items():
        print(f"{name:40} {value:12.4f} ms   {of_peer / value:10.2f} x")
    return medians
