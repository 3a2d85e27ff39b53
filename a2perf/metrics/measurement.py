"""Measurement uncertainty of metrics: from the record of a run to the mean over runs and its interval.

What the instrument or model gets wrong is common to all runs and does not average out; the rest is independent between
runs (GUM, JCGM 100:2008, 5.1 and 5.2). An interval over runs knows nothing of the common part: both are combined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from a2perf.metrics.values import RunNumber
from a2perf.runs.tracking_record import EnergyUncertainty, recorded


def with_uncertainty(number: RunNumber, unsure: EnergyUncertainty, kwh: float) -> RunNumber:
    """Returns a run's number with the uncertainty of the energy that it is proportional to.

    Args:
        number: the energy itself, a power or a part of it.
    """
    expanded = recorded(unsure.expanded_kwh)
    if expanded is None or number.value is None:
        return number
    common = unsure.coverage_factor * math.hypot(unsure.attribution_kwh, unsure.model_kwh)
    scale = 1.0 if number.value == kwh else abs(number.value) / kwh if kwh > 0 else 0.0
    return number._replace(uncertainty=scale * expanded, common=scale * common)


def uncertainty_of_mean(numbers: Sequence[RunNumber]) -> float | None:
    """Returns the expanded uncertainty of the mean of runs; None if that of a run is unknown."""
    known = [(number.uncertainty, number.common) for number in numbers if number.uncertainty is not None]
    if not known or len(known) < len(numbers):
        return None
    common = sum(part for _, part in known) / len(known)
    own = math.sqrt(sum(max(0.0, whole**2 - part**2) for whole, part in known)) / len(known)
    return math.hypot(common, own)


def widened(value: float, interval: tuple[float, float] | None, uncertainty: float) -> tuple[float, float]:
    """Returns an interval over runs with the measurement uncertainty, which is all there is for one run."""
    low, high = interval or (value, value)
    return value - math.hypot(value - low, uncertainty), value + math.hypot(high - value, uncertainty)
