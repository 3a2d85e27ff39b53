"""Formulas of predictability: whether the confidence that a policy reports predicts its success.

Every function takes the confidences, in [0, 1], and the successes, 0 or 1, of the same episodes, shape ``(episodes,)``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from a2perf.arrays import Values

BINS = 10
"""Bins of the expected calibration error."""


def expected_calibration_error(confidences: ArrayLike, successes: ArrayLike, *, bins: int = BINS) -> float:
    """Returns the mean over episodes of |success rate - mean confidence| of their bin, in [0, 1].

    The bins have equal widths: [0, 1/bins], (1/bins, 2/bins], and so on, closed on the right as in Guo et al., ICML
    2017. NaN without an episode.
    """
    confidence, success = _checked(confidences, successes)
    if not confidence.size:
        return math.nan
    # Division rounds correctly, so a confidence written as 0.3 equals its edge and lies in the bin below it.
    place = np.searchsorted(np.arange(1, bins) / bins, confidence, side="left")
    gaps = np.bincount(place, weights=success - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / confidence.size)


def auroc(confidences: ArrayLike, successes: ArrayLike) -> float:
    """Returns the probability that a success has a higher confidence than a failure; a tie counts 1/2.

    This is the area under the receiver operating characteristic (Mann-Whitney). NaN without a success or a failure.
    """
    confidence, success = _checked(confidences, successes)
    positive, negative = confidence[success == 1.0], np.sort(confidence[success == 0.0])
    if not positive.size or not negative.size:
        return math.nan
    below = np.searchsorted(negative, positive, side="left")
    not_above = np.searchsorted(negative, positive, side="right")
    return float((below + not_above).sum() / (2 * positive.size * negative.size))


def brier_score(confidences: ArrayLike, successes: ArrayLike) -> float:
    """Returns the mean squared difference of confidence and success (Brier 1950), in [0, 1]; NaN without an episode."""
    confidence, success = _checked(confidences, successes)
    return float(np.mean((confidence - success) ** 2)) if confidence.size else math.nan


def risk_coverage_curve(confidences: ArrayLike, successes: ArrayLike) -> tuple[Values, Values]:
    """Returns the coverages k / n and the failure rates of the k episodes with the highest confidences.

    Among equal confidences the order is not defined. The curve then has the expected risk over all orders.
    """
    confidence, success = _checked(confidences, successes)
    _, group, counts = np.unique(-confidence, return_inverse=True, return_counts=True)
    failures = np.bincount(group, weights=1.0 - success, minlength=counts.size)
    # Each episode of a group of equal confidences contributes the mean of the group.
    errors = np.repeat(failures / np.maximum(counts, 1), counts)
    taken = np.arange(1, confidence.size + 1)
    return taken / max(confidence.size, 1), np.asarray(np.cumsum(errors) / taken)


def area_under_risk_coverage(confidences: ArrayLike, successes: ArrayLike) -> float:
    """Returns the mean risk over the coverages k / n (Geifman et al., ICLR 2019), in [0, 1]; NaN without an episode."""
    _, risks = risk_coverage_curve(confidences, successes)
    return float(risks.mean()) if risks.size else math.nan


def _checked(confidences: ArrayLike, successes: ArrayLike) -> tuple[Values, Values]:
    confidence, success = np.asarray(confidences, np.float64), np.asarray(successes, np.float64)
    if confidence.shape != success.shape or confidence.ndim != 1:
        raise ValueError(f"confidences of shape {confidence.shape} and successes of shape {success.shape}")
    if not ((confidence >= 0.0) & (confidence <= 1.0)).all():
        raise ValueError("a confidence is not in [0, 1]")
    if not np.isin(success, (0.0, 1.0)).all():
        raise ValueError("a success is neither 0 nor 1")
    return confidence, success
