"""Student's t distribution, through the regularised incomplete beta function (continued fraction; DLMF 8.17.22).

SciPy has it too, but weighs a hundred megabytes that nothing else here needs; the tests compare with it.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_TINY = 1e-300
_TERMS = 10_000
_STEPS = 200


def student_cdf(value: float, freedom: float) -> float:
    """Returns P(T <= value) for ``freedom`` degrees of freedom (any positive number); accurate to 1e-12."""
    tail = 0.5 * _incomplete_beta(0.5 * freedom, 0.5, freedom / (freedom + value * value))
    return 1.0 - tail if value > 0 else tail


def student_quantile(probability: float, freedom: float) -> float:
    """Returns the value below which a t variable lies with that probability.

    Newton's method from the normal quantile: right of zero the distribution function is concave and its quantile the
    larger one, so every step stays below the root and none has to be taken back.

    Args:
        probability: between 0 and 1, exclusive.
        freedom: degrees of freedom, any positive number.
    """
    if probability < 0.5:
        return -student_quantile(1.0 - probability, freedom)
    value = NormalDist().inv_cdf(probability)
    scale = math.exp(math.lgamma(0.5 * (freedom + 1.0)) - math.lgamma(0.5 * freedom)) / math.sqrt(math.pi * freedom)
    for _ in range(_STEPS):
        density = scale * (1.0 + value * value / freedom) ** (-0.5 * (freedom + 1.0))
        step = (probability - student_cdf(value, freedom)) / density
        value += step
        if step <= 1e-13 * value:
            break
    return value


def _incomplete_beta(a: float, b: float, x: float) -> float:
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, 1.0 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Evaluates the continued fraction by Lentz's method."""
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = 1.0 + term / c
            c = c if abs(c) > _TINY else _TINY
            value *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return value
