"""What a comparison judges: the scores of every group, one panel per environment and metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from a2perf.arrays import Values
from a2perf.runs.run import Run
from a2perf.runs.series import Series


@dataclass(frozen=True)
class RunScore:
    """The score of one run.

    Attributes:
        curve: the values behind it: of the training curve, by episode, or the score alone.
        score: NaN if the run diverged.
        provenance: ``"measured"``, ``"estimated"`` or ``"recorded"``.
    """

    curve: Series
    score: float
    provenance: str


@dataclass(frozen=True)
class GroupRuns:
    """The runs of one group on one environment; of several trained policies one run stands for each.

    Attributes:
        curves: of each, in the order of steps.
        scores: mean of the last values of each, shape ``(runs,)``; NaN if a run diverged.
        failed: number of matching runs that did not finish or do not have the metric.
        provenance: of each score, ``"measured"``, ``"estimated"`` or ``"recorded"``; empty if all are recorded.
        without: number of finished runs that do not have the metric.
        episodes: mean score of the runs that played an episode, by its seed; empty if training seeds are compared.
    """

    runs: tuple[Run, ...] = ()
    curves: tuple[Series, ...] = field(default=(), repr=False)
    scores: Values = field(default_factory=lambda: np.empty(0))
    failed: int = 0
    provenance: tuple[str, ...] = ()
    without: int = 0
    episodes: Mapping[int, float] = field(default_factory=dict, repr=False)

    @property
    def wall_s(self) -> list[float]:
        """Wall times of the runs that say, in seconds."""
        return [run.execution.wall_s for run in self.runs if run.execution.wall_s is not None]


@dataclass(frozen=True)
class Panel:
    """One metric on one environment, of all groups.

    Attributes:
        name: the environment, with the metric if several are compared.
        unit: of the scores; empty for the unit of the reward.
    """

    name: str
    env: str
    metric: str
    cells: tuple[GroupRuns, ...]
    unit: str = ""

    @property
    def is_estimated(self) -> bool:
        """Returns whether the scores are estimates of a model."""
        return "estimated" in {kind for cell in self.cells for kind in cell.provenance}

    def fingerprints(self) -> set[str]:
        """Returns the known fingerprints of the environment; more than one are never compared."""
        return {run.identity.fingerprint for cell in self.cells for run in cell.runs if run.identity.fingerprint}
