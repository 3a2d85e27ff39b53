"""The records that metrics take and give: what a metric is, the recorded data it reads, and the value it returns.

A value never stands alone: it carries unit, direction, spread, number of runs, the profile of formulas and whether it
was measured or estimated. A value that could not be computed is ``None`` and ``condition`` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64]
Category = Literal["application", "reliability", "system", "data"]
Direction = Literal["max", "min", "none"]
Profile = Literal["a2perf", "corrected"]
PROFILES: tuple[Profile, ...] = ("a2perf", "corrected")


class MetricValue(msgspec.Struct, kw_only=True, frozen=True):
    """One computed metric.

    Attributes:
        name: the metric's name in the registry.
        value: the aggregated number; ``None`` when ``condition`` says why there is none.
        spread: a standard deviation; ``spread_kind`` says over what.
        interval: bootstrap confidence interval ``(low, high)`` over runs, where the profile has one.
        per_run: one number a run, in the order given, ``None`` where a run has too little; empty where the metric
            exists only across runs.
        n: number of runs (seeds) that the value rests on.
        unit: ``""`` for the unit of the reward.
        direction: ``"min"``: lower is better.
        profile: the set of formulas, where there are several.
        provenance: ``"measured"``, ``"estimated"``, ``"mixed"`` or ``"recorded"`` (a reward, a count).
        method: how measured or estimated numbers came about.
        condition: why there is no value, ``"not enough data (n=2, needs 3)"``.
        notes: what a reader should know: points left out, filters not applied, a small n.
    """

    name: str
    value: float | None = None
    spread: float | None = None
    spread_kind: str | None = None
    interval: tuple[float, float] | None = None
    per_run: list[float | None] = msgspec.field(default_factory=list)
    n: int = 0
    unit: str = ""
    direction: Direction = "none"
    profile: str | None = None
    provenance: str = "recorded"
    method: str | None = None
    condition: str | None = None
    notes: list[str] = msgspec.field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class RunData:
    """What was recorded of several runs (seeds) of one algorithm on one task, or on all tasks of a domain.

    Attributes:
        curves: ``(steps, values)`` of the training return, one pair a run.
        returns: per task a list with one array of episode returns a run.
        successes: per task a list with one array of 0/1 a run, where the environment says so.
        tracking: one mapping a run, the content of ``metrics/tracking.json``; empty where there was none.
        emissions: one mapping a run of column name to values, out of an emissions CSV of either generation.
        latency: per timed call (``"infer_once"``, ``"round_trip"``, ``"preprocess_observation"``) and for their
            ``"processor_time"`` a list with one array of seconds a run, warm-up calls left out.
        latency_first: per timed call the very first call's seconds, one a run.
        dataset_costs: training energy of each checkpoint that a data set was made from, kWh, one array a data set.
        data_energy: energy behind the offline samples that a training used, ``(kWh, provenance)``, one for each run
            that used any; NaN where it is not known.
        wall_clock: seconds of the participant's phase, one a run.
        curve_runs: to which run (place in ``tracking`` and ``emissions``) each curve belongs; the place in ``curves``
            when empty.
        curve_times: when each point of a curve was logged, ``(seconds, "epoch" or "start")`` or None, one a curve.
        threshold: return from which on the task counts as learnt, where the protocol names one.
    """

    curves: Sequence[tuple[Any, Any]] = ()
    returns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    successes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    tracking: Sequence[Mapping[str, Any]] = ()
    emissions: Sequence[Mapping[str, Any]] = ()
    latency: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    latency_first: Mapping[str, Sequence[float]] = field(default_factory=dict)
    dataset_costs: Sequence[Any] = ()
    data_energy: Sequence[tuple[float, str]] = ()
    wall_clock: Sequence[float] = ()
    curve_runs: Sequence[int] = ()
    curve_times: Sequence[tuple[Any, str] | None] = ()
    threshold: float | None = None


Compute: TypeAlias = Callable[[RunData, Profile], Mapping[str, MetricValue]]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What a metric is.

    Attributes:
        name: stable name, the enum's where there is one.
        label: name for people.
        unit: ``""`` for the unit of the reward.
        direction: ``"min"``: lower is better.
        provenance: where its numbers come from: ``"recorded"``, ``"measured"`` or ``"as recorded"`` (each value says).
        formula: the computation in one sentence.
        source: paper, standard or earlier implementation that the formula is from.
        needs: the least data it takes, in words.
        compute: returns at least the value of this name; metrics that share work share the function, which is then
            called once.
    """

    name: str
    label: str
    category: Category
    unit: str = ""
    direction: Direction
    provenance: str = "recorded"
    formula: str
    source: str
    needs: str
    compute: Compute


def not_enough(found: int, needed: int, what: str = "") -> str:
    """Returns the stated condition for too little data; ``what`` names what was counted unless it is runs."""
    return f"not enough data (n={found}{' ' + what if what else ''}, needs {needed})"


def as_finite(values: Any) -> tuple[Values, int]:
    """Returns the finite values as a flat float64 array, and how many were left out."""
    array = np.asarray(values, dtype=np.float64).ravel()
    finite = np.isfinite(array)
    return array[finite], int(array.size - np.count_nonzero(finite))
