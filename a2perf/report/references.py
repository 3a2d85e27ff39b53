"""The returns of a setting, and its task with the stored references that normalise them."""

from __future__ import annotations

import numpy as np

from a2perf.arrays import Values
from a2perf.metrics import protocol
from a2perf.metrics.application import returns
from a2perf.metrics.scores import SeedGroup
from a2perf.metrics.submitted import protocol_of
from a2perf.report.task_results import TaskResults


def scored_task(setting: TaskResults) -> protocol.ScoredTask | None:
    """Returns the task with the references that normalise the returns of a setting.

    None without reference scores or if the environments differ. Runs of several protocols are on the newest scale.
    """
    runs = [run for group in setting.in_mode("inference") for run in group.runs]
    prints = {run.identity.fingerprint for run in runs}
    if len(prints) != 1:
        return None
    under = protocol_of(run.folder.path for run in runs if run.folder is not None)
    return protocol.scored_task(setting.task, prints.pop(), under)


def run_means(group: SeedGroup) -> Values:
    """Returns the mean episode return of each run that has episodes."""
    value = group.scores.get(returns.name)
    return np.array([mean for mean in (value.per_run if value is not None else ()) if mean is not None], np.float64)
