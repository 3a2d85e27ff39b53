"""Times of every step of the evaluated episodes, from ``rollout_steps.npz`` of a bundle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from a2perf.arrays import Values
from a2perf.runs import layout
from a2perf.runs.bundle_reading import BundleReader, read_arrays
from a2perf.runs.run import BUNDLE, Run

_KEYS = ("episode", "round_trip_ns", "cpu_ns")


@dataclass(frozen=True, eq=False)
class StepTimes:
    """The steps of one task in the order of the episodes.

    Attributes:
        episode: index of the episode of each step, int64, shape ``(steps,)``.
        round_trip_s: wall time of the call in seconds, by the evaluator's clock, shape ``(steps,)``.
        processor_s: processor time of the process tree in seconds, shape ``(steps,)``.
    """

    episode: NDArray[np.int64]
    round_trip_s: Values
    processor_s: Values


def read_steps(run: Run) -> dict[str, StepTimes]:
    """Returns the steps by task; the task of a run with one task is ``""``.

    Empty without such a file. A damaged one is left out, as are layouts other than bundles.
    """
    if run.folder.layout != BUNDLE:
        return {}
    reader = BundleReader(run.folder.files(), run.manifest)
    names = {"": layout.STEPS} if reader.listed(layout.STEPS) else {}
    for name in reader.below(layout.TASKS, (layout.STEPS_FILE,)):
        names[name.removeprefix(f"{layout.TASKS}/").rpartition("/")[0]] = name
    found = {}
    for task, name in sorted(names.items()):
        arrays = reader.tolerant(name, lambda name: read_arrays(reader.files, name, _KEYS))
        if arrays and set(arrays) == set(_KEYS) and len({array.size for array in arrays.values()}) == 1:
            found[task] = StepTimes(
                arrays["episode"].astype(np.int64), arrays["round_trip_ns"] * 1e-9, arrays["cpu_ns"] * 1e-9
            )
    return found
