"""The low-pass filter of the across-run metrics: Butterworth, order 8, cut-off 0.01 of Nyquist, in samples.

Two forms of the same design, both run forwards and backwards (zero phase) over a curve that is continued at both ends
by its point reflection. ``polynomial`` repeats the upstream platform's arithmetic, which is ill-conditioned: its gain
at zero frequency is 0.9929 instead of 1, and rounding affects the result. On one machine it is reproducible bit for
bit. Another library or processor, or a change in the last digit of the input, changes values by up to 5e-3 of the
largest value of the curve. ``sections`` is the same filter as four second-order sections, with unit gain
and no such noise. Both give the bits of SciPy; its signal package takes a second to load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from a2perf.arrays import Values

PAD = 27
SHORT_CURVE = 200

# Expanding eight nearly equal poles into one polynomial leaves few digits. The published numbers were computed with
# these rounded values; recomputed ones would give other results.
_B = np.array(
    [
        3.4219614165936484e-15,
        2.7375691332749187e-14,
        9.581491966462216e-14,
        1.916298393292443e-13,
        2.395372991615554e-13,
        1.916298393292443e-13,
        9.581491966462216e-14,
        2.7375691332749187e-14,
        3.4219614165936484e-15,
    ]
)
_A = np.array(
    [
        1.0,
        -7.838967981032241,
        26.885713620195883,
        -52.69528124027719,
        64.55460591611886,
        -50.61600367669256,
        24.805811247040097,
        -6.947134780895171,
        0.8512568955432028,
    ]
)
# State of the filter after a constant input of 1: without it the start of a curve would show a step response.
_STEADY = np.array(
    [
        0.9886136495962651,
        -6.761097095200341,
        19.81848636886152,
        -32.276787934590885,
        31.54277661839201,
        -18.49689550440136,
        6.026468083731025,
        -0.8415641862469518,
    ]
)

# The sections in the order of their numerators and denominators (six numbers each), and their states after a constant
# input of 1: SciPy's ``butter(8, 0.01, output="sos")`` and ``sosfilt_zi``.
_SECTIONS = np.array(
    [
        [
            3.4219614165936484e-15,
            6.843922833187297e-15,
            3.4219614165936484e-15,
            1,
            -1.939269633591658,
            0.9402270185020654,
        ],
        [1, 2, 1, 1, -1.9481335385151675, 0.9490952993868512],
        [1, 2, 1, 1, -1.9647269019487286, 0.9656968546857874],
        [1, 2, 1, 1, -1.9868379069766875, 0.987818775546285],
    ]
)
_STEADY_SECTIONS = np.array(
    [
        [1.4293696697523204e-11, -1.343911528844862e-11],
        [5.944796249234744e-08, -5.642105396906783e-08],
        [0.0002451576801397421, -0.00023674596087048112],
        [0.9997547828575655, -0.987573558403851],
    ]
)


def polynomial(curves: Sequence[Values]) -> list[Values]:
    """Filters curves as the upstream platform did; each at least 1 long, lengths may differ."""

    def forwards(signals: Values) -> Values:
        # SciPy's own filtfilt recomputes the steady state, which rounds differently
        return _filtered(signals, _B, _A, _STEADY, signals[0], sums_state_first=True)

    return _both_ways(curves, forwards)


def sections(curves: Sequence[Values]) -> list[Values]:
    """Filters curves with second-order sections; each at least 1 long, lengths may differ."""

    def forwards(signals: Values) -> Values:
        first = signals[0]
        for section, steady in zip(_SECTIONS, _STEADY_SECTIONS, strict=True):
            signals = _filtered(signals, section[:3], section[3:], steady, first, sums_state_first=False)
        return signals

    return _both_ways(curves, forwards)


def _both_ways(curves: Sequence[Values], forwards: Callable[[Values], Values]) -> list[Values]:
    """Filters continued curves forwards and backwards, those of one length together as columns."""
    filtered: dict[int, Values] = {}
    for size in {curve.size for curve in curves}:
        chosen = [index for index, curve in enumerate(curves) if curve.size == size]
        pad = min(size - 1, PAD)
        # the same padding for both forms, not SciPy's default, to treat the ends of a curve alike
        signals = np.stack([curves[index] for index in chosen], axis=1, dtype=float)
        if pad:
            signals = np.pad(signals, ((pad, pad), (0, 0)), mode="reflect", reflect_type="odd")
        for _ in range(2):
            signals = forwards(signals)[::-1]
        filtered.update(zip(chosen, np.ascontiguousarray(signals[pad : len(signals) - pad].T), strict=True))
    return [filtered[index] for index in range(len(curves))]


def _filtered(
    signals: Values, b: Values, a: Values, steady: Values, first: Values, *, sums_state_first: bool
) -> Values:
    """Returns signals, shape ``(samples, curves)``, after a filter in transposed direct form II.

    Args:
        first: value of each curve that the filter has reached its steady state for.
        sums_state_first: the order of a sum of three, which decides about the last bit: that of SciPy's ``lfilter`` or
            of its ``sosfilt``.
    """
    state = np.vstack([np.outer(steady, first), np.zeros_like(first)])
    b, a, filtered = b[:, np.newaxis], a[:, np.newaxis], np.empty_like(signals)
    for index, values in enumerate(signals):
        weighted = b * values
        found = filtered[index] = weighted[0] + state[0]
        weighted, fed_back = weighted[1:], a[1:] * found
        state[:-1] = (state[1:] + weighted) - fed_back if sums_state_first else (weighted - fed_back) + state[1:]
    return filtered
